//! The one sequence of changes over all streams: where it stands, and when it begins anew.
//!
//! Every change of an item takes the next number. A position is an epoch and a number; renderers
//! resume from one. [`Pool::open`](super::Pool::open) calls [`open`]. Numbers are reserved ahead: a commit writes a page
//! less, and after a kill the sequence goes on behind what was reserved.
//!
//! **Invariant**: within one epoch no number ever stands for two different changes: it is reserved on disk before
//! anybody hears of it. The epoch is drawn anew when a copy begins a life of its own, or a damaged file is rebuilt: no
//! two lives share one, whatever the clock says and however often a backup is restored.

use rusqlite::{Connection, params};

use base::order::{ChangeSeq, Epoch};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History {
    /// Another one when numbers may have been taken back. Random, of 53 bits: pages read it as a number.
    pub(super) epoch: Epoch,
    /// Number of the last change, or of a later one: no number up to it is given again.
    pub(super) seq: ChangeSeq,
    /// What was removed up to here is forgotten in part: nobody can resume from before it.
    pub(super) floor: ChangeSeq,
}

/// Reads where the sequence stands. A new file begins its first epoch.
pub(super) fn open(connection: &Connection) -> Result<History, rusqlite::Error> {
    let history = read(connection)?;
    if history.epoch != Epoch::default() {
        return Ok(history);
    }
    let epoch = draw_epoch(connection)?;
    connection.execute("UPDATE history SET epoch = ?1", [epoch.to_column()])?;
    read(connection)
}

/// Reads where the sequence stands, of a file whose first epoch may be an entry that it lacks.
pub(super) fn read(connection: &Connection) -> Result<History, rusqlite::Error> {
    let sql = "SELECT epoch, seq, floor FROM history";
    connection.prepare_cached(sql)?.query_row([], |row| {
        Ok(History {
            epoch: Epoch::from_column(row.get(0)?),
            seq: ChangeSeq::from_column(row.get(1)?),
            floor: ChangeSeq::from_column(row.get(2)?),
        })
    })
}

/// From 1 to 2^53 - 1. SQLite's numbers begin with the system's, in each process. Up to 2^53, because JavaScript reads
/// larger numbers inexactly.
fn draw_epoch(connection: &Connection) -> Result<Epoch, rusqlite::Error> {
    connection.query_row("SELECT max(random() & 0x1fffffffffffff, 1)", [], |row| {
        row.get(0).map(Epoch::from_column)
    })
}

/// More changes than a life can make. Positions begin anew with the epoch; this is for those who read the file and
/// remember the highest `seq` that they saw.
const NUMBERS_SKIPPED: u64 = 1 << 40;

/// Begins another life of a copy: whoever holds a position of the other one is told everything afresh. Returns the
/// epoch.
pub(super) fn begin_anew(connection: &Connection) -> Result<Epoch, rusqlite::Error> {
    let epoch = draw_epoch(connection)?;
    connection.execute(
        "UPDATE history SET epoch = ?1, seq = seq + ?2",
        params![epoch.to_column(), NUMBERS_SKIPPED.cast_signed()],
    )?;
    Ok(epoch)
}

/// The same with an epoch that others have, too. Nothing if it has begun, because another node may have been first.
pub(super) fn begin_epoch(connection: &Connection, epoch: Epoch) -> Result<(), rusqlite::Error> {
    connection.execute(
        "UPDATE history SET epoch = ?1, seq = seq + ?2 WHERE epoch <> ?1",
        params![epoch.to_column(), NUMBERS_SKIPPED.cast_signed()],
    )?;
    Ok(())
}

/// The last number that can be of a life from which this one was copied, where the sequence stands at `seq`; 0: none.
pub(super) fn last_of_before(seq: ChangeSeq) -> ChangeSeq {
    ChangeSeq::new(seq.get().saturating_sub(NUMBERS_SKIPPED))
}

/// How many numbers are reserved in one go. Where there is a log none is: other nodes read from the file which change is the
/// last.
const RESERVED: u64 = 1_024;

/// Part of every transaction that changes items: `seq` is its last change, and numbers up to `reserved` are reserved.
/// Returns up to where they are now. `is_exact`: none but those that are used. They are stored before a change has
/// them, so that a kill gives none twice.
pub(super) fn reserve(
    connection: &Connection,
    seq: ChangeSeq,
    reserved: ChangeSeq,
    is_exact: bool,
) -> Result<ChangeSeq, rusqlite::Error> {
    if seq <= reserved {
        return Ok(reserved);
    }
    let reserved = if is_exact { seq } else { seq + RESERVED };
    store(connection, reserved)?;
    Ok(reserved)
}

/// The sequence goes on behind this number.
pub(super) fn store(connection: &Connection, seq: ChangeSeq) -> Result<(), rusqlite::Error> {
    connection.execute("UPDATE history SET seq = ?1", [seq.to_column()])?;
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
        assert!((1..1 << 53).contains(&first.epoch.get()), "{first:?}");
        assert_eq!(open(&start()).expect("it reads"), first);
        let drawn = begin_anew(&start()).expect("it writes");
        assert!((1..1 << 53).contains(&drawn.get()), "{drawn}");
        assert_ne!(drawn, first.epoch);
        let anew = open(&start()).expect("it reads");
        assert_eq!(anew.epoch, drawn);
        assert!(anew.seq > first.seq);
    }

    #[test]
    fn two_lives_of_one_copy_share_no_epoch_whenever_they_begin() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pool.db");
        let backup = folder.path().join("backup.db");
        drop(schema::open_writer(&path).expect("the file opens"));
        std::fs::copy(&path, &backup).expect("a copy");
        // In the same second, and with any clock: nothing of it goes into the epoch.
        let lives = (0..20).map(|_| {
            std::fs::copy(&backup, &path).expect("a copy");
            let connection = schema::open_writer(&path).expect("the file opens");
            begin_anew(&connection).expect("it writes").get()
        });
        let lives: std::collections::BTreeSet<u64> = lives.collect();
        assert_eq!(lives.len(), 20, "{lives:?}");
        let spread = lives.last().expect("a life") - lives.first().expect("a life");
        assert!(spread > 1 << 40, "{lives:?}");
    }
}
