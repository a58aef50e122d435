//! Who stands behind a proxy: the client that a trusted proxy names in a header.
//!
//! **Invariant**: nobody is believed but the proxies that the configuration names, and of what they pass on only what
//! they wrote themselves: names are read from the end, as far as those who wrote them are trusted.

use std::net::IpAddr;

use salvo_core::Request;
use salvo_core::http::header::{FORWARDED, HeaderMap, HeaderName};

use crate::config::{Networks, ProxyHeader, Server};
use crate::journal::log::Client;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Names that are looked at.
const HOPS_MAX: usize = 32;

/// The proxies that are believed.
#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    trusted: Networks,
    header: ProxyHeader,
}

impl Proxies {
    /// Those that the configuration names.
    pub(super) fn of(settings: &Server) -> Self {
        Self {
            trusted: settings.trusted_proxies.clone(),
            header: settings.proxy_header,
        }
    }

    /// The client for whom a trusted proxy asks; none: whoever is connected is the client.
    pub(super) fn client(&self, peer: Client, req: &Request) -> Option<Client> {
        match self.trusts(peer) {
            true => self.named(req.headers()).map(Client::Address),
            false => None,
        }
    }

    fn trusts(&self, client: Client) -> bool {
        self.trusted.contains(client.address())
    }

    /// The last one that is no trusted proxy itself, or else the first one; up to what cannot be read.
    fn named(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let (name, read): (_, fn(&str) -> Option<IpAddr>) = match self.header {
            ProxyHeader::XForwardedFor => (X_FORWARDED_FOR, |hop| address(hop)),
            ProxyHeader::Forwarded => (FORWARDED, forwarded_for),
            // Then it is known since the connection was accepted.
            ProxyHeader::ProxyProtocol => return None,
        };
        let lines: Vec<&str> = (headers.get_all(name).iter())
            .filter_map(|line| line.to_str().ok())
            .collect();
        let hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
        let mut named = None;
        for hop in hops.take(HOPS_MAX) {
            let Some(address) = read(hop.trim()) else {
                break;
            };
            named = Some(address);
            if !self.trusts(Client::Address(address)) {
                break;
            }
        }
        named
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`
fn address(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0.parse().ok()?,
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => text.split_once(':')?.0.parse().ok()?,
        },
    };
    // As it is compared with networks.
    Some(match address {
        IpAddr::V6(address) => address.to_canonical(),
        address => address,
    })
}

/// What one element of `Forwarded` says in `for=`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';');
    let mut named = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    let value = named.next()?;
    address(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use salvo_core::http::header::HeaderValue;

    use super::*;

    fn named(header: ProxyHeader, lines: &[&'static str]) -> Option<String> {
        let proxies = Proxies::of(&Server {
            trusted_proxies: Networks::of(["10.0.0.0/8", "fd00::/8"]).expect("networks"),
            proxy_header: header,
            ..Server::default()
        });
        let name = match header {
            ProxyHeader::XForwardedFor => X_FORWARDED_FOR,
            ProxyHeader::Forwarded => FORWARDED,
            ProxyHeader::ProxyProtocol => unreachable!("it is no header"),
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, HeaderValue::from_static(line));
        }
        let named = proxies.named(&headers);
        named.map(|address| address.to_string())
    }

    #[test]
    fn the_last_that_a_trusted_proxy_wrote_of_a_stranger_counts() {
        let check = |lines: &[&'static str], expected: Option<&str>| {
            let found = named(ProxyHeader::XForwardedFor, lines);
            assert_eq!(found.as_deref(), expected, "{lines:?}");
        };
        check(&["203.0.113.9"], Some("203.0.113.9"));
        check(&["198.51.100.7, 203.0.113.9"], Some("203.0.113.9"));
        check(
            &["198.51.100.7", "203.0.113.9, 10.1.1.1"],
            Some("203.0.113.9"),
        );
        check(&["10.2.2.2, 10.1.1.1"], Some("10.2.2.2"));
        check(&["[2001:db8::1]:443"], Some("2001:db8::1"));
        check(&["::ffff:203.0.113.9"], Some("203.0.113.9"));
        check(&["203.0.113.9:5555"], Some("203.0.113.9"));
        // What nobody can read ends it.
        check(&["203.0.113.9, unknown, 10.1.1.1"], Some("10.1.1.1"));
        check(&["unknown"], None);
        check(&[""], None);
        check(&[], None);
    }

    #[test]
    fn forwarded_is_read_as_the_standard_has_it() {
        let check = |line: &'static str, expected: Option<&str>| {
            let found = named(ProxyHeader::Forwarded, &[line]);
            assert_eq!(found.as_deref(), expected, "{line}");
        };
        check(
            "for=192.0.2.60;proto=http;by=203.0.113.43",
            Some("192.0.2.60"),
        );
        check(
            "for=198.51.100.7, For=\"[2001:db8:cafe::17]:4711\"",
            Some("2001:db8:cafe::17"),
        );
        check("proto=https;for=192.0.2.1, for=10.0.0.2", Some("192.0.2.1"));
        check("for=_hidden, for=10.0.0.2", Some("10.0.0.2"));
        check("by=10.0.0.1", None);
    }

    #[test]
    fn only_proxies_that_are_named_are_believed() {
        let proxies = |trusted: &[&str]| {
            Proxies::of(&Server {
                trusted_proxies: Networks::of(trusted).expect("networks"),
                ..Server::default()
            })
        };
        let peer = Client::Address([127, 0, 0, 1].into());
        assert!(!proxies(&[]).trusts(peer));
        assert!(proxies(&["127.0.0.1"]).trusts(peer));
        assert!(!proxies(&["127.0.0.1"]).trusts(Client::Unix));
        assert!(proxies(&["unix"]).trusts(Client::Unix));
    }
}
