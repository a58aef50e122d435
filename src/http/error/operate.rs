//! Responses when an operator's call, or a backup, is rejected.
//!
//! **Invariant**: see [`ApiError`].

use salvo_core::http::StatusCode;

use super::ApiError;
use ::operate::{ClaimError, OperateError};
use backup::BackupError;
use cluster::RemoveError;
use delivery::RefillError;

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        let (status, code) = match &error {
            BackupError::Folder(_) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
            BackupError::Running => (StatusCode::CONFLICT, "BACKUP_RUNNING"),
            BackupError::OfCluster => (StatusCode::CONFLICT, "OF_CLUSTER"),
            BackupError::NotEmpty(_) => (StatusCode::CONFLICT, "FOLDER_NOT_EMPTY"),
            BackupError::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            BackupError::DiskFull(_) => (StatusCode::INSUFFICIENT_STORAGE, "DISK_FULL"),
            BackupError::Journal(_) => return Self::internal(error),
            BackupError::Copy { .. } | BackupError::NotGood { .. } | BackupError::Write { .. } => {
                tracing::error!(%error, "a backup failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "BACKUP_FAILED")
            }
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<OperateError> for ApiError {
    fn from(error: OperateError) -> Self {
        let message = error.to_string();
        let lists = |what: &str| format!("{message}; {what} lists them");
        match error {
            OperateError::NoSink => Self::not_found("SINK_NOT_FOUND", lists("/api/admin/sinks")),
            OperateError::NoLetter | OperateError::NoLetterOfRequest => {
                Self::not_found("DEAD_LETTER_NOT_FOUND", lists("GET …/dead-letters"))
            }
            OperateError::NoRetry => {
                let message = format!("{message}; GET …/retries lists those that wait");
                Self::not_found("RETRY_NOT_FOUND", message)
            }
            OperateError::Elsewhere(_)
            | OperateError::OnNode(..)
            | OperateError::Unanswered(_)
            | OperateError::Database(_) => Self::busy(message),
            OperateError::Configured => Self::conflict("DECLARED", message),
            OperateError::Invalid(faults) => Self::from(faults),
            OperateError::Catalog(error) => Self::from(error),
            OperateError::Unusable(_) => Self::invalid(message),
            OperateError::NotEmpty(_) => Self::conflict(
                "SINK_NOT_EMPTY",
                format!(
                    "{message}; wait until it has all, or use discard=true, which deletes that permanently"
                ),
            ),
            OperateError::NothingToFill => Self::conflict("NOTHING_TO_FILL", message),
            OperateError::NoState(_) => Self::conflict("NO_STATE", message),
            OperateError::Refill(RefillError::Filling) => Self::conflict(
                "FILLING",
                format!("{message}; `filling` of the sink says how far"),
            ),
            OperateError::Refill(RefillError::Failed(_)) => Self::busy(message),
            OperateError::Again(error) => Self::from(error),
            OperateError::NotStarted => Self::busy(message),
            OperateError::Crashed => Self::conflict("SINK_CRASHED", message),
            OperateError::Plugin(error) => Self::from(error),
            OperateError::Storage(error) => Self::from(error),
        }
    }
}

impl From<ClaimError> for ApiError {
    fn from(error: ClaimError) -> Self {
        let message = error.to_string();
        match error {
            ClaimError::Unknown(_) => Self::not_found("NODE_NOT_FOUND", message),
            ClaimError::CannotRun(..) => Self::conflict("NODE_CANNOT_RUN_SINKS", message),
            ClaimError::NotTaken(_) | ClaimError::Away => Self::busy(message),
            ClaimError::Asked(error) => error.into(),
        }
    }
}

impl From<RemoveError> for ApiError {
    fn from(error: RemoveError) -> Self {
        let message = error.to_string();
        match error {
            RemoveError::Unknown(_) => Self::not_found("NODE_NOT_FOUND", message),
            RemoveError::Live(_) => Self::conflict("NODE_RUNNING", message),
            RemoveError::Database(_) => Self::busy(format!(
                "the node is not removed: the database cannot be reached: {message}"
            )),
        }
    }
}
