//! Items that were not renewed in time.
//!
//! The daemon asks now and then, and submits their removal like any other.
//!
//! **Invariant**: nothing is changed here. How old an item is, is measured in time lived.

use std::sync::Arc;

use rusqlite::params;

use super::{Pool, PoolError};
use base::clock::Lived;

/// An item whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    pub stream: Arc<str>,
    pub key: String,
    /// Where the next ones follow. The row's number is part of it, because many items expire at the same time.
    pub at: (i64, i64),
}

impl Pool {
    /// Some items that have expired by `now`, after that place, the first of them by default. Blocks. It only names
    /// them, because a removal must go to all sinks through the journal.
    pub fn expired(
        &self,
        now: Lived,
        after: (i64, i64),
        limit: u32,
    ) -> Result<Vec<Expired>, PoolError> {
        let writer = self.lock();
        let mut select = writer.connection.prepare_cached(
            "SELECT stream, key, expires_ms, rowid FROM items
             WHERE expires_ms <= ?1 AND (expires_ms, rowid) > (?2, ?3) ORDER BY expires_ms, rowid LIMIT ?4",
        )?;
        let rows = select.query_map(params![now.to_column(), after.0, after.1, limit], |row| {
            Ok(Expired {
                stream: row.get(0)?,
                key: row.get(1)?,
                at: (row.get(2)?, row.get(3)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// When the next item expires, or did; `None`: none ever does. Blocks.
    pub fn next_to_expire(&self) -> Result<Option<Lived>, PoolError> {
        let sql = "SELECT min(expires_ms) FROM items WHERE expires_ms IS NOT NULL";
        let writer = self.lock();
        let mut select = writer.connection.prepare_cached(sql)?;
        let next: Option<i64> = select.query_row([], |row| row.get(0))?;
        Ok(next.map(Lived::from_column))
    }
}
