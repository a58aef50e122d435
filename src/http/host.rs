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
    /// Whether the `Host` header is an address or a name of this listener.
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
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("a header");
            (name.clone(), value)
        });
        pairs.collect()
    }

    #[test]
    fn only_addresses_localhost_and_listed_names_are_its_own() {
        let hosts = |is_local| Hosts {
            listed: ["headgate.example".to_owned()].into(),
            is_local,
        };
        let check = |host: &str, expected| {
            let headers = headers(&[(HOST, host)]);
            for is_local in [false, true] {
                let own = hosts(is_local).are_asked_by(&headers);
                assert_eq!(own, expected, "{host} {is_local}");
            }
        };
        for own in [
            "127.0.0.1:8081",
            "10.1.2.3",
            "[::1]:8081",
            "[fe80::1]",
            "localhost",
            "LocalHost:8081",
            "headgate.example",
            "Headgate.Example:443",
        ] {
            check(own, true);
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:8081",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8081",
            "headgate.example.evil",
            "[evil]:8081",
            "127.0.0.1:port",
            ".localhost:8081",
            "a..localhost",
            "evillocalhost",
            "headgate.localhost.",
            "headgate.localhost.example",
            "user@headgate.localhost",
        ] {
            check(foreign, false);
        }
        assert!(!hosts(true).are_asked_by(&HeaderMap::new()));
        // If other machines can reach the listener, a name below `localhost` proves nothing.
        for name in ["headgate.localhost:8081", "two.Headgate.LOCALHOST"] {
            let headers = headers(&[(HOST, name)]);
            assert!(hosts(true).are_asked_by(&headers), "{name}");
            assert!(!hosts(false).are_asked_by(&headers), "{name}");
        }
    }

    #[test]
    fn a_write_needs_a_browsers_word_that_it_comes_from_here() {
        let check = |site: Option<&str>, origin: Option<&str>, expected| {
            let mut pairs = vec![(HOST, "10.0.0.5:8081")];
            pairs.extend(site.map(|site| (SEC_FETCH_SITE, site)));
            pairs.extend(origin.map(|origin| (ORIGIN, origin)));
            assert_eq!(from_same_origin(&headers(&pairs)), expected, "{pairs:?}");
        };
        let own = Some("http://10.0.0.5:8081");
        check(Some("same-origin"), own, true);
        check(None, own, true);
        check(Some("same-origin"), None, true);
        check(None, None, false);
        for site in ["cross-site", "same-site", "none", ""] {
            check(Some(site), own, false);
        }
        for origin in [
            "null",
            "http://10.0.0.5",
            "http://10.0.0.5:8082",
            "http://evil.example",
            "http://10.0.0.5:8081.evil.example",
            "",
        ] {
            check(None, Some(origin), false);
            check(Some("same-origin"), Some(origin), false);
        }
    }
}
