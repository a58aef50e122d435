//! Content types, and item keys and idempotency keys as headers.

use std::io::Write as _;

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
async fn other_charsets_are_refused() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for path in ["/api/ingest", "/api/webhook/orders"] {
        for good in ["us-ascii", "\"UTF-8\"", "utf8"] {
            let value = format!("application/json; charset={good}");
            let reply = shop.post(path, &[("Content-Type", &value)], "{}").await;
            reply.receipt();
        }
        for bad in ["iso-8859-1", "utf-16", "\"windows-1252\""] {
            let value = format!("application/json; charset={bad}");
            let reply = shop.post(path, &[("Content-Type", &value)], "{}").await;
            let told = reply.refused(400, "INVALID_PAYLOAD").message;
            assert!(told.contains("charset") && told.contains("UTF-8"), "{told}");
        }
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_compressed_body_is_decompressed_within_the_limit() {
    let app = Setup::shop()
        .set("limits.max_body_bytes", 4_096)
        .start()
        .await;
    let shop = app.caller("shop");
    let compressed = [("Content-Encoding", "gzip"), ("X-Item-Key", "id")];
    for path in ["/api/ingest", "/api/webhook/orders"] {
        let body = gzip(format!(r#"[{{"id": "{path}"}}, {{"id": 2}}]"#).as_bytes());
        let receipt = shop.post(path, &compressed, body).await.receipt();
        assert_eq!(receipt.items, 2);
        let bomb = gzip(format!("{{\"n\": \"{}\"}}", "x".repeat(1 << 20)).as_bytes());
        assert!(bomb.len() < 4_096);
        let reply = shop.post(path, &compressed, bomb).await;
        reply.refused(413, "PAYLOAD_TOO_LARGE");
        let cut = gzip(br#"{"id": 3}"#)[..12].to_vec();
        let reply = shop.post(path, &compressed, cut).await;
        reply.refused(400, "INVALID_PAYLOAD");
        for unknown in ["br", "compress", "gzip, gzip"] {
            let headers = [("Content-Encoding", unknown)];
            let reply = shop.post(path, &headers, "{}").await;
            assert_eq!(
                reply.header("accept-encoding"),
                Some("gzip, deflate, zstd"),
                "{unknown}"
            );
            let told = reply.refused(415, "UNSUPPORTED_ENCODING").message;
            assert!(told.contains(unknown) && told.contains("zstd"), "{told}");
        }
    }
    let mut keys: Vec<String> = (app.fields("orders").await.into_iter())
        .map(|(key, _)| key)
        .collect();
    keys.sort();
    assert_eq!(keys, ["/api/ingest", "/api/webhook/orders", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idempotency_keys_are_any_value_of_1_to_255_bytes() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let longest = "k".repeat(255);
    for good in [
        "a",
        "!~{}[]\"'",
        "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
        "order 7, paid",
        "tab\there",
        "größe 日本",
        &*longest,
    ] {
        let first = shop.ingest_once(good, "{}").await.receipt();
        let repeat = shop.ingest_once(good, "{}").await;
        assert_eq!(repeat.header("idempotent-replayed"), Some("true"), "{good}");
        assert_eq!(repeat.receipt(), first);
        let log = app.admin().log("shop", "limit=1").await;
        assert_eq!(log[0]["idempotency_key"], good);
    }
    let too_long = "é".repeat(128);
    for bad in ["", " ", &*too_long] {
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
