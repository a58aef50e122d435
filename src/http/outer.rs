//! What surrounds every request: its id, and an envelope for whatever goes wrong.
//!
//! **Invariant**: a panic in a handler ends that request with 500 and nothing else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderName, HeaderValue};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use uuid::Uuid;

use super::envelope;
use crate::metrics::Metrics;

/// The id of a request, in its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestId(pub(super) Uuid);

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request its id and catches panics.
pub(super) struct Outer {
    pub(super) metrics: Arc<Metrics>,
    pub(super) log_requests: bool,
}

#[async_trait]
impl Handler for Outer {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let started = self.log_requests.then(Instant::now);
        let id = Uuid::now_v7();
        req.extensions_mut().insert(RequestId(id));
        set_request_id(res, id);
        let handled = AssertUnwindSafe(ctrl.call_next(req, depot, res))
            .catch_unwind()
            .await;
        if handled.is_err() {
            self.metrics.panics.inc();
            tracing::error!(request_id = %id, path = req.uri().path(), "a request handler panicked");
            set_request_id(res, id);
            envelope::fail(
                req,
                res,
                StatusCode::INTERNAL_SERVER_ERROR,
                "INTERNAL",
                "something went wrong here; the log has more under this request id",
            );
        }
        if let Some(started) = started {
            // The path only: a query may hold what must not be logged.
            tracing::info!(
                request_id = %id,
                method = %req.method(),
                path = %req.uri().path(),
                status = res.status_code.map(|status| status.as_u16()),
                micros = started.elapsed().as_micros(),
                "request"
            );
        }
    }
}

/// The id that [`Outer`] gave the request.
pub(super) fn request_id(req: &Request) -> Uuid {
    req.extensions()
        .get::<RequestId>()
        .map_or_else(Uuid::now_v7, |id| id.0)
}

/// Names the request in the answer; for a repeat this is the first request's id.
pub(super) fn set_request_id(res: &mut Response, id: Uuid) {
    let mut buffer = Uuid::encode_buffer();
    let text = id.hyphenated().encode_lower(&mut buffer);
    if let Ok(value) = HeaderValue::from_str(text) {
        res.headers_mut().insert(X_REQUEST_ID, value);
    }
}

/// Answers that the framework makes without a body: unknown paths, wrong methods.
pub(super) struct Refusal;

#[async_trait]
impl Handler for Refusal {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let status = res.status_code.unwrap_or(StatusCode::NOT_FOUND);
        let (code, message) = match status {
            StatusCode::NOT_FOUND => (
                "NOT_FOUND",
                "there is nothing at this path; /openapi.json lists what there is",
            ),
            StatusCode::METHOD_NOT_ALLOWED => (
                "METHOD_NOT_ALLOWED",
                "this path does not take this method; the header Allow lists those that it takes",
            ),
            status if status.is_server_error() => (
                "INTERNAL",
                "something went wrong here; the log has more under this request id",
            ),
            _ => ("INVALID_REQUEST", "the request cannot be understood"),
        };
        envelope::fail(req, res, status, code, message);
    }
}
