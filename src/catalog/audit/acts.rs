//! Acts on items, which the pool has: each has one entry in the audit log, whoever copies it, and however often.
//!
//! An act and its record are one transaction of the pool, which keeps the record until it is marked as copied. That is a
//! transaction of another file, and another entry of the log of a cluster. So a row here says up to which act all are
//! copied, and changes with the entries: neither a kill in between nor two nodes at one time make a second entry.
//!
//! **Invariant**: an act has its entry, or the pool still has its record.

use std::collections::HashSet;

use base::order::{ChangeSeq, Epoch};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::{Actor, Change, Filter, page, write};
use crate::{Catalog, CatalogError, ResourceKind};

pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS acts_copied (
    id INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    n INTEGER NOT NULL
);";

/// Entries in which acts are searched for that were copied before the row was there, or into another pool.
const BEFORE: u32 = 1_000;

/// An act of the pool.
#[derive(Debug, Clone)]
pub struct ActToCopy {
    /// Its number, which rises with each act of an epoch. So one number says which acts are copied.
    pub n: ChangeSeq,
    /// As `after` of the entry has it.
    pub request_id: String,
    pub actor: Actor,
    pub change: Change,
}

impl Catalog {
    /// Writes the entries of acts of a pool in this epoch, by number, which are all that it has up to the last one. Those that
    /// have an entry get no second one. Blocks. The entries and the row are one transaction, so that a kill in between
    /// leaves no act to be copied twice.
    ///
    /// # Errors
    /// The file cannot be written; nothing is then.
    pub fn copy_acts(&self, epoch: Epoch, acts: &[ActToCopy]) -> Result<(), CatalogError> {
        let Some(last) = acts.last() else {
            return Ok(());
        };
        self.write(|store| {
            let connection = &*store.connection;
            connection.execute_batch(TABLE)?;
            let through = copied_through(connection, epoch)?;
            let known = match through {
                Some(_) => HashSet::new(),
                None => copied_before(connection)?,
            };
            let is_copied = |act: &&ActToCopy| {
                through.is_some_and(|through| act.n <= through) || known.contains(&act.request_id)
            };
            for act in acts.iter().filter(|act| !is_copied(act)) {
                write(connection, &act.actor, &act.change)?;
            }
            if through.is_none_or(|through| through < last.n) {
                let sql = "INSERT OR REPLACE INTO acts_copied VALUES (0, ?1, ?2)";
                connection.execute(sql, params![epoch.to_column(), last.n.to_column()])?;
            }
            Ok(())
        })
    }
}

/// The newest act of the epoch that is copied, with all before it. The row of another epoch does not count, because
/// another pool begins its numbers again.
fn copied_through(
    connection: &Connection,
    epoch: Epoch,
) -> Result<Option<ChangeSeq>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT n FROM acts_copied WHERE epoch = ?1")?
        .query_row([epoch.to_column()], |row| {
            row.get(0).map(ChangeSeq::from_column)
        })
        .optional()
}

/// Request ids in the newest entries about streams. They identify an act, because its number means nothing in another
/// pool.
fn copied_before(connection: &Connection) -> Result<HashSet<String>, rusqlite::Error> {
    let filter = Filter {
        kind: Some(ResourceKind::Stream.as_str().to_owned()),
        ..Filter::default()
    };
    let request_id = |after: String| {
        let after: Value = serde_json::from_str(&after).ok()?;
        Some(after.get("request_id")?.as_str()?.to_owned())
    };
    let entries = page(connection, &filter, BEFORE)?.into_iter();
    Ok(entries
        .filter_map(|entry| request_id(entry.after?))
        .collect())
}
