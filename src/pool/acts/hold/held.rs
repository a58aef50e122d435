//! A hold as it is stored.
//!
//! **Invariant**: a key has one hold at most, and so has the stream as a whole.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::acts::Until;

/// A hold, as it is kept for undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::acts) struct Held {
    /// Empty: the stream.
    pub(in crate::acts) key: String,
    pub(in crate::acts) n: u64,
    pub(in crate::acts) since: u64,
    pub(in crate::acts) by: String,
    pub(in crate::acts) until_lived: Option<i64>,
    pub(in crate::acts) until_wall: Option<i64>,
}

impl Held {
    pub(in crate::acts) fn until(&self) -> Option<Until> {
        Until::of_columns(self.until_lived, self.until_wall)
    }

    fn read(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            key: row.get(0)?,
            n: row.get::<_, i64>(1)?.unsigned_abs(),
            since: row.get::<_, i64>(2)?.unsigned_abs(),
            by: row.get(3)?,
            until_lived: row.get(4)?,
            until_wall: row.get(5)?,
        })
    }
}

/// What undo needs of an act on holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::acts) struct Scope {
    /// The keys that it named; none: the stream.
    pub(in crate::acts) keys: Option<Vec<String>>,
    /// The holds that it made or changed, by their keys.
    pub(in crate::acts) touched: Vec<String>,
    /// Those that it changed or ended, as they were. Without them, an undo could only end holds and not bring them
    /// back.
    pub(in crate::acts) before: Vec<Held>,
}

impl Scope {
    pub(in crate::acts) fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

pub(super) const COLUMNS: &str = "key, n, since_ms, by_name, until_lived, until_wall";

/// A hold of a stream, or of one of its keys.
pub(in crate::acts) fn held(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<Option<Held>, rusqlite::Error> {
    use rusqlite::OptionalExtension;
    let sql = format!("SELECT {COLUMNS} FROM holds WHERE stream = ?1 AND key = ?2");
    connection
        .prepare_cached(&sql)?
        .query_row([stream, key], Held::read)
        .optional()
}

/// The keys of a stream that are held by themselves.
pub(super) fn held_keys(
    connection: &Connection,
    stream: &str,
) -> Result<Vec<String>, rusqlite::Error> {
    let sql = "SELECT key FROM holds WHERE stream = ?1 AND key <> '' ORDER BY key";
    let mut select = connection.prepare_cached(sql)?;
    let keys = select.query_map([stream], |row| row.get(0))?;
    keys.collect()
}
