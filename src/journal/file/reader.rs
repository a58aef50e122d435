//! Reading entries back, for the lanes: from memory where it reaches back far enough, else from the file.
//!
//! **Invariant**: an unreadable payload never blocks delivery; it is returned separately.

mod places;

use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, ValueRef};
use uuid::Uuid;

use super::payloads::{self, CRC32_MAX, REMOVALS, Record};
use super::schema::ACCEPTED;
use super::{File, timeline};
use crate::log::Outcome;
use crate::origin::Origin;
use crate::reader::{Found, Look, Stored, action};
use crate::{ReadRequest, StorageError, Taken};
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::Items;
use item::batch::{Action, Entry};
pub(super) use places::first_from;
use places::{Place, in_damaged, place_at};

/// What waits, without the payloads themselves: their size says how many fit. What was quarantined has
/// none, and is listed as far as the rows of payloads reach: a group may have numbers on either side of it.
const SELECT_WAITING: &str = "SELECT w.*, r.stream, r.outcome FROM (
         SELECT * FROM (SELECT seq, length(items) AS bytes, crc32, coalesce(length(request), 0) AS request_bytes,
             CASE WHEN crc32 > 4294967295 THEN request END AS directory
             FROM payloads WHERE seq > ?1 ORDER BY seq LIMIT ?2)
         UNION ALL SELECT seq, NULL, 0, 0, NULL FROM quarantine WHERE seq > ?1 AND seq <= coalesce(
             (SELECT seq FROM payloads WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET ?2 - 1), 9223372036854775807)
     ) w LEFT JOIN requests r ON r.seq = w.seq";
const SELECT_QUARANTINED: &str = "SELECT q.seq, q.reason, r.stream, r.outcome FROM quarantine q \
     JOIN requests r ON r.seq = q.seq WHERE q.seq > ? AND q.seq <= ? ORDER BY q.seq";
/// Rows with requests that only remove, and others whose encoding can say that an item is a removal. Of a group all of it.
fn with_removals() -> String {
    let with_flags = Items::WITH_FLAGS.map(|byte| format!("x'{byte:02x}'"));
    format!(
        "SELECT p.seq, p.crc32, CASE WHEN p.crc32 > {CRC32_MAX} THEN p.request END AS directory
         FROM payloads p LEFT JOIN requests r ON r.seq = p.seq
         WHERE p.seq > ? AND (p.crc32 >= {REMOVALS} OR (
             p.crc32 <= {CRC32_MAX} AND (r.outcome = {} OR (r.seq IS NOT NULL AND substr(p.items, 1, 1) IN ({})))))
         ORDER BY p.seq LIMIT {FETCHED_MAX}",
        Outcome::Removed.code(),
        with_flags.join(", "),
    )
}

/// The rows that have the payloads of a list of numbers.
fn select_entries() -> String {
    format!(
        "SELECT p.seq, p.crc32, p.items, p.request, r.request_id, r.stream, r.received_ms, r.outcome, ({}) AS arrived_ms
         FROM payloads p LEFT JOIN requests r ON r.seq = p.seq WHERE p.seq IN (
             SELECT (SELECT min(seq) FROM payloads WHERE seq >= one.value) FROM json_each(?) one) ORDER BY p.seq",
        timeline::REACHED.replace("?1", "p.seq")
    )
}

/// What is wrong with each payload of such a group.
const DAMAGED_GROUP: &str =
    "the list of the payloads stored together with this one does not match its checksum";

/// Payloads fetched by one statement: the groups that they are in are read whole. So a page of payloads takes bounded
/// memory.
const FETCHED_MAX: usize = 64;
/// So many times the rows that are looked at in one step may be what they hold.
const PER_ROW: u32 = 4;

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
        let rows = sqlx::query(sqlx::AssertSqlSafe(with_removals()))
            .bind(seq.to_column())
            .fetch_all(&*self.lane_reads)
            .await?;
        let mut seqs = Vec::new();
        for row in &rows {
            seqs.extend(Place::of(row)?.seqs().into_iter().filter(|one| *one > seq));
        }
        let Some(last) = seqs.last().copied() else {
            return Ok(None);
        };
        let mut entries = self.read_many(&seqs).await?;
        entries.retain(|entry| entry.items.removals() > 0);
        Ok(Some((entries, last)))
    }

    pub(crate) async fn has_released_after(&self, seq: Seq) -> Result<bool, StorageError> {
        let sql = format!(
            "SELECT r.seq, EXISTS (SELECT 1 FROM quarantine q WHERE q.seq = r.seq)
             FROM requests r WHERE r.seq > ? AND {ACCEPTED} ORDER BY r.seq LIMIT 1"
        );
        let oldest: Option<(i64, bool)> = sqlx::query_as(sqlx::AssertSqlSafe(sql))
            .bind(seq.to_column())
            .fetch_optional(&*self.lane_reads)
            .await?;
        let Some((oldest, false)) = oldest else {
            return Ok(false);
        };
        let oldest = Seq::from_column(oldest);
        let place = place_at(&self.lane_reads, oldest).await?;
        Ok(place.is_none_or(|place| !place.may_have(oldest)))
    }

    pub(crate) async fn oldest_kept(&self) -> Result<Option<Seq>, StorageError> {
        first_from(&self.lane_reads, Seq::MIN).await
    }
}

/// The quarantine is asked last, because another lane may have moved a payload there in between.
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

/// What is to be known of a payload before it is fetched.
struct Waiting {
    seq: Seq,
    /// None: it was quarantined, or nobody wants it.
    bytes: Option<i64>,
}

/// Looks at so many entries more, or some more than that; true if the batch may go on behind them. Sizes come first, so
/// that no payload is read that does not fit into the batch.
async fn look_on(
    look: &mut Look,
    reads: &sqlx::SqlitePool,
    request: &ReadRequest<'_>,
    step: u32,
) -> Result<bool, StorageError> {
    let rows_max = step / PER_ROW;
    let rows = sqlx::query(SELECT_WAITING)
        .bind(look.through.to_column())
        .bind(rows_max)
        .fetch_all(reads)
        .await?;
    let mut waiting = Vec::new();
    let mut payload_rows = 0;
    for row in &rows {
        payload_rows += u32::from(row.try_get::<Option<i64>, _>("bytes")?.is_some());
        note_row(&mut waiting, reads, request, row).await?;
    }
    waiting.sort_unstable_by_key(|one| one.seq);
    let through = look.through;
    for Waiting { seq, bytes } in waiting.into_iter().filter(|one| one.seq > through) {
        if !look.note(request, seq, bytes) {
            return Ok(false);
        }
    }
    Ok(payload_rows == rows_max && step < *Look::STEPS.end())
}

/// Adds what a row has that waits.
async fn note_row(
    waiting: &mut Vec<Waiting>,
    reads: &sqlx::SqlitePool,
    request: &ReadRequest<'_>,
    row: &SqliteRow,
) -> Result<(), StorageError> {
    let seq = Seq::from_column(row.try_get("seq")?);
    let bytes: Option<i64> = row.try_get("bytes")?;
    let Some(directory) = row.try_get::<Option<&[u8]>, _>("directory")? else {
        // A name that cannot be read is nobody's; the entry is looked at when it is fetched.
        let stream: Option<&str> = row.try_get("stream").ok();
        let is_wanted = stream.is_none_or(|stream| (request.wanted)(stream, action_of(row)));
        // A payload without a log entry is delivered to nobody.
        if bytes.is_none() || !row.try_get_raw("outcome")?.is_null() {
            let bytes = bytes.filter(|_| is_wanted);
            waiting.push(Waiting { seq, bytes });
        }
        return Ok(());
    };
    let crc32 = row.try_get("crc32")?;
    if let Some(records) = payloads::records(crc32, directory) {
        waiting.extend(records.iter().map(|record| {
            let origin = Origin::unpack(record.origin);
            let is_wanted = origin.is_none_or(|origin| {
                (request.wanted)(&origin.stream, origin.outcome.action().unwrap_or_default())
            });
            let bytes = i64::try_from(record.at.len()).unwrap_or(i64::MAX);
            Waiting {
                seq: record.seq,
                bytes: Some(bytes).filter(|_| is_wanted),
            }
        }));
        return Ok(());
    }
    let listed = in_damaged(reads, seq, row.try_get("request_bytes")?).await?;
    if listed.last().is_none_or(|(last, ..)| *last != seq) {
        // The row is passed even if the log knows nothing of it.
        waiting.push(Waiting { seq, bytes: None });
    }
    for (seq, stream, outcome) in listed {
        let is_wanted = (request.wanted)(&stream, action(Some(outcome)));
        let bytes = Some(0).filter(|_| is_wanted);
        waiting.push(Waiting { seq, bytes });
    }
    Ok(())
}

/// Entries by their sequence numbers, which rise, in that order, each with what is wrong with it if it cannot be
/// read. Those that are gone are left out.
async fn read_many(reads: &sqlx::SqlitePool, seqs: &[Seq]) -> Result<Vec<Found>, StorageError> {
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    let mut found = Vec::with_capacity(seqs.len());
    for chunk in sorted.chunks(FETCHED_MAX) {
        fetch(&mut found, reads, chunk).await?;
    }
    Ok(found)
}

/// Adds the entries of some numbers, which rise.
async fn fetch(
    found: &mut Vec<Found>,
    reads: &sqlx::SqlitePool,
    seqs: &[Seq],
) -> Result<(), StorageError> {
    let list: Vec<i64> = seqs.iter().map(|seq| seq.to_column()).collect();
    let rows = sqlx::query(sqlx::AssertSqlSafe(select_entries()))
        .bind(serde_json::Value::from(list).to_string())
        .fetch_all(reads)
        .await?;
    for row in &rows {
        let key = Seq::from_column(row.try_get("seq")?);
        let crc32: i64 = row.try_get("crc32")?;
        let request: Option<&[u8]> = row.try_get("request").ok().flatten();
        let (mut damaged, mut group) = (false, None);
        if payloads::is_group(crc32) {
            group = payloads::records(crc32, request.unwrap_or_default());
            damaged = group.is_none();
        } else if payloads::was_group(request) {
            let items: &[u8] = row.try_get("items")?;
            damaged = i64::from(crc32fast::hash(items)) != crc32;
        }
        if damaged {
            let bytes = request.map_or(0, <[u8]>::len).cast_signed() as i64;
            for (seq, ..) in in_damaged(reads, key, bytes).await? {
                if seqs.binary_search(&seq).is_ok() {
                    found.push((seq, Err(DAMAGED_GROUP.to_owned())));
                }
            }
        } else if let Some(group) = group {
            let is_asked = |record: &&Record<'_>| seqs.binary_search(&record.seq).is_ok();
            for record in group.iter().filter(is_asked) {
                found.push((record.seq, read_record(row, record)));
            }
        } else if seqs.binary_search(&key).is_ok() && !row.try_get_raw("outcome")?.is_null() {
            found.push((key, read_entry(row)));
        }
    }
    Ok(())
}

/// Checks a payload of a group and makes an entry of it. All of a group arrived between the same two points in time.
fn read_record(row: &SqliteRow, record: &Record<'_>) -> Result<Arc<Entry>, String> {
    let origin =
        Origin::unpack(record.origin).ok_or("the origin of the payload cannot be decoded")?;
    let stored = || -> Result<_, sqlx::Error> {
        let items: &[u8] = row.try_get("items")?;
        Ok(Stored {
            seq: record.seq,
            crc32: record.crc32.into(),
            items: items.get(record.at.clone()).unwrap_or_default().to_vec(),
            request_id: Ok(origin.request_id),
            stream: origin.stream,
            received_at: origin.received_at,
            arrived: arrived(row)?,
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(origin.outcome.action().unwrap_or_default())
}

fn arrived(row: &SqliteRow) -> Result<Option<Lived>, sqlx::Error> {
    let arrived: Option<i64> = row.try_get("arrived_ms")?;
    Ok(arrived.map(Lived::from_column))
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
            arrived: arrived(row)?,
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(action_of(row))
}
