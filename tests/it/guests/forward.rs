//! The built-in sink that sends items to a URL.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{LOOPBACK, ONCE};
use super::nobody_else_suffers;
use crate::process::BY_ID;
use crate::receiver::{Receiver, Reply, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// A daemon whose stream `hostile` is forwarded to the receiver.
fn forwarding(url: &str, config: &str, retry: &str) -> Setup {
    let (host, _) = url.rsplit_once('/').expect("a path");
    let more = format!(
        "{retry}config = {{ url = {url:?}{config} }}\nhttp = {{ hosts = [{host:?}], {LOOPBACK} }}\n"
    );
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "http-forward", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

const THREE: &str = r#"[{"id": "a", "n": 1.50}, {"id": "b"}, {"id": "c"}]"#;

#[test]
fn items_are_forwarded_in_each_form() {
    let receiver = Receiver::content();
    let fields = "{\"id\":\"a\",\"n\":1.50}";
    for (form, content_type) in [
        ("item-array", "application/json"),
        ("item-lines", "application/x-ndjson"),
        ("field-array", "application/json"),
        ("field-lines", "application/x-ndjson"),
    ] {
        let config = format!(
            ", form = {form:?}, method = \"PUT\", max_items = 2, headers = {{ x-source = \"headgate\" }}"
        );
        let before = receiver.seen().len();
        let process = forwarding(&receiver.url("/in"), &config, ONCE).spawn();
        let id = process.processed("hostile", BY_ID, THREE);
        let seen = receiver.seen().split_off(before);
        let [first, second] = &seen[..] else {
            panic!("two requests were expected: {seen:?}");
        };
        assert_eq!((first.method.as_str(), first.path.as_str()), ("PUT", "/in"));
        assert_eq!(first.header("content-type"), Some(content_type));
        assert_eq!(first.header("x-source"), Some("headgate"));
        assert!(first.body.contains(fields), "{}", first.body);
        let keys = [first, second].map(|seen| seen.header("idempotency-key"));
        assert!(
            keys.iter()
                .all(|key| key.is_some_and(|key| key.len() == 32)),
            "{keys:?}"
        );
        assert_ne!(keys[0], keys[1], "they carry other items");
        match form {
            "field-lines" => assert_eq!(first.body, format!("{fields}\n{{\"id\":\"b\"}}\n")),
            "field-array" => assert_eq!(second.body, r#"[{"id":"c"}]"#),
            "item-lines" => assert_eq!(first.body.lines().count(), 2),
            _ => {
                let items = first.json();
                assert_eq!(items[0]["stream"], "hostile");
                assert_eq!(items[0]["key"], "a");
                assert_eq!(items[1]["fields"]["id"], "b");
                assert_eq!(items[0]["request_id"], Value::from(id));
            }
        }
        nobody_else_suffers(process);
    }
}

#[test]
fn a_receiver_that_is_down_gets_everything_when_it_is_back() {
    let address = {
        let placeholder = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        placeholder.local_addr().expect("an address")
    };
    let retries = "retry = { first_ms = 10, max_ms = 100, attempts = 1000 }\n";
    let process = forwarding(&format!("http://{address}/"), "", retries).spawn();
    let ids: Vec<String> = (0..10)
        .map(|number| process.accepted("hostile", BY_ID, &format!("{{\"id\": \"{number}\"}}")))
        .collect();
    process.sink_becomes("hostile", "failing", |sink| {
        let error = sink["last_error"].to_string();
        error.contains(&format!("no answer: {address} refuses connections"))
    });
    let receiver = Receiver::start_at(address, |_, before| match before {
        0 => answer(500, "", ""),
        1 => Reply::Stall(String::new()),
        _ => answer(204, "", ""),
    });
    // The stalled one is cut by the limits of the call.
    for id in &ids {
        process.request_becomes(id, "processed");
    }
    let mut taken: Vec<String> = Vec::new();
    for seen in &receiver.seen()[2..] {
        let Value::Array(items) = seen.json() else {
            panic!("not a list: {seen:?}");
        };
        taken.extend(items.iter().map(|item| item["key"].to_string()));
    }
    taken.sort();
    let expected: Vec<String> = (0..10).map(|number| format!("\"{number}\"")).collect();
    assert_eq!(taken, expected, "each once");
    nobody_else_suffers(process);
}

#[test]
fn retry_after_is_honoured_in_both_forms() {
    for header in [
        "retry-after: 2\r\n",
        "retry-after: Fri, 01 Jan 1999 00:00:00 GMT\r\n",
    ] {
        let receiver = Receiver::start(move |_, before| match before {
            0 => answer(429, header, "slowly"),
            _ => answer(200, "", ""),
        });
        let retries = match header.contains("GMT") {
            true => "retry = { first_ms = 60_000, max_ms = 60_000, attempts = 2 }\n",
            false => "retry = { first_ms = 10, max_ms = 10, attempts = 2 }\n",
        };
        let process = forwarding(&receiver.url("/"), "", retries).spawn();
        let started = Instant::now();
        process.processed("hostile", BY_ID, THREE);
        // A date that is over means now, the seconds are waited for.
        if !header.contains("GMT") {
            assert!(started.elapsed() >= Duration::from_millis(1_900));
        }
        let seen = receiver.seen();
        assert_eq!(seen.len(), 2);
        assert_eq!(
            seen[0].header("idempotency-key"),
            seen[1].header("idempotency-key")
        );
        assert_eq!(seen[0].body, seen[1].body);
        nobody_else_suffers(process);
    }
}

#[test]
fn what_a_receiver_refuses_for_good_becomes_dead_letters() {
    let receiver = Receiver::start(|request, _| match request.body.contains("\"b\"") {
        true => answer(422, "", "no b please"),
        false => answer(200, "", ""),
    });
    let folder = forwarding(&receiver.url("/"), ", max_items = 1", ONCE);
    let process = folder.spawn();
    process.failed("hostile", BY_ID, THREE);
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["key"], "b");
    assert_eq!(letter["reason"], "answered 422: no b please");
    assert_eq!(receiver.seen().len(), 3, "the others were sent");
    nobody_else_suffers(process);

    // The settings may say otherwise.
    let before = receiver.seen().len();
    let retries = "retry = { first_ms = 10, max_ms = 10, attempts = 3 }\n";
    let process = forwarding(&receiver.url("/"), ", retry_statuses = [422]", retries).spawn();
    process.failed("hostile", BY_ID, r#"{"id": "b"}"#);
    eventually("three attempts", || {
        (receiver.seen().len() == before + 3).then_some(())
    });
    nobody_else_suffers(process);
}
