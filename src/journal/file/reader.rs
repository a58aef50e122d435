//! Reading entries back, for the lanes: from memory where it reaches back far enough, else from the file.
//!
//! **Invariant**: an unreadable payload never blocks delivery; it is returned separately.

mod places;

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension as _, Row};
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
use places::{Place, checksum, in_damaged, place_at};
use sqlite::Readers;

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
        let read = (self.reads).read(move |connection| read_many(connection, &[seq]));
        let found = read.await?;
        Ok(found.into_iter().find_map(|(_, entry)| entry.ok()))
    }

    pub(crate) async fn read_many(&self, seqs: &[Seq]) -> Result<Vec<Arc<Entry>>, StorageError> {
        let seqs = seqs.to_vec();
        let read = (self.lane_reads).read(move |connection| read_many(connection, &seqs));
        let entries = read.await?.into_iter().filter_map(|(_, entry)| entry.ok());
        Ok(entries.collect())
    }

    pub(crate) async fn removals_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Vec<Arc<Entry>>, Seq)>, StorageError> {
        let read = (self.lane_reads).read(move |connection| removals_after(connection, seq));
        Ok(read.await?)
    }

    pub(crate) async fn has_released_after(&self, seq: Seq) -> Result<bool, StorageError> {
        let read = (self.lane_reads).read(move |connection| has_released_after(connection, seq));
        Ok(read.await?)
    }

    pub(crate) async fn oldest_kept(&self) -> Result<Option<Seq>, StorageError> {
        let read = (self.lane_reads).read(|connection| first_from(connection, Seq::MIN));
        Ok(read.await?)
    }
}

/// Requests that remove items, and the last number that was looked at.
type Removing = (Vec<Arc<Entry>>, Seq);

fn removals_after(connection: &Connection, seq: Seq) -> Result<Option<Removing>, Error> {
    let mut statement = connection.prepare_cached(&with_removals())?;
    let mut rows = statement.query([seq.to_column()])?;
    let mut seqs = Vec::new();
    while let Some(row) = rows.next()? {
        seqs.extend(Place::of(row)?.seqs().into_iter().filter(|one| *one > seq));
    }
    let Some(last) = seqs.last().copied() else {
        return Ok(None);
    };
    let found = read_many(connection, &seqs)?;
    let entries = found.into_iter().filter_map(|(_, entry)| entry.ok());
    let removals = entries.filter(|entry| entry.items.removals() > 0);
    Ok(Some((removals.collect(), last)))
}

fn has_released_after(connection: &Connection, seq: Seq) -> Result<bool, Error> {
    let sql = format!(
        "SELECT r.seq, EXISTS (SELECT 1 FROM quarantine q WHERE q.seq = r.seq)
         FROM requests r WHERE r.seq > ? AND {ACCEPTED} ORDER BY r.seq LIMIT 1"
    );
    let oldest = connection
        .prepare_cached(&sql)?
        .query_row([seq.to_column()], |row| {
            Ok((Seq::from_column(row.get(0)?), row.get(1)?))
        })
        .optional()?;
    let Some((oldest, false)) = oldest else {
        return Ok(false);
    };
    let place = place_at(connection, oldest)?;
    Ok(place.is_none_or(|place| !place.may_have(oldest)))
}

/// The quarantine is asked last, because another lane may have moved a payload there in between.
async fn read_after(reads: &Readers, request: &ReadRequest<'_>) -> Result<Taken, StorageError> {
    let mut look = Look::after(request.after);
    let mut step = *Look::STEPS.start();
    while look_on(&mut look, reads, request, step).await? {
        step = step.saturating_mul(4);
    }
    let (after, through, wanted) = (request.after, look.through, look.wanted);
    let read = reads.read(move |connection| -> Result<_, Error> {
        let found = read_many(connection, &wanted)?;
        // After the payloads: another lane may have put one aside in between.
        Ok((found, quarantined(connection, after, through)?))
    });
    let (found, quarantined) = read.await?;
    let mut taken = Taken::of(request, through, found);
    for one in quarantined {
        if one.seq <= taken.through && (request.wanted)(&one.stream, one.action) {
            taken.add_quarantined(one.seq, one.reason?);
        }
    }
    Ok(taken)
}

/// A request whose payload was put aside.
struct Quarantined {
    seq: Seq,
    stream: String,
    action: Action,
    reason: Result<String, Error>,
}

/// Without those whose stream cannot be read.
fn quarantined(
    connection: &Connection,
    after: Seq,
    through: Seq,
) -> Result<Vec<Quarantined>, Error> {
    let mut statement = connection.prepare_cached(SELECT_QUARANTINED)?;
    let mut rows = statement.query([after.to_column(), through.to_column()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Ok(stream) = row.get(2) {
            found.push(Quarantined {
                seq: Seq::from_column(row.get(0)?),
                stream,
                action: action(row.get(3).ok()),
                reason: row.get(1),
            });
        }
    }
    Ok(found)
}

/// What is to be known of a payload before it is fetched.
struct Waiting {
    seq: Seq,
    /// None: it was quarantined.
    bytes: Option<i64>,
    /// None: it cannot be read. Nobody says then that it is not wanted.
    stream: Option<String>,
    action: Action,
}

/// Looks at so many entries more, or some more than that; true if the batch may go on behind them. Sizes come first, so
/// that no payload is read that does not fit into the batch.
async fn look_on(
    look: &mut Look,
    reads: &Readers,
    request: &ReadRequest<'_>,
    step: u32,
) -> Result<bool, StorageError> {
    let rows_max = step / PER_ROW;
    let through = look.through;
    let read = reads.read(move |connection| waiting_after(connection, through, rows_max));
    let (waiting, payload_rows) = read.await?;
    for one in waiting.into_iter().filter(|one| one.seq > through) {
        let is_wanted = |stream: &String| (request.wanted)(stream, one.action);
        let bytes = (one.bytes).filter(|_| one.stream.as_ref().is_none_or(is_wanted));
        if !look.note(request, one.seq, bytes) {
            return Ok(false);
        }
    }
    Ok(payload_rows == rows_max && step < *Look::STEPS.end())
}

/// What waits in the next so many rows, in its order, and how many rows of payloads there were.
fn waiting_after(
    connection: &Connection,
    seq: Seq,
    rows_max: u32,
) -> Result<(Vec<Waiting>, u32), Error> {
    let mut statement = connection.prepare_cached(SELECT_WAITING)?;
    let mut rows = statement.query((seq.to_column(), rows_max))?;
    let mut waiting = Vec::new();
    let mut payload_rows = 0;
    while let Some(row) = rows.next()? {
        payload_rows += u32::from(row.get::<_, Option<i64>>(1)?.is_some());
        add_row(&mut waiting, connection, row)?;
    }
    waiting.sort_unstable_by_key(|one| one.seq);
    Ok((waiting, payload_rows))
}

/// Adds what a row has that waits.
fn add_row(
    waiting: &mut Vec<Waiting>,
    connection: &Connection,
    row: &Row<'_>,
) -> Result<(), Error> {
    let seq = Seq::from_column(row.get(0)?);
    let bytes: Option<i64> = row.get(1)?;
    let Some(directory) = row.get_ref(4)?.as_bytes_or_null()? else {
        // A payload without a log entry is delivered to nobody.
        if bytes.is_none() || row.get_ref(6)? != ValueRef::Null {
            waiting.push(Waiting {
                seq,
                bytes,
                // A name that cannot be read is nobody's; the entry is looked at when it is fetched.
                stream: row.get(5).ok(),
                action: action(row.get(6).ok()),
            });
        }
        return Ok(());
    };
    if let Some(records) = payloads::records(checksum(row, 2)?, directory) {
        waiting.extend(records.iter().map(|record| {
            let origin = Origin::unpack(record.origin);
            let action = origin.as_ref().and_then(|origin| origin.outcome.action());
            Waiting {
                seq: record.seq,
                bytes: Some(i64::try_from(record.at.len()).unwrap_or(i64::MAX)),
                stream: origin.map(|origin| origin.stream),
                action: action.unwrap_or_default(),
            }
        }));
        return Ok(());
    }
    let listed = in_damaged(connection, seq, row.get(3)?)?;
    if listed.last().is_none_or(|(last, ..)| *last != seq) {
        // The row is passed even if the log knows nothing of it.
        waiting.push(Waiting {
            seq,
            bytes: None,
            stream: None,
            action: Action::default(),
        });
    }
    waiting.extend(listed.into_iter().map(|(seq, stream, outcome)| Waiting {
        seq,
        bytes: Some(0),
        stream: Some(stream),
        action: action(Some(outcome)),
    }));
    Ok(())
}

/// Entries by their sequence numbers, which rise, in that order, each with what is wrong with it if it cannot be
/// read. Those that are gone are left out.
fn read_many(connection: &Connection, seqs: &[Seq]) -> Result<Vec<Found>, Error> {
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    let mut found = Vec::with_capacity(seqs.len());
    for chunk in sorted.chunks(FETCHED_MAX) {
        fetch(&mut found, connection, chunk)?;
    }
    Ok(found)
}

/// Adds the entries of some numbers, which rise.
fn fetch(found: &mut Vec<Found>, connection: &Connection, seqs: &[Seq]) -> Result<(), Error> {
    let list: Vec<i64> = seqs.iter().map(|seq| seq.to_column()).collect();
    let mut statement = connection.prepare_cached(&select_entries())?;
    let mut rows = statement.query([serde_json::Value::from(list).to_string()])?;
    while let Some(row) = rows.next()? {
        let key = Seq::from_column(row.get(0)?);
        let crc32 = checksum(row, 1)?;
        let request = row.get_ref(3)?.as_bytes_or_null().ok().flatten();
        let (mut damaged, mut group) = (false, None);
        if payloads::is_group(crc32) {
            group = payloads::records(crc32, request.unwrap_or_default());
            damaged = group.is_none();
        } else if payloads::was_group(request) {
            damaged = i64::from(crc32fast::hash(items(row)?)) != crc32;
        }
        if damaged {
            let bytes = request.map_or(0, <[u8]>::len).cast_signed() as i64;
            for (seq, ..) in in_damaged(connection, key, bytes)? {
                if seqs.binary_search(&seq).is_ok() {
                    found.push((seq, Err(DAMAGED_GROUP.to_owned())));
                }
            }
        } else if let Some(group) = group {
            let is_asked = |record: &&Record<'_>| seqs.binary_search(&record.seq).is_ok();
            for record in group.iter().filter(is_asked) {
                found.push((record.seq, read_record(row, record)));
            }
        } else if seqs.binary_search(&key).is_ok() && row.get_ref(7)? != ValueRef::Null {
            found.push((key, read_entry(row)));
        }
    }
    Ok(())
}

/// Checks a payload of a group and makes an entry of it. All of a group arrived between the same two points in time.
fn read_record(row: &Row<'_>, record: &Record<'_>) -> Result<Arc<Entry>, String> {
    let origin =
        Origin::unpack(record.origin).ok_or("the origin of the payload cannot be decoded")?;
    let stored = || -> Result<_, Error> {
        let items = items(row)?.get(record.at.clone());
        Ok(Stored {
            seq: record.seq,
            crc32: record.crc32.into(),
            items: items.unwrap_or_default().to_vec(),
            request_id: Ok(origin.request_id),
            stream: origin.stream,
            received_at: origin.received_at,
            arrived: arrived(row)?,
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(origin.outcome.action().unwrap_or_default())
}

fn items<'row>(row: &'row Row<'_>) -> Result<&'row [u8], Error> {
    Ok(row.get_ref(2)?.as_bytes_or_null()?.unwrap_or_default())
}

fn arrived(row: &Row<'_>) -> Result<Option<Lived>, Error> {
    let arrived: Option<i64> = row.get(8)?;
    Ok(arrived.map(Lived::from_column))
}

/// Checks a payload and makes an entry of it.
fn read_entry(row: &Row<'_>) -> Result<Arc<Entry>, String> {
    let stored = || -> Result<_, Error> {
        Ok(Stored {
            seq: Seq::from_column(row.get(0)?),
            crc32: checksum(row, 1)?,
            items: items(row)?.to_vec(),
            request_id: Uuid::from_slice(row.get_ref(4)?.as_bytes()?),
            stream: row.get(5)?,
            received_at: Unix::from_column(row.get(6)?),
            arrived: arrived(row)?,
        })
    };
    let stored = stored().map_err(|error| format!("the row cannot be read: {error}"))?;
    stored.entry(action(row.get(7).ok()))
}
