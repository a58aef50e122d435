//! Rows of payloads that are taken apart and stored again: by the writer when it quarantines one, by a repair.
//!
//! **Invariant**: what does not match its checksum stays as it is, with the checksum that it had.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Joined, RECORD_BYTES, Record, damaged_range, is_group, may_remove, records, records_max,
    was_group,
};
use crate::origin::Origin;
use base::order::Seq;

/// A row, read whole.
struct Row {
    seq: Seq,
    crc32: i64,
    items: Vec<u8>,
    request: Option<Vec<u8>>,
}

/// What a row is.
enum Contents<'a> {
    One,
    Group(Vec<Record<'a>>),
    /// A group whose directory is damaged.
    Damaged,
}

impl Row {
    fn contents(&self) -> Contents<'_> {
        let request = self.request.as_deref();
        if !is_group(self.crc32) {
            let is_whole = i64::from(crc32fast::hash(&self.items)) == self.crc32;
            return match !is_whole && was_group(request) {
                true => Contents::Damaged,
                false => Contents::One,
            };
        }
        let records = records(self.crc32, request.unwrap_or_default());
        records.map_or(Contents::Damaged, Contents::Group)
    }

    /// The payload of a record; empty: the row is shorter than its directory says.
    fn payload(&self, record: &Record<'_>) -> &[u8] {
        self.items.get(record.at.clone()).unwrap_or_default()
    }
}

/// The row that may hold the payload of a request, or the first one behind it.
fn row_at(connection: &Connection, seq: Seq) -> Result<Option<Row>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT seq, crc32, items, request FROM payloads WHERE seq >= ?1 ORDER BY seq LIMIT 1",
        )?
        .query_row([seq.to_column()], |row| {
            Ok(Row {
                seq: Seq::from_column(row.get(0)?),
                crc32: row.get(1)?,
                items: row.get(2)?,
                request: row.get(3)?,
            })
        })
        .optional()
}

/// Moves the payload of a request into the table `quarantine`, all others of its row stay where they are. A group whose
/// directory is damaged is moved whole: each of its requests that a sink may need, those after `released`, is listed there.
/// Only requests that a sink may need are listed, because the others are settled.
pub(in super::super) fn quarantine(
    connection: &Connection,
    seq: Seq,
    reason: &str,
    released: Seq,
) -> Result<(), rusqlite::Error> {
    let Some(row) = row_at(connection, seq)? else {
        return Ok(());
    };
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO quarantine (seq, reason, crc32, items, request) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let key = row.seq.to_column();
    match row.contents() {
        Contents::One if row.seq != seq => return Ok(()),
        Contents::One => {
            insert.execute(params![key, reason, row.crc32, row.items, row.request])?;
            remove(connection, row.seq)?;
        }
        Contents::Group(records) => {
            let Some(record) = records.iter().find(|record| record.seq == seq) else {
                return Ok(());
            };
            let items = row.payload(record);
            insert.execute(params![
                seq.to_column(),
                reason,
                record.crc32,
                items,
                record.origin
            ])?;
            remove(connection, row.seq)?;
            let others = records.iter().filter(|record| record.seq != seq);
            store(
                connection,
                others.map(|record| (record, row.payload(record))),
            )?;
        }
        Contents::Damaged => {
            let mut statement = connection.prepare_cached(&damaged_range())?;
            let mut listed = statement.query(params![
                key,
                records_max(row.request.as_ref().map_or(0, Vec::len)).cast_signed() as i64
            ])?;
            while let Some(one) = listed.next()? {
                let one: i64 = one.get(0)?;
                if one > released.to_column() && one != key {
                    let nothing = rusqlite::types::Null;
                    insert.execute(params![one, reason, nothing, nothing, nothing])?;
                }
            }
            insert.execute(params![key, reason, row.crc32, row.items, row.request])?;
            remove(connection, row.seq)?;
        }
    }
    Ok(())
}

fn remove(connection: &Connection, seq: Seq) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached("DELETE FROM payloads WHERE seq = ?1")?;
    statement.execute([seq.to_column()]).map(drop)
}

/// Stores payloads that were in a group, as they are: those that do not match their checksums too. The checksum stays
/// that of the first storing, so that damage is not hidden by it.
fn store<'a>(
    connection: &Connection,
    records: impl Iterator<Item = (&'a Record<'a>, &'a [u8])>,
) -> Result<(), rusqlite::Error> {
    let mut statement = Joined::statement(connection)?;
    let mut joined = Joined::default();
    for (record, items) in records {
        let outcome = Origin::unpack(record.origin).map(|origin| origin.outcome);
        let removes = outcome.is_none_or(|outcome| may_remove(outcome, items));
        let items = Bytes::copy_from_slice(items);
        joined.join(&mut statement, record.seq, &items, (record.origin, removes))?;
        // The checksum of what was stored first, whatever is there now.
        let at = joined.directory.len() - record.origin.len() - RECORD_BYTES + 8;
        joined.directory[at..at + 4].copy_from_slice(&record.crc32.to_le_bytes());
    }
    joined.write(&mut statement)
}

/// Has each payload of a journal that was salvaged have a row of its own. How many rows are more than before. A group whose
/// directory is damaged stays as it is.
pub(in super::super) fn separate(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let keys: Vec<i64> = connection
        .prepare("SELECT seq FROM payloads WHERE crc32 > 4294967295 ORDER BY seq")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut more = 0;
    for key in keys {
        let row = row_at(connection, Seq::from_column(key))?;
        let Some(row) = row.filter(|row| row.seq == Seq::from_column(key)) else {
            continue;
        };
        let Contents::Group(records) = row.contents() else {
            continue;
        };
        remove(connection, row.seq)?;
        for record in &records {
            store(connection, std::iter::once((record, row.payload(record))))?;
        }
        more += records.len() as u64 - 1;
    }
    Ok(more)
}
