//! Unit tests of `header_log.rs`.

use super::*;

fn check(endpoint: Endpoint, headers: &[(&str, &str)], expected: &[&str]) {
    let pairs = || {
        headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
    };
    let lines = loggable_headers(endpoint, pairs).unwrap_or_default();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_program_is_known_by_agent_and_type_alone() {
    let headers = [
        ("host", "127.0.0.1"),
        ("user-agent", "curl/8"),
        ("x-github-event", "push"),
        ("content-type", "application/json"),
    ];
    let expected = ["user-agent: curl/8", "content-type: application/json"];
    check(Endpoint::Ingest, &headers, &expected);
    check(Endpoint::Ingest, &headers[..1], &[]);
}

#[test]
fn a_webhook_is_known_by_its_event_and_no_secret_is_kept() {
    let headers = [
        ("authorization", "Bearer ik_live_x"),
        ("x-hub-signature-256", "sha256=5ec4e7"),
        ("user-agent", "GitHub-Hookshot"),
        ("x-github-event", "push"),
        ("x-github-delivery", "72d3162e"),
        ("x-shopify-topic", "orders/create"),
        ("webhook-id", "msg_1"),
        ("webhook-signature", "v1,5ec4e7"),
        ("x-auth-token-event", "5ec4e7"),
        ("x-odd-event", "Bearer 5ec4e7"),
        ("x-odd-topic", "5ec4e7 IK_live_5ec4e7"),
        ("cookie", "5ec4e7"),
        ("accept", "*/*"),
    ];
    let expected = [
        "user-agent: GitHub-Hookshot",
        "x-github-event: push",
        "x-github-delivery: 72d3162e",
        "x-shopify-topic: orders/create",
        "webhook-id: msg_1",
        "x-odd-event",
        "x-odd-topic",
        "x-hub-signature-256",
        "webhook-signature",
        "x-auth-token-event",
        "cookie",
        "accept",
    ];
    check(Endpoint::Webhook, &headers, &expected);
}

#[test]
fn values_and_all_together_are_bounded() {
    let long = "ü".repeat(1_000);
    let many: Vec<(String, String)> = (0..100)
        .map(|number| (format!("x-{number}-event"), long.clone()))
        .collect();
    let pairs = || {
        many.iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
    };
    let lines = loggable_headers(Endpoint::Webhook, pairs).expect("some");
    assert!(lines.len() <= BYTES_MAX, "{}", lines.len());
    assert!(lines.lines().count() >= 3);
    let (_, value) = lines
        .lines()
        .next()
        .and_then(|line| line.split_once(": "))
        .expect("a line");
    assert!(
        value.len() <= VALUE_BYTES_MAX && value.ends_with('…'),
        "{value}"
    );
    let bytes = [("user-agent", &b"\xff\xfe"[..])];
    let lines = loggable_headers(Endpoint::Ingest, || bytes.into_iter());
    assert_eq!(lines.as_deref(), Some("user-agent: \u{fffd}\u{fffd}\n"));
}

#[test]
fn the_same_headers_have_the_same_text_and_others_their_own() {
    let made = |headers: &[(&'static str, &'static str)]| {
        let pairs = || {
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes()))
        };
        loggable_headers(Endpoint::Ingest, pairs)
    };
    let json = ("content-type", "application/json");
    let (curl, secret) = (("user-agent", "curl/8"), ("user-agent", "Basic 5ec4e7"));
    let first = made(&[curl, ("accept", "*/*"), json]).expect("lines");
    let again = made(&[("host", "x"), curl, json]).expect("lines");
    assert!(Arc::ptr_eq(&first, &again));
    for (headers, expected) in [
        (
            &[json, curl][..],
            "content-type: application/json\nuser-agent: curl/8\n",
        ),
        (&[curl], "user-agent: curl/8\n"),
        (&[curl, curl], "user-agent: curl/8\nuser-agent: curl/8\n"),
        (&[("user-agent", "curl/81")], "user-agent: curl/81\n"),
        (&[("user-agent", "")], "user-agent: \n"),
        (
            &[secret, json],
            "user-agent\ncontent-type: application/json\n",
        ),
        (&[secret], "user-agent\n"),
        (&[], ""),
        (&[curl, json], &first),
    ] {
        let lines = made(headers);
        assert_eq!(lines.as_deref().unwrap_or_default(), expected);
        assert_eq!(lines, made(headers));
    }
}
