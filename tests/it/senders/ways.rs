//! Ways in: keys in a header, as a password, in a URL; signatures of each shape; greetings.

use reqwest::Method;
use serde_json::json;

use super::{GitHub, OTHER, SECRET, Shopify, address, daemon, hex, mac, now_seconds, slack};
use crate::app::TestApp;
use crate::setup::Setup;

fn basic(name: &str, password: &str) -> String {
    use base64::Engine as _;
    let both = format!("{name}:{password}");
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(both)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_may_be_a_password_and_stand_in_a_url_where_that_is_allowed() {
    let app = Setup::new()
        .stream("orders")
        .connector("shop", "kind = \"webhook\"")
        .key("shop", "orders")
        .given_key(
            "shop",
            "orders",
            "ik_live_allowed_in_the_url",
            "allow_in_url = true",
        )
        .start()
        .await;
    let (plain, in_url) = (app.secret("shop").to_owned(), "ik_live_allowed_in_the_url");
    let anyone = app.anonymous();
    for (path, header) in [
        ("/api/webhook/orders", basic("anybody", &plain)),
        ("/api/webhook/orders", basic(&plain, "")),
        ("/api/ingest", basic("", &plain)),
        ("/api/webhook/orders/shop", basic("anybody", &plain)),
        ("/api/webhook/orders/shop", format!("Bearer {plain}")),
    ] {
        let headers = [("Authorization", &*header)];
        anyone.post(path, &headers, "{}").await.receipt();
    }
    for path in ["/api/webhook/orders", "/api/webhook/orders/shop"] {
        let allowed = format!("{path}?access_token={in_url}");
        anyone.post(&allowed, &[], "{}").await.receipt();
        let other = format!("{path}?access_token={plain}");
        let refused = anyone.post(&other, &[], "{}").await;
        let told = refused.refused(401, "UNAUTHORIZED").message;
        assert!(!told.contains(&plain), "{told}");
    }
    let ingest = format!("/api/ingest?access_token={in_url}");
    anyone
        .post(&ingest, &[], "{}")
        .await
        .refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_delivery_of_github_is_an_item_and_a_ping_is_none() {
    let app = daemon("repo", "github").await;
    let (anyone, path) = (app.anonymous(), address("repo"));
    let push = |delivery| GitHub {
        secret: SECRET,
        delivery,
        event: "push",
    };
    let json = br#"{"ref": "refs/heads/main", "repository": {"id": 7}}"#;
    push("d-1")
        .send(&anyone, &path, "application/json", json)
        .await
        .receipt();
    let form = b"payload=%7B%22ref%22%3A%22refs%2Fheads%2Fform%22%7D";
    let kind = "application/x-www-form-urlencoded";
    push("d-2").send(&anyone, &path, kind, form).await.receipt();
    // Its button sends the same delivery again.
    let again = push("d-1")
        .send(&anyone, &path, "application/json", json)
        .await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let ping = GitHub {
        event: "ping",
        ..push("d-3")
    };
    let pinged = ping
        .send(&anyone, &path, "application/json", br#"{"zen": "x"}"#)
        .await;
    assert_eq!((pinged.status, pinged.body.len()), (202, 0));
    app.drain().await;
    let fields = |key: &str, fields: &str| (key.to_owned(), fields.to_owned());
    assert_eq!(
        app.fields("repo").await,
        [
            fields(
                "d-1",
                r#"{"ref":"refs/heads/main","repository.id":7,"_event":"push"}"#
            ),
            fields("d-2", r#"{"ref":"refs/heads/form","_event":"push"}"#),
        ]
    );
    let log = app.admin().log("repo", "").await;
    let said = |at: usize| {
        let entry = &log[at];
        json!([
            entry["status"],
            entry["scheme"],
            entry["event"],
            entry["delivery_id"]
        ])
    };
    assert_eq!(log.len(), 4);
    assert_eq!(said(3), json!(["processed", "github", "push", "d-1"]));
    assert_eq!(said(1), json!(["duplicate", "github", "push", "d-1"]));
    assert_eq!(log[0]["status"], "handshake");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stripe_signs_with_either_of_two_secrets() {
    let secret = |name: &str| format!("whsec_{name}_of_the_tests");
    let key = |name: &str| {
        let secret = secret(name);
        format!("verify = {{ scheme = \"stripe\", secret = \"{secret}\" }}")
    };
    let app = Setup::new()
        .stream("pay")
        .signing_key("stripe", "old", "pay", &key("old"))
        .signing_key("stripe", "new", "pay", &key("new"))
        .start()
        .await;
    let anyone = app.anonymous();
    let send = |id: &'static str, signed_by: Vec<String>, seconds: u64| {
        let anyone = &anyone;
        async move {
            let body = format!(
                r#"{{"id": "{id}", "type": "customer.updated", "created": 5, "data": {{"object": {{"id": "cus_{id}"}}}}}}"#
            );
            let signed = format!("{seconds}.{body}");
            let mut header = format!("t={seconds},v0=5ec4e7");
            for secret in signed_by {
                let signature = hex(&mac(&secret, signed.as_bytes()));
                header.push_str(&format!(",v1={signature}"));
            }
            let headers = [("Stripe-Signature", &*header)];
            anyone.post("/api/webhook/pay/stripe", &headers, body).await
        }
    };
    let now = now_seconds();
    send("evt_1", vec![secret("old")], now).await.receipt();
    send("evt_2", vec![secret("new")], now).await.receipt();
    send("evt_3", vec![OTHER.to_owned(), secret("new")], now)
        .await
        .receipt();
    for (id, by, seconds) in [
        ("evt_4", vec![OTHER.to_owned()], now),
        ("evt_5", vec![], now),
        ("evt_6", vec![secret("new")], now - 400),
        ("evt_7", vec![secret("new")], now + 400),
    ] {
        send(id, by, seconds).await.refused(401, "UNAUTHORIZED");
    }
    app.drain().await;
    let keys: Vec<String> = app
        .fields("pay")
        .await
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["cus_evt_1", "cus_evt_2", "cus_evt_3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn slack_and_zoom_are_greeted_and_then_sent_from() {
    let app = {
        let setup = super::verifying(Setup::new(), "talk", "slack");
        super::verifying(setup, "meet", "zoom").start().await
    };
    let anyone = app.anonymous();
    let hello = r#"{"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV"}"#;
    let greeted = slack(&anyone, &address("talk"), hello).await;
    assert_eq!(
        (greeted.status, &*greeted.text()),
        (200, "3eZbrw1aBm2rZgRNFdxV")
    );
    let unsigned = anyone.post(&address("talk"), &[], hello).await;
    unsigned.refused(401, "UNAUTHORIZED");
    let event = r#"{"type": "event_callback", "event_id": "Ev1", "event": {"type": "message", "text": "hi"}}"#;
    slack(&anyone, &address("talk"), event).await.receipt();

    let hello = |token: &str| {
        json!({"event": "endpoint.url_validation", "payload": {"plainToken": token}}).to_string()
    };
    let greeted = anyone
        .post(&address("meet"), &[], hello("qgg8vlvZRS6UYooatFL8Aw"))
        .await;
    let expected = hex(&mac(SECRET, b"qgg8vlvZRS6UYooatFL8Aw"));
    assert_eq!(greeted.status, 200);
    assert_eq!(
        greeted.json(),
        json!({"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": expected})
    );
    // Whatever else it would sign could be a delivery.
    let forged = format!("v0:{}:{{}}", now_seconds());
    for token in [&*forged, "{}", "", "a b", "ü"] {
        anyone
            .post(&address("meet"), &[], hello(token))
            .await
            .refused(401, "UNAUTHORIZED");
    }
    let body = r#"{"event": "meeting.started", "event_ts": 5, "payload": {"object": {"id": "7"}}}"#;
    let seconds = now_seconds().to_string();
    let signature = hex(&mac(SECRET, format!("v0:{seconds}:{body}").as_bytes()));
    let signature = format!("v0={signature}");
    let headers = [
        ("x-zm-signature", &*signature),
        ("x-zm-request-timestamp", &*seconds),
    ];
    let sent = anyone.post(&address("meet"), &headers, body).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    app.drain().await;
    assert_eq!(app.fields("talk").await[0].0, "Ev1");
    assert_eq!(app.fields("meet").await[0].0, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tools_ask_in_their_own_ways_before_they_send() {
    let token = "verify_token = \"the-word-of-the-tests\"";
    let meta = format!("verify = {{ scheme = \"meta\", secret = \"{SECRET}\", {token} }}");
    let setup = Setup::new()
        .stream("m")
        .signing_key("m", "main", "m", &meta);
    let setup = super::verifying(setup, "x", "x");
    let app = super::verifying(setup, "t", "trello")
        .set("server.public_url", "https://hooks.example.com")
        .stream("c")
        .connector("c", "kind = \"webhook\"\npreset = \"cloudevents\"")
        .given_key("c", "c", "ik_live_of_cloud_events_x", "allow_in_url = true")
        .start()
        .await;
    let anyone = app.anonymous();
    let ask = |method: Method, path: &str| {
        let (anyone, path) = (app.anonymous(), path.to_owned());
        async move { anyone.call(method, &path, &[], "").await }
    };
    let hub = |word: &str, challenge: &str| {
        format!(
            "/api/webhook/m/m?hub.mode=subscribe&hub.verify_token={word}&hub.challenge={challenge}"
        )
    };
    let greeted = ask(Method::GET, &hub("the-word-of-the-tests", "115")).await;
    assert_eq!((greeted.status, &*greeted.text()), (200, "115"));
    assert_eq!(greeted.header("x-content-type-options"), Some("nosniff"));
    for (word, challenge) in [
        ("another", "115"),
        ("the-word-of-the-tests", "%3Cscript%3E"),
    ] {
        ask(Method::GET, &hub(word, challenge))
            .await
            .refused(401, "UNAUTHORIZED");
    }
    let greeted = ask(Method::GET, "/api/webhook/x/x?crc_token=challenge_1").await;
    assert_eq!(greeted.status, 200);
    assert!(
        greeted.text().contains("response_token"),
        "{}",
        greeted.text()
    );
    let forged = ask(Method::GET, "/api/webhook/x/x?crc_token=%7B%22a%22%3A1%7D").await;
    forged.refused(401, "UNAUTHORIZED");
    assert_eq!(ask(Method::HEAD, "/api/webhook/t/t").await.status, 200);
    // Whoever tries an address hears that it is reached, and nothing of whether it is known.
    for path in ["/api/webhook/t/t", "/api/webhook/nobody/nobody"] {
        for method in [Method::GET, Method::HEAD] {
            let reply = ask(method, path).await;
            assert_eq!((reply.status, &*reply.text()), (200, ""), "{path}");
        }
        let reply = ask(Method::OPTIONS, path).await;
        reply.refused(405, "METHOD_NOT_ALLOWED");
    }
    let logged = app.admin().log("t", "status=handshake").await;
    assert!(!logged.is_empty());
    let origin = [("WebHook-Request-Origin", "events.example.com")];
    let path = "/api/webhook/c/c?access_token=ik_live_of_cloud_events_x";
    let greeted = anyone.call(Method::OPTIONS, path, &origin, "").await;
    assert_eq!(greeted.status, 200);
    assert_eq!(
        greeted.header("webhook-allowed-origin"),
        Some("events.example.com")
    );
    let event = [
        ("ce-specversion", "1.0"),
        ("ce-id", "e-1"),
        ("ce-type", "com.example.made"),
        ("ce-source", "/tests"),
    ];
    anyone
        .post(path, &event, r#"{"id": "7", "n": 1}"#)
        .await
        .receipt();
    app.drain().await;
    let (key, fields) = app.fields("c").await.remove(0);
    assert_eq!(key, "7");
    assert!(
        fields.contains(r#""ce.type":"com.example.made""#),
        "{fields}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_same_delivery_to_two_connectors_is_two_deliveries() {
    let setup = super::verifying(Setup::new(), "a", "shopify");
    let app: TestApp = super::verifying(setup, "b", "shopify").start().await;
    let order = Shopify {
        delivery: "w-1",
        topic: "orders/create",
    };
    for name in ["a", "b", "a"] {
        let sent = order
            .send(&app.anonymous(), &address(name), r#"{"id": 1}"#)
            .await;
        assert_eq!(sent.receipt().stream, name);
    }
    app.drain().await;
    for name in ["a", "b"] {
        assert_eq!(app.fields(name).await.len(), 1);
    }
}
