//! Repeats of acts: an `Idempotency-Key` means one act, of one operator. And items that operators put.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::{act, done, one_stream, operator, with_operators};
use crate::app::TestApp;
use crate::wait::eventually_async;

const BASE: &str = "/api/admin/streams/scores";
const ADD: (&str, &str) = ("add", r#"{"key":"m1","field":"n","by":1}"#);

/// With an item, and an operate key that has the name of an operator.
async fn daemon() -> TestApp {
    let setup = with_operators(one_stream());
    let setup = setup.read_key("anna", &["scores"], "operate = true");
    let app = setup.start().await;
    sends(&app, r#"{"id": "m1", "n": 1}"#).await;
    app
}

async fn sends(app: &TestApp, item: &'static str) {
    app.caller("scores").ingest_by("id", item).await.receipt();
    app.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_of_one_verb_and_one_body() {
    let app = daemon().await;
    let anna = operator(&app, "anna");
    done(&act(&anna, BASE, ADD, Some("a")).await);
    let by_2 = ("add", r#"{"key":"m1","field":"n","by":2}"#);
    let other_body = act(&anna, BASE, by_2, Some("a")).await;
    other_body.refused(409, "IDEMPOTENCY_KEY_REUSED");
    done(&act(&anna, BASE, ("hold", "{}"), Some("b")).await);
    let other_verb = act(&anna, BASE, ("resume", "{}"), Some("b")).await;
    other_verb.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let item = anna.get(&format!("{BASE}/items/m1")).await.data();
    assert_eq!(item["fields"]["n"], 2);
    assert_eq!(item["held"]["by"], "anna");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_token_and_a_key_of_one_name_are_two_operators() {
    let app = daemon().await;
    let desk = app.caller_with(app.read_secret("anna"));
    for _ in 0..2 {
        let by_token = act(&operator(&app, "anna"), BASE, ADD, Some("a")).await;
        assert_eq!(done(&by_token)["value"], 2);
        let by_key = act(&desk, "/api/operate/scores", ADD, Some("a")).await;
        assert_eq!(done(&by_key)["value"], 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_item_that_is_put_twice_with_one_key_is_sent_once() {
    let app = daemon().await;
    let anna = operator(&app, "anna");
    let put = ("PUT m1", r#"{"n": 7}"#);
    let first = done(&act(&anna, BASE, put, Some("a")).await);
    // What comes later is not overwritten by a repeat of what was before.
    sends(&app, r#"{"id": "m1", "n": 8}"#).await;
    let again = done(&act(&anna, BASE, put, Some("a")).await);
    assert_eq!(again["request_id"], first["request_id"]);
    app.drain().await;
    let item = anna.get(&format!("{BASE}/items/m1")).await.data();
    assert_eq!(item["fields"], json!({"id": "m1", "n": 8}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_item_that_is_put_is_waited_for_and_expires_as_others_do() {
    let stream = one_stream().of_stream("scores", "expire_after_seconds = 1");
    let app = with_operators(stream).start().await;
    let anna = operator(&app, "anna");
    done(&act(&anna, BASE, ("PUT m1", r#"{"n": 7}"#), None).await);
    eventually_async("it expires", async || {
        let item = anna.get(&format!("{BASE}/items/m1")).await;
        (item.status == 404).then_some(())
    })
    .await;
    // Nothing comes into the pool meanwhile.
    let admin = app.admin();
    let paused = admin
        .call(Method::POST, "/api/admin/sinks/pool/pause")
        .await;
    assert_eq!(paused.status, 200);
    let started = Instant::now();
    done(&act(&anna, BASE, ("PUT m1", r#"{"n": 8}"#), None).await);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
}
