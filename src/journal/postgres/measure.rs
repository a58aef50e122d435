//! How much the journal holds in the database.

use std::ops::Range;
use std::time::Duration;

use sqlx::Row;

use super::Node;
use super::text::read;
use crate::measure::LogMinute;
use crate::{RejectedBody, Retention};
use ::postgres::DatabaseError;
use base::clock::{Lived, Unix};
use base::order::Seq;

/// Payloads whose bytes are added up; further ones are taken to be alike. An exact sum of a long backlog would read all
/// of it.
const PAYLOADS_MAX: i64 = 100_000;
/// Log entries that are counted in one go.
const STEP: i64 = 20_000;

impl Node {
    pub(crate) async fn payload_bytes_after(&self, seq: Seq) -> Result<u64, DatabaseError> {
        let sql = "SELECT coalesce(sum(bytes), 0)::bigint, count(*),
                (SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'payloads'::regclass)
             FROM (SELECT octet_length(items) AS bytes FROM payloads WHERE seq > $1 ORDER BY seq LIMIT $2) AS part";
        let query = sqlx::query(sql).bind(seq.to_column()).bind(PAYLOADS_MAX);
        let Some(row) = self.log_reads.first(query).await? else {
            return Ok(0);
        };
        let number = |at| row.try_get::<i64, _>(at);
        let (bytes, counted, about) = (number(0)?, number(1)?, number(2)?);
        if counted < PAYLOADS_MAX {
            return Ok(bytes.unsigned_abs());
        }
        let all = i128::from(bytes) * i128::from(about.max(counted)) / i128::from(counted);
        Ok(u64::try_from(all).unwrap_or_default())
    }

    pub(crate) async fn oldest_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Unix, Option<Duration>)>, DatabaseError> {
        let sql =
            "SELECT received_ms, arrived_ms FROM payloads WHERE seq > $1 ORDER BY seq LIMIT 1";
        let query = sqlx::query(sql).bind(seq.to_column());
        let Some(row) = self.log_reads.first(query).await? else {
            return Ok(None);
        };
        let number = |at| row.try_get::<i64, _>(at);
        let (received, arrived) = (number(0)?, number(1)?);
        let waited = Lived::now() - Lived::from_column(arrived);
        Ok(Some((Unix::from_column(received), Some(waited))))
    }

    pub(crate) async fn log_bytes(&self) -> Result<u64, DatabaseError> {
        let sql =
            "SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits
             WHERE inhparent = 'requests'::regclass";
        self.count(sql).await
    }

    pub(crate) async fn quarantined(&self) -> Result<u64, DatabaseError> {
        self.count("SELECT count(*) FROM (SELECT FROM quarantine LIMIT 10000) AS part")
            .await
    }

    async fn count(&self, sql: &'static str) -> Result<u64, DatabaseError> {
        let row = self.log_reads.first(sqlx::query(sql)).await?;
        let count = row.map(|row| row.try_get::<i64, _>(0));
        let count = count.transpose()?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    pub(crate) async fn log_minutes(
        &self,
        range: Range<Seq>,
        since: Unix,
    ) -> Result<(Vec<LogMinute>, Option<Seq>), DatabaseError> {
        let sql = "SELECT count(*), min(seq) FROM (
                 SELECT seq FROM requests WHERE seq >= $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) AS part";
        let query = sqlx::query(sql)
            .bind(range.start.to_column())
            .bind(range.end.to_column())
            .bind(STEP);
        let Some(row) = self.log_reads.first(query).await? else {
            return Ok((Vec::new(), None));
        };
        let looked_at: i64 = row.try_get(0)?;
        let lowest: Option<i64> = row.try_get(1)?;
        let Some(lowest) = lowest else {
            return Ok((Vec::new(), None));
        };
        // 1: refused; 0 and 3: accepted, with a live and a test key; 4: a removal, which is no submission.
        let sql = "SELECT connector, key, received_ms / 60000 AS minute, count(*) FILTER (WHERE own) AS requests,
                 count(*) FILTER (WHERE own AND outcome = 1) AS errors,
                 coalesce(sum(items) FILTER (WHERE own AND outcome IN (0, 3)), 0)::bigint AS items, max(received_ms) AS newest
             FROM (SELECT connector, key, received_ms, outcome, items, writer IN (SELECT number FROM writers WHERE name = $4) AS own
                 FROM requests WHERE seq >= $1 AND seq < $2 AND received_ms >= $3 AND outcome <> 4) AS part
             GROUP BY connector, key, minute";
        let query = sqlx::query(sql)
            .bind(lowest)
            .bind(range.end.to_column())
            .bind(since.to_column())
            .bind(self.database.node());
        let rows = self.log_reads.all(query).await?;
        let minutes = rows.iter().map(|row| -> Result<LogMinute, sqlx::Error> {
            let number = |name: &str| row.try_get(name).map(i64::unsigned_abs);
            Ok(LogMinute {
                connector: read(row.try_get("connector")?),
                key: read(row.try_get("key")?),
                minute: number("minute")?,
                requests: number("requests")?,
                errors: number("errors")?,
                items: number("items")?,
                newest_at: Unix::from_column(row.try_get("newest")?),
            })
        });
        let minutes = minutes.collect::<Result<_, _>>()?;
        let more = looked_at == STEP;
        Ok((minutes, more.then_some(Seq::from_column(lowest))))
    }

    pub(crate) async fn refused_body(
        &self,
        seq: Seq,
    ) -> Result<Option<RejectedBody>, DatabaseError> {
        let sql = "SELECT test, stream, content_type, item_key, idempotency_key, body, headers FROM bodies WHERE seq = $1";
        let query = sqlx::query(sql).bind(seq.to_column());
        let Some(row) = self.log_reads.first(query).await? else {
            return Ok(None);
        };
        let value = |name: &str| -> Result<Option<Box<[u8]>>, sqlx::Error> {
            let value: Option<Vec<u8>> = row.try_get(name)?;
            Ok(value.map(Vec::into_boxed_slice))
        };
        let body = || -> Result<RejectedBody, sqlx::Error> {
            let headers: Option<String> = row.try_get("headers")?;
            Ok(RejectedBody {
                body: row.try_get::<Vec<u8>, _>("body")?.into(),
                stream: read(row.try_get("stream")?).into(),
                headers: headers.and_then(|json| serde_json::from_str(&read(json)).ok()),
                content_type: value("content_type")?,
                item_key: value("item_key")?,
                idempotency_key: value("idempotency_key")?,
                test: row.try_get("test")?,
            })
        };
        Ok(Some(body()?))
    }

    /// Payloads go a generation at a time: all of those before the oldest that is young enough, if anything is kept.
    pub(crate) async fn kept_from(&self, retention: Retention) -> Result<Seq, DatabaseError> {
        // Counted for the file alone.
        self.shared.lock_recent().written = Default::default();
        if retention.age_max.is_zero() || retention.bytes_max == 0 {
            return Ok(Seq::MAX);
        }
        let sql = "SELECT coalesce(max(n.first_seq), 0) FROM generations n WHERE n.lived_ms <= $1";
        let oldest = (Lived::now() - retention.age_max).to_column();
        let first = self.seqs(sqlx::query(sql).bind(oldest)).await?;
        Ok(first.first().copied().unwrap_or_default() - 1)
    }
}
