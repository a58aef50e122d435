//! What became of requests, as the sinks testify: who had what when, who gave up and why.
//!
//! Delivery writes it with its settlements; the request log reads.
//!
//! **Invariant**: nothing is said to be done before it was. What the log has forgotten is forgotten here, too.

use std::time::Duration;

use rusqlite::{Connection, Row};

use super::{Part, Pool, PoolError};
use base::clock::Unix;
use base::order::Seq;

/// How one sink stands to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkState {
    /// The lane has not come to it.
    Waiting,
    /// Delivered, at this time where it is still known.
    Done(Option<Unix>),
    /// Delivered, and so many of its items changed nothing: the pool had a higher version of them.
    Stale {
        /// When, as of what was delivered.
        at: Option<Unix>,
        items: u64,
    },
    /// Failed, to be tried again.
    Retrying,
    /// Some of its items are dead letters.
    Failed,
    /// It is over, and somebody discarded items that the sink had given up, at this time.
    Discarded(Unix),
}

/// Why a sink gave up on a request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct GivenUp {
    /// In the sink's words.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// For how many items, of those that were looked at.
    pub items: u32,
}

/// Cursors of one sink that are stored within this time after the first of them share a time, that of the last: nothing
/// is said to be done before it was. A row for each commit would be as many rows as batches.
const PROGRESS_GRAIN: Duration = Duration::from_millis(100);
/// What only the request log needs: it goes with the entries of which it speaks.
const STATUS_TABLES: [&str; 5] = [
    "progress",
    "settled_late",
    "discarded",
    "stale",
    "stale_items",
];
/// Rows of it that are deleted in one go, because lanes wait meanwhile.
const EXPIRE_CHUNK: i64 = 5_000;
/// Reasons of one sink for one request, and dead letters that are looked at for them, so that one request with many
/// of them cannot hold up a page of the log.
const REASONS_MAX: u32 = 3;
const REASONS_LOOKED_AT: u32 = 1_000;

/// Part of [`Pool::settle`]'s transaction: everything up to `cursor` is behind the sink now. When it had what before
/// goes into `progress`, at most ten rows a second. What moves with every commit stays in the sink's one row, because
/// each further row is a page more that a lone request writes.
pub(super) fn move_cursor(
    connection: &Connection,
    sink: &str,
    cursor: Seq,
    now: Unix,
) -> Result<(), rusqlite::Error> {
    let since = (now + Duration::from_millis(1) - PROGRESS_GRAIN).to_column();
    let (cursor, now) = (cursor.to_column(), now.to_column());
    let moved = connection
        .prepare_cached(
            "UPDATE cursors SET seq = ?2, at_ms = ?3 WHERE sink = ?1 AND since_ms BETWEEN ?4 AND ?3",
        )?
        .execute(rusqlite::params![sink, cursor, now, since])?;
    if moved == 0 {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO progress (sink, seq, at_ms)
                 SELECT sink, seq, at_ms FROM cursors WHERE sink = ?1 AND at_ms > 0",
            )?
            .execute([sink])?;
        connection
            .prepare_cached(
                "UPDATE cursors SET seq = ?2, at_ms = ?3, since_ms = ?3 WHERE sink = ?1",
            )?
            .execute(rusqlite::params![sink, cursor, now])?;
    }
    Ok(())
}

/// Part of [`Pool::settle`]'s transaction: a sink had these only after another attempt. Otherwise they would have the
/// time of the cursor, which passed them before.
pub(super) fn note_late(
    connection: &Connection,
    sink: &str,
    parts: &[Part],
    now: Unix,
) -> Result<(), rusqlite::Error> {
    let sql = "INSERT OR REPLACE INTO settled_late (sink, seq, at_ms) VALUES (?1, ?2, ?3)";
    let mut insert = connection.prepare_cached(sql)?;
    for Part(seq, ..) in parts {
        insert.execute(rusqlite::params![sink, seq.to_column(), now.to_column()])?;
    }
    Ok(())
}

impl Pool {
    /// Forgets what became of requests that the log does not have any more: those before this one. Blocks.
    pub fn forget_before(&self, seq: Seq) -> Result<(), PoolError> {
        let sinks: Vec<String> = {
            let writer = self.lock();
            let mut known = writer
                .connection
                .prepare_cached("SELECT sink FROM cursors")?;
            let known = known.query_map([], |row| row.get(0))?;
            known.collect::<Result<_, _>>()?
        };
        for sink in &sinks {
            for table in STATUS_TABLES {
                // The lock is given back between chunks: lanes go on meanwhile.
                while self.forget_chunk_of(table, sink, seq)? {}
            }
        }
        Ok(())
    }

    /// True if there may be more. The statement has one bound, because of two SQLite ends the scan at one of them only:
    /// each chunk would read all rows.
    fn forget_chunk_of(&self, table: &str, sink: &str, seq: Seq) -> Result<bool, PoolError> {
        let sql = format!(
            "DELETE FROM {table} WHERE sink = ?1 AND seq <= min(?2 - 1, (
                 SELECT max(seq) FROM (SELECT seq FROM {table} WHERE sink = ?1 ORDER BY seq LIMIT ?3)))"
        );
        let deleted = self.write(|writer| {
            let params = rusqlite::params![sink, seq.to_column(), EXPIRE_CHUNK];
            writer.connection.execute(&sql, params)
        })?;
        Ok(i64::try_from(deleted).unwrap_or(0) >= EXPIRE_CHUNK)
    }

    /// Sequence numbers below `before` that have dead letters, highest first.
    pub async fn failed_seqs(&self, before: Seq, limit: u32) -> Result<Vec<Seq>, PoolError> {
        self.seqs_of("dead_letters", before, limit).await
    }

    /// The same for those of which somebody discarded dead letters.
    pub async fn discarded_seqs(&self, before: Seq, limit: u32) -> Result<Vec<Seq>, PoolError> {
        self.seqs_of("discarded", before, limit).await
    }

    /// The same for those of which items changed nothing.
    pub async fn stale_seqs(&self, before: Seq, limit: u32) -> Result<Vec<Seq>, PoolError> {
        self.seqs_of("stale", before, limit).await
    }

    async fn seqs_of(&self, table: &str, before: Seq, limit: u32) -> Result<Vec<Seq>, PoolError> {
        // From one number to the next, however many rows have it.
        let sql = format!(
            "WITH RECURSIVE found (seq) AS (
                 SELECT max(seq) FROM {table} WHERE seq < ?1
                 UNION ALL SELECT (SELECT max(seq) FROM {table} WHERE seq < found.seq) FROM found
                     WHERE found.seq IS NOT NULL LIMIT ?2
             ) SELECT seq FROM found WHERE seq IS NOT NULL"
        );
        let seq = |row: &Row<'_>| row.get(0).map(Seq::from_column);
        let seqs = self.reads.rows(sql, (before.to_column(), limit), seq);
        Ok(seqs.await?)
    }

    /// Why a sink gave up on each of these requests: the first few reasons, in the order of the items.
    pub async fn reasons(&self, sink: &str, seqs: &[Seq]) -> Result<Vec<Vec<GivenUp>>, PoolError> {
        let sql = format!(
            "SELECT (SELECT json_group_array(json_object('reason', reason, 'attempts', attempts, 'items', items)) FROM (
                 SELECT reason, max(attempts) AS attempts, count(*) AS items FROM (
                     SELECT reason, attempts, position FROM dead_letters
                     WHERE sink = ?1 AND seq = request.value ORDER BY position LIMIT {REASONS_LOOKED_AT}
                 ) GROUP BY reason ORDER BY min(position) LIMIT {REASONS_MAX}))
             FROM json_each(?2) AS request ORDER BY request.key"
        );
        let read = |row: &Row<'_>| {
            let json = row.get_ref(0)?.as_str()?;
            Ok(serde_json::from_str(json).unwrap_or_default())
        };
        let found = self.reads.rows(sql, [sink.to_owned(), list(seqs)], read);
        Ok(found.await?)
    }

    /// Nothing below `before` and above this number waits for a retry; `None`: nothing below it does.
    pub async fn highest_retried(&self, before: Seq) -> Result<Option<Seq>, PoolError> {
        let sql = "SELECT max(min(last_seq, ?1 - 1)) FROM retries WHERE first_seq < ?1";
        let highest: Option<i64> =
            (self.reads.row(sql, [before.to_column()], |row| row.get(0))).await?;
        Ok(highest.map(Seq::from_column))
    }

    /// How a sink stands to each of these requests; `None` if the sink was added after it.
    pub async fn sink_states(
        &self,
        sink: &str,
        seqs: &[Seq],
    ) -> Result<Vec<Option<SinkState>>, PoolError> {
        let (Some(lowest), Some(highest)) = (seqs.iter().min(), seqs.iter().max()) else {
            return Ok(Vec::new());
        };
        // One statement, so that all of it was true at one moment.
        let sql = "WITH retried (seq) AS MATERIALIZED (
                 SELECT part.value ->> 0 FROM retries, json_each(iif(json_valid(parts), parts, '[]')) AS part
                 WHERE sink = ?1 AND first_seq <= ?4 AND last_seq >= ?3
             )
             SELECT
                EXISTS (SELECT 1 FROM dead_letters WHERE sink = ?1 AND seq = request.value) AS failed,
                coalesce(request.value IN (SELECT seq FROM retried), FALSE) AS retrying,
                coalesce((SELECT seq FROM cursors WHERE sink = ?1), 0) >= request.value AS passed,
                coalesce((SELECT start FROM cursors WHERE sink = ?1), 0) >= request.value AS before_start,
                (SELECT at_ms FROM discarded WHERE sink = ?1 AND seq = request.value) AS discarded_ms,
                (SELECT items FROM stale WHERE sink = ?1 AND seq = request.value) AS stale_items,
                (SELECT at_ms FROM settled_late WHERE sink = ?1 AND seq = request.value) AS late_ms,
                coalesce(
                    (SELECT at_ms FROM progress WHERE sink = ?1 AND seq >= request.value ORDER BY seq LIMIT 1),
                    (SELECT nullif(at_ms, 0) FROM cursors WHERE sink = ?1 AND seq >= request.value)
                ) AS at_ms
             FROM json_each(?2) AS request ORDER BY request.key";
        let (lowest, highest) = (lowest.to_column(), highest.to_column());
        let values = (sink.to_owned(), list(seqs), lowest, highest);
        Ok(self.reads.rows(sql, values, read_state).await?)
    }
}

/// Numbers as a JSON array: the text of the statement stays the same, however many there are.
pub(super) fn list(seqs: &[Seq]) -> String {
    let seqs: Vec<String> = seqs.iter().map(Seq::to_string).collect();
    format!("[{}]", seqs.join(","))
}

fn read_state(row: &Row<'_>) -> Result<Option<SinkState>, rusqlite::Error> {
    let time = |name: &str| -> Result<Option<Unix>, rusqlite::Error> {
        Ok(row.get::<_, Option<i64>>(name)?.map(Unix::from_column))
    };
    if row.get("before_start")? {
        return Ok(None);
    }
    Ok(Some(if row.get("failed")? {
        SinkState::Failed
    } else if row.get("retrying")? {
        SinkState::Retrying
    } else if let Some(at) = time("discarded_ms")?
        && row.get("passed")?
    {
        SinkState::Discarded(at)
    } else if row.get("passed")? {
        let at = time("late_ms")?.or(time("at_ms")?);
        match row.get::<_, Option<i64>>("stale_items")? {
            // Only parts of some were left out.
            None | Some(0) => SinkState::Done(at),
            Some(items) => SinkState::Stale {
                at,
                items: items.unsigned_abs(),
            },
        }
    } else {
        SinkState::Waiting
    }))
}
