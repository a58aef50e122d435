//! The status of a request, for its sender.
//!
//! **Invariant**: a sender can read only the requests of its own connector.

use std::sync::Arc;

use salvo_core::http::header::{AUTHORIZATION, HeaderValue};
use salvo_core::{Request, Response};
use salvo_oapi::endpoint;
use uuid::Uuid;

use crate::envelope::{self, Success};
use crate::error::ApiError;
use crate::middleware::client;
use crate::rate;
use crate::tls::fingerprint;
use crate::{sink_state, stale};
use ::ingest::error::AcceptError;
use ::ingest::{Ingest, check_place};
use base::clock;
use catalog::Caller;
use operate::requests::{Report, Requests};
use wire::RequestState;

/// Authenticates the sender of a request without items, and applies its rate limit.
fn known_caller(ingest: &Ingest, req: &Request, res: &mut Response) -> Result<Caller, AcceptError> {
    let authorization = req.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let caller = ingest.caller(authorization, None, fingerprint(req))?;
    check_place(&caller.key.networks, client(req))?;
    let quota = caller.key.quota.take();
    let left = quota.unwrap_or_else(|refused| refused);
    rate::write_headers(res, "key", left, caller.key.volume.left());
    match quota {
        Ok(_) => Ok(caller),
        Err(refused) => Err(AcceptError::RateLimited {
            retry_after_seconds: refused.reset_seconds,
        }),
    }
}

fn state(report: &Report) -> RequestState {
    let entry = &report.row.entry;
    RequestState {
        request_id: entry.request_id.to_string(),
        timestamp: clock::rfc3339(entry.received_at),
        stream: entry.stream.to_string(),
        status: report.status.as_str().to_owned(),
        items_received: entry.items,
        errors: report.errors().map(str::to_owned).collect(),
        stale: stale::listed(report),
        stale_count: report.left_behind.count,
        processed_at: report.processed_at.map(clock::rfc3339),
        sinks: report.sinks.iter().map(sink_state::data).collect(),
    }
}

/// `GET /api/requests/{request_id}`
pub struct GetRequest(pub Arc<Ingest>, pub Requests);

/// The status of a request.
///
/// Requires a key of the connector that submitted it.
#[endpoint(
    operation_id = "get_request",
    tags("submit"),
    parameters(("request_id" = String, Path, description = "The id from the response to the request.")),
    responses(
        (status_code = 200, body = Success<RequestState>, description = "The status."),
        (status_code = 404, description = "No such request of this connector."),
        (status_code = 429, description = "The key exceeded its rate limit."),
    ),
)]
impl GetRequest {
    async fn handle(
        &self,
        req: &mut Request,
        res: &mut Response,
    ) -> Result<Success<RequestState>, ApiError> {
        let caller = known_caller(&self.0, req, res)?;
        let id = req.param::<String>("request_id");
        let report = match id.and_then(|id| Uuid::try_parse(&id).ok()) {
            Some(id) => self.1.find(id).await?,
            None => None,
        };
        // A deleted connector with the same name left its request log.
        let since = self.0.made_at(&caller.key.connector).unwrap_or_default();
        let own = report.filter(|report| {
            let entry = &report.row.entry;
            entry.connector == caller.key.connector && entry.received_at >= since
        });
        let own = own.ok_or_else(|| {
            let message = "this connector has no request with this id; check the id, or use a key of the connector that submitted it";
            ApiError::not_found("REQUEST_NOT_FOUND", message)
        })?;
        Ok(envelope::ok(state(&own)))
    }
}
