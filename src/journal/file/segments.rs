//! Stretches of the request log: what is known of so many consecutive entries together, in place of indexes over each.
//!
//! By their times a page finds a time, by the times in their ids an entry is found by its id, by their marks
//! (`journal/file/segment_index.rs`) those of a connector; their bytes are the log's size. The writer closes a stretch in the
//! transaction of its last entry; what it knows of the entries since then is in memory, and read from the file again after
//! a start, or when a transaction was rolled back.
//!
//! An id that is much older than those before it, of a slow body or after a clock was set back, would have a stretch reach
//! over many others: it stands in a table of its own.
//!
//! **Invariant**: an entry is in a closed stretch, or behind them all. The stretch's times include its own; those of the
//! ids include that of its id, or its id is in `log_late`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::segment_index;
use crate::log::{LogEntry, Outcome};
use base::clock::{self, Unix};
use base::order::Seq;

/// Entries of a stretch: each costs the accept path a thousandth of what closing it costs.
pub(super) const SPAN_ENTRIES: u32 = 1_000;
/// Entries that a start takes up in one transaction.
const TAKEN_UP_AT_ONCE: u32 = 100_000;
/// How much older than those of the stretch before an id may be. An ID is given before the body is read, so that an
/// ordinary body must not make it late.
const LATE: Duration = Duration::from_secs(1);
/// What the times of a stretch's ids differ by is rounded up to one of these: of each, few reach over the same moment.
pub(super) const WITHIN_MS: [u64; 14] = within();

/// What an entry takes in the file beside its texts: numbers, ids, its share of pages and marks.
const ENTRY_BYTES: u64 = 55;

const fn within() -> [u64; 14] {
    let mut all = [1_000; 14];
    let mut at = 1;
    while at < all.len() {
        all[at] = all[at - 1] * 8;
        at += 1;
    }
    all
}

/// What is known of the stretch that is not closed yet.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// None: it is in the file only.
    open: Option<OpenSegment>,
}

/// What a stretch is made of.
struct Entry<'a> {
    seq: Seq,
    request_id: &'a [u8],
    received_at: Unix,
    connector: &'a str,
    outcome: Outcome,
    bytes: u64,
    sent_again_from: Option<&'a [u8]>,
}

impl Segments {
    /// Takes up every entry behind the last closed stretch, however many there are.
    pub(super) fn open(connection: &Connection) -> Result<Self, rusqlite::Error> {
        Self::open_in_parts(connection, TAKEN_UP_AT_ONCE)
    }

    /// So many entries in one transaction: a start that is broken off goes on there. More than a stretch has.
    fn open_in_parts(connection: &Connection, at_once: u32) -> Result<Self, rusqlite::Error> {
        loop {
            sqlite::begin(connection)?;
            let (open, entries) = OpenSegment::read(connection, i64::MAX, at_once)?;
            sqlite::commit(connection)?;
            if entries < at_once {
                return Ok(Self { open: Some(open) });
            }
        }
    }

    /// Part of the transaction that writes the entry, after it.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        seq: Seq,
        entry: &LogEntry,
        client: &str,
    ) -> Result<(), rusqlite::Error> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let (open, _) = OpenSegment::read(connection, seq.to_column(), u32::MAX)?;
                self.open.insert(open)
            }
        };
        let texts = entry.connector.len() + entry.stream.len() + entry.key.len() + client.len();
        let from = entry.sent_again_from.as_ref();
        open.add(
            connection,
            &Entry {
                seq,
                request_id: entry.request_id.as_bytes(),
                received_at: entry.received_at,
                connector: &entry.connector,
                outcome: entry.outcome,
                bytes: ENTRY_BYTES + (texts + entry.byte_len()) as u64,
                sent_again_from: from.map(|id| &id.as_bytes()[..]),
            },
        )
    }

    /// The writer rolled a transaction back: what was added in it is not there. It is read from the file again, because
    /// nothing notes what a transaction added.
    pub(super) fn rolled_back(&mut self) {
        self.open = None;
    }

    /// The position up to which entries must go so that about `bytes_max` bytes are left; 0 if none must.
    pub(super) fn excess(
        &self,
        connection: &Connection,
        bytes_max: u64,
    ) -> Result<Seq, rusqlite::Error> {
        let closed: i64 = connection
            .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM log_spans")?
            .query_row([], |row| row.get(0))?;
        let open = self.open.as_ref().map_or(0, |open| open.bytes);
        let mut bytes = closed.unsigned_abs() + open;
        let mut excess = Seq::MIN;
        if bytes <= bytes_max {
            return Ok(excess);
        }
        let mut oldest = connection
            .prepare_cached("SELECT last_seq, bytes FROM log_spans ORDER BY first_seq")?;
        let mut oldest = oldest.query([])?;
        while bytes > bytes_max
            && let Some(row) = oldest.next()?
        {
            excess = Seq::from_column(row.get(0)?);
            bytes = bytes.saturating_sub(row.get::<_, i64>(1)?.unsigned_abs());
        }
        Ok(excess)
    }
}

#[derive(Debug, Default)]
struct OpenSegment {
    entries: u32,
    first_seq: Seq,
    last_seq: Seq,
    oldest: Unix,
    newest: Unix,
    bytes: u64,
    /// The times of ids that are not late: the oldest and the newest.
    ids: Option<(Unix, Unix)>,
    newest_id: Unix,
    /// The newest id of the stretch before.
    before: Unix,
    /// Of each connector the places of its entries behind the first, by outcomes.
    places: HashMap<Arc<str>, [Vec<u16>; Outcome::ALL.len()]>,
    /// The same of all connectors, without those that were accepted.
    others: [Vec<u16>; Outcome::ALL.len()],
}

impl OpenSegment {
    /// Of the entries below a position that are behind the last closed stretch, and how many that are, at most so many. If
    /// they are many they become stretches.
    fn read(
        connection: &Connection,
        below: i64,
        limit: u32,
    ) -> Result<(Self, u32), rusqlite::Error> {
        let newest = "SELECT newest_id_ms FROM log_spans ORDER BY first_seq DESC LIMIT 1";
        let before = (connection.prepare(newest)?.query([])?.next()?)
            .map_or(Ok(0), |row| row.get::<_, i64>(0))?;
        let mut open = Self {
            before: Unix::from_column(before),
            ..Self::default()
        };
        let sql = format!(
            "SELECT seq, request_id, received_ms, connector, outcome, sent_again_from,
                 {ENTRY_BYTES} + octet_length(connector) + octet_length(stream)
                 + octet_length(key) + octet_length(client) + coalesce(octet_length(item_key), 0)
                 + coalesce(octet_length(idempotency_key), 0) + coalesce(octet_length(errors), 0)
                 + coalesce(octet_length(headers), 0)
             FROM requests WHERE seq > {} AND seq < ?1 ORDER BY seq LIMIT ?2",
            segment_index::CLOSED
        );
        let mut entries = connection.prepare(&sql)?;
        let mut entries = entries.query([below, i64::from(limit)])?;
        let mut read = 0;
        while let Some(row) = entries.next()? {
            read += 1;
            // What is no number, or no text, keeps nobody from starting.
            let number = |at| -> Result<i64, rusqlite::Error> {
                Ok(row.get_ref(at)?.as_i64().unwrap_or_default())
            };
            let bytes = |at| -> Result<&[u8], rusqlite::Error> {
                Ok(row.get_ref(at)?.as_bytes().unwrap_or_default())
            };
            let entry = Entry {
                seq: Seq::from_column(number(0)?),
                request_id: bytes(1)?,
                received_at: Unix::from_column(number(2)?),
                connector: &String::from_utf8_lossy(bytes(3)?),
                outcome: Outcome::from_code(number(4)?),
                sent_again_from: row.get_ref(5)?.as_bytes().ok(),
                bytes: number(6)?.unsigned_abs(),
            };
            open.add(connection, &entry)?;
        }
        Ok((open, read))
    }

    fn add(&mut self, connection: &Connection, entry: &Entry<'_>) -> Result<(), rusqlite::Error> {
        // Numbers were skipped: a stretch does not reach over them.
        if self.entries > 0 && entry.seq - self.first_seq > u64::from(u16::MAX) {
            self.close(connection)?;
        }
        if self.entries == 0 {
            self.first_seq = entry.seq;
            (self.oldest, self.newest) = (entry.received_at, entry.received_at);
        }
        self.entries += 1;
        self.last_seq = entry.seq;
        self.oldest = self.oldest.min(entry.received_at);
        self.newest = self.newest.max(entry.received_at);
        self.bytes += entry.bytes;
        self.mark(entry);
        self.id(connection, entry)?;
        if let Some(from) = entry.sent_again_from {
            connection
                .prepare_cached(
                    "INSERT OR IGNORE INTO log_sent_again (seq, sent_again_from) VALUES (?1, ?2)",
                )?
                .execute(rusqlite::params![entry.seq.to_column(), from])?;
        }
        match self.entries < SPAN_ENTRIES {
            true => Ok(()),
            false => self.close(connection),
        }
    }

    fn mark(&mut self, entry: &Entry<'_>) {
        let place = u16::try_from(entry.seq - self.first_seq).unwrap_or(u16::MAX);
        let outcome = entry.outcome.index();
        match self.places.get_mut(entry.connector) {
            Some(places) => places[outcome].push(place),
            None => {
                let mut places = <[Vec<u16>; Outcome::ALL.len()]>::default();
                places[outcome].push(place);
                self.places.insert(entry.connector.into(), places);
            }
        }
        if entry.outcome != Outcome::Accepted {
            self.others[outcome].push(place);
        }
    }

    fn id(&mut self, connection: &Connection, entry: &Entry<'_>) -> Result<(), rusqlite::Error> {
        let at = id_time(entry.request_id);
        self.newest_id = self.newest_id.max(at);
        if at + LATE >= self.before {
            let (oldest, newest) = self.ids.unwrap_or((at, at));
            self.ids = Some((oldest.min(at), newest.max(at)));
            return Ok(());
        }
        connection
            .prepare_cached("INSERT OR IGNORE INTO log_late (seq, request_id) VALUES (?1, ?2)")?
            .execute(rusqlite::params![entry.seq.to_column(), entry.request_id])?;
        Ok(())
    }

    /// Writes what is known of it, and begins the next.
    fn close(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let mut named = Vec::new();
        let connectors = (self.places.iter()).map(|(name, places)| (&**name, places));
        for (connector, places) in connectors.chain([(segment_index::EVERY, &self.others)]) {
            for (outcome, places) in Outcome::ALL.into_iter().zip(places) {
                if !places.is_empty() {
                    segment_index::write(connection, connector, outcome, self.first_seq, places)?;
                    named.push((connector, outcome.code()));
                }
            }
        }
        let width = self
            .ids
            .map_or(0, |(oldest, newest)| clock::millis(newest - oldest));
        let within = (WITHIN_MS.into_iter()).find(|within| width <= *within);
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO log_spans
                     (first_seq, last_seq, min_ms, max_ms, bytes, oldest_id_ms, newest_id_ms, ids_within_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(rusqlite::params![
                self.first_seq.to_column(),
                self.last_seq.to_column(),
                self.oldest.to_column(),
                self.newest.to_column(),
                self.bytes.cast_signed(),
                self.ids.map(|(oldest, _)| oldest.to_column()),
                self.newest_id.to_column(),
                within.unwrap_or(WITHIN_MS[WITHIN_MS.len() - 1]).cast_signed(),
            ])?;
        // Stretches are added up and looked through often: what only their end asks for stands beside them.
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO log_mark_names (first_seq, names) VALUES (?1, ?2)",
            )?
            .execute(rusqlite::params![
                self.first_seq.to_column(),
                serde_json::to_string(&named).unwrap_or_default(),
            ])?;
        *self = Self {
            before: self.newest_id,
            ..Self::default()
        };
        Ok(())
    }
}

/// When an id was given, as the first bytes of a UUIDv7 say.
pub(super) fn id_time(id: &[u8]) -> Unix {
    let first = id.iter().take(6).copied();
    Unix::from_ms(first.fold(0, |time, byte| (time << 8) | u64::from(byte)))
}

/// Marks are found by the names that their stretch had: they stand in the order of connectors. Without the names, each
/// stretch would need a scan of all marks.
const FORGET: [&str; 5] = [
    "DELETE FROM log_marks WHERE (connector, outcome, first_seq) IN (
         SELECT mark.value ->> 0, mark.value ->> 1, s.first_seq
         FROM log_spans s CROSS JOIN log_mark_names n ON n.first_seq = s.first_seq
             CROSS JOIN json_each(iif(json_valid(n.names), n.names, '[]')) AS mark
         WHERE s.first_seq < (SELECT min(seq) FROM requests) AND s.last_seq < (SELECT min(seq) FROM requests))",
    "DELETE FROM log_mark_names WHERE first_seq IN (
         SELECT first_seq FROM log_spans WHERE first_seq < (SELECT min(seq) FROM requests)
             AND last_seq < (SELECT min(seq) FROM requests))",
    "DELETE FROM log_spans WHERE first_seq < (SELECT min(seq) FROM requests)
         AND last_seq < (SELECT min(seq) FROM requests)",
    "DELETE FROM log_late WHERE seq < (SELECT min(seq) FROM requests)",
    "DELETE FROM log_sent_again WHERE seq < (SELECT min(seq) FROM requests)",
];

/// Forgets the stretches whose entries are gone, and what belongs to them.
pub(super) fn forget(connection: &Connection) -> Result<(), rusqlite::Error> {
    (FORGET.into_iter()).try_for_each(|sql| sqlite::execute(connection, sql))
}

#[cfg(test)]
mod tests;
