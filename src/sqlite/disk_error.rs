//! What an error of SQLite means for whoever writes, and the fuse that ends writing for good.
//!
//! The journal, the pool and the catalog share one [`FailStop`]; the daemon waits on it.
//!
//! **Invariant**: after an error that leaves it unknown what a file holds, nothing more is written to any file, and
//! nothing is copied back from a write-ahead log: the next start reads what is really on disk, and the journal replays
//! what is missing in the pool.
#![expect(
    unsafe_code,
    reason = "rusqlite has no call for the system's error number; argued there"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, ffi};
use tokio::sync::watch;

use super::{Identity, damage};

/// What an error means for whoever writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskError {
    /// There is no room on the disk, or no quota. Nothing was written; it goes on when there is room.
    Full,
    /// Another process holds the file. Nothing was written; it goes on when the file is let go.
    Busy,
    /// The file does not hold what SQLite wrote.
    Damaged,
    /// A write, a flush or anything else failed: what the file holds is unknown.
    Failed,
}

impl DiskError {
    /// What `error`, which `connection` just gave, means.
    pub fn of(connection: &Connection, error: &Error) -> Self {
        if damage::is_damage(error) {
            return Self::Damaged;
        }
        let Some(code) = error.sqlite_error() else {
            return Self::Failed;
        };
        match (code.code, code.extended_code) {
            (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => Self::Full,
            // After a failed flush nobody knows what is on the disk, whatever the reason.
            (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => Self::Failed,
            (ErrorCode::SystemIoFailure | ErrorCode::CannotOpen, _)
                if is_out_of_room(connection) =>
            {
                Self::Full
            }
            (
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed,
                _,
            ) => Self::Busy,
            _ => Self::Failed,
        }
    }
}

/// Whether the system call that the connection's last error came from found no room or no quota. SQLite itself tells
/// only a full disk apart. A quota would be a failed write otherwise, which ends the daemon.
fn is_out_of_room(connection: &Connection) -> bool {
    // SAFETY: the handle is of an open connection, which is borrowed here, and the call only reads a number from it.
    let number = unsafe { ffi::sqlite3_system_errno(connection.handle()) };
    number == libc::ENOSPC || number == libc::EDQUOT
}

/// Whether the files may be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WriteState {
    #[default]
    Good,
    /// A write or a flush failed.
    Failed,
    /// This file is damaged: the next start looks at it and repairs it.
    Damaged(PathBuf),
    /// This file is no longer where it was opened, and what happened to it: what is written now may be in no folder.
    Moved(PathBuf, &'static str),
}

/// One for all files of a data folder: once it is blown it stays so.
#[derive(Debug, Clone, Default)]
pub struct FailStop {
    state: Arc<watch::Sender<WriteState>>,
    open: Arc<Mutex<Vec<Identity>>>,
}

impl FailStop {
    /// Its state, and when that changes.
    pub fn watch(&self) -> watch::Receiver<WriteState> {
        self.state.subscribe()
    }

    /// Whether nothing may be written any more.
    pub fn is_blown(&self) -> bool {
        *self.state.borrow() != WriteState::Good
    }

    /// Decides what follows from an error of the connection that writes `path`. Call it before the transaction is
    /// rolled back, because a rollback may replace the system's error number. Unless the disk is full or the file is
    /// busy, the fuse blows, and closing the connection will not copy its write-ahead log back.
    pub fn classify(&self, path: &Path, connection: &Connection, error: &Error) -> DiskError {
        let disk_error = DiskError::of(connection, error);
        match disk_error {
            DiskError::Full | DiskError::Busy => {}
            DiskError::Damaged => self.damaged(path, &error.to_string()),
            DiskError::Failed => self.fail(path, &error.to_string()),
        }
        if self.is_blown() {
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        disk_error
    }

    /// A write of the file failed, or whoever writes it did.
    pub fn fail(&self, path: &Path, reason: &str) {
        self.blow(WriteState::Failed, path, reason);
    }

    /// A reader or a writer of the file found that it is damaged. The next start looks at it.
    pub fn damaged(&self, path: &Path, reason: &str) {
        super::suspect::mark(path, reason);
        self.blow(WriteState::Damaged(path.to_owned()), path, reason);
    }

    /// From now on [`FailStop::check_files`] looks at these, which are open.
    pub fn watch_files(&self, files: impl IntoIterator<Item = Identity>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.extend(files);
    }

    /// Looks whether all open files are where they were opened. If one is not, nothing may be written any more:
    /// requests would be answered 202 into files that have no name any more.
    pub fn check_files(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.check(&open);
    }

    /// The same for these; false if nothing may be written any more.
    pub(super) fn check(&self, files: &[Identity]) -> bool {
        let lost = files.iter().find_map(|file| Some((file, file.lost()?)));
        if let Some((file, what)) = lost {
            let path = file.path();
            self.blow(WriteState::Moved(path.to_owned(), what), path, what);
        }
        !self.is_blown()
    }

    /// The first reason stays, because later errors follow from it.
    fn blow(&self, state: WriteState, path: &Path, reason: &str) {
        let mut blown = false;
        self.state.send_if_modified(|now| {
            blown = *now == WriteState::Good;
            if blown {
                *now = state;
            }
            blown
        });
        if blown {
            tracing::error!(
                file = %path.display(),
                reason,
                "a file of the data directory may be corrupt: nothing more is written; the next start reads it again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Synchronous, beside, open_writer};

    #[test]
    fn after_a_failed_write_closing_copies_nothing_back() {
        let folder = tempfile::tempdir().expect("a folder");
        for (code, is_left) in [(ffi::SQLITE_IOERR_WRITE, true), (ffi::SQLITE_FULL, false)] {
            let path = folder.path().join(format!("{code}.db"));
            let log = beside(&path, "-wal");
            let connection = open_writer(&path, Synchronous::Full).expect("a file");
            let made =
                connection.execute_batch("CREATE TABLE items (id); INSERT INTO items VALUES (7)");
            made.expect("a table");
            let read = || {
                (
                    std::fs::read(&path).expect("the file"),
                    std::fs::read(&log).ok(),
                )
            };
            let before = read();
            let error = Error::SqliteFailure(ffi::Error::new(code), None);
            let fail_stop = FailStop::default();
            fail_stop.classify(&path, &connection, &error);
            assert_eq!(fail_stop.is_blown(), is_left);
            drop(connection);
            // A full disk is no reason to leave it.
            assert_eq!(read() == before, is_left, "{error}");
            assert_eq!(log.exists(), is_left, "{error}");
        }
    }
}
