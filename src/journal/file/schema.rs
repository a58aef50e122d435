//! The tables of `journal.db` and the settings of its writing connection.
//!
//! **Invariant**: the settings that durability depends on are read back after they were set. A file of an older format
//! is brought to this one in a transaction of its own.

use std::ops::Range;
use std::path::Path;

use rusqlite::Connection;

use super::claims::TABLES as CLAIMS_4;
use crate::{Durability, StorageError};
use base::order::Seq;

/// Its name in the data folder.
pub const FILE: &str = "journal.db";
/// Stands in `PRAGMA user_version`.
pub const FORMAT: i64 = 9;

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

/// Requests that are looked at and sent again: headers, where a request was sent again from, bodies of refused requests.
const SENT_AGAIN: &str = "
ALTER TABLE requests ADD COLUMN headers TEXT;
ALTER TABLE requests ADD COLUMN sent_again_from BLOB;
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY,
    received_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    test INTEGER NOT NULL,
    stream TEXT NOT NULL,
    content_type BLOB,
    item_key BLOB,
    idempotency_key BLOB,
    body BLOB NOT NULL
);
";

/// How far the log had come at which time lived.
const TIMELINE_3: &str = "
CREATE TABLE timeline (
    lived_ms INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL
);
";

/// What tools say of their deliveries, and the headers that they say it in.
const SENDERS_5: &str = "
ALTER TABLE requests ADD COLUMN sender TEXT;
ALTER TABLE bodies ADD COLUMN headers TEXT;
";

/// Of the alias `r`: accepted requests, all of which have a payload until every sink has them. Removals that older
/// versions logged were answered 200 and had none.
pub(super) const ACCEPTED: &str = "(r.outcome = 0 OR (r.outcome = 4 AND r.http_status = 202))";

/// The log has no index: what stood there every request paid for, in each page that it wrote. `log_spans` and what hangs on
/// it are made of the log at the next start (`journal/file/segments.rs`). Payloads say themselves what their request was
/// (`journal/origin.rs`); those that were stored before have a log entry that does.
///
/// Every page of the log is read before its indexes go: of one that cannot be read they know what a repair restores.
const LOG_6: &str = "
SELECT max(received_ms) FROM requests NOT INDEXED;
DROP INDEX IF EXISTS requests_by_id;
DROP INDEX IF EXISTS requests_by_connector;
DROP INDEX IF EXISTS requests_by_outcome;
DROP INDEX IF EXISTS requests_not_accepted;
DROP INDEX IF EXISTS requests_sent_again;
DROP TABLE IF EXISTS log_spans;
ALTER TABLE payloads ADD COLUMN request BLOB;
ALTER TABLE quarantine ADD COLUMN request BLOB;
CREATE TABLE log_spans (
    first_seq INTEGER PRIMARY KEY,
    last_seq INTEGER NOT NULL,
    min_ms INTEGER NOT NULL,
    max_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    oldest_id_ms INTEGER,
    newest_id_ms INTEGER NOT NULL,
    ids_within_ms INTEGER NOT NULL
);
CREATE INDEX log_spans_by_id ON log_spans (ids_within_ms, newest_id_ms);
CREATE TABLE log_marks (
    connector TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    positions BLOB NOT NULL,
    PRIMARY KEY (connector, outcome, first_seq)
) WITHOUT ROWID;
CREATE TABLE log_mark_names (
    first_seq INTEGER PRIMARY KEY,
    names TEXT NOT NULL
);
CREATE TABLE log_late (
    seq INTEGER PRIMARY KEY,
    request_id BLOB NOT NULL
);
CREATE INDEX log_late_by_id ON log_late (request_id);
CREATE TABLE log_sent_again (
    seq INTEGER PRIMARY KEY,
    sent_again_from BLOB NOT NULL
);
CREATE INDEX log_sent_again_by_id ON log_sent_again (sent_again_from);
";

/// Nothing changes but what a payload can say: that an item is a removal. Versions before would put it aside as one that
/// cannot be read.
const OPERATIONS_7: &str = "";

/// Nothing changes but what a payload can say: what updates did in its stream when it was accepted. Versions before would
/// put it aside.
const ACCEPTED_8: &str = "";

/// Nothing changes but that a row of payloads can have those of several requests (`journal/file/payloads.rs`). Versions
/// before would put it aside.
const GROUPS_9: &str = "";

/// What is made of the log: emptied, it is made again at the next start. So a repair need not restore them.
pub(super) const OF_LOG: [&str; 5] = [
    "log_spans",
    "log_marks",
    "log_mark_names",
    "log_late",
    "log_sent_again",
];

/// A new file can give back pages, otherwise a backlog would keep its size on the disk.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, StorageError> {
    let connection = sqlite::open_writer(
        path,
        match durability {
            Durability::Fsync => sqlite::Synchronous::Full,
            Durability::Os => sqlite::Synchronous::Normal,
        },
    )?;
    if sqlite::format(&connection)? == 0 {
        // Space that payloads leave behind can be given back: a backlog must not fill the disk for good.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")?;
    }
    let from_4 = format!("{SENDERS_5} {LOG_6}");
    let from_3 = format!("{CLAIMS_4} {from_4}");
    let from_2 = format!("{TIMELINE_3} {from_3}");
    let from = [
        &*format!("{TABLES} {SENT_AGAIN} {from_2}"),
        &format!("{SENT_AGAIN} {from_2}"),
        &from_2,
        &from_3,
        &from_4,
        LOG_6,
        OPERATIONS_7,
        ACCEPTED_8,
        GROUPS_9,
    ];
    sqlite::upgrade(&connection, FORMAT, &from)?;
    Ok(connection)
}

/// Has what is made of the log be made again at the next start.
pub(super) fn forget_spans(connection: &Connection) -> Result<(), rusqlite::Error> {
    let emptied = OF_LOG.map(|table| format!("DELETE FROM {table};"));
    connection.execute_batch(&emptied.concat())
}

/// The highest sequence number that was given out or skipped, 0 for none. Skipped numbers count, because another life
/// of the file may have given them.
pub(super) fn last_seq(connection: &Connection) -> Result<Seq, rusqlite::Error> {
    let last = highest(connection, "SELECT max(seq) FROM requests")?;
    let skipped = skipped(connection)?;
    Ok(skipped.iter().fold(last, |last, range| last.max(range.end)))
}

/// Numbers that are given to no request, because another life of this file may have given them out: those after
/// `start`, up to and including `end`. Only a file that was restored has any.
pub(super) fn skipped(connection: &Connection) -> Result<Vec<Range<Seq>>, rusqlite::Error> {
    if !sqlite::has_table(connection, "skipped")? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare("SELECT after, through FROM skipped ORDER BY after")?;
    let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(Seq::from_column);
    let ranges = statement.query_map([], |row| Ok(number(row, 0)?..number(row, 1)?))?;
    ranges.collect()
}

/// Numbers that were never given.
pub(super) const SKIPPED: &str =
    "CREATE TABLE IF NOT EXISTS skipped (after INTEGER NOT NULL, through INTEGER NOT NULL)";

/// Skips numbers from now on.
pub(super) fn skip(connection: &Connection, numbers: Range<Seq>) -> Result<(), rusqlite::Error> {
    connection.execute_batch(SKIPPED)?;
    connection.execute(
        "INSERT INTO skipped (after, through) VALUES (?1, ?2)",
        [numbers.start.to_column(), numbers.end.to_column()],
    )?;
    Ok(())
}

/// The highest sequence number that has a payload, 0 if there is none.
pub(super) fn last_payload_seq(connection: &Connection) -> Result<Seq, rusqlite::Error> {
    highest(connection, "SELECT max(seq) FROM payloads")
}

fn highest(connection: &Connection, sql: &str) -> Result<Seq, rusqlite::Error> {
    let found: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(found.map_or(Seq::MIN, Seq::from_column))
}

#[cfg(test)]
mod tests;
