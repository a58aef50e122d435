//! The endpoints of callers: submit, remove, and ask what became of it.
//!
//! **Invariant**: both endpoints that submit run the same pipeline; they differ in where the stream's name
//! comes from.

use std::fmt::Write as _;
use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue,
    LOCATION,
};
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use uuid::Uuid;

use super::body;
use super::envelope::{self, Success};
use super::error::ApiError;
use super::middleware::{client, request_id, set_request_id};
use super::sink_state::SinkStateData;
use crate::catalog::{Caller, QuotaState};
use crate::clock;
use crate::error::AcceptError;
use crate::ingest::{Accepted, BodyError, Head, Ingest, loggable_headers};
use crate::journal::log::Endpoint;
use crate::operate::requests::{Report, Requests};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const X_ITEM_KEY: HeaderName = HeaderName::from_static("x-item-key");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What a caller is told of an accepted request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReceiptData {
    /// The key's stream.
    stream: String,
    /// Number of items.
    items_received: u32,
    /// UUIDv7; the same as in `X-Request-Id`.
    request_id: String,
}

/// What submitting needs.
#[derive(Debug, Clone)]
pub(super) struct Submit {
    pub(super) ingest: Arc<Ingest>,
    /// Seconds that a body may take.
    pub(super) body_timeout_seconds: u64,
}

/// `POST /api/ingest`
pub(super) struct PostIngest(pub(super) Submit);

/// Submit items.
///
/// One JSON object or an array of objects, into the stream of the key. 202 means that they are on disk.
#[endpoint(
    operation_id = "ingest",
    tags("submit"),
    parameters(
        ("stream" = Option<String>, Query, description = "The stream that the caller believes the key has; another one is 404."),
        ("X-Item-Key" = Option<String>, Header, description = "Name of the field, after flattening, that identifies each item."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters; a repeat within 24 hours is answered like the first and not processed again."),
    ),
    request_body(
        content = serde_json::Value,
        description = "One JSON object, or an array of them.",
        example = json!([{"id": "1", "name": "Ada"}]),
    ),
    responses(
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 400, description = "Body or headers cannot be used."),
        (status_code = 404, description = "The stream is not the key's."),
        (status_code = 413, description = "Body over the limit."),
        (status_code = 429, description = "Over the key's rate."),
        (status_code = 503, description = "Cannot be stored now."),
    ),
)]
impl PostIngest {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let stream = match req.uri().query() {
            Some(_) => req.query::<String>("stream"),
            None => None,
        };
        submit(&self.0, Endpoint::Ingest, stream, req, res).await;
    }
}

/// `POST /api/webhook/{stream}`
pub(super) struct PostWebhook(pub(super) Submit);

/// Submit items from a SaaS tool.
///
/// The same as `POST /api/ingest`, with the stream's name in the path, for tools that are given a URL.
#[endpoint(
    operation_id = "webhook",
    tags("submit"),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("X-Item-Key" = Option<String>, Header, description = "Name of the field, after flattening, that identifies each item."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters."),
    ),
    request_body(
        content = serde_json::Value,
        description = "One JSON object, or an array of them.",
        example = json!([{"id": "1", "name": "Ada"}]),
    ),
    responses(
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 400, description = "Body or headers cannot be used."),
        (status_code = 404, description = "The stream is not the key's, or does not exist."),
        (status_code = 413, description = "Body over the limit."),
        (status_code = 429, description = "Over the key's rate."),
        (status_code = 503, description = "Cannot be stored now."),
    ),
)]
impl PostWebhook {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let stream = req.param::<String>("stream").unwrap_or_default();
        submit(&self.0, Endpoint::Webhook, Some(stream), req, res).await;
    }
}

async fn submit(
    to: &Submit,
    endpoint: Endpoint,
    stream: Option<String>,
    req: &mut Request,
    res: &mut Response,
) {
    let id = request_id(req);
    let client = client(req);
    let mut body = req.take_body();
    let headers = req.headers();
    let pairs = || (headers.iter()).map(|(name, value)| (name.as_str(), value.as_bytes()));
    let known = loggable_headers(endpoint, pairs);
    let bytes = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let head = Head {
        request_id: id,
        received_ms: clock::unix_ms(),
        endpoint,
        stream: stream.as_deref(),
        authorization: bytes(&AUTHORIZATION),
        content_type: bytes(&CONTENT_TYPE),
        content_length: headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok()),
        item_key: bytes(&X_ITEM_KEY),
        idempotency_key: bytes(&IDEMPOTENCY_KEY),
        client,
        headers: known.as_deref(),
    };
    // Who asked first and was not told to go on does not send: reading would tell it to.
    let asks_first = headers.contains_key(EXPECT);
    let timeout_seconds = to.body_timeout_seconds;
    let mut reusable = true;
    let answer = match to.ingest.admit(head) {
        Ok(mut admitted) => {
            let read = body::read(&mut body, &mut admitted.budget, timeout_seconds).await;
            reusable = !matches!(read, Err(BodyError::TooSlow(_)));
            to.ingest.store(admitted, read).await
        }
        Err(mut refusal) => {
            if asks_first {
                reusable = false;
            } else if let Some(budget) = &mut refusal.budget {
                let seconds = body::DRAIN_SECONDS_MAX.min(timeout_seconds);
                match body::read(&mut body, budget, seconds).await {
                    Ok(body) => refusal.keep(body),
                    Err(error) => reusable = !matches!(error, BodyError::TooSlow(_)),
                }
            }
            to.ingest.refuse(refusal)
        }
    };
    if let Some(quota) = answer.quota {
        tell_quota(res, quota);
    }
    match answer.result {
        Ok(accepted) => acknowledge(res, &accepted),
        Err(error) => {
            if !reusable || !body::drain(&mut body).await {
                res.headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            ApiError::from(error).answer(req, res);
        }
    }
}

/// `DELETE /api/streams/{stream}/items/{key}`
pub(super) async fn remove(ingest: &Ingest, req: &mut Request, res: &mut Response) {
    let stream = req.param::<String>("stream").unwrap_or_default();
    let key = req.param::<String>("key").unwrap_or_default();
    let headers = req.headers();
    let bytes = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let head = Head {
        request_id: request_id(req),
        received_ms: clock::unix_ms(),
        endpoint: Endpoint::Items,
        stream: Some(&stream),
        authorization: bytes(&AUTHORIZATION),
        content_type: None,
        content_length: None,
        item_key: None,
        idempotency_key: bytes(&IDEMPOTENCY_KEY),
        client: client(req),
        headers: None,
    };
    let answer = ingest.remove(head, &key).await;
    if let Some(quota) = answer.quota {
        tell_quota(res, quota);
    }
    match answer.result {
        Ok(accepted) => acknowledge(res, &accepted),
        Err(error) => ApiError::from(error).answer(req, res),
    }
}

fn acknowledge(res: &mut Response, accepted: &Accepted) {
    let receipt = &accepted.receipt;
    let id = receipt.request_id;
    let mut json = String::with_capacity(128);
    json.push_str(r#"{"success":true,"data":{"stream":"#);
    json.push_str(&serde_json::to_string(&*accepted.stream).unwrap_or_default());
    let _ = write!(
        json,
        r#","items_received":{},"request_id":"{id}"}}}}"#,
        receipt.items
    );
    if receipt.replayed {
        set_request_id(res, id);
        res.headers_mut()
            .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    let headers = res.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&format!("/api/requests/{id}")) {
        headers.insert(LOCATION, location);
    }
    envelope::write_json(res, StatusCode::ACCEPTED, json.into_bytes());
}

/// The fields of the IETF draft "RateLimit header fields for HTTP".
fn tell_quota(res: &mut Response, quota: QuotaState) {
    let policy = format!(r#""key";q={};w={}"#, quota.burst, quota.window_seconds);
    let state = format!(r#""key";r={};t={}"#, quota.remaining, quota.reset_seconds);
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, state)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            res.headers_mut().insert(name, value);
        }
    }
}

/// The caller of a request without items, once its rate allows it.
fn known_caller(ingest: &Ingest, req: &Request, res: &mut Response) -> Result<Caller, AcceptError> {
    let authorization = req.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let caller = ingest.caller(authorization)?;
    let quota = caller.key.quota.take();
    tell_quota(res, quota.unwrap_or_else(|refused| refused));
    match quota {
        Ok(_) => Ok(caller),
        Err(refused) => Err(AcceptError::RateLimited {
            retry_after_seconds: refused.reset_seconds,
        }),
    }
}

/// What became of a request, for its caller.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RequestState {
    /// UUIDv7.
    request_id: String,
    /// When it arrived, RFC 3339 in UTC.
    timestamp: String,
    /// Its stream.
    stream: String,
    /// `accepted`, `processed`, `failed`, `discarded`, `rejected`, `duplicate`, `test` or `removed`.
    status: &'static str,
    /// Number of items.
    items_received: u32,
    /// Why it was refused, or why sinks gave up on it.
    errors: Vec<String>,
    /// When the last sink had it; null until then.
    processed_at: Option<String>,
    /// The sinks that want its stream.
    sinks: Vec<SinkStateData>,
}

impl From<&Report> for RequestState {
    fn from(report: &Report) -> Self {
        let entry = &report.row.entry;
        Self {
            request_id: entry.request_id.to_string(),
            timestamp: clock::rfc3339(entry.received_ms),
            stream: entry.stream.to_string(),
            status: report.status.as_str(),
            items_received: entry.items,
            errors: report.errors().map(str::to_owned).collect(),
            processed_at: report.processed_ms.map(clock::rfc3339),
            sinks: report.sinks.iter().map(SinkStateData::from).collect(),
        }
    }
}

/// `GET /api/requests/{request_id}`
pub(super) struct GetRequest(pub(super) Arc<Ingest>, pub(super) Requests);

/// What became of a request.
///
/// With any key of the connector that submitted it.
#[endpoint(
    operation_id = "get_request",
    tags("submit"),
    parameters(("request_id" = String, Path, description = "As in the answer to the request.")),
    responses(
        (status_code = 200, body = Success<RequestState>, description = "Its state."),
        (status_code = 404, description = "No such request of this connector."),
        (status_code = 429, description = "Over the key's rate."),
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
        let own = report.filter(|report| report.row.entry.connector == caller.key.connector);
        let own = own.ok_or_else(|| {
            let message = "this connector has no request with this id; check the id, or use a key of the connector that submitted it";
            ApiError::not_found("REQUEST_NOT_FOUND", message)
        })?;
        Ok(envelope::ok(RequestState::from(&own)))
    }
}
