//! Reading entries back from the database, for lanes that are behind, retries, and people.

use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::Node;
use crate::log::Outcome;
use crate::{ReadRequest, Taken};
use ::postgres::DatabaseError;
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::Items;
use item::batch::{Action, Entry};

/// What waits is looked at in steps that grow from this to that: a batch may end soon.
const LOOKED_AT: std::ops::RangeInclusive<i64> = 64..=4_096;
/// Payloads that may have removals, looked for in one step.
const REMOVALS_MAX: i64 = 500;

/// What waits below a number, without the payloads themselves; what was put aside has no size.
const WAITING: &str = "SELECT seq, bytes, stream, outcome FROM (
         SELECT seq, octet_length(items)::bigint AS bytes, stream, outcome FROM payloads WHERE seq > $1 AND seq < $2
         UNION ALL SELECT seq, NULL, stream, outcome FROM quarantine WHERE seq > $1 AND seq < $2) AS all_of_it
     ORDER BY seq LIMIT $3";
const ENTRIES: &str =
    "SELECT seq, request_id, stream, outcome, received_ms, arrived_ms, crc32, items FROM payloads
     WHERE seq = ANY ($1) ORDER BY seq";
const ASIDE: &str =
    "SELECT seq, reason, stream, outcome FROM quarantine WHERE seq > $1 AND seq <= $2 ORDER BY seq";

type Read = (Seq, Result<Arc<Entry>, String>);

impl Node {
    pub(crate) async fn read_after(
        &self,
        request: &ReadRequest<'_>,
    ) -> Result<Taken, DatabaseError> {
        let (wanted, through) = self.look(request).await?;
        let mut taken = Taken {
            through,
            ..Taken::default()
        };
        let mut items = 0;
        for (seq, entry) in self.fetch(&wanted).await? {
            match entry {
                Ok(entry) => {
                    items += entry.items.len();
                    if items > request.items_max && !taken.entries.is_empty() {
                        // It stays for the next time, with all that follow.
                        taken.through = taken.entries.last().map_or(request.after, |last| last.seq);
                        let through = taken.through;
                        taken.corrupt.retain(|(corrupt, _)| *corrupt <= through);
                        break;
                    }
                    taken.entries.push(entry);
                }
                Err(reason) => taken.corrupt.push((seq, reason)),
            }
        }
        let aside = sqlx::query(ASIDE)
            .bind(request.after.to_column())
            .bind(taken.through.to_column());
        // After the payloads: another lane may have put one aside in between.
        for row in self.lane_reads.all(aside).await? {
            let seq = Seq::from_column(row.try_get("seq")?);
            if is_wanted(&row, request) && !taken.corrupt.iter().any(|(corrupt, _)| *corrupt == seq)
            {
                let reason = super::text::read(row.try_get("reason")?);
                taken.quarantined.push((seq, reason));
            }
        }
        Ok(taken)
    }

    /// What a batch can be made of: the numbers of what is to be fetched, and up to where was looked.
    async fn look(&self, request: &ReadRequest<'_>) -> Result<(Vec<Seq>, Seq), DatabaseError> {
        let below = self.feed.through();
        let (mut wanted, mut through) = (Vec::new(), request.after);
        let mut bytes = 0;
        let mut step = *LOOKED_AT.start();
        loop {
            let waiting = sqlx::query(WAITING)
                .bind(through.to_column())
                .bind(below.to_column())
                .bind(step);
            let rows = self.lane_reads.all(waiting).await?;
            for row in &rows {
                let seq = Seq::from_column(row.try_get("seq")?);
                let size: Option<i64> = row.try_get("bytes")?;
                if let Some(size) = size
                    && is_wanted(row, request)
                {
                    bytes += usize::try_from(size).unwrap_or(usize::MAX / 2);
                    let full = bytes > request.bytes_max || wanted.len() >= request.items_max;
                    if full && !wanted.is_empty() {
                        return Ok((wanted, through));
                    }
                    wanted.push(seq);
                }
                through = seq;
            }
            if rows.len() < usize::try_from(step).unwrap_or(0) || step >= *LOOKED_AT.end() {
                return Ok((wanted, through));
            }
            step *= 4;
        }
    }

    pub(crate) async fn entry(&self, seq: Seq) -> Result<Option<Arc<Entry>>, DatabaseError> {
        Ok(self.read_many(&[seq]).await?.into_iter().next())
    }

    pub(crate) async fn read_many(&self, seqs: &[Seq]) -> Result<Vec<Arc<Entry>>, DatabaseError> {
        let found = self.fetch(seqs).await?;
        Ok(found
            .into_iter()
            .filter_map(|(_, entry)| entry.ok())
            .collect())
    }

    pub(crate) async fn removals_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Vec<Arc<Entry>>, Seq)>, DatabaseError> {
        let with_flags = Items::WITH_FLAGS.map(i32::from);
        let sql = "SELECT seq FROM payloads WHERE seq > $1 AND seq < $2
             AND (outcome = $3 OR get_byte(items, 0) = ANY ($4)) ORDER BY seq LIMIT $5";
        let query = sqlx::query(sql)
            .bind(seq.to_column())
            .bind(self.feed.through().to_column())
            .bind(i16::try_from(Outcome::Removed.code()).unwrap_or_default())
            .bind(with_flags.to_vec())
            .bind(REMOVALS_MAX);
        let seqs = self.seqs(query).await?;
        let Some(last) = seqs.last().copied() else {
            return Ok(None);
        };
        Ok(Some((self.read_many(&seqs).await?, last)))
    }

    pub(crate) async fn has_released_after(&self, seq: Seq) -> Result<bool, DatabaseError> {
        let sql = "SELECT NOT EXISTS (SELECT FROM payloads p WHERE p.seq = r.seq)
                AND NOT EXISTS (SELECT FROM quarantine q WHERE q.seq = r.seq) AS released
             FROM requests r WHERE r.seq > $1 AND r.outcome IN (0, 4) ORDER BY r.seq LIMIT 1";
        let query = sqlx::query(sql).bind(seq.to_column());
        let row = self.lane_reads.first(query).await?;
        let released = row.map(|row| row.try_get("released"));
        Ok(released.transpose()?.unwrap_or(false))
    }

    pub(crate) async fn oldest_kept(&self) -> Result<Option<Seq>, DatabaseError> {
        let query = sqlx::query("SELECT seq FROM payloads ORDER BY seq LIMIT 1");
        Ok(self.seqs(query).await?.pop())
    }

    /// The numbers that a query answers in its first column.
    pub(super) async fn seqs(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<Vec<Seq>, DatabaseError> {
        let rows = self.lane_reads.all(query).await?;
        let seqs = rows.iter().map(|row| row.try_get(0).map(Seq::from_column));
        Ok(seqs.collect::<Result<_, _>>()?)
    }

    /// Entries by their numbers, each with what is wrong with it if it cannot be read. Those that are gone are left out.
    async fn fetch(&self, seqs: &[Seq]) -> Result<Vec<Read>, DatabaseError> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<i64> = seqs.iter().map(|seq| seq.to_column()).collect();
        let rows = self
            .lane_reads
            .all(sqlx::query(ENTRIES).bind(numbers))
            .await?;
        rows.iter()
            .map(|row| {
                let seq = Seq::from_column(row.try_get("seq")?);
                Ok((seq, read_entry(row)))
            })
            .collect()
    }
}

fn is_wanted(row: &PgRow, request: &ReadRequest<'_>) -> bool {
    let stream = row.try_get::<&str, _>("stream");
    stream.is_ok_and(|stream| (request.wanted)(stream, action(row)))
}

/// What the request of a row asks of its items.
fn action(row: &PgRow) -> Action {
    let outcome = row.try_get("outcome").map(i64::from as fn(i16) -> i64);
    let action = outcome
        .ok()
        .map(Outcome::from_code)
        .and_then(Outcome::action);
    action.unwrap_or_default()
}

/// Checks a payload and makes an entry of it.
pub(super) fn read_entry(row: &PgRow) -> Result<Arc<Entry>, String> {
    let parts = || -> Result<_, sqlx::Error> {
        Ok((
            row.try_get::<i64, _>("seq")?,
            row.try_get::<i64, _>("crc32")?,
            row.try_get::<Vec<u8>, _>("items")?,
            row.try_get::<Uuid, _>("request_id")?,
            row.try_get::<String, _>("stream")?,
            row.try_get::<i64, _>("received_ms")?,
            row.try_get::<i64, _>("arrived_ms")?,
        ))
    };
    let (seq, crc32, items, request_id, stream, received_at, arrived) =
        parts().map_err(|error| format!("the row cannot be read: {error}"))?;
    if i64::from(crc32fast::hash(&items)) != crc32 {
        return Err("the payload's checksum does not match".to_owned());
    }
    let items = Items::from_stored(items.into(), action(row))
        .map_err(|error| format!("the payload cannot be decoded: {error}"))?;
    Ok(Arc::new(Entry {
        seq: Seq::from_column(seq),
        request_id,
        stream: stream.into(),
        received_at: Unix::from_column(received_at),
        arrived: Some(Lived::from_column(arrived)),
        items,
    }))
}
