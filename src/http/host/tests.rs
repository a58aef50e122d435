//! Unit tests of `host.rs`.

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
