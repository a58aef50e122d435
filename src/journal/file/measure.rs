//! How much the journal holds: what status and metrics show.
//!
//! **Invariant**: each of these looks at a bounded number of rows, however large the file is.

use std::ops::Range;
use std::time::Duration;

use super::segment_index::CLOSED;
use super::{File, reader, timeline};
use crate::StorageError;
use crate::measure::LogMinute;
use base::clock::{Lived, Unix};
use base::order::Seq;

/// Rows of payloads whose bytes are added up; further ones are taken to be alike. An exact sum of a long backlog would
/// read all of it.
const PAYLOADS_MAX: i64 = 100_000;
/// About what a log entry takes that is in no closed stretch.
const ENTRY_BYTES: i64 = 130;
/// Log entries that are counted in one go.
const STEP: u32 = 20_000;

impl File {
    pub(crate) async fn payload_bytes_after(&self, seq: Seq) -> Result<u64, StorageError> {
        let (bytes, first, last, newest): (i64, Option<i64>, Option<i64>, Option<i64>) = sqlx::query_as(
            "SELECT coalesce(sum(bytes), 0), min(seq), max(seq), (SELECT max(seq) FROM payloads)
             FROM (SELECT seq, length(items) AS bytes FROM payloads WHERE seq > ?1 ORDER BY seq LIMIT ?2)",
        )
        .bind(seq.to_column())
        .bind(PAYLOADS_MAX)
        .fetch_one(self.reads())
        .await?;
        let (Some(first), Some(last), Some(newest)) = (first, last, newest) else {
            return Ok(0);
        };
        let (looked_at, all) = (last - first + 1, newest - first + 1);
        let bytes = i128::from(bytes) * i128::from(all.max(1)) / i128::from(looked_at.max(1));
        Ok(u64::try_from(bytes).unwrap_or_default())
    }

    pub(crate) async fn oldest_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Unix, Option<Duration>)>, StorageError> {
        let Some(oldest) = reader::first_from(self.reads(), seq + 1).await? else {
            return Ok(None);
        };
        let oldest: Option<(i64, i64)> =
            sqlx::query_as("SELECT seq, received_ms FROM requests WHERE seq = ?")
                .bind(oldest.to_column())
                .fetch_optional(self.reads())
                .await?;
        let Some((seq, received_ms)) = oldest else {
            return Ok(None);
        };
        let remembered = self.shared.lock_recent().arrivals.of(Seq::from_column(seq));
        let arrived = match remembered {
            Some(arrived) => Some(arrived),
            None => {
                let point: Option<i64> = sqlx::query_scalar(timeline::REACHED)
                    .bind(seq)
                    .fetch_one(self.reads())
                    .await?;
                point.map(Lived::from_column)
            }
        };
        let waited = arrived.map(|arrived| Lived::now() - arrived);
        Ok(Some((Unix::from_column(received_ms), waited)))
    }

    pub(crate) async fn log_bytes(&self) -> Result<u64, StorageError> {
        let sql = format!(
            "SELECT coalesce((SELECT sum(bytes) FROM log_spans), 0) + ?1 * (
                 SELECT count(*) FROM (SELECT 1 FROM requests WHERE seq > {CLOSED} LIMIT 10000))"
        );
        let bytes: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(ENTRY_BYTES)
            .fetch_one(self.reads())
            .await?;
        Ok(bytes.unsigned_abs())
    }

    pub(crate) async fn quarantined(&self) -> Result<u64, StorageError> {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM (SELECT 1 FROM quarantine LIMIT 10000)")
                .fetch_one(self.reads())
                .await?;
        Ok(count.unsigned_abs())
    }

    pub(crate) async fn newest_logged(&self) -> Result<Seq, StorageError> {
        let newest: Option<i64> = sqlx::query_scalar("SELECT max(seq) FROM requests")
            .fetch_one(self.reads())
            .await?;
        Ok(newest.map_or(Seq::MIN, Seq::from_column))
    }

    pub(crate) async fn log_minutes(
        &self,
        range: Range<Seq>,
        since: Unix,
    ) -> Result<(Vec<LogMinute>, Option<Seq>), StorageError> {
        let start = range.start.to_column();
        let end = range.end.to_column();
        let (looked_at, lowest): (u32, Option<i64>) = sqlx::query_as(
            "SELECT count(*), min(seq) FROM (
                 SELECT seq FROM requests WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3)",
        )
        .bind(start)
        .bind(end)
        .bind(STEP)
        .fetch_one(self.reads())
        .await?;
        let Some(lowest) = lowest else {
            return Ok((Vec::new(), None));
        };
        // 1: refused; 0 and 3: accepted, with a live and a test key; 4: a removal, which is no submission.
        let rows: Vec<(String, String, i64, i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT connector, key, received_ms / 60000 AS minute, count(*), sum(outcome = 1),
                 sum(iif(outcome IN (0, 3), items, 0)), max(received_ms)
             FROM requests WHERE seq >= ?1 AND seq < ?2 AND received_ms >= ?3 AND outcome <> 4
             GROUP BY connector, key, minute",
        )
        .bind(lowest)
        .bind(end)
        .bind(since.to_column())
        .fetch_all(self.reads())
        .await?;
        let minutes = rows.into_iter().map(
            |(connector, key, minute, requests, errors, items, newest_at)| LogMinute {
                connector,
                key,
                minute: minute.unsigned_abs(),
                requests: requests.unsigned_abs(),
                errors: errors.unsigned_abs(),
                items: items.unsigned_abs(),
                newest_at: Unix::from_column(newest_at),
            },
        );
        let more = looked_at == STEP;
        Ok((minutes.collect(), more.then_some(Seq::from_column(lowest))))
    }
}
