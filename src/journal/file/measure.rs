//! How much the journal holds: what status and metrics show.
//!
//! **Invariant**: each of these looks at a bounded number of rows, however large the file is.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error, OptionalExtension as _, Row};

use super::segment_index::CLOSED;
use super::{File, reader, timeline};
use crate::measure::LogMinute;
use crate::{Shared, StorageError};
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
        let sql = "SELECT coalesce(sum(bytes), 0), min(seq), max(seq), (SELECT max(seq) FROM payloads)
             FROM (SELECT seq, length(items) AS bytes FROM payloads WHERE seq > ?1 ORDER BY seq LIMIT ?2)";
        let sums = (self.reads).row(sql, [seq.to_column(), PAYLOADS_MAX], |row| {
            let positions: [Option<i64>; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            Ok((row.get::<_, i64>(0)?, positions))
        });
        let (bytes, [Some(first), Some(last), Some(newest)]) = sums.await? else {
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
        let shared = Arc::clone(&self.shared);
        let read = (self.reads).read(move |connection| oldest_from(connection, &shared, seq + 1));
        let oldest = read.await?;
        Ok(oldest.map(|(received_at, arrived)| {
            let waited = arrived.map(|arrived| Lived::now() - arrived);
            (received_at, waited)
        }))
    }

    pub(crate) async fn log_bytes(&self) -> Result<u64, StorageError> {
        let sql = format!(
            "SELECT coalesce((SELECT sum(bytes) FROM log_spans), 0) + ?1 * (
                 SELECT count(*) FROM (SELECT 1 FROM requests WHERE seq > {CLOSED} LIMIT 10000))"
        );
        let bytes: i64 = (self.reads)
            .row(sql, [ENTRY_BYTES], |row| row.get(0))
            .await?;
        Ok(bytes.unsigned_abs())
    }

    pub(crate) async fn quarantined(&self) -> Result<u64, StorageError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM quarantine LIMIT 10000)";
        let count: i64 = self.reads.row(sql, [], |row| row.get(0)).await?;
        Ok(count.unsigned_abs())
    }

    pub(crate) async fn newest_logged(&self) -> Result<Seq, StorageError> {
        let sql = "SELECT max(seq) FROM requests";
        let newest: Option<i64> = self.reads.row(sql, [], |row| row.get(0)).await?;
        Ok(newest.map_or(Seq::MIN, Seq::from_column))
    }

    pub(crate) async fn log_minutes(
        &self,
        range: Range<Seq>,
        since: Unix,
    ) -> Result<(Vec<LogMinute>, Option<Seq>), StorageError> {
        let read = (self.reads).read(move |connection| log_minutes(connection, &range, since));
        Ok(read.await?)
    }
}

/// The first entry from this one on that has a payload: when it came, by the wall clock and in time lived.
fn oldest_from(
    connection: &Connection,
    shared: &Shared,
    seq: Seq,
) -> Result<Option<(Unix, Option<Lived>)>, Error> {
    let Some(seq) = reader::first_from(connection, seq)? else {
        return Ok(None);
    };
    let received_at = connection
        .prepare_cached("SELECT received_ms FROM requests WHERE seq = ?")?
        .query_row([seq.to_column()], |row| row.get(0).map(Unix::from_column))
        .optional()?;
    let Some(received_at) = received_at else {
        return Ok(None);
    };
    let remembered = shared.lock_recent().arrivals.of(seq);
    let arrived = match remembered {
        Some(arrived) => Some(arrived),
        None => {
            let mut reached = connection.prepare_cached(timeline::REACHED)?;
            let point: Option<i64> = reached.query_row([seq.to_column()], |row| row.get(0))?;
            point.map(Lived::from_column)
        }
    };
    Ok(Some((received_at, arrived)))
}

fn log_minutes(
    connection: &Connection,
    range: &Range<Seq>,
    since: Unix,
) -> Result<(Vec<LogMinute>, Option<Seq>), Error> {
    let end = range.end.to_column();
    let mut look = connection.prepare_cached(
        "SELECT count(*), min(seq) FROM (
             SELECT seq FROM requests WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3)",
    )?;
    let (looked_at, lowest) = look.query_row((range.start.to_column(), end, STEP), |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let Some(lowest) = lowest else {
        return Ok((Vec::new(), None));
    };
    // 1: refused; 0 and 3: accepted, with a live and a test key; 4: a removal, which is no submission.
    let mut count = connection.prepare_cached(
        "SELECT connector, key, received_ms / 60000 AS minute, count(*), sum(outcome = 1),
             sum(iif(outcome IN (0, 3), items, 0)), max(received_ms)
         FROM requests WHERE seq >= ?1 AND seq < ?2 AND received_ms >= ?3 AND outcome <> 4
         GROUP BY connector, key, minute",
    )?;
    let minutes = count.query_map([lowest, end, since.to_column()], read_minute)?;
    let more = looked_at == STEP;
    Ok((
        minutes.collect::<Result<_, _>>()?,
        more.then_some(Seq::from_column(lowest)),
    ))
}

fn read_minute(row: &Row<'_>) -> Result<LogMinute, Error> {
    let number = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(LogMinute {
        connector: row.get(0)?,
        key: row.get(1)?,
        minute: number(2)?,
        requests: number(3)?,
        errors: number(4)?,
        items: number(5)?,
        newest_at: Unix::from_column(row.get(6)?),
    })
}
