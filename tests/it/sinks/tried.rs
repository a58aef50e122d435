//! Trials: what a sink would do, without a trace of it.

use serde_json::{Value, json};

use super::{forwards, refusal};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

const HUSH: &str = "hush-this-is-a-secret";

#[test]
fn a_dry_trial_shows_what_would_go_and_nothing_leaves() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let mut section = forwards(&receiver, "team", "orders");
    section["http"]["headers"] = json!({"x-sign": HUSH});
    section["fields"] = "n:number".into();
    let tried = |path: &str, body: &Value| {
        let answer = process.call("POST", path, &body.to_string());
        assert!(!answer.body.contains("hush"), "{}", answer.body);
        answer.data(200)
    };
    // There is none yet.
    let nothing = tried("/api/admin/sinks/try", &section);
    assert_eq!(
        (&nothing["ok"], &nothing["items"]),
        (&json!(false), &json!(0))
    );
    process.processed("orders", "", r#"{"number": 1}"#);
    process.processed("orders", "X-Item-Key: number\r\n", r#"{"number": 2}"#);
    let newest = tried("/api/admin/sinks/try", &section);
    assert_eq!(
        (&newest["ok"], &newest["items"], &newest["error"]),
        (&json!(true), &json!(1), &Value::Null)
    );
    let request = &newest["requests"][0];
    assert_eq!(request["method"], "POST");
    assert_eq!(request["url"], receiver.url("/in"));
    assert_eq!(request["body"], r#"[{"n":2}]"#);
    assert_eq!(request["headers"]["x-sign"], "********");

    // Items of one's own, and a selection; without a name too.
    section["where"] = "number>=10".into();
    section["items"] = json!([{"number": 9}, {"number": 10}, {"number": 11}]);
    section.as_object_mut().expect("an object").remove("name");
    let given = tried("/api/admin/sinks/try", &section);
    assert_eq!(given["items"], 2);
    assert_eq!(given["requests"][0]["body"], r#"[{"n":10},{"n":11}]"#);

    // What would be written in the pool is not.
    let into_pool = tried(
        "/api/admin/sinks/pool/try",
        &json!({"items": [{"number": 7}]}),
    );
    assert_eq!(into_pool["writes"][0]["action"], "upsert");
    assert_eq!(into_pool["writes"][0]["fields"], json!({"number": 7}));
    assert_eq!(folder.rows("orders").len(), 2);
    assert_eq!(receiver.seen().len(), 0, "nothing left");
    assert_eq!(
        process.list("/api/admin/audit").len(),
        0,
        "nothing was done"
    );

    for (body, says) in [
        (
            json!({"items": []}),
            "items must be a list of 1 to 100 objects",
        ),
        (json!({"items": [1]}), "items must be a list of objects"),
        (json!({"send": "yes"}), "send must be true or false"),
    ] {
        let answer = process.call("POST", "/api/admin/sinks/pool/try", &body.to_string());
        let told = refusal(&answer, 400).1;
        assert!(told.contains(says), "{told}");
    }
    let patched = json!({"where": "a"}).to_string();
    let answer = process.call("POST", "/api/admin/sinks/pool/try", &patched);
    assert_eq!(refusal(&answer, 409).0, "DECLARED");
    process.stop();
}

#[test]
fn a_trial_that_sends_makes_exactly_one_attempt_under_a_key_of_its_own() {
    let receiver = Receiver::start(|_, before| match before {
        0 => answer(200, "", ""),
        _ => answer(503, "", "later"),
    });
    let process = Setup::with_streams(&["orders"]).spawn();
    process.make("/api/admin/sinks", &forwards(&receiver, "team", "orders"));
    process.processed("orders", "", r#"{"number": 1}"#);
    let body = json!({"send": true}).to_string();
    let tried = process
        .call("POST", "/api/admin/sinks/team/try", &body)
        .data(200);
    assert_eq!(tried["ok"], false);
    let error = tried["error"].as_str().expect("an error");
    assert!(error.contains("503"), "{error}");
    process.drained();
    let seen = receiver.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0].body, seen[1].body);
    assert_ne!(
        seen[0].header("idempotency-key"),
        seen[1].header("idempotency-key")
    );
    assert_eq!(process.sink("team")["retries"], 0);
    assert_eq!(process.list("/api/admin/audit")[0]["action"], "try");
    process.stop();
}
