//! Why a file of the data folder cannot be opened, read or written.
//!
//! The errors of the catalog, the journal and the pool hold it.
//!
//! **Invariant**: what is damage, a full disk or a newer version is told apart here, once for all files.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{ErrorCode, ffi};
use thiserror::Error;

use super::damage;

/// A file has a format that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the file has format {found}, this version knows {known}; use the version that wrote it, or a newer one"
)]
pub struct Newer {
    pub found: i64,
    /// The format of this version.
    pub known: i64,
}

/// Why a file cannot be opened, read or written.
#[derive(Debug, Error)]
pub enum FileError {
    /// SQLite said so.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file was written by a newer version.
    #[error("{0}")]
    Newer(#[from] Newer),
}

impl FileError {
    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_full(error))
    }

    /// Whether a file that cannot be opened for this may be damaged.
    pub fn may_be_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => damage::may_be_damage(error),
            Self::Newer(_) => true,
        }
    }

    /// Whether the file was written by a newer version, or says so because it is damaged.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Newer(_))
    }

    fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => damage::is_damage(error),
            Self::Newer(_) => false,
        }
    }
}

/// Whether SQLite says that there is no room on the disk: for the file, or for the index of its write-ahead log. What
/// a writer has at hand tells more: [`DiskError::of`](super::DiskError::of).
pub fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
    })
}

/// Whether anybody met damage in a file, whoever asked for what: one for each file, shown each error of it.
#[derive(Debug, Default)]
pub struct Notice(AtomicBool);

impl Notice {
    /// Nothing was met.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Looks at an error of the file, and hands it on.
    pub fn look_at(&self, error: FileError) -> FileError {
        if error.is_damage() {
            self.0.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Whether damage was met since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
