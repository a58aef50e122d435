//! Responses when a file, or the database of a cluster, cannot be read or written.
//!
//! **Invariant**: what works again when the disk has space or the database answers is 503. Everything else is an internal
//! error.

use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderValue, RETRY_AFTER};

use super::{ApiError, DATABASE_AWAY, header, unavailable};
use delivery::ReadError;
use journal::StorageError;
use pool::PoolError;
use postgres::DatabaseError;

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Database(error) if error.passes() => unreadable(&error),
            error => Self::internal(error),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Journal(error) => error.into(),
            ReadError::Pool(error) => error.into(),
        }
    }
}

impl From<PoolError> for ApiError {
    fn from(error: PoolError) -> Self {
        match &error {
            PoolError::Full => unavailable("the disk is full"),
            PoolError::Busy => unavailable("another process holds pool.db"),
            PoolError::Log(why) if why.passes() => {
                tracing::debug!(%error, "a request was answered 503");
                unavailable(DATABASE_AWAY)
            }
            PoolError::Log(why) if why.is_unknown() => Self::unknown(why.to_string()),
            _ => Self::internal(error),
        }
    }
}

/// What only the database has cannot be shown.
fn unreadable(error: &DatabaseError) -> ApiError {
    const SENTENCE: &str = "the request log is in the database of the cluster, which does not answer; retry when it is back. `headgate cluster status` shows its state";
    tracing::debug!(%error, "a request was answered 503");
    ApiError {
        header: header(RETRY_AFTER, HeaderValue::from_static("5")),
        ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", SENTENCE)
    }
}
