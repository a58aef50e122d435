//! The head of a request, as the pipeline reads it.
//!
//! **Invariant**: values are passed on unchanged; nothing is validated here.

use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderMap, HeaderValue};
use salvo_core::{Request, Response};
use uuid::Uuid;

use super::Target;
use crate::middleware::client;
use crate::tls::fingerprint;
use ::ingest::{Address, Answer, Head, Reply, loggable_headers};
use base::clock::Unix;
use journal::log::{Client, Endpoint};
use observe::telemetry::{Open, SpanKind, Trace, Tracer, Value};
use webhook::Headers;

/// A header: its name in lower case, and its value.
type Pair<'a> = (&'a str, &'a [u8]);

/// Owner of the values that a [`Head`] borrows.
pub(super) struct Parts<'a> {
    endpoint: Endpoint,
    request_id: Uuid,
    client: Client,
    headers: &'a HeaderMap,
    known: KnownHeaders<'a>,
    stream: Option<String>,
    access_token: Option<String>,
    certificate: Option<[u8; 32]>,
    /// For a request to the address of a connector: the connector's name, and all headers.
    address: Option<(String, Vec<Pair<'a>>)>,
    method: &'a str,
    target: &'a str,
    loggable: Option<Arc<str>>,
    /// The trace of the request, if it is traced.
    pub(super) trace: Option<Trace>,
}

/// The values of the headers that the pipeline reads; of a header that is repeated, the first.
#[derive(Default)]
struct KnownHeaders<'a> {
    authorization: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    expect: Option<&'a [u8]>,
    idempotency_key: Option<&'a [u8]>,
    x_item_key: Option<&'a [u8]>,
}

impl<'a> KnownHeaders<'a> {
    /// Finds them in one pass. A lookup by hash for each of them costs more.
    fn of(headers: &'a HeaderMap) -> Self {
        let mut known = Self::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "authorization" => &mut known.authorization,
                "content-encoding" => &mut known.content_encoding,
                "content-length" => &mut known.content_length,
                "content-type" => &mut known.content_type,
                "expect" => &mut known.expect,
                "idempotency-key" => &mut known.idempotency_key,
                "x-item-key" => &mut known.x_item_key,
                _ => continue,
            };
            place.get_or_insert(value.as_bytes());
        }
        known
    }
}

impl<'a> Parts<'a> {
    pub(super) fn of(req: &'a Request, request_id: Uuid, target: Target) -> Self {
        let Target {
            endpoint,
            stream,
            connector,
        } = target;
        let headers = req.headers();
        let known = KnownHeaders::of(headers);
        let pairs = || (headers.iter()).map(|(name, value)| (name.as_str(), value.as_bytes()));
        let is_webhook = endpoint == Endpoint::Webhook;
        let has_query = is_webhook && req.uri().query().is_some();
        let loggable = match endpoint {
            Endpoint::Items | Endpoint::Expiry | Endpoint::Problems => None,
            _ => loggable_headers(endpoint, pairs),
        };
        let target = req.uri().path_and_query();
        Self {
            endpoint,
            request_id,
            client: client(req),
            headers,
            stream,
            access_token: has_query
                .then(|| req.query::<String>("access_token"))
                .flatten(),
            certificate: match known.authorization {
                Some(_) => None,
                None => fingerprint(req),
            },
            known,
            address: connector.map(|name| (name, pairs().collect())),
            method: req.method().as_str(),
            target: target.map_or("/", |target| target.as_str()),
            loggable,
            trace: None,
        }
    }

    /// Whether the client waits for an answer before it sends its body. Such a client is answered before it sends, so
    /// its body is not read.
    pub(super) fn asks_first(&self) -> bool {
        self.known.expect.is_some()
    }

    /// Begins a trace if a collector is configured.
    pub(super) fn followed(mut self, tracer: &Tracer) -> Self {
        let headers = self.headers;
        self.trace = tracer.begin(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes));
        self
    }

    /// The span of the request, if it is traced: with the answer, but for its status.
    pub(super) fn span(&self, answer: &Answer) -> Option<Open> {
        let trace = self.trace.as_ref()?;
        let route = match (self.endpoint, &self.address) {
            (Endpoint::Ingest, _) => "/api/ingest",
            (Endpoint::Webhook, None) => "/api/webhook/{stream}",
            (Endpoint::Webhook, Some(_)) => "/api/webhook/{stream}/{connector}",
            // No client requests an expiry.
            (Endpoint::Items | Endpoint::Expiry | Endpoint::Problems, _) => {
                "/api/streams/{stream}/items/{key}"
            }
        };
        let text = |text: String| Value::Text(text.into());
        let mut span = trace
            .root(format!("{} {route}", self.method))
            .with("http.request.method", text(self.method.to_owned()))
            .with("http.route", Value::Text(route.into()))
            .with("headgate.request_id", text(self.request_id.to_string()));
        if let Ok(Reply::Accepted(accepted)) = &answer.result {
            let receipt = &accepted.receipt;
            span = span
                .with("headgate.stream", Value::from(&accepted.stream))
                .with("headgate.items", Value::Number(receipt.items.into()));
            if receipt.replayed {
                span = span.with("headgate.replayed", Value::Text("true".into()));
            }
        }
        Some(span)
    }

    /// Ends the span of receiving the body, complete or not.
    pub(super) fn received(&self, tracer: &Tracer) {
        if let Some(trace) = &self.trace {
            let span = trace.open("receive", SpanKind::Internal);
            tracer.end(span.since_the_beginning());
        }
    }

    pub(super) fn head(&self) -> Head<'_> {
        let known = &self.known;
        let length = (known.content_length).and_then(|length| std::str::from_utf8(length).ok());
        let address = (self.address.as_ref()).map(|(connector, pairs)| Address {
            connector,
            method: self.method,
            target: self.target,
            headers: Headers(pairs),
        });
        Head {
            request_id: self.request_id,
            received_at: Unix::now(),
            endpoint: self.endpoint,
            stream: self.stream.as_deref(),
            authorization: known.authorization,
            access_token: self.access_token.as_deref(),
            certificate: self.certificate,
            address,
            content_type: known.content_type,
            content_encoding: known.content_encoding,
            content_length: length.and_then(|length| length.parse().ok()),
            item_key: known.x_item_key,
            idempotency_key: known.idempotency_key,
            client: self.client,
            headers: self.loggable.as_ref(),
            trace: self.trace.as_ref(),
        }
    }
}

/// Ends the trace. Requests of unauthenticated clients are not traced; metrics count them.
pub(super) fn answered(tracer: &Tracer, span: Option<Open>, res: &Response) {
    let Some(span) = span else { return };
    let status = res.status_code.unwrap_or_default();
    if status == StatusCode::UNAUTHORIZED {
        return;
    }
    let number = Value::Number(status.as_u16().into());
    let mut span = span.with("http.response.status_code", number);
    if status.is_server_error() {
        span.fail("UNAVAILABLE");
    }
    tracer.end(span);
}
