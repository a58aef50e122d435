//! The head of a request as the pipeline reads it.
//!
//! **Invariant**: values are as they came; nothing is judged here.

use salvo_core::Request;
use salvo_core::http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use uuid::Uuid;

use crate::clock;
use crate::http::middleware::{client, request_id};
use crate::http::tls::fingerprint;
use crate::ingest::{Address, Head, loggable_headers};
use crate::journal::log::{Client, Endpoint};
use crate::sender::Headers;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const X_ITEM_KEY: HeaderName = HeaderName::from_static("x-item-key");

/// A header: its name in lower case, and its value.
type Pair<'a> = (&'a str, &'a [u8]);

/// What a [`Head`] is borrowed from.
pub(super) struct Parts<'a> {
    endpoint: Endpoint,
    request_id: Uuid,
    client: Client,
    headers: &'a HeaderMap,
    stream: Option<String>,
    access_token: Option<String>,
    certificate: Option<[u8; 32]>,
    /// Of a request to the address of a connector: its name, and all headers.
    address: Option<(String, Vec<Pair<'a>>)>,
    method: &'a str,
    target: &'a str,
    loggable: Option<String>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(req: &'a Request, endpoint: Endpoint, stream: Option<String>) -> Self {
        let headers = req.headers();
        let pairs = || (headers.iter()).map(|(name, value)| (name.as_str(), value.as_bytes()));
        let is_webhook = endpoint == Endpoint::Webhook;
        let connector = is_webhook.then(|| req.param::<String>("connector"));
        let has_query = is_webhook && req.uri().query().is_some();
        let loggable = match endpoint {
            Endpoint::Items => None,
            _ => loggable_headers(endpoint, pairs),
        };
        let target = req.uri().path_and_query();
        Self {
            endpoint,
            request_id: request_id(req),
            client: client(req),
            headers,
            stream,
            access_token: has_query
                .then(|| req.query::<String>("access_token"))
                .flatten(),
            certificate: match headers.contains_key(AUTHORIZATION) {
                true => None,
                false => fingerprint(req),
            },
            address: connector.flatten().map(|name| (name, pairs().collect())),
            method: req.method().as_str(),
            target: target.map_or("/", |target| target.as_str()),
            loggable,
        }
    }

    pub(super) fn head(&self) -> Head<'_> {
        let bytes = |name: &HeaderName| self.headers.get(name).map(HeaderValue::as_bytes);
        let length = self.headers.get(CONTENT_LENGTH);
        let address = (self.address.as_ref()).map(|(connector, pairs)| Address {
            connector,
            method: self.method,
            target: self.target,
            headers: Headers(pairs),
        });
        Head {
            request_id: self.request_id,
            received_ms: clock::unix_ms(),
            endpoint: self.endpoint,
            stream: self.stream.as_deref(),
            authorization: bytes(&AUTHORIZATION),
            access_token: self.access_token.as_deref(),
            certificate: self.certificate,
            address,
            content_type: bytes(&CONTENT_TYPE),
            content_length: length.and_then(|length| length.to_str().ok()?.parse().ok()),
            item_key: bytes(&X_ITEM_KEY),
            idempotency_key: bytes(&IDEMPOTENCY_KEY),
            client: self.client,
            headers: self.loggable.as_deref(),
        }
    }
}
