//! Authentication of readers: read keys, tickets, origins.
//!
//! **Invariant**: a page whose origin is neither the daemon's own nor allowed, for all keys or for one, is rejected
//! before its key is verified. If the origin is allowed only for some keys, the page can read with these keys only. A
//! response never repeats a secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use salvo_core::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, HOST, HeaderMap,
    HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_PROTOCOL, USER_AGENT, VARY,
};
use salvo_core::http::{Method, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use super::error::ApiError;
use super::middleware::client;
use super::tls::fingerprint;
use ::ingest::check_place;
use ::live::{Asker, Live, tickets};
use catalog::{Catalog, KeyState, Reader};
use pool::Pool;

const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");
/// Headers that pages can send to the reading endpoints.
const HEADERS_ALLOWED: &str = "authorization, content-type, if-none-match, last-event-id";
/// The WebSocket subprotocol. A client offers the secret as a second subprotocol, which is never selected.
pub(super) const SUBPROTOCOL: &str = "headgate";

/// Maximum characters of a user agent. It is stored with the record of a screen.
const AGENT_CHARS_MAX: usize = 200;

/// State of the reading endpoints.
#[derive(Debug, Clone)]
pub struct Readers {
    /// The keys and streams.
    pub catalog: Arc<Catalog>,
    /// The items.
    pub pool: Arc<Pool>,
    /// The subscriptions.
    pub live: Arc<Live>,
}

/// The read key is missing or invalid.
fn unauthorized() -> ApiError {
    ApiError::unauthorized(
        "the read key or ticket is missing, unknown, used, expired or revoked; send a valid key in the header `Authorization: Bearer rk_…`, or a new ticket of POST /api/tickets as `?token=`",
    )
}

/// The key does not read the stream, or the stream does not exist.
pub fn no_stream() -> ApiError {
    ApiError::not_found(
        "STREAM_NOT_FOUND",
        "this read key is for other streams; check the stream name in the URL, or use a key that reads the stream",
    )
}

/// The origin of the page, if only some keys allow it. The key is known later, so the origin is passed on until then.
#[derive(Debug, Clone)]
struct OfSomeKeys(String);

fn origin_refused(origin: &str) -> ApiError {
    let message = format!(
        "the origin {} is not allowed; add it to `origins` of the read key, or to `live.origins` in the configuration",
        origin.escape_debug()
    );
    ApiError::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", message)
}

/// Returns the reader if its key allows the origin of the page and the network of the client.
fn from_its_place(req: &Request, reader: Arc<Reader>) -> Result<Arc<Reader>, ApiError> {
    if let Some(OfSomeKeys(origin)) = req.extensions().get()
        && !reader.admits(origin)
    {
        return Err(origin_refused(origin));
    }
    check_place(&reader.settings.networks, client(req))?;
    Ok(reader)
}

/// Allows pages to read if their origin is the daemon's own or allowed, and sets the CORS headers.
pub struct CheckOrigin {
    /// Origins in the configuration, for all keys.
    pub listed: Arc<[String]>,
    /// The keys, which can have their own origins.
    pub catalog: Arc<Catalog>,
}

#[async_trait]
impl Handler for CheckOrigin {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let headers = req.headers();
        if let Some(origin) = headers.get(ORIGIN).cloned() {
            if !allows(&self.listed, &origin, headers) {
                let named = origin.to_str().unwrap_or("this origin").to_owned();
                // A removal uses an ingest key, which has no origins.
                let reads = *req.method() != Method::DELETE;
                if !reads || !self.catalog.admits_origin(&named) {
                    ctrl.skip_rest();
                    return origin_refused(&named).answer(req, res);
                }
                req.extensions_mut().insert(OfSomeKeys(named));
            }
            let answer = res.headers_mut();
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static("etag, x-request-id, x-total-count");
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        res.headers_mut()
            .insert(VARY, HeaderValue::from_static("origin"));
        ctrl.call_next(req, depot, res).await;
    }
}

/// Whether pages of an origin can read with every key.
fn allows(listed: &[String], origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    own_host(headers).is_some_and(|own| own.eq_ignore_ascii_case(authority(origin)))
        || listed.iter().any(|one| one == "*" || one == origin)
}

fn authority(origin: &str) -> &str {
    origin.split_once("://").map_or("", |(_, host)| host)
}

/// Host and port of the `Host` header.
fn own_host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

/// `OPTIONS`: the preflight request of a browser.
pub struct Preflight;

#[async_trait]
impl Handler for Preflight {
    async fn handle(&self, _: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        res.status_code(StatusCode::NO_CONTENT);
        for (name, value) in [
            (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
            (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS_ALLOWED),
            (ACCESS_CONTROL_MAX_AGE, "600"),
            (ALLOW_PRIVATE_NETWORK, "true"),
        ] {
            res.headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
    }
}

fn asker(req: &Request) -> Asker {
    Asker {
        client: client(req).to_string(),
        agent: agent(req.headers()),
    }
}

/// The secret of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// The password of `Authorization: Basic …` (RFC 7617).
fn password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let (_, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(password.to_owned())
}

/// The user agent, shortened.
pub fn agent(headers: &HeaderMap) -> Option<String> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    Some(agent.chars().take(AGENT_CHARS_MAX).collect())
}

impl Readers {
    /// Records the request for a feed.
    pub fn note_poll(&self, req: &Request, reader: &Reader) {
        let asker = asker(req);
        let feed = req.uri().path();
        self.live.screens.polled(&reader.name, &asker, feed);
    }

    /// Records a rejected request for the screen of its read key, if the key is known. Otherwise an operator would see
    /// a screen that is away and not why.
    pub fn note_refused(&self, req: &mut Request, error: &ApiError) {
        let status = error.status.as_u16();
        if !matches!(status, 401 | 403 | 404 | 429) {
            return;
        }
        let headers = req.headers();
        let secret = bearer(headers).map(str::to_owned);
        let secret = secret.or_else(|| password(headers));
        let secret = secret.or_else(|| offered_secret(headers));
        let secret = secret.or_else(|| req.query::<String>("token"));
        let Some(key) = secret.and_then(|secret| self.catalog.read_key_of(&secret)) else {
            return;
        };
        let why = match key.state() {
            KeyState::Active => format!("{status} {}", error.code),
            state => format!("the read key is {}", state.as_str()),
        };
        self.live.screens.refused(&key.name, &asker(req), &why);
    }

    /// The reader of a request with a read key in the header, or with a client certificate.
    pub(super) fn with_key(&self, req: &Request) -> Result<Arc<Reader>, ApiError> {
        let reader = match bearer(req.headers()) {
            Some(secret) => self.catalog.reader(secret),
            None => self.with_certificate(req),
        };
        from_its_place(req, reader.ok_or_else(unauthorized)?)
    }

    fn with_certificate(&self, req: &Request) -> Option<Arc<Reader>> {
        self.catalog.reader_with_certificate(fingerprint(req)?)
    }

    /// As `with_key`, or with a key in the URL if the key allows that.
    pub(super) fn with_key_or_token(&self, req: &mut Request) -> Result<Arc<Reader>, ApiError> {
        if req.headers().contains_key(AUTHORIZATION) {
            return self.with_key(req);
        }
        let reader = match req.query::<String>("token") {
            Some(secret) => {
                (self.catalog.reader(&secret)).filter(|reader| reader.settings.allow_in_url)
            }
            None => self.with_certificate(req),
        };
        from_its_place(req, reader.ok_or_else(unauthorized)?)
    }

    /// As `with_key_or_token`, or with the key as the password of Basic authentication and any user name.
    pub fn with_key_token_or_password(&self, req: &mut Request) -> Result<Arc<Reader>, ApiError> {
        let Some(secret) = password(req.headers()) else {
            return self.with_key_or_token(req);
        };
        let reader = self.catalog.reader(&secret);
        from_its_place(req, reader.ok_or_else(unauthorized)?)
    }

    /// The reader that follows streams, and the streams that it can follow. The secret is in the header, in `?token=`
    /// or in the subprotocol.
    pub(super) async fn follower(
        &self,
        req: &mut Request,
    ) -> Result<(Arc<Reader>, Vec<Arc<str>>), ApiError> {
        if req.headers().contains_key(AUTHORIZATION) {
            let reader = self.with_key(req)?;
            let streams = reader.streams.clone();
            return Ok((reader, streams));
        }
        let in_url = req.query::<String>("token");
        let offered = offered_secret(req.headers());
        let secret = in_url.as_deref().or(offered.as_deref());
        let Some(secret) = secret else {
            let reader = self.with_certificate(req).ok_or_else(unauthorized)?;
            let reader = from_its_place(req, reader)?;
            let streams = reader.streams.clone();
            return Ok((reader, streams));
        };
        if secret.starts_with(tickets::PREFIX) {
            let headers = req.headers();
            let comes_from = |bound: &str| comes_from(headers, bound);
            let grant = self.live.tickets.take(secret, comes_from).await?;
            let grant = grant.ok_or_else(unauthorized)?;
            return Ok((from_its_place(req, grant.reader)?, grant.streams));
        }
        let reader = self.catalog.reader(secret);
        let reader = reader.ok_or_else(unauthorized)?;
        if in_url.is_some() && !reader.settings.allow_in_url {
            return Err(unauthorized());
        }
        let reader = from_its_place(req, reader)?;
        let streams = reader.streams.clone();
        Ok((reader, streams))
    }
}

/// The secret that a WebSocket client offers in addition to the subprotocol.
fn offered_secret(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|offer| *offer != SUBPROTOCOL && !offer.is_empty())
        .map(str::to_owned)
}

/// Whether the request comes from a page of this origin. Browsers omit the header in same-origin `GET` requests.
fn comes_from(headers: &HeaderMap, origin: &str) -> bool {
    match page_origin(headers) {
        Some(page) => page == origin,
        None => own_host(headers).is_some_and(|own| own.eq_ignore_ascii_case(authority(origin))),
    }
}

/// The origin of the page, if the header is present.
pub(super) fn page_origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(ORIGIN)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_read_from_its_own_host_or_when_it_is_listed() {
        let check = |allowed: &[&str], host: &str, origin: &str| {
            let allowed: Vec<String> = allowed.iter().map(|one| (*one).to_owned()).collect();
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(host).expect("a host"));
            let origin = HeaderValue::from_str(origin).expect("an origin");
            allows(&allowed, &origin, &headers)
        };
        assert!(check(&[], "10.0.0.5:8080", "http://10.0.0.5:8080"));
        assert!(!check(&[], "10.0.0.5:8080", "http://10.0.0.5"));
        assert!(!check(&[], "10.0.0.5:8080", "https://evil.example"));
        assert!(!check(&[], "10.0.0.5:8080", "null"));
        assert!(check(&["null"], "10.0.0.5:8080", "null"));
        assert!(check(&["*"], "10.0.0.5:8080", "https://any.example"));
        let listed = &["https://a.example"];
        assert!(check(listed, "h", "https://a.example"));
        assert!(!check(listed, "h", "http://a.example"));
        assert!(!check(listed, "h", "https://a.example.evil"));
    }
}
