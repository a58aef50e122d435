//! Deliveries that are nested, many or long beyond what a tool sends: bounded, and answered.

use super::{SECRET, address, hex, mac, verifying};
use crate::app::{Caller, Reply};
use crate::setup::Setup;

/// So many messages of WhatsApp, each in an array of its own three arrays down, beside a text of this length.
fn messages(count: usize, beside: usize) -> String {
    let beside = "x".repeat(beside);
    let one = |at: usize| {
        format!(
            r#"{{"id":"e","changes":[{{"value":{{"contacts":"{beside}","messages":[{{"id":"m{at}"}}]}}}}]}}"#
        )
    };
    let all: Vec<String> = (0..count).map(one).collect();
    format!(r#"{{"object":"w","entry":[{}]}}"#, all.join(","))
}

async fn send(to: &Caller, body: &str) -> Reply {
    let signature = format!("sha256={}", hex(&mac(SECRET, body.as_bytes())));
    let headers = [("X-Hub-Signature-256", &*signature)];
    to.post(&address("chat"), &headers, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_messages_in_arrays_are_items_or_too_large() {
    let app = verifying(Setup::new().unlimited(), "chat", "whatsapp")
        .set("limits.max_body_bytes", 2 << 20)
        .start()
        .await;
    let anyone = app.anonymous();
    let reply = send(&anyone, &messages(10_000, 0)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    // Small as it comes, and as many times as large with what stands beside each message: in one array this time.
    let many: Vec<String> = (0..10_000)
        .map(|at| format!(r#"{{"id":"n{at}"}}"#))
        .collect();
    let body = format!(
        r#"{{"object":"w","entry":[{{"id":"e","changes":[{{"value":{{"contacts":"{}","messages":[{}]}}}}]}}]}}"#,
        "x".repeat(10_000),
        many.join(",")
    );
    assert!(body.len() < 1 << 20);
    let reply = send(&anyone, &body).await;
    reply.refused(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(app.fields("chat").await.len(), 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn items_eight_arrays_down_are_found_and_bounded() {
    let app = Setup::new()
        .unlimited()
        .stream("deep")
        .connector(
            "deep",
            "kind = \"webhook\"\nitems = \"a[].a[].a[].a[].a[].a[].a[].a[]\"\nitem_key = \"k\"",
        )
        .key("deep", "deep")
        .start()
        .await;
    let nested = |wide: usize| {
        let mut leaf = 0;
        fn level(depth: usize, wide: usize, leaf: &mut usize) -> String {
            if depth == 0 {
                *leaf += 1;
                return format!(r#"{{"k":{leaf}}}"#);
            }
            let inner: Vec<String> = (0..wide).map(|_| level(depth - 1, wide, leaf)).collect();
            format!(r#"{{"a":[{}]}}"#, inner.join(","))
        }
        level(8, wide, &mut leaf)
    };
    let deep = app.caller("deep");
    let path = address("deep");
    deep.post(&path, &[], nested(2)).await.receipt();
    assert_eq!(app.fields("deep").await.len(), 256);
    // Five in each: 390,625 items, which no body may be as long as.
    let reply = deep.post(&path, &[], nested(5)).await;
    reply.refused(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(app.fields("deep").await.len(), 256);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_token_of_64_kib_is_no_header() {
    let verify = format!(
        "verify = {{ scheme = \"livekit\", secret = \"{SECRET}\", options = {{ api_key = \"the-key\" }} }}"
    );
    let app = Setup::new()
        .unlimited()
        .stream("live")
        .signing_key("live", "main", "live", &verify)
        .start()
        .await;
    let anyone = app.anonymous();
    for (len, status) in [(64 << 10, 431), (8 << 10, 401)] {
        let part = "a".repeat(len / 3);
        let token = format!("{part}.{part}.{part}");
        let headers = [("Authorization", &*token)];
        let reply = anyone.post(&address("live"), &headers, "{}").await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    assert_eq!(app.fields("live").await.len(), 0);
}
