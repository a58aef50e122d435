//! Why a request is not sent again.
//!
//! **Invariant**: nothing was stored of a request that ends with one of these.

use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use crate::error::AcceptError;
use journal::StorageError;
use pool::PoolError;

/// Why a request is not sent again. Nothing was stored.
#[derive(Debug, Error)]
pub enum AgainError {
    /// The log does not have it.
    #[error("no request in the log has this id; it may have been deleted because of its age")]
    NotFound,
    /// It was a repeat.
    #[error("this request is a duplicate of {0}; resend that request instead")]
    Duplicate(Uuid),
    /// There never was anything to send.
    #[error("{0}")]
    NothingToSend(&'static str),
    /// What would be sent is gone.
    #[error("{0}")]
    NotKept(&'static str),
    /// Its connector is gone.
    #[error(
        "the connector {0:?} of this request was deleted; create it again, then resend the request"
    )]
    NoConnector(Arc<str>),
    /// Its stream is gone, or not the connector's.
    #[error(
        "the stream {0:?} of this request does not exist, or no key of the connector is for it; create the stream or key, then resend the request"
    )]
    NoStream(Box<str>),
    /// The pipeline refused it.
    #[error(transparent)]
    Refused(#[from] AcceptError),
    /// What is newer cannot be told yet.
    #[error(
        "the data pool is behind accepted requests, so later changes cannot be determined; try again when it has caught up, or overwrite"
    )]
    Behind,
    /// The journal cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The pool cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
}
