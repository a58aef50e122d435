//! Retries and dead letters: what a sink has not taken yet, and what it never will.
//!
//! Both live beside the cursor, so that a failing batch never holds up its lane. Delivery writes
//! them with its settlements; the admin API reads.
//!
//! How dead letters are sent again is in `pool/resends.rs`.
//!
//! **Invariant**: an item that a cursor has passed is in the sink, in `retries` or in `dead_letters`,
//! unless somebody discarded it there.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Pool, PoolError, Settlement, resends};

/// Some consecutive items of one request: sequence number, first position, one past the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part(pub u64, pub u32, pub u32);

/// A batch that is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Row in the table; 0 until it is stored.
    pub id: i64,
    /// Its items, in order of acceptance.
    pub parts: Vec<Part>,
    /// Its items were dead letters: the pool keeps them, the journal may have let them go.
    pub resent: bool,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is due: Unix time in milliseconds.
    pub due_ms: u64,
    /// Why it failed the last time.
    pub reason: String,
}

/// An item that a sink refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Row in the table; 0 until it is stored. Newer ones are higher.
    pub id: i64,
    /// Sequence number of the request.
    pub seq: u64,
    /// The request that it came with.
    pub request_id: String,
    /// The item's stream.
    pub stream: Arc<str>,
    /// Its position in the request.
    pub position: u32,
    /// The item's key.
    pub key: String,
    /// The flattened item as JSON text; empty if the payload could not be read.
    pub fields: String,
    /// Why the sink refused it.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up: Unix time in milliseconds.
    pub at_ms: u64,
    /// When its request arrived: Unix time in milliseconds; 0 if that is not known.
    pub received_ms: u64,
}

/// What a sink has not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undelivered {
    /// Batches that wait for their next attempt.
    pub retries: u64,
    /// Items given up.
    pub dead_letters: u64,
}

/// How one sink stands to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkState {
    /// The lane has not come to it.
    Waiting,
    /// Delivered, at this Unix time in milliseconds where it is still known.
    Done(Option<u64>),
    /// Failed, to be tried again.
    Retrying,
    /// Some of its items are dead letters.
    Failed,
}

/// Cursors of one sink that are stored within this time share a row of `progress`.
const PROGRESS_GRAIN_MS: u64 = 100;
/// Rows of `progress` and `settled_late` that are deleted in one go.
const EXPIRE_CHUNK: i64 = 5_000;

/// Part of [`Pool::settle`]'s transaction: when a sink had what, at most ten rows a second.
pub(super) fn note_progress(
    connection: &Connection,
    sink: &str,
    cursor: u64,
    now_ms: u64,
) -> Result<(), rusqlite::Error> {
    let newest: Option<(i64, i64)> = connection
        .prepare_cached(
            "SELECT seq, at_ms FROM progress WHERE sink = ?1 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([sink], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let previous = newest.filter(|(_, at_ms)| at_ms.unsigned_abs() + PROGRESS_GRAIN_MS > now_ms);
    let sql = match previous {
        Some(_) => "UPDATE progress SET seq = ?2, at_ms = ?3 WHERE sink = ?1 AND seq = ?4",
        None => "INSERT OR REPLACE INTO progress (sink, seq, at_ms) SELECT ?1, ?2, ?3 WHERE ?4 = 0",
    };
    connection.prepare_cached(sql)?.execute(rusqlite::params![
        sink,
        cursor.cast_signed(),
        now_ms.cast_signed(),
        previous.map_or(0, |(seq, _)| seq)
    ])?;
    Ok(())
}

/// Part of [`Pool::settle`]'s transaction.
pub(super) fn store(
    connection: &Connection,
    settlement: &Settlement,
    now_ms: u64,
) -> Result<(), rusqlite::Error> {
    let sink = &*settlement.sink;
    for retry in &settlement.retries {
        let (Some(first), Some(last)) = (retry.parts.first(), retry.parts.last()) else {
            continue;
        };
        connection
            .prepare_cached(
                "INSERT INTO retries (sink, first_seq, last_seq, parts, attempts, due_ms, reason, resent) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(rusqlite::params![
                sink,
                first.0.cast_signed(),
                last.0.cast_signed(),
                serde_json::to_string(&retry.parts).unwrap_or_default(),
                retry.attempts,
                retry.due_ms.cast_signed(),
                retry.reason,
                retry.resent,
            ])?;
        if let Some(done) = &settlement.retry_done
            && retry.resent
        {
            resends::hand_over(connection, done.id, retry)?;
        }
    }
    // Only now: a row that is gone already would leave its id to the retries that replace it.
    if let Some(done) = &settlement.retry_done {
        connection.execute("DELETE FROM retries WHERE id = ?1", [done.id])?;
        if done.resent {
            resends::finish(connection, done.id)?;
        }
        for Part(seq, ..) in &done.parts {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO settled_late (sink, seq, at_ms) VALUES (?1, ?2, ?3)",
                )?
                .execute(rusqlite::params![
                    sink,
                    seq.cast_signed(),
                    now_ms.cast_signed()
                ])?;
        }
    }
    for letter in &settlement.dead_letters {
        connection
            .prepare_cached(
                "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(rusqlite::params![
                sink,
                letter.seq.cast_signed(),
                letter.request_id,
                &*letter.stream,
                letter.position,
                letter.key,
                letter.fields,
                letter.reason,
                letter.attempts,
                letter.at_ms.cast_signed(),
                letter.received_ms.cast_signed(),
            ])?;
    }
    Ok(())
}

impl Pool {
    /// The sink's retry that comes first, due or not: the one that is due first, or in strict order the one that was
    /// accepted first. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn next_retry(&self, sink: &str, strict: bool) -> Result<Option<Retry>, PoolError> {
        let writer = self.lock();
        let sql = match strict {
            false => {
                "SELECT id, parts, attempts, due_ms, reason, resent FROM retries WHERE sink = ?1 ORDER BY due_ms, id LIMIT 1"
            }
            true => {
                "SELECT id, parts, attempts, due_ms, reason, resent FROM retries WHERE sink = ?1 ORDER BY first_seq, parts ->> '$[0][1]' LIMIT 1"
            }
        };
        let retry = writer
            .connection
            .prepare_cached(sql)?
            .query_row([sink], |row| {
                let parts: String = row.get(1)?;
                Ok(Retry {
                    id: row.get(0)?,
                    parts: serde_json::from_str(&parts).unwrap_or_default(),
                    attempts: row.get(2)?,
                    due_ms: row.get::<_, i64>(3)?.unsigned_abs(),
                    reason: row.get(4)?,
                    resent: row.get(5)?,
                })
            })
            .optional()?;
        Ok(retry)
    }

    /// Forgets when entries were delivered, for entries delivered before `before_ms`. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn expire_progress(&self, before_ms: u64) -> Result<(), PoolError> {
        let sinks = self.lock().sinks.clone();
        for sink in &sinks {
            for table in ["progress", "settled_late"] {
                // The lock is given back between chunks: lanes go on meanwhile.
                while self.expire_chunk(table, sink, before_ms)? {}
            }
        }
        Ok(())
    }

    /// Times rise with sequence numbers, so old rows stand first; true if there may be more.
    fn expire_chunk(&self, table: &str, sink: &str, before_ms: u64) -> Result<bool, PoolError> {
        let deleted = self.lock().connection.execute(
            &format!(
                "DELETE FROM {table} WHERE sink = ?1 AND at_ms < ?2 AND seq <= (
                     SELECT max(seq) FROM (SELECT seq FROM {table} WHERE sink = ?1 ORDER BY seq LIMIT ?3))"
            ),
            rusqlite::params![sink, before_ms.cast_signed(), EXPIRE_CHUNK],
        )?;
        Ok(i64::try_from(deleted).unwrap_or(0) >= EXPIRE_CHUNK)
    }

    /// What a sink has not delivered.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn undelivered(&self, sink: &str) -> Result<Undelivered, PoolError> {
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM retries WHERE sink = ?1) AS retries, (SELECT count(*) FROM dead_letters WHERE sink = ?1) AS letters",
        )
        .bind(sink.to_owned())
        .fetch_one(&self.reads)
        .await?;
        Ok(Undelivered {
            retries: row.try_get::<i64, _>("retries")?.unsigned_abs(),
            dead_letters: row.try_get::<i64, _>("letters")?.unsigned_abs(),
        })
    }

    /// A sink's dead letters, newest first, before the row `before`.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn dead_letters(
        &self,
        sink: &str,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, PoolError> {
        let rows = sqlx::query(
            "SELECT id, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, received_ms FROM dead_letters \
             WHERE sink = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
        )
        .bind(sink.to_owned())
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .fetch_all(&self.reads)
        .await?;
        rows.iter().map(read_letter).collect()
    }

    /// Sequence numbers below `before` that have dead letters, highest first.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn failed_seqs(&self, before: u64, limit: u32) -> Result<Vec<u64>, PoolError> {
        // From one number to the next, however many dead letters have it.
        let seqs: Vec<i64> = sqlx::query_scalar(
            "WITH RECURSIVE failed (seq) AS (
                 SELECT max(seq) FROM dead_letters WHERE seq < ?1
                 UNION ALL SELECT (SELECT max(seq) FROM dead_letters WHERE seq < failed.seq) FROM failed
                     WHERE failed.seq IS NOT NULL LIMIT ?2
             ) SELECT seq FROM failed WHERE seq IS NOT NULL",
        )
        .bind(i64::try_from(before).unwrap_or(i64::MAX))
        .bind(limit)
        .fetch_all(&self.reads)
        .await?;
        Ok(seqs.into_iter().map(i64::unsigned_abs).collect())
    }

    /// Nothing below `before` and above this number waits for a retry; `None`: nothing below it does.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn highest_retried(&self, before: u64) -> Result<Option<u64>, PoolError> {
        let highest: Option<i64> = sqlx::query_scalar(
            "SELECT max(min(last_seq, ?1 - 1)) FROM retries WHERE first_seq < ?1",
        )
        .bind(i64::try_from(before).unwrap_or(i64::MAX))
        .fetch_one(&self.reads)
        .await?;
        Ok(highest.map(i64::unsigned_abs))
    }

    /// How a sink stands to each of these requests; `None` if the sink was added after it.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn sink_states(
        &self,
        sink: &str,
        seqs: &[u64],
    ) -> Result<Vec<Option<SinkState>>, PoolError> {
        let (Some(lowest), Some(highest)) = (seqs.iter().min(), seqs.iter().max()) else {
            return Ok(Vec::new());
        };
        let list: Vec<String> = seqs.iter().map(u64::to_string).collect();
        // One statement, so that all of it was true at one moment.
        let rows = sqlx::query(
            "WITH retried (seq) AS MATERIALIZED (
                 SELECT part.value ->> 0 FROM retries, json_each(retries.parts) AS part
                 WHERE sink = ?1 AND first_seq <= ?4 AND last_seq >= ?3
             )
             SELECT
                EXISTS (SELECT 1 FROM dead_letters WHERE sink = ?1 AND seq = request.value) AS failed,
                request.value IN (SELECT seq FROM retried) AS retrying,
                coalesce((SELECT seq FROM cursors WHERE sink = ?1), 0) >= request.value AS passed,
                coalesce((SELECT start FROM cursors WHERE sink = ?1), 0) >= request.value AS before_start,
                (SELECT at_ms FROM settled_late WHERE sink = ?1 AND seq = request.value) AS late_ms,
                (SELECT at_ms FROM progress WHERE sink = ?1 AND seq >= request.value ORDER BY seq LIMIT 1) AS at_ms
             FROM json_each(?2) AS request ORDER BY request.key",
        )
        .bind(sink.to_owned())
        .bind(format!("[{}]", list.join(",")))
        .bind(lowest.cast_signed())
        .bind(highest.cast_signed())
        .fetch_all(&self.reads)
        .await?;
        rows.iter().map(read_state).collect()
    }
}

fn read_state(row: &SqliteRow) -> Result<Option<SinkState>, PoolError> {
    let at = |name: &str| -> Result<Option<u64>, PoolError> {
        Ok(row.try_get::<Option<i64>, _>(name)?.map(i64::unsigned_abs))
    };
    if row.try_get("before_start")? {
        return Ok(None);
    }
    Ok(Some(if row.try_get("failed")? {
        SinkState::Failed
    } else if row.try_get("retrying")? {
        SinkState::Retrying
    } else if row.try_get("passed")? {
        SinkState::Done(at("late_ms")?.or(at("at_ms")?))
    } else {
        SinkState::Waiting
    }))
}

fn read_letter(row: &SqliteRow) -> Result<DeadLetter, PoolError> {
    Ok(DeadLetter {
        id: row.try_get("id")?,
        seq: row.try_get::<i64, _>("seq")?.unsigned_abs(),
        request_id: row.try_get("request_id")?,
        stream: row.try_get::<String, _>("stream")?.into(),
        position: row.try_get("position")?,
        key: row.try_get("key")?,
        fields: row.try_get("fields")?,
        reason: row.try_get("reason")?,
        attempts: row.try_get("attempts")?,
        at_ms: row.try_get::<i64, _>("at_ms")?.unsigned_abs(),
        received_ms: row.try_get::<i64, _>("received_ms")?.unsigned_abs(),
    })
}
