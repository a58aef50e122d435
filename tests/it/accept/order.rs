//! Which fault is told when there are several.

use reqwest::Method;

use crate::app::{Caller, Reply, TestApp};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// A request, good in every respect until a test spoils it.
#[derive(Clone)]
struct Request {
    method: Method,
    caller: Caller,
    path: &'static str,
    content_type: Option<&'static str>,
    item_key: &'static str,
    idempotency_key: &'static str,
    body: Vec<u8>,
}

impl Request {
    async fn send(&self) -> Reply {
        let mut headers = vec![
            ("X-Item-Key", self.item_key),
            ("Idempotency-Key", self.idempotency_key),
        ];
        headers.extend(self.content_type.map(|value| ("Content-Type", value)));
        let method = self.method.clone();
        self.caller
            .call(method, self.path, &headers, self.body.clone())
            .await
    }
}

/// Every step repairs the fault that was told, and leaves those that come after it.
async fn climb(app: &TestApp, right_path: &'static str, wrong_path: &'static str) {
    let mut request = Request {
        method: Method::PUT,
        caller: app.caller_with("ik_live_nobody_knows_this_key"),
        path: wrong_path,
        content_type: None,
        item_key: "  ",
        idempotency_key: " ",
        body: vec![b'{'; 1_048_577],
    };
    let reply = request.send().await;
    reply.refused(405, "METHOD_NOT_ALLOWED");

    request.method = Method::POST;
    request.send().await.refused(401, "UNAUTHORIZED");

    // A key whose rate is used up: the stream comes first.
    request.caller = app.caller("busy");
    for _ in 0..3 {
        request.send().await.refused(404, "STREAM_NOT_FOUND");
    }

    request.path = right_path;
    let reply = eventually_async("the rate is used up", async || {
        let reply = request.send().await;
        (reply.status != 413).then_some(reply)
    })
    .await;
    reply.refused(429, "RATE_LIMITED");

    request.caller = app.caller("shop");
    request.send().await.refused(413, "PAYLOAD_TOO_LARGE");

    request.body = b"{".to_vec();
    let told = request.send().await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("Content-Type"), "{}", told.message);

    request.content_type = Some("application/json");
    let told = request.send().await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("X-Item-Key"), "{}", told.message);

    request.item_key = "id";
    let told = request.send().await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("Idempotency-Key"), "{}", told.message);

    request.idempotency_key = "one-word";
    let told = request.send().await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("line 1"), "{}", told.message);

    request.body = br#"{"name": "no id"}"#.to_vec();
    let told = request.send().await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("\"id\""), "{}", told.message);

    // None of the refused requests has used the idempotency key.
    request.body = br#"{"id": 1}"#.to_vec();
    let reply = request.send().await;
    reply.receipt();
    assert_eq!(reply.header("idempotent-replayed"), None);
}

fn setup() -> Setup {
    Setup::shop()
        .stream("other")
        .connector("busy", "requests_per_second = 1\nburst = 1")
        .key("busy", "orders")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn faults_are_told_in_the_order_of_the_checks_on_ingest() {
    let app = setup().start().await;
    climb(
        &app,
        "/api/ingest?stream=orders",
        "/api/ingest?stream=other",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn faults_are_told_in_the_order_of_the_checks_on_webhook() {
    let app = setup().start().await;
    climb(&app, "/api/webhook/orders", "/api/webhook/other").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_request_leaves_nothing_in_the_pool() {
    let app = setup().start().await;
    climb(
        &app,
        "/api/ingest?stream=orders",
        "/api/ingest?stream=other",
    )
    .await;
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("1".to_owned(), r#"{"id":1}"#.to_owned())]);
    assert_eq!(app.fields("other").await, []);
}
