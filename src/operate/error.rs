//! Errors of operators' calls.
//!
//! **Invariant**: an error names the cause; the caller adds where to find more.

use super::plugin_store::PluginChangeError;
use super::sinks::SinkBacklog;
use catalog::CatalogError;
use delivery::{ForgetError, ReadError, RefillError};
use ingest::AgainError;
use journal::StorageError;
use pool::PoolError;
use settings::BodyFault;

/// The fix for a crashed lane.
pub(super) const CRASHED: &str = "the lane crashed; restart the daemon, its data waits";

/// Why an operator's call changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The sink does not exist, configured or not.
    #[error("no such sink")]
    NoSink,
    /// Some ids are not those of dead letters.
    #[error("the sink has no dead letter with this id, or not with each of these ids")]
    NoLetter,
    /// The sink has no dead letters of the request.
    #[error("the sink has no dead letters of this request")]
    NoLetterOfRequest,
    /// No retry has this id.
    #[error(
        "no waiting batch of the sink has this id; it may have been delivered, or be dead letters"
    )]
    NoRetry,
    /// The sinks run on another node, which did not do it: on the one of this name, or on none now.
    #[error("{}", elsewhere(.0.as_deref()))]
    Elsewhere(Option<String>),
    /// The node that runs the sinks could not do it.
    #[error("node {0}, which runs the sinks: {1}")]
    OnNode(String, String),
    /// The node that runs the sinks began, and did not say how it ended.
    #[error(
        "node {0} was asked to do this and did not say how it ended; look whether it was done before you repeat it"
    )]
    Unanswered(String),
    /// The database of the cluster, through which that node is asked.
    #[error(
        "the node that runs the sinks could not be asked: {0}; look whether it was done before you repeat it"
    )]
    Database(#[from] postgres::DatabaseError),
    /// The sink is configured, so its data is not deleted.
    #[error("the sink is in the configuration; remove it there, then delete its data")]
    Configured,
    /// The settings of a sink in the body are invalid.
    #[error("{}", messages(.0))]
    Invalid(Vec<BodyFault>),
    /// The plugin of a sink does not start with its settings.
    #[error("{0}")]
    Unusable(String),
    /// The sink has undelivered data.
    #[error(
        "the sink has undelivered data: up to {} requests, {} retries, {} dead letters",
        .0.lag, .0.retries, .0.dead_letters
    )]
    NotEmpty(SinkBacklog),
    /// The sink writes the data pool.
    #[error("the sink writes the data pool itself, so there is nothing to fill it with")]
    NothingToFill,
    /// The data pool has no items for a fill of the sink.
    #[error("the sink cannot be filled with the items of the data pool: {0}")]
    NoState(String),
    /// The sink was not refilled.
    #[error(transparent)]
    Refill(#[from] RefillError),
    /// Dead letters cannot be resent now.
    #[error(transparent)]
    Again(#[from] AgainError),
    /// The catalog has the sink, and its lane could not be created.
    #[error(
        "the sink is stored, but could not start; the next start retries, and the log has the reason"
    )]
    NotStarted,
    /// The catalog rejected the change.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The plugins were not changed.
    #[error(transparent)]
    Plugin(#[from] PluginChangeError),
    /// The lane of the sink no longer runs.
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

fn elsewhere(node: Option<&str>) -> String {
    match node {
        Some(node) => format!(
            "node {node}, which runs the sinks, did not answer; nothing was changed, so try again"
        ),
        None => {
            "no node runs the sinks now; nothing was changed, so try again when one does".to_owned()
        }
    }
}

fn messages(faults: &[BodyFault]) -> String {
    let messages: Vec<String> = faults.iter().map(BodyFault::to_string).collect();
    messages.join("; ")
}
