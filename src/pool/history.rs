//! The one sequence of changes over all streams: where it stands, and when it begins anew.
//!
//! Every change of an item takes the next number. A position is an epoch and a number; renderers
//! resume from one. [`Pool::open`](super::Pool::open) calls [`open`]. Numbers are reserved ahead: a commit writes a page
//! less, and after a kill the sequence goes on behind what was reserved.
//!
//! **Invariant**: within one epoch no number ever stands for two different changes: it is reserved on disk before
//! anybody hears of it. The epoch rises when a copy begins a life of its own, or a damaged file is rebuilt.

use rusqlite::{Connection, params};

use base::clock::Unix;

/// Where the sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History {
    /// Rises when numbers may have been taken back. Unix time in seconds when it began.
    pub(super) epoch: u64,
    /// Number of the last change, or of a later one: no number up to it is given again.
    pub(super) seq: u64,
    /// What was removed up to here is forgotten in part: nobody can resume from before it.
    pub(super) floor: u64,
}

/// Reads where the sequence stands. A new file begins its first epoch.
pub(super) fn open(connection: &Connection) -> Result<History, rusqlite::Error> {
    let read = || {
        connection.query_row("SELECT epoch, seq, floor FROM history", [], |row| {
            let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            Ok(History {
                epoch: number(0)?,
                seq: number(1)?,
                floor: number(2)?,
            })
        })
    };
    let history = read()?;
    if history.epoch > 0 {
        return Ok(history);
    }
    connection.execute("UPDATE history SET epoch = ?1", [next_epoch(0)])?;
    read()
}

/// Later than the one before, and than those of other files of this place: the time of day tells them apart.
fn next_epoch(epoch: u64) -> i64 {
    (epoch + 1).max(Unix::now().seconds()).cast_signed()
}

/// Begins another life of a copy: whoever holds a position of the other one is told everything afresh. Returns the
/// epoch.
pub(super) fn begin_anew(connection: &Connection) -> Result<u64, rusqlite::Error> {
    /// More changes than the other life can have made since it was copied. Positions begin anew with the epoch; this
    /// is for those who read the file and remember the highest `seq` that they saw.
    const NUMBERS_SKIPPED: i64 = 1 << 40;
    let epoch: i64 = connection.query_row("SELECT epoch FROM history", [], |row| row.get(0))?;
    let epoch = next_epoch(epoch.unsigned_abs());
    connection.execute(
        "UPDATE history SET epoch = ?1, seq = seq + ?2",
        params![epoch, NUMBERS_SKIPPED],
    )?;
    Ok(epoch.unsigned_abs())
}

/// How many numbers are reserved in one go.
const RESERVED: u64 = 1_024;

/// Part of every transaction that changes items: `seq` is its last change, and numbers up to `reserved` are reserved.
/// Returns up to where they are now.
pub(super) fn reserve(
    connection: &Connection,
    seq: u64,
    reserved: u64,
) -> Result<u64, rusqlite::Error> {
    if seq <= reserved {
        return Ok(reserved);
    }
    store(connection, seq + RESERVED)?;
    Ok(seq + RESERVED)
}

/// The sequence goes on behind this number.
pub(super) fn store(connection: &Connection, seq: u64) -> Result<(), rusqlite::Error> {
    connection.execute("UPDATE history SET seq = ?1", [seq.cast_signed()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn an_epoch_lasts_until_a_copy_begins_anew() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pool.db");
        let start = || schema::open_writer(&path).expect("the file opens");
        let first = open(&start()).expect("it reads");
        assert!(first.epoch > 1_700_000_000, "{first:?}");
        assert_eq!(open(&start()).expect("it reads"), first);
        let risen = begin_anew(&start()).expect("it writes");
        assert!(risen > first.epoch, "{risen}");
        let anew = open(&start()).expect("it reads");
        assert_eq!(anew.epoch, risen);
        assert!(anew.seq > first.seq);
    }
}
