//! Unit tests of `endpoint.rs`.

use super::*;

#[test]
fn an_endpoint_has_a_transport_a_host_and_a_port() {
    for (text, displayed) in [
        ("tcp://10.0.0.5:5250", "tcp://10.0.0.5:5250"),
        ("tls://Broker.example:8883", "tls://broker.example:8883"),
        ("udp://[2001:db8:0::1]:5", "udp://[2001:db8::1]:5"),
        ("wss://a:443", "wss://a:443"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(endpoint.to_string(), displayed);
        assert_eq!(displayed.parse(), Ok(endpoint));
    }
    for text in [
        "",
        "tcp://",
        "tcp://a",
        "tcp://a:",
        "tcp://a:0",
        "tcp://a:+1",
        "tcp://a:70000",
        "http://a:1",
        "a:1",
        "tcp://a:1/",
        "ws://a:1/x",
        "tcp://me@a:1",
        "tcp://::1:5",
        "tcp://*.a:1",
        "tcp://a b:1",
        "tcp://:1",
    ] {
        assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
    }
}

#[test]
fn only_a_web_socket_has_a_path() {
    let (endpoint, path) = Endpoint::of_url("ws://a:1/x?y=1").expect("a URL");
    assert_eq!(
        (endpoint.to_string(), path),
        ("ws://a:1".to_owned(), "/x?y=1")
    );
    for url in ["tcp://a:1/x", "ws://a:1/x#y", "ws://a:1/x y", "ws://a@b:1/"] {
        assert_eq!(Endpoint::of_url(url), None, "{url}");
    }
}
