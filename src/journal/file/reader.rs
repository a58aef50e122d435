//! Reading entries back, for the lanes: from memory where it reaches back far enough, else from the file.
//!
//! **Invariant**: an unreadable payload never blocks delivery; it is returned separately.

use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};
use uuid::Uuid;

use super::schema::ACCEPTED;
use super::{File, timeline};
use crate::log::Outcome;
use crate::reader::{Found, Look, Stored, action};
use crate::{ReadRequest, StorageError, Taken};
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::Items;
use item::batch::{Action, Entry};

/// What waits, without the payloads themselves: their size says how many fit. What was quarantined has
/// none.
const SELECT_WAITING: &str = "SELECT w.seq, w.bytes, r.stream, r.outcome FROM (
         SELECT seq, length(items) AS bytes FROM payloads WHERE seq > ?1
         UNION ALL SELECT seq, NULL FROM quarantine WHERE seq > ?1 ORDER BY seq LIMIT ?2
     ) w JOIN requests r ON r.seq = w.seq ORDER BY w.seq";
const SELECT_QUARANTINED: &str = "SELECT q.seq, q.reason, r.stream, r.outcome FROM quarantine q \
     JOIN requests r ON r.seq = q.seq WHERE q.seq > ? AND q.seq <= ? ORDER BY q.seq";
/// Requests that only remove, and others whose encoding can say that an item is a removal.
fn with_removals() -> String {
    let with_flags = Items::WITH_FLAGS.map(|byte| format!("x'{byte:02x}'"));
    format!(
        "SELECT p.seq FROM payloads p JOIN requests r ON r.seq = p.seq
         WHERE p.seq > ? AND (r.outcome = {} OR substr(p.items, 1, 1) IN ({}))
         ORDER BY p.seq LIMIT {FETCHED_MAX}",
        Outcome::Removed.code(),
        with_flags.join(", "),
    )
}

/// Entries; the list of their numbers follows.
fn select_entries() -> String {
    format!(
        "SELECT p.seq, p.crc32, p.items, r.request_id, r.stream, r.received_ms, r.outcome, ({}) AS arrived_ms
         FROM payloads p JOIN requests r ON r.seq = p.seq WHERE p.seq IN (",
        timeline::REACHED.replace("?1", "p.seq")
    )
}

/// Payloads fetched by one statement.
const FETCHED_MAX: usize = 500;

impl File {
    pub(crate) async fn read_after(
        &self,
        request: &ReadRequest<'_>,
    ) -> Result<Taken, StorageError> {
        read_after(&self.lane_reads, request).await
    }

    pub(crate) async fn entry(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StorageError> {
        let found = read_many(&self.reads, &[seq]).await?;
        Ok(found.into_iter().find_map(|(_, entry)| entry.ok()))
    }

    pub(crate) async fn read_many(&self, seqs: &[Seq]) -> Result<Vec<Arc<Entry>>, StorageError> {
        let found = read_many(&self.lane_reads, seqs).await?;
        let entries = found.into_iter().filter_map(|(_, entry)| entry.ok());
        Ok(entries.collect())
    }

    pub(crate) async fn removals_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Vec<Arc<Entry>>, Seq)>, StorageError> {
        let found: Vec<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(with_removals()))
            .bind(seq.to_column())
            .fetch_all(&*self.lane_reads)
            .await?;
        let seqs: Vec<Seq> = found.into_iter().map(Seq::from_column).collect();
        let Some(last) = seqs.last().copied() else {
            return Ok(None);
        };
        Ok(Some((self.read_many(&seqs).await?, last)))
    }

    pub(crate) async fn has_released_after(&self, seq: Seq) -> Result<bool, StorageError> {
        let sql = format!(
            "SELECT NOT EXISTS (SELECT 1 FROM payloads p WHERE p.seq = r.seq)
                AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.seq = r.seq)
             FROM requests r WHERE r.seq > ? AND {ACCEPTED} ORDER BY r.seq LIMIT 1"
        );
        let released: Option<bool> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(seq.to_column())
            .fetch_optional(&*self.lane_reads)
            .await?;
        Ok(released.unwrap_or(false))
    }

    pub(crate) async fn oldest_kept(&self) -> Result<Option<Seq>, StorageError> {
        let oldest: Option<i64> = sqlx::query_scalar("SELECT min(seq) FROM payloads")
            .fetch_one(&*self.lane_reads)
            .await?;
        Ok(oldest.map(Seq::from_column))
    }
}

async fn read_after(
    reads: &sqlx::SqlitePool,
    request: &ReadRequest<'_>,
) -> Result<Taken, StorageError> {
    let mut look = Look::after(request.after);
    let mut step = *Look::STEPS.start();
    while look_on(&mut look, reads, request, step).await? {
        step = step.saturating_mul(4);
    }
    let found = read_many(reads, &look.wanted).await?;
    let mut taken = Taken::of(request, look.through, found);
    // After the payloads: another lane may have put one aside in between.
    let quarantined = sqlx::query(SELECT_QUARANTINED)
        .bind(request.after.to_column())
        .bind(taken.through.to_column())
        .fetch_all(reads)
        .await?;
    for row in quarantined {
        if row
            .try_get::<&str, _>("stream")
            .is_ok_and(|stream| (request.wanted)(stream, action_of(&row)))
        {
            taken.add_quarantined(
                Seq::from_column(row.try_get("seq")?),
                row.try_get("reason")?,
            );
        }
    }
    Ok(taken)
}

/// Looks at so many entries more; true if the batch may go on behind them.
async fn look_on(
    look: &mut Look,
    reads: &sqlx::SqlitePool,
    request: &ReadRequest<'_>,
    step: u32,
) -> Result<bool, StorageError> {
    let rows = sqlx::query(SELECT_WAITING)
        .bind(look.through.to_column())
        .bind(step)
        .fetch_all(reads)
        .await?;
    for row in &rows {
        // A name that cannot be read is nobody's; the entry is looked at when it is fetched.
        let stream: Option<&str> = row.try_get("stream").ok();
        let is_wanted = stream.is_none_or(|stream| (request.wanted)(stream, action_of(row)));
        let bytes: Option<i64> = row.try_get("bytes")?;
        let seq = Seq::from_column(row.try_get("seq")?);
        if !look.note(request, seq, bytes.filter(|_| is_wanted)) {
            return Ok(false);
        }
    }
    Ok(rows.len() == step as usize && step < *Look::STEPS.end())
}

/// Entries by their sequence numbers, in that order, each with what is wrong with it if it cannot be
/// read. Those that are gone are left out.
async fn read_many(reads: &sqlx::SqlitePool, seqs: &[Seq]) -> Result<Vec<Found>, StorageError> {
    let mut found = Vec::with_capacity(seqs.len());
    for chunk in seqs.chunks(FETCHED_MAX) {
        found.extend(fetch(reads, chunk).await?);
    }
    Ok(found)
}

async fn fetch(reads: &sqlx::SqlitePool, seqs: &[Seq]) -> Result<Vec<Found>, sqlx::Error> {
    let mut query = QueryBuilder::<Sqlite>::new(select_entries());
    let mut list = query.separated(", ");
    for seq in seqs {
        list.push_bind(seq.to_column());
    }
    query.push(") ORDER BY p.seq");
    let rows = query.build().persistent(false).fetch_all(reads).await?;
    rows.iter()
        .map(|row| {
            let seq = Seq::from_column(row.try_get("seq")?);
            Ok((seq, read_entry(row)))
        })
        .collect()
}

fn action_of(row: &SqliteRow) -> Action {
    action(row.try_get("outcome").ok())
}

/// Checks a payload and makes an entry of it.
fn read_entry(row: &SqliteRow) -> Result<Arc<Entry>, String> {
    let stored = || -> Result<_, sqlx::Error> {
        Ok(Stored {
            seq: Seq::from_column(row.try_get("seq")?),
            crc32: row.try_get("crc32")?,
            items: row.try_get("items")?,
            request_id: Uuid::from_slice(row.try_get("request_id")?),
            stream: row.try_get("stream")?,
            received_at: Unix::from_column(row.try_get("received_ms")?),
            arrived: row
                .try_get::<Option<i64>, _>("arrived_ms")?
                .map(Lived::from_column),
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(action_of(row))
}
