//! The sinks that the file knows, configured or not.
//!
//! A sink that was configured once holds what it has not taken: its cursor, its retries and its dead letters stay until
//! somebody forgets it.
//!
//! **Invariant**: what a known sink has not behind it is needed ([`Pool::low_water`] looks at all of them); a sink is
//! forgotten as a whole, its cursor last.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::{Pool, PoolError, Undelivered};
use base::order::{ChangeSeq, Seq};

/// Rows that are deleted in one transaction, at most: lanes wait for it.
const CHUNK_MAX: u32 = 5_000;

/// A sink that the file knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub name: String,
    /// Everything up to here is behind it.
    pub cursor: Seq,
}

/// Part of [`Pool::settle`]'s transaction: why a sink is failing, or that it is not. It is in the file, because a
/// restart would say otherwise that the sink runs.
pub(super) fn note_failing(
    connection: &Connection,
    sink: &str,
    reason: Option<&str>,
) -> Result<(), rusqlite::Error> {
    match reason {
        Some(reason) => connection.execute(
            "INSERT OR REPLACE INTO failing (sink, reason) VALUES (?1, ?2)",
            [sink, reason],
        )?,
        None => connection.execute("DELETE FROM failing WHERE sink = ?1", [sink])?,
    };
    Ok(())
}

impl Pool {
    /// Why a sink is failing, which has taken nothing since its last batch failed. Blocks.
    pub fn failing(&self, sink: &str) -> Result<Option<String>, PoolError> {
        let sql = "SELECT reason FROM failing WHERE sink = ?1";
        self.read(|connection| {
            let reason = connection.query_row(sql, [sink], |row| row.get(0));
            reason.optional()
        })
    }

    /// From now on the sink holds payloads back. Returns its cursor; a sink that was never seen starts after `start`. Blocks.
    pub fn add_sink(&self, sink: &str, start: Seq) -> Result<Seq, PoolError> {
        let cursor: i64 = self.write(|writer| {
            writer.connection.execute(
                "INSERT OR IGNORE INTO cursors (sink, seq, start) VALUES (?1, ?2, ?2)",
                rusqlite::params![sink, start.to_column()],
            )?;
            let sql = "SELECT seq FROM cursors WHERE sink = ?1";
            (writer.connection).query_row(sql, [sink], |row| row.get(0))
        })?;
        Ok(Seq::from_column(cursor))
    }

    /// Whether a sink holds payloads back. Blocks.
    pub fn has_cursor(&self, sink: &str) -> Result<bool, PoolError> {
        let sql = "SELECT count(*) FROM cursors WHERE sink = ?1";
        let count: i64 =
            self.read(|connection| connection.query_row(sql, [sink], |row| row.get(0)))?;
        Ok(count > 0)
    }

    /// Every sink that ran on this file and was not forgotten, by name.
    pub async fn known_sinks(&self) -> Result<Vec<Known>, PoolError> {
        let known = |row: &Row<'_>| {
            Ok(Known {
                name: row.get(0)?,
                cursor: Seq::from_column(row.get(1)?),
            })
        };
        let sql = "SELECT sink, seq FROM cursors ORDER BY sink";
        Ok(self.reads.rows(sql, [], known).await?)
    }

    /// The sinks with the newest state, each with the last change that it has.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub async fn latest_places(&self) -> Result<Vec<(String, ChangeSeq)>, PoolError> {
        let place = |row: &Row<'_>| Ok((row.get(0)?, ChangeSeq::from_column(row.get(1)?)));
        let sql = "SELECT sink, seq FROM latest";
        Ok(self.reads.rows(sql, [], place).await?)
    }

    /// Forgets all that is kept of a sink; what that was, or `None` if it is not known. Blocks.
    ///
    /// # Errors
    /// SQLite's; the sink may be forgotten in part, and can be forgotten again.
    pub fn forget_sink(&self, sink: &str) -> Result<Option<Undelivered>, PoolError> {
        let count = |sql: &str| -> Result<u64, PoolError> {
            let count = |row: &Row<'_>| row.get::<_, i64>(0);
            let counted = self.read(|connection| connection.query_row(sql, [sink], count))?;
            Ok(counted.unsigned_abs())
        };
        if count(
            "SELECT (SELECT count(*) FROM cursors WHERE sink = ?1) + (SELECT count(*) FROM latest WHERE sink = ?1)",
        )? == 0
        {
            return Ok(None);
        }
        let forgotten = Undelivered {
            retries: count("SELECT count(*) FROM retries WHERE sink = ?1")?,
            dead_letters: count("SELECT count(*) FROM dead_letters WHERE sink = ?1")?,
        };
        for chunk in [
            "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM resends WHERE id IN (SELECT s.id FROM resends s JOIN retries r ON r.id = s.retry_id WHERE r.sink = ?1 LIMIT ?2)",
            "DELETE FROM progress WHERE sink = ?1 AND seq IN (SELECT seq FROM progress WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM settled_late WHERE sink = ?1 AND seq IN (SELECT seq FROM settled_late WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM stale WHERE sink = ?1 AND seq IN (SELECT seq FROM stale WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM stale_items WHERE sink = ?1 AND seq IN (SELECT seq FROM stale_items WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM told WHERE sink = ?1 AND (stream, key) IN (SELECT stream, key FROM told WHERE sink = ?1 LIMIT ?2)",
            "DELETE FROM discarded WHERE sink = ?1 AND seq IN (SELECT seq FROM discarded WHERE sink = ?1 LIMIT ?2)",
        ] {
            // The lock is given back between chunks: lanes go on meanwhile.
            while self.delete(chunk, sink)? > 0 {}
        }
        self.write(|writer| {
            // The cursor goes last, so that a sink that is forgotten in part is still known and can be forgotten
            // again.
            for table in [
                "retries",
                "calls",
                "fills",
                "sink_state",
                "latest",
                "failing",
                "cursors",
            ] {
                let sql = format!("DELETE FROM {table} WHERE sink = ?1");
                writer.connection.execute(&sql, [sink])?;
            }
            Ok(())
        })?;
        Ok(Some(forgotten))
    }

    fn delete(&self, sql: &str, sink: &str) -> Result<usize, PoolError> {
        self.write(|writer| {
            let params = rusqlite::params![sink, CHUNK_MAX];
            writer.connection.execute(sql, params)
        })
    }
}
