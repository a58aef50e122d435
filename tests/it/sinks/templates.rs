//! Requests in the receiver's form: templates of `http-forward`, filled by the host.

use serde_json::{Value, json};

use super::{forwards, patch, refusal};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// The sink of a test with these settings of the plugin beside the URL.
fn templated(receiver: &Receiver, path: &str, config: &Value) -> Value {
    let mut sink = forwards(receiver, "team", "orders");
    sink["retry"] = json!({"first_ms": 10, "max_ms": 10, "attempts": 1});
    sink["config"] = config.clone();
    if !path.is_empty() {
        sink["config"]["url"] = receiver.url(path).into();
    }
    sink
}

fn running(sink: &Value) -> Process {
    let process = Setup::with_streams(&["orders"]).spawn();
    process.make("/api/admin/sinks", sink).data(201);
    process
}

#[test]
fn each_item_is_a_request_and_no_value_leaves_its_place() {
    let receiver = Receiver::content();
    let config = json!({
        "method": "PUT",
        "headers": {"x-title": "{title}", "x-from": "{_stream}"},
        "body": {"text": "{title}: {total|decimals:2}", "n": "{total|json}", "none": "{gone|json}",
                 "or": "{gone|or:nobody}", "empty": "[{gone}]", "all": "{_fields|json}"},
    });
    let sink = templated(&receiver, "/orders/{_key}?t={title}&x=1", &config);
    let process = running(&sink);
    let items = r#"[{"id": "a/../b", "title": "x\"},{\"y\\", "total": 1.50}, {"id": "c", "title": "& é", "total": "7"}]"#;
    process.processed("orders", BY_ID, items);
    let seen = receiver.seen();
    let [first, second] = &seen[..] else {
        panic!("a request for each item: {seen:?}");
    };
    assert_eq!(first.method, "PUT");
    assert_eq!(first.path, "/orders/a%2F..%2Fb?t=x%22%7D%2C%7B%22y%5C&x=1");
    assert_eq!(second.path, "/orders/c?t=%26%20%C3%A9&x=1");
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.header("x-title"), Some("x\"},{\"y\\"));
    assert_eq!(first.header("x-from"), Some("orders"));
    assert_eq!(
        first.json(),
        json!({"text": "x\"},{\"y\\: 1.50", "n": 1.50, "none": null, "or": "nobody", "empty": "[]",
               "all": {"id": "a/../b", "title": "x\"},{\"y\\", "total": 1.50}})
    );
    assert!(first.body.contains("\"n\":1.50"), "{}", first.body);
    assert!(second.body.contains("\"n\":\"7\""), "{}", second.body);
    process.stop();
}

#[test]
fn what_would_leave_its_place_is_a_dead_letter_and_the_others_go() {
    let receiver = Receiver::content();
    let config = json!({"headers": {"x-title": "{title}"}, "body": "{title}"});
    let process = running(&templated(&receiver, "/of/{_key}", &config));
    let items = r#"[{"id": "a", "title": "one"}, {"id": "b", "title": "one\r\nx-admin: yes"},
                    {"id": "..", "title": "up"}, {"id": "d", "title": "two"}]"#;
    process.failed("orders", BY_ID, items);
    let letters = process.dead_letters("team");
    let reasons = letters.iter().map(|letter| {
        (
            letter["key"].as_str().expect("a key"),
            letter["reason"].as_str().expect("a reason"),
        )
    });
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            (
                "..",
                "its URL cannot be made: `.` and `..` may not be a part of the path"
            ),
            (
                "b",
                "its header x-title cannot be made: a header cannot have a control character"
            ),
        ]
    );
    let paths: Vec<String> = receiver.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/of/a", "/of/d"]);
    process.stop();
}

#[test]
fn what_cannot_be_read_is_refused_with_its_setting_and_place() {
    let receiver = Receiver::content();
    let process = Setup::with_streams(&["orders"]).spawn();
    let typed = |content_type: &str, body: &str| json!({"headers": {"content-type": content_type}, "body": body});
    for (path, config, says) in [
        ("/{a|desimals:2}", json!({}), "config.url, character "),
        (
            "/{a|desimals:2}",
            json!({}),
            "the filter `desimals` is not known; `decimals` is",
        ),
        (
            "/in",
            json!({"body": {"a": ["{b"]}}),
            "config.body.a[0], character 1: `}` is expected behind `{b`",
        ),
        (
            "/in",
            json!({"body": "{\"a\": \"{b}\"}"}),
            "config.body, character 8: `{` stands within",
        ),
        (
            "/in",
            json!({"headers": {"x-a": "{a|raw}"}}),
            "config.headers.x-a, character 4: `raw` may not stand in a header",
        ),
        (
            "/in",
            json!({"headers": {"Host": "{a}"}}),
            "config.headers.Host: a template may not stand in this header",
        ),
        (
            "/in",
            json!({"body": "x", "form": "item-lines"}),
            "config.form: there is a `body` too; remove one of them",
        ),
        (
            "/in",
            json!({"method": "GET", "body": "x"}),
            "config.method: a GET has no body",
        ),
        (
            "/in",
            json!({"ok_if": "n>x"}),
            "config.ok_if, character 3: a number is expected behind `>`; `x` is none",
        ),
        (
            "/in",
            json!({"per": "batch", "body": "{total}"}),
            "config.body, character 2: `total` is not known here; _items, _count, _stream are",
        ),
        (
            "/in",
            json!({"body": "{n}", "removed": {"body": "{n}"}}),
            "config.removed.body, character 2: `n` is not known here",
        ),
        (
            "/{n}",
            json!({"body": "{n}", "removed": {}}),
            "set `removed.url`",
        ),
        (
            "/in",
            json!({"body": "{_count}"}),
            "`_count` is not known here",
        ),
        (
            "/in",
            typed("text/csv", "{a}"),
            "in text/csv, end each placeholder with an escape or `raw`",
        ),
        (
            "/in",
            typed("application/xml", "<{a}/>"),
            "config.body, character 2: a template may stand between tags",
        ),
        (
            "/in",
            typed("application/json", "\\{\"a\": {b}\\}"),
            "config.body, character 8: outside of quotes a placeholder must end with `|json`",
        ),
        (
            "/in",
            json!({"removals": true, "body": "x"}),
            "config.removals: ",
        ),
        (
            "",
            json!({"url_from": "token"}),
            "config.url_from: the sink's `secrets` have no `token`",
        ),
        ("", json!({}), "\"url\" is a required property"),
    ] {
        let sink = templated(&receiver, path, &config);
        let answer = process.call("POST", "/api/admin/sinks", &sink.to_string());
        assert!(
            (400..500).contains(&answer.status),
            "{config}: {}",
            answer.body
        );
        let message = answer.json()["error"]["message"].to_string();
        let message = serde_json::from_str::<String>(&message).expect("a text");
        assert!(message.contains(says), "{config}: {message}");
    }
    for url in [
        "http://{a}/",
        "http://127.0.0.1:{a}/",
        "{a}://127.0.0.1/",
        "http://127.0.0.1{a}/",
    ] {
        let mut sink = templated(&receiver, "", &json!({"url": url, "body": "x"}));
        sink["http"]["hosts"] = json!(["http://127.0.0.1", "http://a"]);
        let answer = process.call("POST", "/api/admin/sinks", &sink.to_string());
        assert!(
            (400..500).contains(&answer.status),
            "{url}: {}",
            answer.body
        );
    }
    assert_eq!(process.list("/api/admin/sinks").len(), 1, "only pool");
    process.stop();
}

#[test]
fn a_receiver_that_says_no_with_200_has_refused() {
    let receiver = Receiver::start(|seen, _| match seen.body.as_str() {
        "a" => answer(200, "", r#"{"ok": true, "at": {"n": 1}}"#),
        "b" => answer(200, "", r#"{"ok": false, "error": "channel_not_found"}"#),
        _ => answer(200, "", "[]"),
    });
    let config = json!({"body": "{id}", "ok_if": "ok:true,at.n>=1"});
    let process = running(&templated(&receiver, "/in", &config));
    process.failed(
        "orders",
        BY_ID,
        r#"[{"id": "a"}, {"id": "b"}, {"id": "c"}]"#,
    );
    let mut reasons: Vec<String> = process
        .dead_letters("team")
        .iter()
        .map(|letter| letter["reason"].to_string())
        .collect();
    reasons.sort();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].contains("answered 200: []: `ok_if` does not hold"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("channel_not_found"), "{reasons:?}");
    process.stop();
}

#[test]
fn removals_have_requests_of_their_own_and_batches_go_together() {
    let receiver = Receiver::content();
    let config = json!({
        "per": "batch", "max_items": 2,
        "body": {"count": "{_count|json}", "of": "{_stream}", "items": "{_items|json}"},
        "removed": {"method": "DELETE", "url": receiver.url("/items/{_key}")},
    });
    let process = running(&templated(&receiver, "/all", &config));
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a"}, {"id": "b", "n": 1.0}, {"id": "c"}]"#,
    );
    process.removed("orders", "b");
    process.drained();
    let seen = receiver.seen();
    let [first, second, third] = &seen[..] else {
        panic!("two and a removal: {seen:?}");
    };
    assert_eq!(
        first.body,
        r#"{"count":2,"of":"orders","items":[{"_key":"a","id":"a"},{"_key":"b","id":"b","n":1.0}]}"#
    );
    assert_eq!(second.json()["count"], 1);
    assert_eq!(
        (third.method.as_str(), third.path.as_str()),
        ("DELETE", "/items/b")
    );
    assert_eq!(third.body, "");
    assert_eq!(third.header("content-type"), None);

    // Without a request for them they pass by.
    let without = json!({"config": {"removed": null}});
    patch(&process, "team", &without).data(200);
    process.removed("orders", "c");
    process.drained();
    assert_eq!(receiver.seen().len(), 3);
    process.stop();
}

#[test]
fn another_template_is_another_key_and_the_same_is_the_same_after_a_restart() {
    let receiver = Receiver::start(|_, before| match before {
        0..3 => answer(503, "", "later"),
        _ => answer(200, "", ""),
    });
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let mut sink = templated(&receiver, "/in", &json!({"body": "one {id}"}));
    sink["retry"] = json!({"first_ms": 10, "max_ms": 10, "attempts": 1000});
    process.make("/api/admin/sinks", &sink).data(201);
    let id = process.accepted("orders", BY_ID, r#"{"id": "a"}"#);
    eventually("an attempt", || (!receiver.seen().is_empty()).then_some(()));
    process.kill();
    let process = folder.spawn();
    process.request_becomes(&id, "processed");
    let keys = |body: &str| {
        let seen = receiver.seen().into_iter().filter(|seen| seen.body == body);
        let mut keys: Vec<String> = seen
            .map(|seen| seen.header("idempotency-key").expect("a key").to_owned())
            .collect();
        keys.dedup();
        keys
    };
    assert_eq!(keys("one a").len(), 1);
    patch(&process, "team", &json!({"config": {"body": "two {id}"}})).data(200);
    let (now, tried) = (keys("one a"), json!({"items": [{"id": "a"}]}).to_string());
    let tried = process
        .call("POST", "/api/admin/sinks/team/try", &tried)
        .data(200);
    assert_eq!(tried["requests"][0]["body"], "two a");
    process.processed("orders", BY_ID, r#"{"id": "a"}"#);
    assert_ne!(keys("two a"), now);
    process.stop();
}

#[test]
fn a_url_that_is_a_secret_is_never_shown() {
    let receiver = Receiver::start(|seen, _| answer(404, "", &format!("no {}", seen.path)));
    let mut sink = templated(&receiver, "", &json!({"url_from": "hook", "body": "{id}"}));
    sink["secrets"] = json!({"hook": receiver.url("/hook/hush-hush-hush?wait=true&of={_key}")});
    let process = running(&sink);
    let tried = process.call(
        "POST",
        "/api/admin/sinks/team/try",
        &json!({"items": [{"id": "a"}]}).to_string(),
    );
    assert!(tried.data(200)["requests"][0]["url"].is_string());
    assert!(!tried.body.contains("hush"), "{}", tried.body);
    process.failed("orders", BY_ID, r#"{"id": "a"}"#);
    assert_eq!(
        receiver.seen()[0].path,
        "/hook/hush-hush-hush?wait=true&of=a"
    );
    let shown = process.sink("team").to_string()
        + &process.dead_letter("team").to_string()
        + &process.log();
    assert!(!shown.contains("/hook/hush"), "{shown}");
    let both = json!({"config": {"url": receiver.url("/in")}});
    let (_, told) = refusal(&patch(&process, "team", &both), 400);
    assert!(told.contains("there is a `url` too"), "{told}");
    process.stop();
}
