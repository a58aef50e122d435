//! What is refused, before anything changes; and secrets, which no answer has.

use serde_json::{Value, json};

use super::{forwards, patch, refusal, sent};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

const HUSH: &str = "hush-this-is-a-secret";
const HUSH_TOO: &str = "hush-this-is-another-secret";

#[test]
fn what_cannot_be_used_is_refused_with_its_place_and_nothing_is_made() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let process = Setup::with_streams(&["orders"]).spawn();
    let whole = forwards(&receiver, "team", "orders");
    let with = |name: &str, value: Value| {
        let mut sink = whole.clone();
        sink[name] = value;
        sink
    };
    let url = receiver.url("/in");
    for (body, says) in [
        (json!({}), "must have the field name"),
        (with("streems", json!(["a"])), "did you mean \"streams\"?"),
        (
            with("batch", json!({"items": 1})),
            "batch.items is not a field",
        ),
        (
            with("streams", json!("orders")),
            "streams must be a list of texts",
        ),
        (with("where", json!("total>>1")), "where"),
        (
            with("plugin", json!("http-forwrd")),
            "did you mean \"http-forward\"?",
        ),
        (
            with("plugin", json!("/etc/passwd")),
            "must be the name of a built-in plugin",
        ),
        (with("config", json!({"url": "ftp://a"})), "config.url"),
        (
            with(
                "config",
                json!({"url": url, "headers": {"Authorization": HUSH}}),
            ),
            "config.headers.Authorization",
        ),
        (
            with("config", json!({"url": "https://elsewhere.example/in"})),
            "config.url calls a host that the sink may not call: add \"elsewhere.example\"",
        ),
        (with("http", Value::Null), "config.url calls a host"),
        (
            with("retry", json!({"first_ms": 10, "max_ms": 1})),
            "retry.max_ms",
        ),
        (
            with("secrets", json!({"token": {"env": "HOME"}})),
            "secrets.token",
        ),
        (
            with("secrets", json!({"token": {"set": true}})),
            "secrets.token has no value yet",
        ),
        (
            with("postgres", json!({"url": "mysql://a"})),
            "postgres.url",
        ),
        (with("name", json!("..")), "name"),
    ] {
        let (code, message) = refusal(
            &process.call("POST", "/api/admin/sinks", &body.to_string()),
            400,
        );
        assert_eq!(code, "INVALID_REQUEST");
        assert!(message.contains(says), "{body}: {message}");
        assert!(!message.contains(HUSH), "{message}");
    }
    assert_eq!(process.list("/api/admin/sinks").len(), 1, "only pool");
    for (name, code) in [("pool", "DECLARED"), ("team", "NAME_TAKEN")] {
        let body = with("name", json!(name));
        if name == "team" {
            process.make("/api/admin/sinks", &body).data(201);
        }
        let answer = process.call("POST", "/api/admin/sinks", &body.to_string());
        assert_eq!(refusal(&answer, 409).0, code);
    }
    let told = refusal(&patch(&process, "team", &json!({"name": "others"})), 400);
    assert!(told.1.contains("name cannot be changed"), "{told:?}");
    let told = refusal(&patch(&process, "team", &json!({"plugin": null})), 400);
    assert!(told.1.contains("must have the field plugin"), "{told:?}");
    let told = refusal(&patch(&process, "pool", &json!({"streams": ["a"]})), 409);
    assert_eq!(told.0, "DECLARED");
    let told = refusal(&process.call("DELETE", "/api/admin/sinks/pool", ""), 409);
    assert_eq!(told.0, "DECLARED");
    // Nothing of all that has changed the one that is there.
    assert_eq!(process.sink("team")["section"], whole);
    process.stop();
}

#[test]
fn secrets_go_in_and_never_come_out() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let mut sink = forwards(&receiver, "team", "orders");
    sink["http"]["headers"] = json!({"x-token": HUSH});
    sink["secrets"] = json!({"unused": HUSH});
    let made = process.make("/api/admin/sinks", &sink);
    assert!(!made.body.contains("hush"), "{}", made.body);
    let made = made.data(201);
    assert_eq!(made["http"]["headers"], json!({"x-token": {"set": true}}));
    assert_eq!(made["secrets"], json!({"unused": {"set": true}}));

    // What was read can be written: it stays as it is.
    let mut section = made["section"].clone();
    section.as_object_mut().expect("an object").remove("name");
    section["where"] = "number>=1".into();
    patch(&process, "team", &section).data(200);
    process.processed("orders", "", r#"{"number": 1}"#);
    assert_eq!(receiver.seen()[0].header("x-token"), Some(HUSH));

    // A new one, and one that goes.
    let body = json!({"http": {"headers": {"x-token": HUSH_TOO}}, "secrets": {"unused": null}});
    let changed = patch(&process, "team", &body);
    assert!(!changed.body.contains("hush"), "{}", changed.body);
    assert_eq!(changed.data(200)["secrets"], json!({}));
    eventually("the new one is sent", || {
        process.processed("orders", "", r#"{"number": 2}"#);
        let seen = receiver.seen();
        (seen.last()?.header("x-token") == Some(HUSH_TOO)).then_some(())
    });
    assert!(sent(&receiver).len() >= 2);

    let audit = process.list("/api/admin/audit");
    assert_eq!(
        audit[0]["after"]["http"]["headers"],
        json!({"x-token": "changed"})
    );
    assert_eq!(audit[0]["before"]["secrets"], json!({"unused": "set"}));
    let everything = json!([
        audit,
        process.list("/api/admin/sinks"),
        process.admin("/api/admin/status")
    ]);
    assert!(!everything.to_string().contains("hush"));
    assert!(!process.log().contains("hush"));
    // It is kept as a key's is: a restart sends it.
    process.kill();
    let process = folder.spawn();
    process.processed("orders", "", r#"{"number": 3}"#);
    assert_eq!(
        receiver.seen().last().expect("a request").header("x-token"),
        Some(HUSH_TOO)
    );
    process.stop();
}
