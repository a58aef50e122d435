//! What an accepted request is told, and can ask later; what every caller is told of its rate.

use serde_json::json;

use crate::app::Reply;
use crate::setup::Setup;
use crate::wait::eventually_async;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_endpoints_answer_202_with_the_same_body() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for path in ["/api/ingest", "/api/webhook/orders"] {
        let reply = shop.post(path, &[], r#"[{"a": 1}, {"a": 2}]"#).await;
        let receipt = reply.receipt();
        assert_eq!((&*receipt.stream, receipt.items), ("orders", 2));
        let data =
            json!({"stream": "orders", "items_received": 2, "request_id": receipt.request_id});
        assert_eq!(reply.json(), json!({"success": true, "data": data}));
        assert_eq!(reply.header("idempotent-replayed"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_location_tells_every_key_of_the_connector_what_became_of_a_request() {
    let app = Setup::shop()
        .stream("returns")
        .key("shop", "returns")
        .key("rival", "orders")
        .start()
        .await;
    let reply = app.caller("shop").ingest(r#"[{"a": 1}, {"a": 2}]"#).await;
    let id = reply.receipt().request_id;
    let location = reply.header("location").expect("a location").to_owned();
    for caller in [app.caller("shop"), app.caller_of("shop", 1)] {
        let state = eventually_async("it is processed", async || {
            let state = caller.get(&location).await.data();
            (state["status"] == "processed").then_some(state)
        })
        .await;
        assert_eq!(state["request_id"], *id);
        assert_eq!(state["stream"], "orders");
        assert_eq!(state["items_received"], 2);
        assert_eq!(state["errors"], json!([]));
        assert!(state["processed_at"].is_string());
        assert_eq!(state["sinks"][0]["name"], "pool");
        assert_eq!(state["sinks"][0]["state"], "done");
    }
    let foreign = app.caller("rival").get(&location).await;
    let foreign = foreign.refused(404, "REQUEST_NOT_FOUND");
    for id in [
        "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
        "no-uuid",
        "%00",
        "1",
    ] {
        let unknown = app.caller("shop").get(&format!("/api/requests/{id}")).await;
        let unknown = unknown.refused(404, "REQUEST_NOT_FOUND");
        assert_eq!(unknown, foreign, "a foreign request is like none at all");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_request_can_be_asked_for_by_the_id_that_its_error_names() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let reply = shop.ingest("[1]").await;
    let told = reply.refused(400, "INVALID_PAYLOAD");
    let id = reply.header("x-request-id").expect("an id");
    app.drain().await;
    let state = shop.get(&format!("/api/requests/{id}")).await.data();
    assert_eq!(state["status"], "rejected");
    assert_eq!(state["errors"], json!([told.message]));
}

/// `RateLimit-Policy: "key";q=BURST;w=SECONDS` and `RateLimit: "key";r=LEFT;t=SECONDS`.
fn rate(reply: &Reply) -> [u64; 4] {
    let numbers = |name: &str, first: &str, second: &str| {
        let text = reply
            .header(name)
            .unwrap_or_else(|| panic!("{name} on {}", reply.status));
        let mut parts = text.split(';');
        assert_eq!(parts.next(), Some("\"key\""), "{text}");
        let [first, second] = [first, second].map(|label| {
            let part = parts.next().and_then(|part| part.strip_prefix(label));
            part.and_then(|digits| digits.parse().ok())
                .unwrap_or_else(|| panic!("{text}"))
        });
        assert_eq!(parts.next(), None, "{text}");
        [first, second]
    };
    let [q, w] = numbers("ratelimit-policy", "q=", "w=");
    let [r, t] = numbers("ratelimit", "r=", "t=");
    [q, w, r, t]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_answer_to_a_known_key_tells_its_rate() {
    if crate::setup::one_node_only("nodes divide the rate of a key") {
        return;
    }
    let app = Setup::shop()
        .connector("shop", "requests_per_second = 2\nburst = 100")
        .start()
        .await;
    let shop = app.caller("shop");
    let mut left = 100;
    for (reply, status) in [
        (shop.ingest("{}").await, 202),
        (shop.post("/api/webhook/orders", &[], "{}").await, 202),
        (shop.ingest("[1]").await, 400),
        (
            shop.post("/api/ingest", &[("Content-Type", "text/plain")], "{}")
                .await,
            400,
        ),
        (shop.post("/api/ingest?stream=other", &[], "{}").await, 404),
        (shop.post("/api/webhook/other", &[], "{}").await, 404),
        (shop.ingest(vec![b' '; 1_048_577]).await, 413),
        (shop.ingest_once("again", "{}").await, 202),
        (shop.ingest_once("again", "{}").await, 202),
    ] {
        assert_eq!(reply.status, status);
        let [q, w, r, t] = rate(&reply);
        assert_eq!((q, w), (100, 50));
        assert!(r < left || (r == left && left < 100), "{r} of {left}");
        assert!(
            t <= 50 && t * 2 >= 100 - r,
            "{t} s until {} are back",
            100 - r
        );
        left = r;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bytes_beyond_those_of_a_day_are_429_and_what_is_not_stored_counts_nothing() {
    if crate::setup::one_node_only("nodes divide the rate of a key") {
        return;
    }
    let app = Setup::shop()
        .connector("shop", "bytes_per_second = 1000000\nbytes_per_day = 100")
        .key("shop", "orders")
        .test_key("shop", "orders")
        .key("calm", "orders")
        .start()
        .await;
    let shop = app.caller("shop");
    let body = |bytes: usize| format!("{:1$}", r#"{"a": 1}"#, bytes);
    shop.ingest(format!("[{}", body(80)))
        .await
        .refused(400, "INVALID_PAYLOAD");
    shop.ingest_once("once", body(60)).await.receipt();
    shop.ingest_once("once", body(60)).await.receipt();
    let reply = shop.ingest(body(41)).await;
    let told = reply.refused(429, "RATE_LIMITED");
    assert!(told.message.contains("100 bytes"), "{}", told.message);
    let seconds = reply
        .header("retry-after")
        .expect("it says when")
        .parse::<u64>();
    assert!((1..=86_400).contains(&seconds.expect("a number")));
    let policy = reply.header("ratelimit-policy").expect("a policy");
    assert!(
        policy.contains(r#""bytes";q=2000000;qu="content-bytes";w=2"#),
        "{policy}"
    );
    assert!(
        policy.contains(r#""day";q=100;qu="content-bytes";w=86400"#),
        "{policy}"
    );
    let left = reply.header("ratelimit").expect("what is left");
    assert!(left.contains(r#""day";r=40;t="#), "{left}");
    shop.ingest(body(40)).await.receipt();
    // A repeat for which there would be room takes none, and nothing is stored of a test key.
    let other = app.caller_of("shop", 1);
    for _ in 0..3 {
        let reply = other.ingest_once("again", body(30)).await;
        reply.receipt();
    }
    let reply = other.ingest("[").await;
    let left = reply.header("ratelimit").expect("what is left");
    assert!(left.contains(r#""day";r=70;t="#), "{left}");
    let test = app.caller_of("shop", 2);
    for _ in 0..3 {
        test.ingest(body(60)).await.receipt();
    }
    // The limit is the key's own, and of bodies that are stored.
    other.ingest(body(70)).await.receipt();
    let calm = app.caller("calm").ingest(body(500)).await;
    calm.receipt();
    assert!(
        !calm
            .header("ratelimit")
            .expect("what is left")
            .contains("day")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn too_many_requests_are_429_until_the_time_that_is_told() {
    if crate::setup::one_node_only("nodes divide the rate of a key") {
        return;
    }
    let app = Setup::shop()
        .connector("shop", "requests_per_second = 1\nburst = 3")
        .key("shop", "orders")
        .key("calm", "orders")
        .start()
        .await;
    let shop = app.caller("shop");
    let reply = eventually_async("the rate is used up", async || {
        let reply = shop.ingest("{}").await;
        (reply.status != 202).then_some(reply)
    })
    .await;
    let told = reply.refused(429, "RATE_LIMITED");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(told.message.contains("1 s"), "{}", told.message);
    let [q, w, r, t] = rate(&reply);
    assert_eq!([q, w, r, t], [3, 3, 0, 1]);
    // The limit is the key's own: others are not held up, not even of the same connector.
    app.caller_of("shop", 1).ingest("{}").await.receipt();
    let calm = app.caller("calm").ingest("{}").await;
    calm.receipt();
    assert_eq!(rate(&calm)[..3], [2000, 2, 1999]);
    // After the told second one request fits again.
    eventually_async("the rate is back", async || {
        (shop.ingest("{}").await.status == 202).then_some(())
    })
    .await;
}
