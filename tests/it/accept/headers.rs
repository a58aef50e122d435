//! Content types, and item keys and idempotency keys as headers.

use reqwest::Method;

use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn json_by_any_name_is_taken_and_other_types_hear_what_is_wanted() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for path in ["/api/ingest", "/api/webhook/orders"] {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "APPLICATION/JSON;charset=\"UTF-8\"",
            "application/vnd.api+json",
            "application/cloudevents+json; charset=utf-8",
        ] {
            let headers = [("Content-Type", good)];
            shop.post(path, &headers, "{}").await.receipt();
        }
        for bad in [
            "",
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonl",
            "application/json-seq",
            "json",
            "application/xml; note=application/json",
        ] {
            let reply = shop.post(path, &[("Content-Type", bad)], "{}").await;
            let told = reply.refused(400, "INVALID_PAYLOAD").message;
            assert!(told.contains("application/json"), "{told}");
            assert!(
                told.contains(bad.split(';').next().unwrap_or_default()),
                "{told}"
            );
        }
        let reply = shop.call(Method::POST, path, &[], "{}").await;
        let told = reply.refused(400, "INVALID_PAYLOAD").message;
        assert!(
            told.contains("missing") && told.contains("application/json"),
            "{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idempotency_keys_are_1_to_255_visible_ascii_characters() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let longest = "k".repeat(255);
    for good in [
        "a",
        "!~{}[]\"'",
        "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
        &*longest,
    ] {
        shop.ingest_once(good, "{}").await.receipt();
    }
    let too_long = "k".repeat(256);
    for bad in ["", " ", "two words", "tab\there", "é", &*too_long] {
        let told = shop
            .ingest_once(bad, "{}")
            .await
            .refused(400, "INVALID_PAYLOAD");
        assert!(told.message.contains("Idempotency-Key"), "{}", told.message);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_item_key_header_that_names_nothing_is_refused() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let too_long = "k".repeat(513);
    for bad in ["", "   ", &*too_long] {
        let told = shop
            .ingest_by(bad, "{}")
            .await
            .refused(400, "INVALID_PAYLOAD");
        assert!(told.message.contains("X-Item-Key"), "{}", told.message);
    }
    // Names are UTF-8, also in a header.
    let receipt = shop
        .ingest_by("größe", r#"{"größe": "xl"}"#)
        .await
        .receipt();
    assert_eq!(receipt.items, 1);
    assert_eq!(app.fields("orders").await[0].0, "xl");
}
