//! Which item is meant: by its position, or by the field that the caller or the connector names.

use crate::app::TestApp;
use crate::setup::Setup;

async fn keys(app: &TestApp) -> Vec<String> {
    let fields = app.fields("orders").await;
    fields.into_iter().map(|(key, _)| key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_an_item_key_items_are_their_positions() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    shop.ingest(r#"[{"n": "a"}, {"n": "b"}, {"n": "c"}]"#)
        .await
        .receipt();
    shop.ingest(r#"{"n": "d"}"#).await.receipt();
    let expected = [
        ("0", r#"{"n":"d"}"#),
        ("1", r#"{"n":"b"}"#),
        ("2", r#"{"n":"c"}"#),
    ];
    let expected = expected.map(|(key, fields)| (key.to_owned(), fields.to_owned()));
    assert_eq!(app.fields("orders").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_item_key_is_looked_up_on_the_flattened_item() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let body = r#"[{"order": {"id": "A-1"}}, {"order.id": "A-2"}, {"order": {"id": "größe ☃"}}]"#;
    shop.ingest_by("order.id", body).await.receipt();
    assert_eq!(keys(&app).await, ["A-1", "A-2", "größe ☃"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connector_may_name_the_field_and_the_header_goes_before_it() {
    let app = Setup::shop()
        .connector("shop", "kind = \"webhook\"\nitem_key = \"order.id\"")
        .start()
        .await;
    let shop = app.caller("shop");
    let body = r#"{"order": {"id": 1}, "line": "x"}"#;
    shop.post("/api/webhook/orders", &[], body).await.receipt();
    shop.ingest_by("line", body).await.receipt();
    assert_eq!(keys(&app).await, ["1", "x"]);
    // The message names who asked for the field.
    let told = shop.ingest("{}").await.refused(400, "INVALID_PAYLOAD");
    assert!(told.message.contains("order.id"), "{}", told.message);
    assert!(told.message.contains("connector"), "{}", told.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_its_text_whatever_its_type() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for key in [
        "7",
        "\"7\"",
        "true",
        "\"true\"",
        "7.0",
        "\"\\u0037\"",
        "-1e2",
    ] {
        let body = format!("{{\"id\": {key}, \"from\": {key}}}");
        shop.ingest_by("id", body).await.receipt();
    }
    assert_eq!(keys(&app).await, ["-1e2", "7", "7.0", "true"]);
    let fields = app.fields("orders").await;
    assert_eq!(fields[1].1, r#"{"id":"\u0037","from":"\u0037"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unusable_key_refuses_the_whole_request_and_tells_where() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let long = format!("\"{}\"", "k".repeat(513));
    for value in ["null", "[]", "[1]", "{}", "{\"x\": 1}", "\"\"", &*long] {
        let body = format!("[{{\"id\": 1}}, {{\"id\": {value}}}, {{\"id\": 2}}, {{}}]");
        let told = shop
            .ingest_by("id", body)
            .await
            .refused(400, "INVALID_PAYLOAD");
        assert!(told.message.contains("item 1"), "{value}: {}", told.message);
        let places: Vec<_> = (told.details.iter())
            .map(|at| (at["item"].as_u64(), at["field"].as_str()))
            .collect();
        assert_eq!(
            places,
            [(Some(1), Some("id")), (Some(3), Some("id"))],
            "{value}"
        );
    }
    let told = shop.ingest_by("id", vec_of("{}", 50)).await;
    let told = told.refused(400, "INVALID_PAYLOAD");
    assert!(
        told.message
            .contains("item 0 has no field \"id\", which X-Item-Key names")
    );
    assert_eq!(told.details.len(), 20, "no more than 20 places");
    assert_eq!(keys(&app).await, [""; 0]);
    let longest = "k".repeat(512);
    shop.ingest_by("id", format!("{{\"id\": \"{longest}\"}}"))
        .await
        .receipt();
    assert_eq!(keys(&app).await, [longest]);
}

fn vec_of(item: &str, count: usize) -> String {
    format!("[{}]", vec![item; count].join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn streams_do_not_share_items() {
    let app = Setup::shop()
        .stream("returns")
        .key("shop", "returns")
        .start()
        .await;
    let body = r#"{"id": 1}"#;
    app.caller("shop").ingest_by("id", body).await.receipt();
    app.caller_of("shop", 1)
        .ingest_by("id", body)
        .await
        .receipt();
    assert_eq!(keys(&app).await, ["1"]);
    assert_eq!(app.fields("returns").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn several_fields_that_a_connector_names_identify_an_item_together() {
    let app = Setup::shop()
        .connector(
            "shop",
            "kind = \"webhook\"\nitem_key = \"device,tags.metric\"",
        )
        .start()
        .await;
    let shop = app.caller("shop");
    let own =
        r#"[{"device": "a|b", "tags": {"metric": 1}}, {"device": "a", "tags": {"metric": "b|1"}}]"#;
    for path in ["/api/webhook/orders", "/api/webhook/orders/shop"] {
        shop.post(path, &[], own).await.receipt();
        assert_eq!(keys(&app).await, ["a\\|b|1", "a|b\\|1"]);
    }
    for lacks in [
        r#"{"device": "a"}"#,
        r#"[{"device": 1, "tags": {"metric": 1}}, {"device": {}}]"#,
    ] {
        for path in ["/api/webhook/orders", "/api/webhook/orders/shop"] {
            let told = shop.post(path, &[], lacks).await;
            let told = told.refused(400, "INVALID_PAYLOAD").message;
            assert!(
                told.contains("device,tags.metric") && told.contains("item_key"),
                "{told}"
            );
        }
    }
    // A header names one field, and a field may have such a name itself.
    shop.ingest_by("device", r#"{"device": "c"}"#)
        .await
        .receipt();
    shop.ingest(r#"{"device,tags.metric": "d"}"#)
        .await
        .receipt();
    assert_eq!(keys(&app).await, ["a\\|b|1", "a|b\\|1", "c", "d"]);
}
