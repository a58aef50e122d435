//! One answer for every key that is not good.

use reqwest::Method;

use crate::app::Raw;
use crate::setup::Setup;

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
