//! What a sink has been handed and not taken: the batch that it is called with, and the batches that are tried again.
//!
//! Delivery writes the first before it calls a sink that reaches others, so that exactly this batch comes again after a
//! crash. The admin API lists the others and gives them up.
//!
//! **Invariant**: a batch leaves `retries` in the settlement of its attempt, or as dead letters with all its items; never
//! both. A batch stays in `calls` until the cursor that it moves is stored.

use rusqlite::{Connection, OptionalExtension};
use sqlx::Row;

use super::dead_letters::{DeadLetter, Part, Retry, parts_of, read_retry, store_letters};
use super::{Pool, PoolError, resends};
use crate::clock;

/// A batch that a sink is called with for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its items, in order of acceptance.
    pub parts: Vec<Part>,
    /// Where the cursor stands after it.
    pub through: u64,
}

/// A retry as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The retry.
    pub retry: Retry,
    /// Number of its items; `None` if the list of them cannot be read.
    pub items: Option<u64>,
}

/// Part of [`Pool::settle`]'s transaction.
pub(super) fn note_call(
    connection: &Connection,
    sink: &str,
    call: &Call,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO calls (sink, parts, through) VALUES (?1, ?2, ?3)")?
        .execute(rusqlite::params![
            sink,
            serde_json::to_string(&call.parts).unwrap_or_default(),
            call.through.cast_signed(),
        ])?;
    Ok(())
}

/// Part of [`Pool::settle`]'s transaction: the cursor has passed the batch.
pub(super) fn end_call(connection: &Connection, sink: &str) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("DELETE FROM calls WHERE sink = ?1")?
        .execute([sink])?;
    Ok(())
}

/// Whether a retry is still there: an operator may have given it up while it was tried.
pub(super) fn waits(connection: &Connection, retry: &Retry) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM retries WHERE id = ?1)")?
        .query_row([retry.id], |row| row.get(0))
}

impl Pool {
    /// The batch that the sink was called with when the daemon, or the settling of it, ended. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn call(&self, sink: &str) -> Result<Option<Call>, PoolError> {
        let writer = self.lock();
        let sql = "SELECT parts, through FROM calls JOIN cursors USING (sink) WHERE sink = ?1 AND through > seq";
        let found = writer
            .connection
            .prepare_cached(sql)?
            .query_row([sink], |row| {
                let parts = row.get_ref(0)?.as_bytes().unwrap_or_default();
                Ok(Call {
                    parts: parts_of(parts),
                    through: row.get::<_, i64>(1)?.unsigned_abs(),
                })
            })
            .optional()?;
        // Its items are behind no cursor: a batch whose list cannot be read is cut anew.
        Ok(found.filter(|call| !call.parts.is_empty()))
    }

    /// Retries of a sink with ids above `after`, by id.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn waiting(
        &self,
        sink: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>, PoolError> {
        let rows = sqlx::query(
            "SELECT id, first_seq, last_seq, parts, attempts, due_ms, reason, resent,
                    iif(resent, (SELECT count(*) FROM resends WHERE retry_id = retries.id), NULL) AS items
             FROM retries WHERE sink = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        )
        .bind(sink.to_owned())
        .bind(after)
        .bind(limit)
        .fetch_all(&self.reads)
        .await?;
        let retries = rows.iter().map(|row| {
            let parts: &[u8] = row.try_get("parts").unwrap_or_default();
            let reason: &[u8] = row.try_get("reason").unwrap_or_default();
            let retry = Retry {
                id: row.try_get("id")?,
                seqs: (
                    row.try_get::<i64, _>("first_seq")?.unsigned_abs(),
                    row.try_get::<i64, _>("last_seq")?.unsigned_abs(),
                ),
                parts: parts_of(parts),
                resent: row.try_get("resent")?,
                attempts: row.try_get("attempts")?,
                due_ms: row.try_get::<i64, _>("due_ms")?.unsigned_abs(),
                reason: String::from_utf8_lossy(reason).into_owned(),
            };
            let lens = retry.parts.iter();
            let lens = lens.map(|Part(_, start, end)| u64::from(end.saturating_sub(*start)));
            let listed = (!retry.parts.is_empty()).then(|| lens.sum());
            let kept: Option<i64> = row.try_get("items")?;
            Ok(Waiting {
                items: kept.map(i64::unsigned_abs).or(listed),
                retry,
            })
        });
        retries.collect()
    }

    /// The highest id of a sink's retries, 0 for none.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn newest_retry(&self, sink: &str) -> Result<i64, PoolError> {
        let sql = "SELECT coalesce(max(id), 0) FROM retries WHERE sink = ?1";
        Ok(sqlx::query_scalar(sql)
            .bind(sink.to_owned())
            .fetch_one(&self.reads)
            .await?)
    }

    /// Makes dead letters of a retry: these, or of one that was made of dead letters its own again, with this reason.
    /// `None` if it is not there any more as it was read. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing happened.
    pub fn give_up(
        &self,
        sink: &str,
        retry: &Retry,
        letters: &[DeadLetter],
        reason: &str,
    ) -> Result<Option<u64>, PoolError> {
        self.write(|writer| {
            let connection = &writer.connection;
            let sql = "SELECT id, first_seq, last_seq, parts, attempts, due_ms, reason, resent FROM retries WHERE sink = ?1 AND id = ?2";
            let now = connection
                .prepare_cached(sql)?
                .query_row(rusqlite::params![sink, retry.id], read_retry)
                .optional()?;
            // It may have become due meanwhile, but must hold the same items.
            let same = |now: &Retry| now.parts == retry.parts && now.resent == retry.resent;
            if !now.is_some_and(|now| same(&now)) {
                return Ok(None);
            }
            let mut items = letters.len() as u64;
            store_letters(connection, sink, letters)?;
            if retry.resent {
                let sql = "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms, removal)
                     SELECT ?1, seq, request_id, stream, position, key, fields, ?2, ?3, ?4, received_ms, removal FROM resends
                     WHERE retry_id = ?5 ORDER BY seq, position, id";
                let now_ms = clock::unix_ms().cast_signed();
                items += connection.execute(
                    sql,
                    rusqlite::params![sink, reason, retry.attempts, now_ms, retry.id],
                )? as u64;
                resends::finish(connection, retry.id)?;
            }
            connection.execute("DELETE FROM retries WHERE id = ?1", [retry.id])?;
            Ok(Some(items))
        })
    }
}
