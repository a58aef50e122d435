//! The stream that the caller names, in the path or by `?stream=`.

use crate::app::{Caller, Reply};
use crate::setup::Setup;

async fn to(caller: &Caller, path: &str) -> Reply {
    caller.post(path, &[], r#"{"a": 1}"#).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_named_stream_must_be_the_keys_and_other_parameters_are_ignored() {
    let app = Setup::shop().stream("other").start().await;
    let shop = app.caller("shop");
    for good in [
        "/api/ingest",
        "/api/ingest?",
        "/api/ingest?stream=orders",
        "/api/ingest?stream=%6frders",
        "/api/ingest?utm_source=mail&stream=orders&&x=%zz&=",
        "/api/ingest?streams=other&Stream=other",
        "/api/webhook/orders",
        "/api/webhook/%6Frders",
        "/api/webhook/orders?stream=other&hmac=abc%2F",
    ] {
        assert_eq!(to(&shop, good).await.receipt().stream, "orders", "{good}");
    }
    let mut told = None;
    for bad in [
        "/api/ingest?stream=other",
        "/api/ingest?stream=no-such-stream",
        "/api/ingest?stream=",
        "/api/ingest?stream=Orders",
        "/api/ingest?stream=orders%20",
        "/api/webhook/other",
        "/api/webhook/no-such-stream",
        "/api/webhook/ORDERS",
        "/api/webhook/orders%2F",
        "/api/webhook/orders%00",
        "/api/webhook/%FF",
    ] {
        let refusal = to(&shop, bad).await.refused(404, "STREAM_NOT_FOUND");
        assert_eq!(
            told.get_or_insert(refusal.clone()),
            &refusal,
            "whether a stream exists is not told: {bad}"
        );
    }
    assert_eq!(app.fields("other").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn names_of_streams_travel_percent_encoded() {
    let names = [
        ("größe 日本", "gr%C3%B6%C3%9Fe%20%E6%97%A5%E6%9C%AC"),
        ("a/b", "a%2Fb"),
        ("a%2Fb", "a%252Fb"),
        ("..", "%2E%2E"),
        ("50% off + tax?#", "50%25%20off%20%2B%20tax%3F%23"),
        ("*", "%2A"),
        ("{stream}", "%7Bstream%7D"),
        ("quote\"s'", "quote%22s%27"),
    ];
    let mut setup = Setup::new();
    for (index, (name, _)) in names.iter().enumerate() {
        setup = setup.stream(name).key(&format!("c{index}"), name);
    }
    let app = setup.start().await;
    for (index, (name, encoded)) in names.iter().enumerate() {
        let caller = app.caller(&format!("c{index}"));
        // Clients resolve dots in paths, encoded or not; by query they travel.
        if *name != ".." {
            let path = format!("/api/webhook/{encoded}");
            assert_eq!(to(&caller, &path).await.receipt().stream, *name);
        }
        let path = format!("/api/ingest?stream={encoded}");
        assert_eq!(to(&caller, &path).await.receipt().stream, *name);
        assert_eq!(app.fields(name).await.len(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_webhook_without_a_stream_is_no_path() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for path in [
        "/api/webhook",
        "/api/webhook/",
        "/api/webhook/orders/shop/more",
    ] {
        to(&shop, path).await.refused(404, "NOT_FOUND");
    }
    // What follows the stream is a connector, and this is not the key's.
    for path in ["/api/webhook/orders/more", "/api/webhook/a/b"] {
        to(&shop, path).await.refused(401, "UNAUTHORIZED");
    }
}
