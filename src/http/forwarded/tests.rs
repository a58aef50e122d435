//! Unit tests of `forwarded.rs`.

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
    // An unreadable entry ends the search.
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
