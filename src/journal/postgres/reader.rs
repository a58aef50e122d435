//! Reading entries back from the database, for lanes that are behind, retries, and people.

use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Node;
use crate::log::Outcome;
use crate::reader::{Found, Look, Stored, action};
use crate::{ReadRequest, Taken};
use ::postgres::DatabaseError;
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::Items;
use item::batch::{Action, Entry};

/// Payloads that may have removals, looked for in one step.
const REMOVALS_MAX: i64 = 500;

/// What waits below a number, without the payloads themselves; what was quarantined has no size. Nothing above the
/// horizon is read, because an older transaction may still commit below it.
const WAITING: &str = "SELECT seq, bytes, stream, outcome FROM (
         SELECT seq, octet_length(items)::bigint AS bytes, stream, outcome FROM payloads WHERE seq > $1 AND seq < $2
         UNION ALL SELECT seq, NULL, stream, outcome FROM quarantine WHERE seq > $1 AND seq < $2) AS all_of_it
     ORDER BY seq LIMIT $3";
const ENTRIES: &str =
    "SELECT seq, request_id, stream, outcome, received_ms, arrived_ms, crc32, items FROM payloads
     WHERE seq = ANY ($1) ORDER BY seq";
const ASIDE: &str =
    "SELECT seq, reason, stream, outcome FROM quarantine WHERE seq > $1 AND seq <= $2 ORDER BY seq";

impl Node {
    pub(crate) async fn read_after(
        &self,
        request: &ReadRequest<'_>,
    ) -> Result<Taken, DatabaseError> {
        let mut look = Look::after(request.after);
        let mut step = *Look::STEPS.start();
        while self.look_on(&mut look, request, step).await? {
            step = step.saturating_mul(4);
        }
        let found = self.fetch(&look.wanted).await?;
        let mut taken = Taken::of(request, look.through, found);
        let aside = sqlx::query(ASIDE)
            .bind(request.after.to_column())
            .bind(taken.through.to_column());
        // After the payloads: another lane may have quarantined one in between.
        for row in self.lane_reads.all(aside).await? {
            if is_wanted(&row, request) {
                let reason = super::text::read(row.try_get("reason")?);
                taken.add_quarantined(Seq::from_column(row.try_get("seq")?), reason);
            }
        }
        Ok(taken)
    }

    /// Looks at so many entries more; true if the batch may go on behind them.
    async fn look_on(
        &self,
        look: &mut Look,
        request: &ReadRequest<'_>,
        step: u32,
    ) -> Result<bool, DatabaseError> {
        let waiting = sqlx::query(WAITING)
            .bind(look.through.to_column())
            .bind(self.feed.through().to_column())
            .bind(i64::from(step));
        let rows = self.lane_reads.all(waiting).await?;
        for row in &rows {
            let bytes: Option<i64> = row.try_get("bytes")?;
            let seq = Seq::from_column(row.try_get("seq")?);
            if !look.note(request, seq, bytes.filter(|_| is_wanted(row, request))) {
                return Ok(false);
            }
        }
        Ok(rows.len() == step as usize && step < *Look::STEPS.end())
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
             FROM requests r WHERE r.seq > $1 AND (r.outcome = 0 OR (r.outcome = 4 AND r.http_status = 202)) ORDER BY r.seq LIMIT 1";
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
    async fn fetch(&self, seqs: &[Seq]) -> Result<Vec<Found>, DatabaseError> {
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
    stream.is_ok_and(|stream| (request.wanted)(stream, action_of(row)))
}

fn action_of(row: &PgRow) -> Action {
    action(row.try_get::<i16, _>("outcome").ok().map(i64::from))
}

/// Checks a payload and makes an entry of it.
pub(super) fn read_entry(row: &PgRow) -> Result<Arc<Entry>, String> {
    let stored = || -> Result<_, sqlx::Error> {
        Ok(Stored {
            seq: Seq::from_column(row.try_get("seq")?),
            crc32: row.try_get("crc32")?,
            items: row.try_get("items")?,
            request_id: Ok(row.try_get("request_id")?),
            stream: row.try_get("stream")?,
            received_at: Unix::from_column(row.try_get("received_ms")?),
            arrived: Some(Lived::from_column(row.try_get("arrived_ms")?)),
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(action_of(row))
}
