//! Begins a fill, or begins one again.
//!
//! **Invariant**: a fill and the place of its sink begin in one transaction, so that nothing is missing between them.

use rusqlite::{Connection, OptionalExtension, params};

use crate::tombstones::SETTLED;
use crate::{Pool, PoolError};
use base::clock::Unix;
use base::order::Seq;

/// How the filling of a sink is to begin.
#[derive(Debug)]
pub struct Beginning<'a> {
    pub sink: &'a str,
    /// What the sink is to receive, in one text.
    pub selection: &'a str,
    /// Sinks that never write what this one receives. What they have not settled does not count, because no row of the
    /// fill is theirs.
    pub others: &'a [String],
    /// The entry that was accepted last.
    pub newest: Seq,
    /// The entry before the first that the journal has: nobody is handed what came up to there.
    pub oldest: Seq,
}

impl Pool {
    /// From now on the sink holds payloads back, and is to be filled with what the pool has. Returns its cursor; that of one
    /// that ran before stays as it is. Blocks.
    pub fn begin_with_state(&self, beginning: &Beginning<'_>) -> Result<Seq, PoolError> {
        self.write(|writer| {
            let connection = &writer.connection;
            let known = "SELECT seq FROM cursors WHERE sink = ?1";
            let known: Option<i64> = connection
                .query_row(known, [beginning.sink], |row| row.get(0))
                .optional()?;
            if let Some(cursor) = known {
                return Ok(Seq::from_column(cursor));
            }
            let through = settled(connection, beginning)?.max(beginning.oldest);
            connection.execute(
                "INSERT INTO cursors (sink, seq, start) VALUES (?1, ?2, ?2)",
                params![beginning.sink, through.to_column()],
            )?;
            note(connection, beginning, through)?;
            Ok(through)
        })
    }

    /// The same for a sink that began while the pool was empty: there is nothing to fill it with, and its selection is
    /// known. Blocks.
    pub fn began_empty(&self, sink: &str, selection: &str) -> Result<(), PoolError> {
        self.write(|writer| {
            writer.connection.execute(
                "INSERT OR IGNORE INTO fills (sink, number, id, through, selection, stream, key, read, began_ms, ended_ms)
                 VALUES (?1, 0, 0, 0, ?2, '', '', 0, ?3, ?3)",
                params![sink, selection, Unix::now().to_column()],
            )
        })?;
        Ok(())
    }

    /// Begins a sink anew with what the pool has. Nothing behind its own place is skipped: removals come from there. What it
    /// was called with and its retries go; what somebody had sent again is a dead letter again. Returns its cursor. Blocks.
    /// What was called is dropped, because the fill has newer values of the same items.
    pub fn fill_anew(&self, beginning: &Beginning<'_>) -> Result<Seq, PoolError> {
        self.write(|writer| {
            let connection = &writer.connection;
            let own = "SELECT min((SELECT seq FROM cursors WHERE sink = ?1),
                coalesce((SELECT min(first_seq) FROM retries WHERE resent = 0 AND sink = ?1) - 1, 9223372036854775807))";
            let own: i64 = connection.query_row(own, [beginning.sink], |row| row.get(0))?;
            let through = settled(connection, beginning)?.min(Seq::from_column(own));
            let through = through.max(beginning.oldest);
            let place = params![beginning.sink, through.to_column()];
            connection.execute("UPDATE cursors SET seq = ?2 WHERE sink = ?1", place)?;
            connection.execute("DELETE FROM progress WHERE sink = ?1 AND seq > ?2", place)?;
            connection.execute("DELETE FROM calls WHERE sink = ?1", [beginning.sink])?;
            connection.execute(
                "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms, removal, version, version_text, expire_after_seconds)
                 SELECT sink, seq, request_id, stream, position, key, fields, reason, earlier + attempts, ?2, received_ms, removal, version, version_text, expire_after_seconds
                 FROM resends JOIN retries ON retries.id = retry_id WHERE sink = ?1 AND resent = 1 ORDER BY resends.id",
                params![beginning.sink, Unix::now().to_column()],
            )?;
            connection.execute(
                "DELETE FROM resends WHERE retry_id IN (SELECT id FROM retries WHERE sink = ?1)",
                [beginning.sink],
            )?;
            connection.execute("DELETE FROM retries WHERE sink = ?1", [beginning.sink])?;
            note(connection, beginning, through)?;
            Ok(through)
        })
    }

    /// The sink receives something else from now on, without being filled with it. Blocks.
    pub fn set_fill_selection(&self, sink: &str, selection: &str) -> Result<(), PoolError> {
        self.write(|writer| {
            let sql = "UPDATE fills SET selection = ?2 WHERE sink = ?1";
            writer.connection.execute(sql, [sink, selection])
        })?;
        Ok(())
    }
}

/// What the writers of the pool have settled, waiting retries included.
fn settled(connection: &Connection, beginning: &Beginning<'_>) -> Result<Seq, rusqlite::Error> {
    let mut others = beginning.others.to_vec();
    others.push(beginning.sink.to_owned());
    let others = serde_json::Value::from(others).to_string();
    let settled: i64 = connection.query_row(SETTLED, [others], |row| row.get(0))?;
    Ok(Seq::from_column(settled).min(beginning.newest))
}

/// The sink begins to be filled: once more than before. SQLite draws the number of 64 bits. The number is random, so
/// that what is sent again is not taken for a repeat.
fn note(
    connection: &Connection,
    beginning: &Beginning<'_>,
    through: Seq,
) -> Result<(), rusqlite::Error> {
    connection.execute(
        "INSERT OR REPLACE INTO fills (sink, number, id, through, selection, stream, key, read, began_ms, ended_ms)
         VALUES (?1, coalesce((SELECT number FROM fills WHERE sink = ?1), 0) + 1, random(), ?2, ?3, '', '', 0, ?4, NULL)",
        params![
            beginning.sink,
            through.to_column(),
            beginning.selection,
            Unix::now().to_column()
        ],
    )?;
    Ok(())
}
