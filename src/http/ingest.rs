//! The endpoints of senders: submit, remove, challenge. `state` returns the status of a request.
//!
//! **Invariant**: all endpoints that submit items run the same pipeline; they differ in the source of the stream's
//! name, and in the authentication.

mod answer;
mod direct;
mod head;
mod state;

use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{ALLOW, CONNECTION, HeaderValue};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use salvo_oapi::endpoint;
use uuid::Uuid;

use super::body;
use super::envelope::Success;
use super::middleware::{identify, request_id};
use ::ingest::{BodyError, Ingest};
pub use direct::Direct;
use head::Parts;
use journal::log::Endpoint;
pub use state::GetRequest;
use wire::ReceiptData;

/// State of the endpoints that submit items.
#[derive(Debug, Clone)]
pub struct Submit {
    /// The pipeline that accepts requests.
    pub ingest: Arc<Ingest>,
    /// Maximum seconds for reading a body.
    pub body_timeout_seconds: u64,
}

/// Where items are submitted to.
pub(crate) struct Target {
    endpoint: Endpoint,
    /// The stream that the request names.
    stream: Option<String>,
    connector: Option<String>,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::Ingest,
            stream: None,
            connector: None,
        }
    }
}

impl Target {
    /// That of the path, as the framework has read it.
    fn of_path(req: &Request) -> Self {
        Self {
            endpoint: Endpoint::Webhook,
            stream: Some(req.param::<String>("stream").unwrap_or_default()),
            connector: req.param::<String>("connector"),
        }
    }
}

/// `POST /api/ingest`
pub struct PostIngest(pub Submit);

/// Submit items.
///
/// The body is one JSON object or an array of objects, for the stream of the key. 202 means that they are on disk.
#[endpoint(
    operation_id = "ingest",
    tags("submit"),
    parameters(
        ("stream" = Option<String>, Query, description = "The stream that the sender expects; 404 if the key is for another one."),
        ("X-Item-Key" = Option<String>, Header, description = "Name of the field, after flattening, that identifies each item."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 bytes, spaces and UTF-8 included, compared byte by byte; a request with the same key within 24 hours gets the same response and is not processed again."),
    ),
    request_body(
        content = serde_json::Value,
        description = "One JSON object, or an array of them.",
        example = json!([{"id": "1", "name": "Ada"}]),
    ),
    responses(
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 400, description = "The body or a header is invalid."),
        (status_code = 404, description = "The key is for another stream."),
        (status_code = 413, description = "The body exceeds the limit, compressed or decompressed."),
        (status_code = 415, description = "`Content-Encoding` is not `gzip`, `deflate`, `zstd` or `identity`."),
        (status_code = 429, description = "The key exceeded its rate limit or byte quota, or its stream is full."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl PostIngest {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let target = Target {
            stream: stream_of_query(req),
            ..Target::default()
        };
        submit(&self.0, request_id(req), target, req, res).await;
    }
}

/// `POST /api/webhook/{stream}`
pub struct PostWebhook(pub Submit);

/// Submit items from a provider.
///
/// Like `POST /api/ingest`, with the stream's name in the path, for providers that are configured with a URL.
#[endpoint(
    operation_id = "webhook",
    tags("submit"),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("X-Item-Key" = Option<String>, Header, description = "Name of the field, after flattening, that identifies each item."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 bytes, spaces and UTF-8 included, compared byte by byte."),
    ),
    request_body(
        content = serde_json::Value,
        description = "One JSON object, or an array of them.",
        example = json!([{"id": "1", "name": "Ada"}]),
    ),
    responses(
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 400, description = "The body or a header is invalid."),
        (status_code = 404, description = "The key is for another stream, or the stream does not exist."),
        (status_code = 413, description = "The body exceeds the limit, compressed or decompressed."),
        (status_code = 415, description = "`Content-Encoding` is not `gzip`, `deflate`, `zstd` or `identity`."),
        (status_code = 429, description = "The key exceeded its rate limit or byte quota, or its stream is full."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl PostWebhook {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let target = Target::of_path(req);
        submit(&self.0, request_id(req), target, req, res).await;
    }
}

/// `POST /api/webhook/{stream}/{connector}`
pub struct PostAddress(pub Submit);

/// Submit items to the address of a connector.
///
/// For providers that sign their requests, or accept only a URL. The body can be JSON, lines of JSON or a form, also
/// compressed. The connector's preset determines the item key and the id of the delivery.
#[endpoint(
    operation_id = "webhook_address",
    tags("submit"),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("connector" = String, Path, description = "Name of the connector."),
        ("access_token" = Option<String>, Query, description = "The key, if it is allowed in URLs."),
    ),
    request_body(
        content = serde_json::Value,
        description = "The delivery of the provider.",
        example = json!({"id": "1", "name": "Ada"}),
    ),
    responses(
        (status_code = 200, description = "Like 202, for providers that expect 200; or the response to a challenge."),
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 204, description = "Like 202, for providers that expect 204."),
        (status_code = 400, description = "The body or a header is invalid."),
        (status_code = 401, description = "The request is not authenticated: it has no valid key or signature, or the connector does not exist."),
        (status_code = 404, description = "The stream does not exist."),
        (status_code = 413, description = "The body exceeds the limit, compressed or decompressed."),
        (status_code = 415, description = "`Content-Encoding` is not `gzip`, `deflate`, `zstd` or `identity`."),
        (status_code = 429, description = "The key exceeded its rate limit, or too many requests had no valid signature."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl PostAddress {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let target = Target::of_path(req);
        submit(&self.0, request_id(req), target, req, res).await;
    }
}

/// `GET /api/webhook/{stream}/{connector}`
pub struct GetAddress(pub Arc<Ingest>);

/// Try the address of a connector.
///
/// For providers that test a URL with `GET` or `HEAD` before they use it: 200 without a body, for every connector and
/// stream, whether it exists or not. If the preset has its own challenge, the response is the answer to it.
#[endpoint(
    operation_id = "try_webhook_address",
    tags("submit"),
    security(()),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("connector" = String, Path, description = "Name of the connector."),
    ),
    responses(
        (status_code = 200, description = "The URL is reachable; or the response to the provider's challenge."),
        (status_code = 401, description = "The challenge has no valid signature or verify token."),
    ),
)]
impl GetAddress {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        greet(&self.0, req, res);
    }
}

/// Tests of a connector's address by providers before they send, with `HEAD` or `OPTIONS`.
pub struct Greet(pub Arc<Ingest>);

#[async_trait]
impl Handler for Greet {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        greet(&self.0, req, res);
    }
}

fn greet(ingest: &Ingest, req: &mut Request, res: &mut Response) {
    let parts = Parts::of(req, request_id(req), Target::of_path(req));
    match ingest.write_challenge(parts.head()) {
        Some(answer) => answer::write(answer, Endpoint::Webhook, req, res),
        None => {
            res.status_code(StatusCode::METHOD_NOT_ALLOWED);
            let allow = HeaderValue::from_static("POST, GET, HEAD");
            res.headers_mut().insert(ALLOW, allow);
        }
    }
}

/// The stream that a sender expects.
fn stream_of_query(req: &Request) -> Option<String> {
    req.uri().query()?;
    req.query::<String>("stream")
}

async fn submit(to: &Submit, id: Uuid, target: Target, req: &mut Request, res: &mut Response) {
    let mut body = req.take_body();
    let tracer = to.ingest.tracer();
    let endpoint = target.endpoint;
    let parts = Parts::of(req, id, target).followed(tracer);
    // A client that sent `Expect` and received no 100 does not send its body. Reading would send the 100.
    let asks_first = parts.asks_first();
    let timeout_seconds = to.body_timeout_seconds;
    let mut reusable = true;
    let answer = match to.ingest.admit(parts.head()) {
        Ok(mut admitted) => {
            let read = body::read(&mut body, &mut admitted.budget, timeout_seconds).await;
            parts.received(tracer);
            reusable = !matches!(read, Err(BodyError::TooSlow(_) | BodyError::GaveWay));
            to.ingest.store(admitted, read).await
        }
        Err(mut refusal) => {
            if asks_first {
                reusable = false;
            } else if let Some(budget) = &mut refusal.budget {
                let seconds = body::DRAIN_SECONDS_MAX.min(timeout_seconds);
                match body::read(&mut body, budget, seconds).await {
                    Ok(body) => refusal.keep(body),
                    Err(error) => {
                        reusable = !matches!(error, BodyError::TooSlow(_) | BodyError::GaveWay);
                    }
                }
            }
            to.ingest.refuse(refusal)
        }
    };
    if answer.result.is_err() && (!reusable || !body::drain(&mut body).await) {
        let close = HeaderValue::from_static("close");
        res.headers_mut().insert(CONNECTION, close);
    }
    let span = parts.span(&answer);
    if answer.result.is_err() {
        identify(req, id);
    }
    answer::write(answer, endpoint, req, res);
    head::answered(tracer, span, res);
}

/// `DELETE /api/streams/{stream}/items/{key}`
pub(super) async fn remove(ingest: &Ingest, req: &mut Request, res: &mut Response) {
    let stream = req.param::<String>("stream").unwrap_or_default();
    let key = req.param::<String>("key").unwrap_or_default();
    let target = Target {
        endpoint: Endpoint::Items,
        stream: Some(stream),
        connector: None,
    };
    let parts = Parts::of(req, request_id(req), target).followed(ingest.tracer());
    let answer = ingest.remove(parts.head(), &key).await;
    let span = parts.span(&answer);
    answer::write(answer, Endpoint::Items, req, res);
    head::answered(ingest.tracer(), span, res);
}
