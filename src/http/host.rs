//! Checks of the `Host` header, and of the origin of a request.
//!
//! **Invariant**: a name is the daemon's own only if no foreign name server can answer for it, or the configuration
//! lists it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use salvo_core::http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

/// Header in which a browser states the site that sent a request.
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Host and port of the `Host` header; the host without brackets.
pub fn host(headers: &HeaderMap) -> Option<(&str, Option<u16>)> {
    let text = headers.get(HOST)?.to_str().ok()?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
        _ => (text, None),
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(|_| (bare, port)),
        None => Some((host, port)),
    }
}

/// Names of the admin listener, in addition to addresses and `localhost`.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The names in the configuration.
    pub listed: Arc<[String]>,
    /// Only this machine can reach the listener. The names below `localhost` are then its own too, because browsers
    /// resolve them to their own machine without a name server.
    pub is_local: bool,
}

impl Hosts {
    /// Whether the `Host` header is an address or a name of this listener. Otherwise a page of another site could reach
    /// the listener by a name that resolves to this machine.
    pub fn are_asked_by(&self, headers: &HeaderMap) -> bool {
        host(headers).is_some_and(|(host, _)| {
            host.parse::<Ipv4Addr>().is_ok()
                || host.parse::<Ipv6Addr>().is_ok()
                || host.eq_ignore_ascii_case("localhost")
                || (self.is_local && is_below_localhost(host))
                || self.listed.iter().any(|own| own.eq_ignore_ascii_case(host))
        })
    }
}

/// `headgate.localhost` (RFC 6761, section 6.3).
fn is_below_localhost(host: &str) -> bool {
    let Some((name, last)) = host.rsplit_once('.') else {
        return false;
    };
    last.eq_ignore_ascii_case("localhost")
        && name.split('.').all(|label| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(is_plain)
        })
}

/// Whether the browser states that the request comes from a page of the daemon. Every browser does so for writes.
pub fn from_same_origin(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let origin = headers.get(ORIGIN).map(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        matches!((origin, host), (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host))
    });
    match (site, origin) {
        (None, None) => false,
        (site, origin) => site.is_none_or(|site| site == b"same-origin") && origin != Some(false),
    }
}

#[cfg(test)]
mod tests;
