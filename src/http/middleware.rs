//! Outermost handlers of every request: its ID, and the envelope of every error.
//!
//! **Invariant**: a panic in a handler ends only that request, with 500.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use salvo_core::conn::SocketAddr;
use salvo_core::http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use salvo_core::http::{StatusCode, Version};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use uuid::Uuid;

use super::error::ApiError;
use super::forwarded::Proxies;
use super::head;
use super::nowhere::Nowhere;
use super::rate;
use super::unauthenticated::Unauthenticated;
use catalog::VolumeLeft;
use journal::log::Client;
use observe::metrics::Metrics;
use operate::access::Token;
use settings::Networks;

/// The ID of a request, in its extensions.
#[derive(Debug, Clone, Copy)]
struct RequestId(Uuid);

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Assigns the request ID and catches panics.
pub struct Outer {
    /// Counts panics.
    pub metrics: Arc<Metrics>,
    /// Whether each request is logged.
    pub log_requests: bool,
    /// Proxies that can name the client.
    pub proxies: Proxies,
    /// Networks from which requests are accepted; empty: all.
    pub networks: Networks,
    /// Limit for unauthenticated clients; `None`: no limit.
    pub unauthenticated: Option<Unauthenticated>,
}

/// The client that a trusted proxy names, in the extensions of its request. It is found once, because several handlers
/// ask for it.
#[derive(Debug, Clone, Copy)]
struct Behind(Client);

/// A request that is being handled.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) id: Uuid,
    /// For the log. Without the log, the clock is not read.
    started: Option<Instant>,
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
        let begun = self.begin(req);
        identify(req, begun.id);
        let handled = match self.rejects(req, &begun, res) {
            false => {
                let next = AssertUnwindSafe(ctrl.call_next(req, depot, res));
                next.catch_unwind().await
            }
            true => {
                ctrl.skip_rest();
                Ok(true)
            }
        };
        self.end(begun, handled.is_err(), req, res).await;
    }
}

impl Outer {
    /// What comes before a request is handled.
    pub(super) fn begin(&self, req: &mut Request) -> Begun {
        let started = self.log_requests.then(Instant::now);
        if let Some(client) = self.proxies.client(peer(req), req) {
            req.extensions_mut().insert(Behind(client));
        }
        Begun {
            id: Uuid::now_v7(),
            started,
        }
    }

    /// Whether a request is rejected before routing; the answer is written then.
    pub(super) fn rejects(&self, req: &mut Request, begun: &Begun, res: &mut Response) -> bool {
        let Some(refusal) = self.refusal(req) else {
            return false;
        };
        identify(req, begun.id);
        let close = HeaderValue::from_static("close");
        res.headers_mut().insert(CONNECTION, close);
        refusal.answer(req, res);
        true
    }

    /// What comes after it.
    pub(super) async fn end(
        &self,
        Begun { id, started }: Begun,
        panicked: bool,
        req: &mut Request,
        res: &mut Response,
    ) {
        if res.status_code == Some(StatusCode::UNAUTHORIZED) {
            self.slow_down(req, res).await;
        }
        if panicked {
            self.metrics.panics.inc();
            tracing::error!(request_id = %id, path = req.uri().path(), "a request handler panicked");
            identify(req, id);
            set_request_id(res, id);
            failed().answer(req, res);
        }
        if !res.headers().contains_key(X_REQUEST_ID) {
            set_request_id(res, id);
        }
        head::keep_length(req, res);
        if let Some(started) = started {
            // Logs the path only: a query can contain secrets.
            tracing::info!(
                request_id = %id,
                method = %req.method(),
                path = %req.uri().path(),
                token = req.extensions().get::<Arc<Token>>().map(|token| &*token.name),
                status = res.status_code.map(|status| status.as_u16()),
                micros = started.elapsed().as_micros(),
                "request"
            );
        }
    }

    /// Why a request is rejected before routing.
    fn refusal(&self, req: &Request) -> Option<ApiError> {
        if let Some(why) = two_ways_to_read(req) {
            return Some(ApiError::invalid(why));
        }
        if self.networks.is_empty() {
            return None;
        }
        let client = client(req);
        let message = || {
            format!(
                "{client} is not in a network that this listener allows; an operator adds it to `networks` of [admin] in the configuration"
            )
        };
        let is_let_in = self.networks.contains(client.address());
        (!is_let_in).then(|| ApiError::new(StatusCode::FORBIDDEN, "ADDRESS_NOT_ALLOWED", message()))
    }

    /// Delays the response to a client that sent too many requests without a valid key.
    async fn slow_down(&self, req: &Request, res: &mut Response) {
        let Some(unauthenticated) = &self.unauthenticated else {
            return;
        };
        let Some(address) = client(req).address() else {
            return;
        };
        if let Some(quota) = unauthenticated.came(address).await {
            let seconds = quota.reset_seconds;
            let message = format!(
                "too many requests without a valid key from this address; send a valid key, or wait {seconds} s"
            );
            res.headers_mut().remove(WWW_AUTHENTICATE);
            rate::write_headers(res, "address", quota, VolumeLeft::default());
            ApiError::wait(seconds, message).answer(req, res);
        }
    }
}

/// Why a proxy may have interpreted the request differently than the daemon does. (If both lengths are present, the
/// HTTP library reads chunks, and closes the connection after the response.) Such a request could carry a second one
/// past the proxy.
fn two_ways_to_read(req: &Request) -> Option<&'static str> {
    let mut keys = req.headers().get_all(AUTHORIZATION).iter();
    if keys.next().is_some() && keys.next().is_some() {
        return Some("the request has more than one Authorization header; send one");
    }
    let mut hosts = req.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => None,
        (None, _) if req.version() < Version::HTTP_11 => None,
        (None, _) => Some("HTTP/1.1 requires a Host header; send one"),
        (Some(_), Some(_)) => Some("the request has more than one Host header; send one"),
    }
}

/// Keeps the ID of a request with it, for answers that name it.
pub(super) fn identify(req: &mut Request, id: Uuid) {
    req.extensions_mut().insert(RequestId(id));
}

/// The ID that [`Outer`] assigned to the request.
pub fn request_id(req: &Request) -> Uuid {
    req.extensions()
        .get::<RequestId>()
        .map_or_else(Uuid::now_v7, |id| id.0)
}

/// The client of a request: the client that a trusted proxy names, or else the peer of the connection.
pub fn client(req: &Request) -> Client {
    let behind = req.extensions().get::<Behind>();
    behind.map_or_else(|| peer(req), |behind| behind.0)
}

fn peer(req: &Request) -> Client {
    client_at(req.remote_addr())
}

pub(super) fn client_at(address: &SocketAddr) -> Client {
    match address {
        SocketAddr::IPv4(address) => Client::Address((*address.ip()).into()),
        // A dual-stack listener shows IPv4 clients as mapped IPv6 addresses.
        SocketAddr::IPv6(address) => Client::Address(address.ip().to_canonical()),
        _ => Client::Unix,
    }
}

fn set_request_id(res: &mut Response, id: Uuid) {
    let mut buffer = Uuid::encode_buffer();
    let text = id.hyphenated().encode_lower(&mut buffer);
    if let Ok(value) = HeaderValue::from_str(text) {
        res.headers_mut().insert(X_REQUEST_ID, value);
    }
}

/// Adds the envelope to responses that the framework creates without a body: unknown paths, wrong methods. Browsers
/// receive a page.
pub struct ErrorEnvelope(pub Nowhere);

#[async_trait]
impl Handler for ErrorEnvelope {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        if self.0.answer(req, res) {
            return;
        }
        let status = res.status_code.unwrap_or(StatusCode::NOT_FOUND);
        let error = match status {
            StatusCode::NOT_FOUND => ApiError::not_found(
                "NOT_FOUND",
                "this path does not exist; /openapi.json lists the paths",
            ),
            StatusCode::METHOD_NOT_ALLOWED => ApiError::new(
                status,
                "METHOD_NOT_ALLOWED",
                "this path does not support this method; the header Allow lists the supported methods",
            ),
            status if status.is_server_error() => failed(),
            _ => ApiError::invalid("the request is malformed"),
        };
        ApiError { status, ..error }.answer(req, res);
    }
}

/// The response after a panic; the reason is already in the log.
fn failed() -> ApiError {
    let message = "internal error; for details, search the log for this request ID";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
}

#[cfg(test)]
mod tests;
