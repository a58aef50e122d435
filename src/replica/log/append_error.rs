//! Why an entry was not appended.
//!
//! **Invariant**: what may have happened is never said to have failed.

use postgres::{DatabaseError, refusal};
use thiserror::Error;

use crate::{MalformedChange, NewerLog};

/// Why an entry was not appended. In all cases but [`AppendError::Unknown`] it will not be later, either.
#[derive(Debug, Error)]
pub enum AppendError {
    /// There are entries that the copy lacks: follow, and do the work again.
    #[error("the log has entries that this copy lacks")]
    Behind,
    /// Another node runs the sinks.
    #[error("another node runs the sinks")]
    NotTheOwner,
    /// A newer version has written.
    #[error("{0}")]
    Newer(#[from] NewerLog),
    /// The copy has another entry than the log: take a new copy.
    #[error("this copy has another entry than the log")]
    Differs,
    /// The answer was lost, and what could tell is kept no longer.
    #[error("whether the entry is in the log is unknown")]
    Unknown,
    /// The change cannot be read.
    #[error("{0}")]
    Malformed(#[from] MalformedChange),
    /// The database did nothing.
    #[error("{0}")]
    Database(#[from] DatabaseError),
}

impl AppendError {
    /// What a refusal of `append` means to a node that knows the format `known`. An entry that the log no longer keeps
    /// is unknown only after a lost answer; otherwise nothing was sent before.
    pub(super) fn of(error: DatabaseError, is_in_doubt: bool, known: i32) -> Self {
        if let DatabaseError::Refused { message, .. } = &error
            && error.is(refusal::NEWER_FORMAT)
        {
            return Self::Newer(NewerLog::refused(message, known));
        }
        match () {
            () if error.is(refusal::BEHIND) => Self::Behind,
            () if error.is(refusal::ENTRY_GONE) && is_in_doubt => Self::Unknown,
            () if error.is(refusal::ENTRY_GONE) => Self::Behind,
            () if error.is(refusal::NOT_THE_OWNER) => Self::NotTheOwner,
            () if error.is(refusal::OTHER_ENTRY) => Self::Differs,
            () => Self::Database(error),
        }
    }
}
