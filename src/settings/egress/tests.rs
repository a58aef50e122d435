//! Unit tests of `egress.rs`.

use super::*;

#[test]
fn a_host_matches_what_is_written_and_nothing_else() {
    fn check(pattern: &str, encrypted: bool, host: &str, port: u16, expected: bool) {
        let parsed: Host = pattern.parse().unwrap_or_else(|error| panic!("{error}"));
        let matched = parsed.matches(encrypted, host, port);
        assert_eq!(matched, expected, "{pattern} and {host}:{port}");
        assert_eq!(parsed.to_string().parse(), Ok(parsed), "{pattern}");
    }
    check("api.example.com", true, "api.example.com", 443, true);
    check("api.example.com", true, "API.Example.COM", 443, true);
    check("API.example.com", true, "api.example.com", 443, true);
    check("https://a.example:443", true, "a.example", 443, true);
    check("api.example.com", false, "api.example.com", 443, false);
    check("api.example.com", false, "api.example.com", 80, false);
    check("api.example.com", true, "api.example.com", 8443, false);
    check("api.example.com", true, "api.example.com.", 443, false);
    check("api.example.com", true, "xapi.example.com", 443, false);
    check("*.example.com", true, "a.b.example.com", 443, true);
    check("*.example.com", true, "example.com", 443, false);
    check("*.example.com", true, ".example.com", 443, false);
    check("*.example.com", true, "badexample.com", 443, false);
    check("*.example.com", true, "a.example.com.evil", 443, false);
    check("*.example.com:8443", true, "a.example.com", 8443, true);
    check("http://a.example", false, "a.example", 80, true);
    check("http://a.example", true, "a.example", 443, false);
    check("http://a.example:8080", false, "a.example", 8080, true);
    check("10.0.0.5", true, "10.0.0.5", 443, true);
    check("10.0.0.5", true, "10.0.0.05", 443, false);
    check("10.0.0.5", true, "0xa.0.0.5", 443, false);
    check("10.0.0.5", true, "167772165", 443, false);
    check("[fd00::1]:8443", true, "[fd00:0::1]", 8443, true);
    check("fd00::1", true, "[fd00::1]", 443, true);
}

#[test]
fn what_is_no_host_is_refused() {
    for text in [
        "",
        "*",
        "*.",
        "*example.com",
        "a.*.example",
        "a..b",
        "a/b",
        "https://",
        "ftp://a",
        "a:0",
        "a:x",
        "a:70000",
        "a:+1",
        "user@a",
        "a?b",
        "[::1",
        "a b",
        "https://a/",
    ] {
        assert!(text.parse::<Host>().is_err(), "{text:?}");
    }
}

#[test]
fn networks_hold_addresses() {
    fn check(network: &str, address: &str, expected: bool) {
        let network: Network = network.parse().unwrap_or_else(|error| panic!("{error}"));
        let address = address.parse().expect("an address");
        assert_eq!(network.contains(address), expected, "{network} {address}");
        assert_eq!(network.to_string().parse(), Ok(network));
    }
    check("10.0.0.0/8", "10.255.0.1", true);
    check("10.0.0.0/8", "11.0.0.1", false);
    check("10.0.0.0/8", "::ffff:10.0.0.1", false);
    check("0.0.0.0/0", "255.255.255.255", true);
    check("10.0.0.5", "10.0.0.5", true);
    check("10.0.0.5", "10.0.0.4", false);
    check("fd00::/8", "fdff::1", true);
    check("fd00::/8", "fc00::1", false);
    check("::/0", "ffff::1", true);
    for text in [
        "",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0/8",
        "::/129",
        "a/8",
        "1.2.3.4/+8",
    ] {
        assert!(text.parse::<Network>().is_err(), "{text:?}");
    }
}
