//! One file of a node that nobody else has open: the entries that it lacks are applied to it.
//!
//! **Invariant**: entries and the place behind them are committed together.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::AtRestError;
use crate::log::FollowedEntry;
use crate::{ApplyError, LogPlace, Recorder, ReplicaFile, raised_to};
use sqlite::{Synchronous, beside};

/// A write-ahead log of more bytes is copied back while entries are applied: it would grow with all that the copies lack, and
/// each page is looked for in all of it.
const WAL_BYTES_MAX: u64 = 64 << 20;

/// One of the two files, open.
pub(super) struct Copy {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) recorder: Recorder,
    pub(super) place: LogPlace,
}

impl Copy {
    /// It has a place, otherwise it is the file of a daemon alone and must not be replaced.
    pub(super) fn open(path: &Path, file: ReplicaFile) -> Result<Self, AtRestError> {
        let connection = sqlite::open_writer(path, Synchronous::Normal)?;
        let place = LogPlace::stored(&connection)?;
        let place = place.ok_or_else(|| AtRestError::OtherFile(path.to_owned()))?;
        Ok(Self {
            path: path.to_owned(),
            recorder: Recorder::attach(&connection, file)?,
            connection,
            place,
        })
    }

    /// Applies those that it lacks, in one transaction. One behind which the log has another format ends it: the place behind
    /// it, and the format. The last place is stored in any case, because an entry that does not concern the file stores
    /// none.
    pub(super) fn apply(
        &mut self,
        entries: &[FollowedEntry],
    ) -> Result<Option<(LogPlace, i32)>, ApplyError> {
        self.recorder.prepare(&self.connection)?;
        sqlite::begin(&self.connection)?;
        let (mut place, mut raised) = (self.place, None);
        for followed in entries.iter().filter(|entry| entry.place.n > self.place.n) {
            if let Some(format) = raised_to(&followed.change)? {
                raised = Some((follows(place, followed)?, format));
                break;
            }
            let entry = followed.entry();
            place = self.recorder.apply(&self.connection, place, &entry)?.place;
        }
        place.store(&self.connection)?;
        sqlite::commit(&self.connection)?;
        self.place = place;
        copy_back(&self.connection, &self.path, WAL_BYTES_MAX)?;
        Ok(raised)
    }
}

/// Copies the write-ahead log of a file back that has more than `bytes_max`, and empties it.
fn copy_back(connection: &Connection, path: &Path, bytes_max: u64) -> Result<(), rusqlite::Error> {
    let log = beside(path, "-wal").metadata();
    if log.is_ok_and(|log| log.len() > bytes_max) {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// The place of an entry that follows on `place`.
fn follows(place: LogPlace, entry: &FollowedEntry) -> Result<LogPlace, ApplyError> {
    match entry.place == place.after(&entry.change) {
        true => Ok(entry.place),
        false => Err(ApplyError::OtherEntry(format!(
            "entry {} does not follow on entry {}",
            entry.place.n, place.n
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ahead_log_is_copied_back_when_it_is_large() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.db");
        let connection = sqlite::open_writer(&path, Synchronous::Normal).expect("a file");
        let made = "CREATE TABLE t (a BLOB); INSERT INTO t VALUES (randomblob(200000))";
        connection.execute_batch(made).expect("a table");
        let log_bytes = || {
            let log = beside(&path, "-wal").metadata();
            log.expect("a write-ahead log").len()
        };
        let before = log_bytes();
        assert!(before > 200_000, "nobody else copies it back: {before}");
        copy_back(&connection, &path, before).expect("nothing to do");
        assert_eq!(log_bytes(), before);
        copy_back(&connection, &path, before - 1).expect("it is copied back");
        assert_eq!(log_bytes(), 0);
        assert!(path.metadata().expect("a file").len() > 200_000);
    }
}
