//! The cases of `order-vectors.json` over HTTP: what the pool shows, and what callers hear of each request.
//!
//! Not here are the classes `again` (a choice of `ingest`, tested with it), `expiry` and `expiry-race`, which need a
//! clock, and `late`, which needs another order of delivery: the tests of the pool run those.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Caller, TestApp};
use crate::setup::Setup;

const CASES: &str = include_str!("../../fixtures/order-vectors.json");
const NOT_HERE: [&str; 4] = ["again", "expiry", "expiry-race", "late"];

pub(super) fn cases() -> Vec<Value> {
    let mut all: Value = serde_json::from_str(CASES).expect("the file is JSON");
    let all = all["vectors"].as_array_mut().expect("cases");
    let is_here = |case: &Value| NOT_HERE.iter().all(|class| case["class"] != *class);
    std::mem::take(all).into_iter().filter(is_here).collect()
}

fn stream_of(case: &Value) -> String {
    format!("c{}", case["id"])
}

/// A stream and a connector for each case.
async fn daemon(cases: &[Value]) -> TestApp {
    let mut setup = Setup::new().unlimited();
    for case in cases {
        let stream = stream_of(case);
        let mut settings = format!("on_update = {}\n", case["stream"]["on_update"]);
        if let Some(version) = case["stream"]["version"].as_str() {
            let _ = writeln!(settings, "version = {version:?}");
        }
        settings.push_str("delete_when = { field = \"gone\", is = [\"yes\"] }");
        setup = setup.stream_with(&stream, &settings).key(&stream, &stream);
    }
    setup.start().await
}

/// Sends a step; the id of its request.
async fn send(caller: &Caller, stream: &str, step: &Value, number: usize) -> String {
    let once = |number: usize| format!("{stream}-{number}");
    if let Some(key) = step["delete"].as_str() {
        let path = format!("/api/streams/{stream}/items/{key}");
        let reply = caller.call(Method::DELETE, &path, &[], "").await;
        return reply.receipt().request_id;
    }
    let key = match step["repeat"].as_u64() {
        Some(first) => once(first as usize),
        None => once(number),
    };
    let mut headers = vec![("idempotency-key", &*key)];
    if !step.get("item_key").is_some_and(Value::is_null) {
        headers.push(("x-item-key", "id"));
    }
    let reply = caller.ingest_with(&headers, step["post"].to_string()).await;
    reply.receipt().request_id
}

/// Sends a case, all at once or one request after the other, and says what callers hear of each request.
async fn play(app: &TestApp, case: &Value, waits: bool) -> Vec<Value> {
    let stream = stream_of(case);
    let caller = app.caller(&stream);
    let steps = case["steps"].as_array().expect("steps");
    let mut ids = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let repeated = step["repeat"].as_u64().map(|first| &steps[first as usize]);
        let mut sent = step.clone();
        if let Some(first) = repeated {
            sent["post"] = first["post"].clone();
        }
        ids.push(send(&caller, &stream, &sent, number).await);
        if waits {
            app.drain().await;
        }
    }
    app.drain().await;
    let mut heard = Vec::new();
    for id in ids {
        let mut state = caller.get(&format!("/api/requests/{id}")).await.data();
        let errors = state["errors"].as_array().expect("a list").iter();
        let is_older = |error: &&Value| {
            error
                .as_str()
                .is_some_and(|one| one.contains("is older than"))
        };
        let errors = errors.filter(is_older).count();
        heard.push(json!({
            "items_received": state["items_received"], "status": state["status"], "stale": state["stale"].take(),
            "errors": errors, "stale_count": state["stale_count"],
        }));
    }
    heard
}

/// What is expected of each request. A repeat is answered with the first one.
fn expected(case: &Value) -> Vec<Value> {
    let requests = case["expect"]["requests"].as_array().expect("requests");
    let one = |request: &Value| {
        let of = match request["duplicate_of"].as_u64() {
            Some(first) => &requests[first as usize],
            None => request,
        };
        let stale = of["stale"].as_array().map_or(0, Vec::len);
        json!({
            "items_received": of["items_received"], "status": of["status"], "stale": of["stale"],
            "errors": stale, "stale_count": stale,
        })
    };
    requests.iter().map(one).collect()
}

async fn check(waits: bool) {
    let cases = cases();
    assert_eq!(cases.len(), 171);
    let app = daemon(&cases).await;
    let mut wrong = Vec::new();
    for case in &cases {
        let heard = play(&app, case, waits).await;
        let shown = app.fields(&stream_of(case)).await.into_iter();
        let parsed = |fields: String| serde_json::from_str::<Value>(&fields).expect("an object");
        let shown: BTreeMap<String, Value> =
            shown.map(|(key, fields)| (key, parsed(fields))).collect();
        let wanted = (&case["expect"]["pool"], expected(case));
        if (&json!(shown), &heard) != (wanted.0, &wanted.1) {
            wrong.push(format!(
                "{}: {}\n  {}\n  {heard:?}\n  wanted {} {:?}",
                case["id"],
                case["name"],
                json!(shown),
                wanted.0,
                wanted.1
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of them: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_case_ends_as_it_says_request_by_request() {
    check(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_case_ends_as_it_says_in_whatever_batches_the_lane_makes() {
    check(false).await;
}
