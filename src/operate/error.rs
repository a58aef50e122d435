//! Why an operator's call did nothing.
//!
//! **Invariant**: an error says what is the matter; where to look next is said by whoever shows it.

use super::plugin_store::PluginChangeError;
use super::sinks::SinkBacklog;
use catalog::CatalogError;
use delivery::{ForgetError, ReadError, RefillError};
use ingest::AgainError;
use journal::StorageError;
use pool::PoolError;
use settings::BodyFault;

/// What to do about a crashed lane.
pub(super) const CRASHED: &str = "the lane crashed; restart the daemon, its data waits";

/// Why an operator's call did nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// There is no such sink, configured or not.
    #[error("no such sink")]
    NoSink,
    /// Not each id is that of a dead letter.
    #[error("the sink has no dead letter with this id, or not with each of these ids")]
    NoLetter,
    /// The sink gave up nothing of the request.
    #[error("the sink has no dead letters of this request")]
    NoLetterOfRequest,
    /// No batch with this id waits.
    #[error(
        "no waiting batch of the sink has this id; it may have been delivered, or be dead letters"
    )]
    NoRetry,
    /// A sink that is configured is not forgotten.
    #[error("the sink is in the configuration; remove it there, then delete its data")]
    Configured,
    /// What a body says of a sink cannot be used.
    #[error("{}", messages(.0))]
    Invalid(Vec<BodyFault>),
    /// The plugin of a sink does not start with its settings.
    #[error("{0}")]
    Unusable(String),
    /// Something waits for the sink.
    #[error(
        "the sink has undelivered data: up to {} requests, {} retries, {} dead letters",
        .0.lag, .0.retries, .0.dead_letters
    )]
    NotEmpty(SinkBacklog),
    /// The sink writes the data pool.
    #[error("the sink writes the data pool itself, so there is nothing to fill it with")]
    NothingToFill,
    /// The data pool has nothing that a sink can be filled with.
    #[error("the sink cannot be filled with the items of the data pool: {0}")]
    NoState(String),
    /// A sink was not filled anew.
    #[error(transparent)]
    Refill(#[from] RefillError),
    /// Dead letters cannot be sent again now.
    #[error(transparent)]
    Again(#[from] AgainError),
    /// The catalog has it, and its lane could not be made.
    #[error(
        "the sink is stored, but could not start; the next start retries, and the log has the reason"
    )]
    NotStarted,
    /// The catalog refused.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The plugins stay as they are.
    #[error(transparent)]
    Plugin(#[from] PluginChangeError),
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

fn messages(faults: &[BodyFault]) -> String {
    let messages: Vec<String> = faults.iter().map(BodyFault::to_string).collect();
    messages.join("; ")
}
