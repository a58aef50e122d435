//! Why an operator's call did nothing.
//!
//! **Invariant**: an error says what is the matter; where to look next is said by whoever shows it.

use delivery::{ForgetError, ReadError};
use journal::StorageError;
use pool::PoolError;

/// What to do about a crashed lane.
pub(super) const CRASHED: &str = "the lane crashed; restart the daemon, its data waits";

/// Why an operator's call did nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// There is no such sink, configured or not.
    #[error("there is no sink with this name")]
    NoSink,
    /// Not each id is that of a dead letter.
    #[error("the sink has no dead letter with this id, or not with each of these ids")]
    NoLetter,
    /// The sink gave up nothing of the request.
    #[error("the sink has no dead letters of this request")]
    NoLetterOfRequest,
    /// No batch with this id waits.
    #[error("no batch with this id waits for the sink; it may have been delivered or given up")]
    NoRetry,
    /// A sink that is configured is not forgotten.
    #[error("the sink is in the configuration; take it out first, then it can be forgotten")]
    Configured,
    /// Its lane does not run any more.
    #[error("{CRASHED}")]
    Crashed,
    /// The files cannot be read or written.
    #[error(transparent)]
    Storage(#[from] ReadError),
}

impl From<PoolError> for OperateError {
    fn from(error: PoolError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<StorageError> for OperateError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<ForgetError> for OperateError {
    fn from(error: ForgetError) -> Self {
        match error {
            ForgetError::Configured => Self::Configured,
            ForgetError::Pool(error) => error.into(),
        }
    }
}
