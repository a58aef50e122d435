//! Rows of the table `payloads`: one for a request, or one for several requests of a transaction.
//!
//! The writer stores them ([`Joined`]), readers and a repair take them apart ([`records`]). A row of one request has its
//! number, the checksum of its payload, the payload, and its origin. A row of several requests, a group, has the number of
//! the last one, so the first row at or behind a number is the one that may hold it. Its column `items` has the payloads one
//! behind the other, `request` a directory: [`FORMAT`], then number, checksum, length of the payload, length of the origin
//! and the origin of each. Its column `crc32` has the checksum of the directory and the bit [`GROUP`].
//!
//! **Invariant**: groups do not overlap, and the numbers of one rise. A directory that does not match its checksum is not
//! used.

mod rows;

use std::ops::Range;

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::log::{LogEntry, Outcome};
use crate::origin::Origin;
use base::order::Seq;
use item::Items;
pub(super) use rows::{quarantine, separate};

/// A group ends before it has more bytes: a page that is damaged takes all of its row with it, and a reader has all of a row
/// in memory. Larger groups save hardly more.
pub(super) const GROUP_BYTES_MAX: usize = 16 << 10;
/// The same of its directory: readers look at the directories of many rows at once.
const DIRECTORY_BYTES_MAX: usize = 8 << 10;
/// Of the column `crc32`: the row is a group. It is above the 32 bits of a checksum, so that rows of earlier formats
/// need no change.
pub(super) const GROUP: i64 = 1 << 32;
/// The same: an item of the group may be a removal. So removals are found without reading all payloads.
pub(super) const REMOVALS: i64 = 1 << 33;
/// The highest value of the column in the row of one request.
pub(super) const CRC32_MAX: i64 = GROUP - 1;
/// First byte of a directory. No origin begins with it. So a directory is known even where the checksum of the row is
/// damaged.
const FORMAT: u8 = 0xff;
/// A record of a directory without its origin.
const RECORD_BYTES: usize = 8 + 4 + 4 + 2;
const INSERT: &str = "INSERT INTO payloads (seq, crc32, items, request) VALUES (?1, ?2, ?3, ?4)";

/// A payload in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) seq: Seq,
    pub(super) crc32: u32,
    /// Where it is in `items`.
    pub(super) at: Range<usize>,
    /// Its [`Origin`].
    pub(super) origin: &'a [u8],
}

/// Whether the column `crc32` says that a row is a group.
pub(super) fn is_group(crc32: i64) -> bool {
    crc32 > CRC32_MAX
}

/// The payloads of a group, by its columns `crc32` and `request`. None: the directory is damaged.
pub(super) fn records(crc32: i64, directory: &[u8]) -> Option<Vec<Record<'_>>> {
    if crc32 & CRC32_MAX != i64::from(crc32fast::hash(directory)) || !is_group(crc32) {
        return None;
    }
    let (&FORMAT, mut rest) = directory.split_first()? else {
        return None;
    };
    let mut found: Vec<Record<'_>> = Vec::new();
    let mut at = 0;
    while !rest.is_empty() {
        let (seq, next) = rest.split_first_chunk::<8>()?;
        let (crc32, next) = next.split_first_chunk::<4>()?;
        let (bytes, next) = next.split_first_chunk::<4>()?;
        let (origin, next) = next.split_first_chunk::<2>()?;
        let (origin, next) = next.split_at_checked(usize::from(u16::from_le_bytes(*origin)))?;
        let seq = Seq::new(u64::from_le_bytes(*seq));
        let end = at + u32::from_le_bytes(*bytes) as usize;
        if found.last().is_some_and(|last| last.seq >= seq) {
            return None;
        }
        found.push(Record {
            seq,
            crc32: u32::from_le_bytes(*crc32),
            at: at..end,
            origin,
        });
        (at, rest) = (end, next);
    }
    (!found.is_empty()).then_some(found)
}

/// The most payloads that a damaged directory of so many bytes had. It bounds what a damaged row can quarantine.
pub(super) fn records_max(directory_bytes: usize) -> usize {
    // An origin has an outcome, a time, an id, and what is between two names.
    1 + directory_bytes / (RECORD_BYTES + 1 + 8 + 16 + 1)
}

/// Whether a row that says it is of one request, and whose payload does not match its checksum, may be a group that is
/// damaged.
pub(super) fn was_group(request: Option<&[u8]>) -> bool {
    request.is_some_and(|request| Origin::unpack(request).is_none())
}

/// Whether an item of a request may be a removal.
fn may_remove(outcome: Outcome, items: &[u8]) -> bool {
    let first = items.first();
    outcome == Outcome::Removed || first.is_some_and(|first| Items::WITH_FLAGS.contains(first))
}

/// Payloads of one transaction that become a row.
#[derive(Debug, Default)]
pub(super) struct Joined {
    waiting: Vec<(Seq, Bytes)>,
    directory: Vec<u8>,
    removals: bool,
    bytes: usize,
    /// Room for a payload's origin, and for all payloads of a row.
    origin: Vec<u8>,
    /// It is kept from row to row, so that a group allocates nothing.
    items: Vec<u8>,
}

impl Joined {
    pub(super) fn statement(
        connection: &Connection,
    ) -> Result<CachedStatement<'_>, rusqlite::Error> {
        connection.prepare_cached(INSERT)
    }

    /// Adds the payload of a request, after it has written those before if they leave no room for it.
    pub(super) fn add(
        &mut self,
        statement: &mut CachedStatement<'_>,
        seq: Seq,
        log: &LogEntry,
        items: &Items,
    ) -> Result<(), rusqlite::Error> {
        let bytes = items.as_bytes();
        let mut origin = std::mem::take(&mut self.origin);
        Origin::pack(log, &mut origin);
        let removes = may_remove(log.outcome, bytes);
        let written = self.join(statement, seq, bytes, (&origin, removes));
        self.origin = origin;
        written
    }

    fn join(
        &mut self,
        statement: &mut CachedStatement<'_>,
        seq: Seq,
        items: &Bytes,
        (origin, removes): (&[u8], bool),
    ) -> Result<(), rusqlite::Error> {
        let directory = self.directory.len() + RECORD_BYTES + origin.len();
        if !self.waiting.is_empty()
            && (directory > DIRECTORY_BYTES_MAX
                || directory + self.bytes + items.len() > GROUP_BYTES_MAX)
        {
            self.write(statement)?;
        }
        if self.waiting.is_empty() {
            self.directory.clear();
            self.directory.push(FORMAT);
        }
        // A name has at most some hundred bytes, and no request four billion.
        let origin_bytes = u16::try_from(origin.len()).unwrap_or(u16::MAX);
        let bytes = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let directory = &mut self.directory;
        directory.extend_from_slice(&seq.get().to_le_bytes());
        directory.extend_from_slice(&crc32fast::hash(items).to_le_bytes());
        directory.extend_from_slice(&bytes.to_le_bytes());
        directory.extend_from_slice(&origin_bytes.to_le_bytes());
        directory.extend_from_slice(origin);
        self.removals |= removes;
        self.bytes += items.len();
        self.waiting.push((seq, items.clone()));
        Ok(())
    }

    /// Writes what was added: one payload as a row of its own.
    pub(super) fn write(
        &mut self,
        statement: &mut CachedStatement<'_>,
    ) -> Result<(), rusqlite::Error> {
        let Some((last, only)) = self.waiting.last() else {
            return Ok(());
        };
        let seq = last.to_column();
        if self.waiting.len() == 1 {
            let (record, origin) = self.directory[1..].split_at(RECORD_BYTES);
            let crc32: [u8; 4] = record[8..12].try_into().unwrap_or_default();
            statement.execute(params![seq, u32::from_le_bytes(crc32), &only[..], origin])?;
        } else {
            self.items.clear();
            self.items.reserve(self.bytes);
            for (_, items) in &self.waiting {
                self.items.extend_from_slice(items);
            }
            let removals = if self.removals { REMOVALS } else { 0 };
            let crc32 = i64::from(crc32fast::hash(&self.directory)) | GROUP | removals;
            statement.execute(params![seq, crc32, &*self.items, &*self.directory])?;
        }
        self.clear();
        Ok(())
    }

    /// Forgets what was added and not written.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.removals = false;
        self.bytes = 0;
    }
}

/// The numbers of the payloads of one row, for those that ask about one number after the other.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The row is the first at or behind each number from here.
    from: Seq,
    key: Option<Seq>,
    seqs: Vec<Seq>,
}

impl Held {
    /// Whether a request has a payload. A group whose directory is damaged has those of all numbers that it may hold.
    pub(super) fn has(
        &mut self,
        connection: &Connection,
        seq: Seq,
    ) -> Result<bool, rusqlite::Error> {
        if self.key.is_none_or(|key| seq < self.from || seq > key) {
            let row = connection
                .prepare_cached(
                    "SELECT seq, crc32, CASE WHEN crc32 > 4294967295 THEN request END FROM payloads
                     WHERE seq >= ?1 ORDER BY seq LIMIT 1",
                )?
                .query_row([seq.to_column()], |row| {
                    let seq = Seq::from_column(row.get(0)?);
                    Ok((seq, row.get(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
                })
                .optional()?;
            let Some((key, crc32, directory)) = row else {
                self.key = None;
                return Ok(false);
            };
            let records = directory.as_deref().map(|bytes| records(crc32, bytes));
            self.seqs = match records {
                Some(Some(records)) => records.iter().map(|record| record.seq).collect(),
                Some(None) => Vec::new(),
                None => vec![key],
            };
            (self.from, self.key) = (seq, Some(key));
        }
        Ok(self.seqs.is_empty() || self.seqs.binary_search(&seq).is_ok())
    }
}

/// The lowest number that has a payload, as far as a sink may need it: if the directory is damaged that says so, the first
/// after `released`.
pub(super) fn first(
    connection: &Connection,
    released: Seq,
) -> Result<Option<Seq>, rusqlite::Error> {
    let first = connection
        .prepare_cached(
            "SELECT seq, crc32, CASE WHEN crc32 > 4294967295 THEN request END FROM payloads
             ORDER BY seq LIMIT 1",
        )?
        .query_row([], |row| {
            let seq = Seq::from_column(row.get(0)?);
            Ok((seq, row.get(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
        })
        .optional()?;
    Ok(first.map(|(key, crc32, directory)| match directory {
        None => key,
        Some(directory) => records(crc32, &directory)
            .and_then(|records| records.first().map(|record| record.seq))
            .unwrap_or_else(|| key.min(released + 1)),
    }))
}

/// Requests whose payloads may be in a group with a damaged directory: ?1 is its number, ?2 how many it has at most.
pub(super) fn damaged_range() -> String {
    format!(
        "SELECT r.seq, r.stream, r.outcome FROM requests r WHERE r.seq <= ?1 AND {}
             AND r.seq > coalesce((SELECT max(seq) FROM payloads WHERE seq < ?1), 0)
             AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.seq = r.seq)
         ORDER BY r.seq DESC LIMIT ?2",
        super::schema::ACCEPTED
    )
}

#[cfg(test)]
pub(super) mod tests;
