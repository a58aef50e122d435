//! The tables of `pool.db`.
//!
//! **Invariant**: `items` is a public interface: people query it. Its columns are only ever added to.

use std::path::Path;

use rusqlite::Connection;

use super::PoolError;
use crate::sqlite;

/// Stands in `PRAGMA user_version`.
const FORMAT: i64 = 1;

/// `items` keeps its rows apart from its key: a row of 2 KB then stays in one page and is updated in
/// place, which costs two thirds of what it costs inside a key's tree; small rows cost the same.
const TABLES: &str = "
CREATE TABLE items (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE TABLE views (
    stream TEXT PRIMARY KEY,
    view TEXT NOT NULL COLLATE NOCASE UNIQUE
) WITHOUT ROWID;
CREATE TABLE view_fields (
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (stream, position)
) WITHOUT ROWID;
CREATE TABLE cursors (
    sink TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    start INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE progress (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE TABLE retries (
    id INTEGER PRIMARY KEY,
    sink TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    parts TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX retries_by_due ON retries (sink, due_ms);
CREATE TABLE settled_late (
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (sink, seq)
) WITHOUT ROWID;
CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY,
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE INDEX dead_letters_by_sink ON dead_letters (sink);
CREATE INDEX dead_letters_by_seq ON dead_letters (seq);
";

pub(super) fn open_writer(path: &Path) -> Result<Connection, PoolError> {
    let connection = sqlite::open_writer(path, sqlite::Synchronous::Normal)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match found {
        0 => connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"
        ))?,
        FORMAT => {}
        _ => {
            return Err(PoolError::Newer {
                found,
                known: FORMAT,
            });
        }
    }
    Ok(connection)
}
