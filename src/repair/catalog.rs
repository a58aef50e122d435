//! A catalog that was salvaged becomes a catalog again.
//!
//! **Invariant**: a key that is lost is named, as far as the indexes know it.

use std::path::Path;

use rusqlite::types::Value;

use super::report::Repair;
use super::salvage::Salvaged;
use super::{RepairError, exists};

/// What the catalog lost is named as far as its indexes know it.
pub(super) fn settle(
    _: &Path,
    salvaged: &Salvaged,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    for (table, what, index) in [
        ("keys", "ingest key", "sqlite_autoindex_keys_1"),
        ("read_keys", "read key", "sqlite_autoindex_read_keys_1"),
    ] {
        for entry in salvaged.indexes.get(index).into_iter().flatten() {
            let [Value::Blob(digest), names @ ..] = &**entry else {
                continue;
            };
            let there = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE sha256 = ?1)");
            if !exists(&salvaged.connection, &there, digest)? {
                let names: Vec<&str> = names
                    .iter()
                    .filter_map(|name| match name {
                        Value::Text(name) => Some(&**name),
                        _ => None,
                    })
                    .collect();
                repair.notes.push(format!(
                    "the {what} {} is lost: make another one",
                    names.join("/")
                ));
            }
        }
    }
    let lost = repair.tables.iter().any(|table| table.lost != Some(0));
    if lost {
        repair.notes.push(
            "create lost streams, connectors and keys again: compare the lists with those that you expect".to_owned(),
        );
    }
    Ok(())
}
