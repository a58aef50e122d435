//! One answer for every key that is not good.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Raw, TestApp};
use crate::setup::Setup;
use crate::wait::eventually_async;

const EXPIRED: &str = "ik_live_expired_0123456789";
const LASTING: &str = "ik_live_lasting_0123456789";
const READ: &str = "rk_live_screen_0123456789";

fn setup() -> Setup {
    Setup::shop()
        .given_key(
            "shop",
            "orders",
            EXPIRED,
            "expires_at = \"2020-01-31T00:00:00Z\"",
        )
        .given_key(
            "shop",
            "orders",
            LASTING,
            "expires_at = 2999-01-31T00:00:00Z",
        )
        .toml(&format!(
            "[[read_keys]]\nname = \"screen\"\nstreams = [\"orders\"]\nsecret = \"{READ}\""
        ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_bad_key_gets_the_same_401() {
    let app = setup().start().await;
    let good = app.secret("shop").to_owned();
    let mut misspelt = good.clone();
    misspelt.pop();
    let headers = [
        None,
        Some(String::new()),
        Some(good.clone()),
        Some(format!("Basic {good}")),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some(format!("Bearer {misspelt}")),
        Some(format!("Bearer {good}x")),
        Some(format!("Bearer {}", good.to_uppercase())),
        Some(format!("Bearer {good} {good}")),
        Some(format!("Bearer {EXPIRED}")),
        Some(format!("Bearer {READ}")),
        Some(format!("Bearer {}", app.admin_token())),
        Some("Bearer ik_live_größe".to_owned()),
        Some(format!("Bearer {}", "k".repeat(20_000))),
    ];
    let anonymous = app.anonymous();
    let mut told = None;
    for header in &headers {
        for (method, path) in [
            (Method::POST, "/api/ingest"),
            (Method::POST, "/api/webhook/orders"),
            (Method::POST, "/api/webhook/no-such-stream"),
            (
                Method::GET,
                "/api/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
            ),
        ] {
            let headers: Vec<_> = (header.iter())
                .map(|value| ("Authorization", value.as_str()))
                .collect();
            let reply = anonymous
                .call(method, path, &headers, "not even JSON")
                .await;
            let refusal = reply.refused(401, "UNAUTHORIZED");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert_eq!(reply.header("ratelimit"), None, "nothing of a key is told");
            assert_eq!(
                told.get_or_insert(refusal.clone()),
                &refusal,
                "{header:?} {path}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_scheme_may_be_in_any_case_and_a_key_works_until_it_expires() {
    let app = setup().start().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let authorization = format!("{scheme} {LASTING}");
        let headers = [("Authorization", &*authorization)];
        app.anonymous().ingest_with(&headers, "{}").await.receipt();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_is_not_text_is_refused_like_any_other() {
    let app = setup().start().await;
    let mut raw = Raw::connect(&app.service).await;
    raw.send(b"POST /api/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\nContent-Length: 2\r\n\r\n{}")
        .await;
    raw.reply().await.refused(401, "UNAUTHORIZED");
}

/// What the log of the connector has of refusals with this text.
async fn told(app: &TestApp, text: &str) -> Vec<Value> {
    let entries = app.admin().log("shop", "status=rejected&limit=500").await;
    let has = |entry: &Value| {
        entry["errors"][0]
            .as_str()
            .is_some_and(|one| one.contains(text))
    };
    entries.into_iter().filter(has).collect()
}

async fn key(app: &TestApp, name: &str) -> Value {
    let path = format!("/api/admin/connectors/shop/keys/{name}");
    app.admin().get(&path).await.data()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_has_ended_is_told_to_its_operator_and_to_nobody_else() {
    let app = setup().start().await;
    let admin = app.admin();
    let till = json!({"name": "till", "stream": "orders"});
    let made = admin.make("/api/admin/connectors/shop/keys", till).await;
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    app.caller_with(&secret).ingest("{}").await.receipt();
    let path = "/api/admin/connectors/shop/keys/till/revoke";
    admin.call(Method::POST, path).await.data();
    let expired = key(&app, "key-1").await;
    assert_eq!(
        (&expired["state"], &expired["last_refused_at"]),
        (&json!("expired"), &Value::Null)
    );

    let nobody = app.caller_with("ik_live_nobody_knows_this_key");
    let unknown = nobody.ingest("{}").await.refused(401, "UNAUTHORIZED");
    for secret in [EXPIRED, &*secret] {
        for path in [
            "/api/ingest",
            "/api/webhook/orders",
            "/api/webhook/orders/shop",
        ] {
            let reply = app.caller_with(secret).post(path, &[], "{}").await;
            assert_eq!(reply.refused(401, "UNAUTHORIZED"), unknown);
            assert_eq!(reply.header("ratelimit"), None);
        }
    }
    for (name, text) in [
        ("key-1", "key key-1 expired on 2020-01-31T00:00:00"),
        ("till", "key till was revoked on "),
    ] {
        let counted = eventually_async("three requests are in the log", async || {
            let entries = told(&app, text).await;
            let count = |entry: &Value| {
                let text = entry["errors"][0].as_str().expect("a text");
                let several = text.rsplit_once('(').map(|(_, rest)| rest);
                let count = several.and_then(|rest| rest.split(' ').next()?.parse().ok());
                count.unwrap_or(1_u64)
            };
            let sum: u64 = entries.iter().map(count).sum();
            assert!(sum <= 3);
            (sum == 3).then_some(entries)
        })
        .await;
        for entry in counted {
            assert_eq!(
                (&entry["http_status"], &entry["stream"]),
                (&json!(401), &json!("orders"))
            );
        }
        assert!(
            key(&app, name).await["last_refused_at"].is_string(),
            "{name}"
        );
        let status = admin.get("/api/admin/status").await.data();
        let problems = status["problems"].as_array().expect("a list").clone();
        let named = problems
            .iter()
            .filter(|one| one.as_str().is_some_and(|one| one.starts_with(text)));
        assert_eq!(named.count(), 1, "{problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connector_shows_its_address_for_each_stream() {
    let app = Setup::shop()
        .stream("größe 1")
        .key("shop", "größe 1")
        .set("server.public_url", "https://hooks.example.com")
        .start()
        .await;
    let shop = app.admin().get("/api/admin/connectors/shop").await.data();
    let path = "/api/webhook/gr%C3%B6%C3%9Fe%201/shop";
    let expected = json!([
        {"stream": "größe 1", "path": path, "url": format!("https://hooks.example.com{path}")},
        {"stream": "orders", "path": "/api/webhook/orders/shop", "url": "https://hooks.example.com/api/webhook/orders/shop"},
    ]);
    assert_eq!(shop["webhooks"], expected);
    app.caller_of("shop", 1)
        .post(path, &[], "{}")
        .await
        .receipt();
}
