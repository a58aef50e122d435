//! Why the pool could not be opened, written or read.
//!
//! **Invariant**: damage that anybody meets is noted once, for the whole file.

use thiserror::Error;

use replica::LogError;
use sqlite::{FileError, Notice};

/// Why the pool could not be opened, written or read.
#[derive(Debug, Error)]
pub enum PoolError {
    /// There is no room on the disk. Nothing was written; the same works when there is.
    #[error("pool: the disk is full")]
    Full,
    /// Another process holds the file. Nothing was written; the same works when it lets go.
    #[error("pool: another process holds pool.db")]
    Busy,
    /// A file of the data folder cannot be trusted any more: the daemon is about to end.
    #[error("pool: nothing is written any more")]
    Closed,
    /// The log of the cluster did not take it.
    #[error("pool: {0}")]
    Log(#[source] LogError),
    /// The file cannot be opened, read or written.
    #[error("pool: {0}")]
    File(#[source] FileError),
}

/// Damage that anybody met in the file. Any reader may meet it, so a flag carries it to the daemon.
pub(super) static DAMAGE: Notice = Notice::new();

impl<E: Into<FileError>> From<E> for PoolError {
    fn from(error: E) -> Self {
        Self::File(DAMAGE.look_at(error.into()))
    }
}

impl PoolError {
    /// Whether the same works later, without anybody's help but the disk's, the other process's or the database's.
    pub fn passes(&self) -> bool {
        match self {
            Self::Full | Self::Busy => true,
            Self::Log(error) => error.passes(),
            _ => false,
        }
    }

    /// Whether the database of the cluster does not answer.
    pub fn is_outage(&self) -> bool {
        self.of_log().is_some_and(LogError::is_outage)
    }

    /// Why the log of the cluster did not take it, if that is it.
    pub fn of_log(&self) -> Option<&LogError> {
        match self {
            Self::Log(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the log of the cluster takes only parts of it. Nothing happened.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Log(LogError::TooLarge { .. }))
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full => true,
            Self::File(error) => error.is_full(),
            _ => false,
        }
    }

    /// What is the matter with the file, if that is it.
    pub fn of_file(&self) -> Option<&FileError> {
        match self {
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}
