//! The one sequence of changes over all streams: where it stands, and when it begins anew.
//!
//! Every change of an item takes the next number. A position is an epoch and a number; renderers
//! resume from one. [`Pool::open`](super::Pool::open) calls [`open`], every settlement stores the
//! number that it ended with.
//!
//! **Invariant**: within one epoch no number ever stands for two different changes. The file is not
//! flushed at each commit, so a crash of the machine can take numbers back that renderers have seen:
//! then the epoch rises.

use rusqlite::{Connection, params};

use crate::clock;

/// Changes when the machine starts.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Stands for a file that was closed in order: everything was flushed.
const CLOSED: &str = "closed";

/// Where the sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History {
    /// Rises when numbers may have been taken back. Unix time in seconds when it began.
    pub(super) epoch: u64,
    /// Number of the last change.
    pub(super) seq: u64,
    /// What was removed up to here is forgotten in part: nobody can resume from before it.
    pub(super) floor: u64,
}

/// Reads where the sequence stands, and notes that the file is in use.
pub(super) fn open(connection: &Connection) -> Result<History, rusqlite::Error> {
    let (epoch, seq, floor, boot) =
        connection.query_row("SELECT epoch, seq, floor, boot FROM history", [], |row| {
            let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            Ok((number(0)?, number(1)?, number(2)?, row.get::<_, String>(3)?))
        })?;
    let this_boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    let this_boot = this_boot.trim();
    let unbroken = boot == CLOSED || (!boot.is_empty() && boot == this_boot);
    let epoch = if unbroken && epoch > 0 {
        epoch
    } else {
        (epoch + 1).max(clock::unix_ms() / 1_000)
    };
    connection.execute(
        "UPDATE history SET epoch = ?1, boot = ?2",
        params![epoch.cast_signed(), this_boot],
    )?;
    Ok(History { epoch, seq, floor })
}

/// Begins another life of a copy: whoever holds a position of the other one is told everything afresh. Returns the
/// epoch.
pub(super) fn begin_anew(connection: &Connection) -> Result<u64, rusqlite::Error> {
    /// More changes than the other life can have made since it was copied. Positions begin anew with the epoch; this
    /// is for those who read the file and remember the highest `seq` that they saw.
    const NUMBERS_SKIPPED: i64 = 1 << 40;
    let epoch: i64 = connection.query_row("SELECT epoch FROM history", [], |row| row.get(0))?;
    let epoch = (epoch.unsigned_abs() + 1).max(clock::unix_ms() / 1_000);
    connection.execute(
        "UPDATE history SET epoch = ?1, seq = seq + ?2, boot = ?3",
        params![epoch.cast_signed(), NUMBERS_SKIPPED, CLOSED],
    )?;
    Ok(epoch)
}

/// Part of every transaction that changes items.
pub(super) fn store(connection: &Connection, seq: u64) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE history SET seq = ?1")?
        .execute([seq.cast_signed()])?;
    Ok(())
}

/// Notes that everything is flushed. Nothing may be written after it.
pub(super) fn close(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute("UPDATE history SET boot = ?1", [CLOSED])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::schema;

    #[test]
    fn the_epoch_rises_when_the_machine_may_have_lost_commits_and_only_then() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pool.db");
        let start = || schema::open_writer(&path).expect("the file opens");
        let first = open(&start()).expect("it reads");
        assert!(first.epoch > 1_700_000_000, "{first:?}");

        // Killed, and started again on the same machine without a restart of the system.
        assert_eq!(open(&start()).expect("it reads"), first);

        // Closed in order, and the machine restarted.
        close(&start()).expect("it closes");
        assert_eq!(open(&start()).expect("it reads"), first);

        // The machine went down while the file was in use.
        start()
            .execute("UPDATE history SET boot = 'another'", [])
            .expect("it writes");
        let risen = open(&start()).expect("it reads");
        assert!(risen.epoch > first.epoch, "{risen:?}");
        assert_eq!(open(&start()).expect("it reads"), risen);
    }
}
