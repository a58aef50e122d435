//! A pool that was salvaged becomes a pool again.
//!
//! **Invariant**: positions of the old one are worth nothing in the new one. If items may be lost, sinks that write the
//! pool see again everything that the journal keeps.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::RepairError;
use super::report::{Incomplete, Repair};
use super::salvage::Salvaged;
use ::pool::copy;

/// What is said if one of some tables is damaged.
const NOTES: &[(&[&str], &str)] = &[
    (
        &["fills"],
        "how far sinks were filled is lost: those that were being filled lack items until `headgate sink refill`",
    ),
    (
        &["told", "latest"],
        "the list of keys that sinks with mode = \"latest\" have sent is lost: their receivers may keep items that no longer exist",
    ),
    (
        &["past_values", "recorded_streams"],
        "the history of items lacks values",
    ),
    (
        &["retries", "resends"],
        "batches that waited to be tried again are lost",
    ),
];

pub(super) fn settle(
    _: &Path,
    salvaged: &Salvaged,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let connection = &salvaged.connection;
    let damaged = |table| salvaged.is_damaged(table);
    let broken_in = incomplete_by(
        connection,
        "SELECT stream, count(*) FROM items WHERE NOT json_valid(fields) GROUP BY stream",
    )?;
    let broken = connection.execute("DELETE FROM items WHERE NOT json_valid(fields)", [])?;
    let items_lost = damaged("items") || broken > 0;
    if items_lost {
        repair.incomplete_streams = match damaged("items") {
            true => incomplete(salvaged)?,
            false => broken_in,
        };
        if broken > 0
            && let Some(items) = repair.table_mut("items")
        {
            items.kept -= broken as u64;
            items.lost = items.lost.map(|lost| lost + broken as u64);
        }
    }
    if damaged("removed") {
        repair.notes.push(
            "what was removed may come back, if an older request is delivered late".to_owned(),
        );
    }
    if damaged("cursors") {
        repair.notes.push(
            "how far sinks have come is lost: they begin with the oldest request that is kept, and may deliver again".to_owned(),
        );
    }
    for (tables, note) in NOTES {
        if tables.iter().any(|table| damaged(table)) {
            repair.notes.push((*note).to_owned());
        }
    }
    let views_are_whole =
        !salvaged.schema_is_damaged && !damaged("views") && !damaged("view_fields");
    let again = salvaged.is_stale || items_lost || damaged("removed") || damaged("cursors");
    copy::begin_salvaged(connection, views_are_whole, again)?;
    Ok(())
}

fn incomplete_by(connection: &Connection, sql: &str) -> Result<Vec<Incomplete>, rusqlite::Error> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(Incomplete {
            stream: row.get(0)?,
            lost: Some(row.get::<_, i64>(1)?.unsigned_abs()),
        })
    })?;
    rows.collect()
}

/// The streams that have fewer items than the index of their keys names; all of them if it cannot be read.
fn incomplete(salvaged: &Salvaged) -> Result<Vec<Incomplete>, rusqlite::Error> {
    let mut statement = salvaged
        .connection
        .prepare("SELECT stream, count(*) FROM items GROUP BY stream")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
    let kept: BTreeMap<String, i64> = rows.collect::<Result<_, _>>()?;
    let Some(entries) = salvaged.indexes.get("sqlite_autoindex_items_1") else {
        let mut names: Vec<String> = kept.into_keys().collect();
        let known = "SELECT stream FROM views";
        let mut statement = salvaged.connection.prepare(known)?;
        for name in statement.query_map([], |row| row.get(0))? {
            names.push(name?);
        }
        names.sort();
        names.dedup();
        let unknown = |stream| Incomplete { stream, lost: None };
        return Ok(names.into_iter().map(unknown).collect());
    };
    let mut known: BTreeMap<&str, i64> = BTreeMap::new();
    for entry in entries {
        if let Some(Value::Text(stream)) = entry.first() {
            *known.entry(stream).or_default() += 1;
        }
    }
    let lost = known.into_iter().filter_map(|(stream, known)| {
        let lost = known - kept.get(stream).copied().unwrap_or(0);
        (lost > 0).then(|| Incomplete {
            stream: stream.to_owned(),
            lost: Some(lost.unsigned_abs()),
        })
    });
    Ok(lost.collect())
}
