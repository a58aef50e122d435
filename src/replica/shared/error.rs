//! Why a file cannot commit to the log.
//!
//! **Invariant**: of all but [`LogError::Unknown`] it is certain that nothing of the work happened.

use thiserror::Error;

use crate::NewerLog;
use postgres::DatabaseError;

/// Why a file cannot commit. Nothing of the work happened, but of [`LogError::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogError {
    /// It cannot be reached, or has no room. The same works when it is back.
    #[error("{0}; nothing was changed. Retry when the database is back")]
    Database(DatabaseError),
    /// Entries of other nodes cannot be applied just now. The same works when they can.
    #[error("the changes of other nodes cannot be applied: {0}; nothing was changed. Retry later")]
    NotFollowed(String),
    /// This node does not run the sinks, or no longer.
    #[error("another node runs the sinks; nothing was changed. Stop the sinks of this node")]
    NotTheOwner,
    /// The files have another entry than the log.
    #[error(
        "the copy of this node differs from the log; nothing was changed. Restart the node: it takes a new copy"
    )]
    Differs,
    /// A newer version has written.
    #[error("{0}; nothing was changed")]
    Newer(NewerLog),
    /// The change is larger than an entry may be: 64 MiB of work that can be done in parts, otherwise 512 MiB.
    #[error(
        "a change of {bytes} bytes is too large for the log, which takes {bytes_max} at once; nothing was changed. Send fewer items in a request, or lower the history of the stream"
    )]
    TooLarge {
        /// What the file has changed.
        bytes: usize,
        /// What it may.
        bytes_max: usize,
    },
    /// The answer was lost, and what could tell is kept no longer. The work may have happened: it must not be done again
    /// without a look.
    #[error(
        "the database was away for too long: nobody knows whether this was changed. Look before you retry"
    )]
    Unknown,
}

impl LogError {
    /// Whether the same works later, without anybody's help but the database's.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Database(_) | Self::NotFollowed(_))
    }

    /// Whether the database does not answer.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::Away(_)))
    }

    /// Whether nobody knows if it happened.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl From<DatabaseError> for LogError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}
