//! Errors in place of a page.
//!
//! **Invariant**: an internal error is logged with its request ID, and the page names only that.

use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Response, Writer, async_trait};

use super::notice;
use crate::guard;
use base::clock::Unix;
use catalog::{CatalogError, ResourceKind};
use http::error::ApiError;
use http::middleware::request_id;

/// Errors in place of a page.
#[derive(Debug)]
pub(in super::super) enum NoPage {
    /// The object does not exist; the text says what to do.
    NotFound(&'static str),
    /// The request is invalid or was rejected, for this reason.
    Refused(StatusCode, String),
    /// An internal error.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl NoPage {
    /// Rejects changes of objects that are defined in the configuration.
    pub(in super::super) fn if_declared(
        created_at: Option<Unix>,
        kind: ResourceKind,
    ) -> Result<(), Self> {
        match created_at {
            Some(_) => Ok(()),
            None => {
                let why = CatalogError::Declared(kind).to_string();
                Err(Self::Refused(StatusCode::CONFLICT, why))
            }
        }
    }
}

impl<E: Into<ApiError>> From<E> for NoPage {
    fn from(error: E) -> Self {
        let error = error.into();
        match error.cause {
            Some(cause) => Self::Failed(cause),
            None => Self::Refused(error.status, error.message),
        }
    }
}

#[async_trait]
impl Writer for NoPage {
    async fn write(self, req: &mut Request, _: &mut Depot, res: &mut Response) {
        self.answer(req, res);
    }
}

impl NoPage {
    pub(in super::super) fn answer(self, req: &Request, res: &mut Response) {
        match self {
            Self::NotFound(hint) => notice(res, StatusCode::NOT_FOUND, "Not found", hint),
            Self::Refused(StatusCode::SERVICE_UNAVAILABLE, why) => {
                guard::retry_soon(req, res);
                notice(
                    res,
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Not available now",
                    &why,
                );
            }
            Self::Refused(status, why) => notice(res, status, "Request failed", &why),
            Self::Failed(error) => {
                let id = request_id(req);
                tracing::error!(request_id = %id, path = req.uri().path(), %error, "a page failed");
                let sentence =
                    format!("Internal error. For details, search the log for the request ID {id}.");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                notice(res, status, "Failed", &sentence);
            }
        }
    }
}
