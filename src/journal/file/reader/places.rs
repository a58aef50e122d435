//! Which row of payloads has which requests, for the readers: see `journal/file/payloads.rs`.
//!
//! **Invariant**: a group whose directory is damaged may have any request between the row before it and its number.

use rusqlite::{Connection, Error, OptionalExtension as _, Row};

use crate::file::payloads;
use base::order::Seq;

/// The row that may hold the payload of a request, or the first one behind it.
const SELECT_AT: &str =
    "SELECT seq, crc32, CASE WHEN crc32 > 4294967295 THEN request END AS directory
     FROM payloads WHERE seq >= ? ORDER BY seq LIMIT 1";

/// A row of payloads, and the numbers that it has.
pub(super) struct Place {
    key: Seq,
    /// None: it is of one request. Empty: nobody can say which.
    group: Option<Vec<Seq>>,
}

impl Place {
    /// Of its number, its checksum and its directory.
    pub(super) fn of(row: &Row<'_>) -> Result<Self, Error> {
        let directory = row.get_ref(2)?.as_bytes_or_null()?;
        let crc32 = checksum(row, 1)?;
        let group = directory.map(|directory| {
            let records = payloads::records(crc32, directory).unwrap_or_default();
            records.iter().map(|record| record.seq).collect()
        });
        Ok(Self {
            key: Seq::from_column(row.get(0)?),
            group,
        })
    }

    pub(super) fn seqs(self) -> Vec<Seq> {
        match self.group {
            Some(group) if !group.is_empty() => group,
            _ => vec![self.key],
        }
    }

    pub(super) fn may_have(&self, seq: Seq) -> bool {
        match &self.group {
            Some(group) => group.is_empty() || group.binary_search(&seq).is_ok(),
            None => self.key == seq,
        }
    }
}

/// The checksum in a column; 0 if damage took it away. No read ends because of it.
pub(super) fn checksum(row: &Row<'_>, column: usize) -> Result<i64, Error> {
    let crc32: Option<i64> = row.get(column)?;
    Ok(crc32.unwrap_or_default())
}

pub(super) fn place_at(connection: &Connection, seq: Seq) -> Result<Option<Place>, Error> {
    let mut statement = connection.prepare_cached(SELECT_AT)?;
    let place = statement.query_row([seq.to_column()], Place::of);
    place.optional()
}

/// The first number from this one on that has a payload.
pub(in super::super) fn first_from(
    connection: &Connection,
    seq: Seq,
) -> Result<Option<Seq>, Error> {
    let place = place_at(connection, seq)?;
    let seqs = place.map(Place::seqs).unwrap_or_default();
    Ok(seqs.into_iter().find(|one| *one >= seq))
}

/// The requests whose payloads a group with a damaged directory may have. All of them are taken for unreadable, because
/// nobody can say which they were.
pub(super) fn in_damaged(
    connection: &Connection,
    key: Seq,
    directory_bytes: i64,
) -> Result<Vec<(Seq, String, i64)>, Error> {
    let records_max = payloads::records_max(usize::try_from(directory_bytes).unwrap_or_default());
    let records_max = i64::try_from(records_max).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&payloads::damaged_range())?;
    let rows = statement.query_map([key.to_column(), records_max], |row| {
        Ok((Seq::from_column(row.get(0)?), row.get(1)?, row.get(2)?))
    })?;
    let mut listed = rows.collect::<Result<Vec<_>, _>>()?;
    listed.reverse();
    Ok(listed)
}
