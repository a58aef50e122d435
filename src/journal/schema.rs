//! The tables of `journal.db` and the settings of its writing connection.
//!
//! **Invariant**: the settings that durability depends on are read back after they were set.

use std::path::Path;

use rusqlite::Connection;

use super::{Durability, StorageError};
use crate::sqlite;

/// Stands in `PRAGMA user_version`.
const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE requests (
    seq INTEGER PRIMARY KEY,
    request_id BLOB NOT NULL,
    received_ms INTEGER NOT NULL,
    connector TEXT NOT NULL,
    stream TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    http_status INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    key TEXT NOT NULL,
    client TEXT NOT NULL,
    item_key TEXT,
    idempotency_key TEXT,
    duplicate_of BLOB,
    errors TEXT
);
CREATE UNIQUE INDEX requests_by_id ON requests (request_id);
CREATE INDEX requests_by_connector ON requests (connector);
CREATE INDEX requests_not_accepted ON requests (connector, outcome) WHERE outcome <> 0;
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    crc32 INTEGER NOT NULL,
    items BLOB NOT NULL
);
CREATE TABLE quarantine (
    seq INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    crc32 INTEGER,
    items BLOB
);
";

pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, StorageError> {
    let connection = sqlite::open_writer(
        path,
        match durability {
            Durability::Fsync => sqlite::Synchronous::Full,
            Durability::Os => sqlite::Synchronous::Normal,
        },
    )?;
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match found {
        // Space that payloads leave behind can be given back: a backlog must not fill the disk for good.
        0 => connection.execute_batch(&format!(
            "PRAGMA auto_vacuum = INCREMENTAL; VACUUM; BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"
        ))?,
        FORMAT => {}
        _ => {
            return Err(StorageError::Newer {
                found,
                known: FORMAT,
            });
        }
    }
    Ok(connection)
}

/// The highest sequence number in the log, 0 for an empty one.
pub(super) fn last_seq(connection: &Connection) -> Result<u64, rusqlite::Error> {
    highest(connection, "SELECT max(seq) FROM requests")
}

/// The highest sequence number that has a payload, 0 if there is none.
pub(super) fn last_payload_seq(connection: &Connection) -> Result<u64, rusqlite::Error> {
    highest(connection, "SELECT max(seq) FROM payloads")
}

fn highest(connection: &Connection, sql: &str) -> Result<u64, rusqlite::Error> {
    let found: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(found.unwrap_or(0).unsigned_abs())
}
