//! The admin API: its token, bad queries, what does not exist, what it lists.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::Admin;
use crate::setup::{Setup, is_in_a_cluster};

/// The paths of the admin listener that need the token, with something in the place of parameters.
const GUARDED: [(Method, &str); 87] = [
    (Method::GET, "/metrics"),
    (Method::GET, "/api/admin/status"),
    (Method::GET, "/api/admin/streams"),
    (Method::POST, "/api/admin/streams"),
    (Method::GET, "/api/admin/streams/orders"),
    (Method::GET, "/api/admin/streams/orders/export.csv"),
    (Method::PATCH, "/api/admin/streams/orders"),
    (Method::DELETE, "/api/admin/streams/orders"),
    (Method::POST, "/api/admin/backups"),
    (Method::GET, "/api/admin/connectors"),
    (Method::POST, "/api/admin/connectors"),
    (Method::GET, "/api/admin/connectors/shop"),
    (Method::PATCH, "/api/admin/connectors/shop"),
    (Method::DELETE, "/api/admin/connectors/shop"),
    (Method::GET, "/api/admin/connectors/shop/keys"),
    (Method::POST, "/api/admin/connectors/shop/trigger"),
    (Method::POST, "/api/admin/connectors/shop/keys"),
    (Method::GET, "/api/admin/connectors/shop/keys/key-0"),
    (Method::PATCH, "/api/admin/connectors/shop/keys/key-0"),
    (Method::DELETE, "/api/admin/connectors/shop/keys/key-0"),
    (Method::POST, "/api/admin/connectors/shop/keys/key-0/rotate"),
    (
        Method::POST,
        "/api/admin/connectors/shop/keys/key-0/take-secret",
    ),
    (Method::POST, "/api/admin/sign-in-links"),
    (Method::POST, "/api/admin/connectors/shop/keys/key-0/revoke"),
    (Method::GET, "/api/admin/read-keys"),
    (Method::POST, "/api/admin/read-keys"),
    (Method::GET, "/api/admin/read-keys/screen"),
    (Method::PATCH, "/api/admin/read-keys/screen"),
    (Method::DELETE, "/api/admin/read-keys/screen"),
    (Method::POST, "/api/admin/read-keys/screen/revoke"),
    (Method::GET, "/api/admin/audit"),
    (Method::GET, "/api/admin/audit/verify"),
    (Method::GET, "/api/admin/cluster"),
    (Method::DELETE, "/api/admin/cluster/nodes/b"),
    (Method::POST, "/api/admin/cluster/nodes/b/claim"),
    (Method::GET, "/api/admin/sessions"),
    (
        Method::DELETE,
        "/api/admin/sessions/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
    ),
    (Method::GET, "/api/admin/connectors/shop/requests"),
    (
        Method::GET,
        "/api/admin/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
    ),
    (
        Method::GET,
        "/api/admin/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10/content",
    ),
    (
        Method::POST,
        "/api/admin/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10/resend",
    ),
    (
        Method::POST,
        "/api/admin/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10/send-again",
    ),
    (Method::GET, "/api/admin/streams/orders/acts"),
    (Method::GET, "/api/admin/streams/orders/items/1"),
    (Method::GET, "/api/admin/streams/orders/items/1/history"),
    (Method::PUT, "/api/admin/streams/orders/items/1"),
    (Method::DELETE, "/api/admin/streams/orders/items/1"),
    (Method::POST, "/api/admin/streams/orders/override"),
    (Method::POST, "/api/admin/streams/orders/add"),
    (Method::POST, "/api/admin/streams/orders/release"),
    (Method::POST, "/api/admin/streams/orders/hold"),
    (Method::POST, "/api/admin/streams/orders/take"),
    (Method::POST, "/api/admin/streams/orders/resume"),
    (Method::POST, "/api/admin/streams/orders/undo"),
    (Method::GET, "/api/admin/sinks"),
    (Method::POST, "/api/admin/sinks"),
    (Method::POST, "/api/admin/sinks/try"),
    (Method::GET, "/api/admin/sinks/pool"),
    (Method::PATCH, "/api/admin/sinks/pool"),
    (Method::POST, "/api/admin/sinks/pool/pause"),
    (Method::POST, "/api/admin/sinks/pool/resume"),
    (Method::POST, "/api/admin/sinks/pool/refill"),
    (Method::POST, "/api/admin/sinks/pool/try"),
    (Method::GET, "/api/admin/plugins"),
    (Method::GET, "/api/admin/plugins/pool"),
    (Method::PUT, "/api/admin/plugins/mine"),
    (Method::DELETE, "/api/admin/plugins/mine"),
    (Method::POST, "/api/admin/plugins/mine/rollback"),
    (Method::GET, "/api/admin/plugins/mine/component"),
    (Method::GET, "/api/admin/search?q=1"),
    (Method::GET, "/api/admin/presets"),
    (Method::GET, "/api/admin/presets/stripe"),
    (Method::POST, "/api/admin/sinks/pool/retry"),
    (Method::GET, "/api/admin/sinks/pool/dead-letters"),
    (
        Method::DELETE,
        "/api/admin/sinks/pool/dead-letters?all=true",
    ),
    (Method::POST, "/api/admin/sinks/pool/dead-letters/retry"),
    (Method::DELETE, "/api/admin/sinks/pool/dead-letters/1"),
    (Method::GET, "/api/admin/sinks/pool/retries"),
    (Method::DELETE, "/api/admin/sinks/pool/retries/1"),
    (Method::POST, "/api/admin/sinks/pool/retries/end"),
    (Method::POST, "/api/admin/sinks/pool/retries/give-up"),
    (Method::DELETE, "/api/admin/sinks/pool"),
    (Method::GET, "/api/admin/renderers"),
    (Method::GET, "/api/admin/problems"),
    (Method::GET, "/api/admin/screens"),
    (Method::POST, "/api/admin/screens/screen/reload"),
    (Method::POST, "/api/admin/tickets"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_admin_route_needs_the_token() {
    let app = Setup::shop().start().await;
    let document = app.admin().get("/openapi.json").await.json();
    let paths = document["paths"].as_object().expect("paths");
    let guarded = paths
        .iter()
        .filter(|(path, _)| *path != "/healthz" && *path != "/readyz")
        .map(|(_, methods)| methods.as_object().expect("methods").len());
    assert_eq!(
        guarded.sum::<usize>(),
        GUARDED.len(),
        "this list is complete: {paths:?}"
    );
    let token = app.admin_token();
    let wrong = [
        None,
        Some(String::new()),
        Some(token[..token.len() - 1].to_owned()),
        Some(format!("{token}x")),
        Some(app.secret("shop").to_owned()),
    ];
    for (method, path) in GUARDED {
        for wrong in &wrong {
            let stranger = Admin::new(&app.admin_url, wrong.as_deref());
            let reply = stranger.call(method.clone(), path).await;
            // Who goes on with wrong ones is told to wait.
            if reply.status == 429 && wrong.as_deref().is_some_and(|token| !token.is_empty()) {
                continue;
            }
            reply.refused(401, "UNAUTHORIZED");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let known = app.admin().call(method, path).await;
        assert_ne!(known.status, 401, "{path}");
        assert_ne!(known.status, 405, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_admin_token_can_be_given_and_is_made_otherwise() {
    let app = Setup::shop()
        .set("admin.token", "a-token-of-my-own-0123456789")
        .start()
        .await;
    let operator = Admin::new(&app.admin_url, Some("a-token-of-my-own-0123456789"));
    operator.get("/api/admin/status").await.data();
    assert!(!app.data_dir().join("admin.token").exists());

    let app = Setup::shop().start().await;
    let token = app.admin_token();
    assert!(token.len() >= 32);
    let metadata = std::fs::metadata(app.data_dir().join("admin.token")).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let app = app.restart().await;
    assert_eq!(app.admin_token(), token);
    app.admin().get("/api/admin/status").await.data();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bad_queries_are_400_and_say_what_is_wanted() {
    let app = Setup::shop().start().await;
    let requests = "/api/admin/connectors/shop/requests";
    let letters = "/api/admin/sinks/pool/dead-letters";
    let long_text = format!("text={}", "x".repeat(201));
    for (path, query, says) in [
        (requests, "limit=0", "500"),
        (requests, "limit=501", "500"),
        (requests, "limit=-1", "500"),
        (requests, "limit=many", "500"),
        (requests, "limit=", "500"),
        (requests, "cursor=x", "next"),
        (requests, "cursor=-1", "next"),
        (requests, "status=done", "processed"),
        (requests, "status=test,nope", "processed"),
        (requests, "since=yesterday", "2026-01-31T12:00:00Z"),
        (
            requests,
            "until=2026-13-01T00:00:00Z",
            "2026-01-31T12:00:00Z",
        ),
        (requests, "since=1", "2026-01-31T12:00:00Z"),
        (requests, &long_text, "200"),
        (letters, "limit=0", "500"),
        (letters, "cursor=x", "next"),
        ("/api/admin/streams", "limit=0", "500"),
        ("/api/admin/connectors", "limit=x", "500"),
        ("/api/admin/connectors/shop/keys", "limit=501", "500"),
        ("/api/admin/read-keys", "limit=-1", "500"),
        ("/api/admin/audit", "cursor=x", "next"),
        (
            "/api/admin/audit",
            "action=creat",
            "one of add, change, claim, create,",
        ),
        ("/api/admin/audit", "kind=streams", "one of stream,"),
        ("/api/admin/audit", "name=", "1 to 256"),
        ("/api/admin/audit", "who=", "1 to 256"),
        ("/api/admin/audit", "since=2h", "2026-01-31T12:00:00Z"),
        ("/api/admin/audit", "until=now", "2026-01-31T12:00:00Z"),
    ] {
        let reply = app.admin().get(&format!("{path}?{query}")).await;
        let told = reply.refused(400, "INVALID_REQUEST").message;
        assert!(told.contains(says), "{query}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_does_not_exist_is_404() {
    let app = Setup::shop().start().await;
    for (path, code) in [
        (
            "/api/admin/connectors/nobody/requests",
            "CONNECTOR_NOT_FOUND",
        ),
        ("/api/admin/connectors/%20/requests", "CONNECTOR_NOT_FOUND"),
        (
            "/api/admin/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
            "REQUEST_NOT_FOUND",
        ),
        ("/api/admin/requests/no-uuid", "REQUEST_NOT_FOUND"),
        ("/api/admin/sinks/nothing", "SINK_NOT_FOUND"),
        ("/api/admin/sinks/nothing/dead-letters", "SINK_NOT_FOUND"),
        ("/api/admin/plugins/nothing", "PLUGIN_NOT_FOUND"),
        ("/api/admin/presets/nothing", "PRESET_NOT_FOUND"),
        ("/api/admin/streams/nothing", "STREAM_NOT_FOUND"),
        ("/api/admin/connectors/nobody", "CONNECTOR_NOT_FOUND"),
        ("/api/admin/connectors/nobody/keys", "CONNECTOR_NOT_FOUND"),
        ("/api/admin/connectors/shop/keys/nothing", "KEY_NOT_FOUND"),
        ("/api/admin/read-keys/nothing", "READ_KEY_NOT_FOUND"),
        ("/api/admin/connectors/shop/nothing", "NOT_FOUND"),
        ("/api/ingest", "NOT_FOUND"),
    ] {
        app.admin().get(path).await.refused(404, code);
    }
    let reply = app.admin().call(Method::POST, "/api/admin/plugins").await;
    reply.refused(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connectors_sinks_and_status_are_listed_without_secrets() {
    let app = Setup::shop()
        .connector("shop", "kind = \"webhook\"\nitem_key = \"order.id\"")
        .given_key(
            "shop",
            "orders",
            "ik_my_own_old_key_0123456789",
            "expires_at = 2999-01-31T00:00:00Z",
        )
        .start()
        .await;
    let connectors = app.admin().get("/api/admin/connectors").await;
    assert_eq!(connectors.json()["next"], Value::Null);
    let connectors = connectors.list();
    assert_eq!(connectors.len(), 1);
    let shop = &connectors[0];
    assert_eq!(
        (&shop["name"], &shop["kind"]),
        (&json!("shop"), &json!("webhook"))
    );
    assert_eq!(
        (&shop["item_key"], &shop["declared"]),
        (&json!("order.id"), &json!(true))
    );
    let keys = shop["keys"].as_array().expect("a list");
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0]["prefix"], app.secret("shop")[..16]);
    assert_eq!(keys[0]["expires_at"], Value::Null);
    assert_eq!(keys[1]["expires_at"], "2999-01-31T00:00:00.000Z");

    let sinks = app.admin().get("/api/admin/sinks").await.list();
    assert_eq!(sinks.len(), 1);
    assert_eq!(
        (&sinks[0]["name"], &sinks[0]["plugin"]),
        (&json!("pool"), &json!("pool"))
    );

    app.caller("shop")
        .ingest(r#"{"order": {"id": 1}}"#)
        .await
        .receipt();
    app.drain().await;
    let status = app.admin().get("/api/admin/status").await.data();
    assert_eq!(status["problems"], json!([]));
    let durability = match is_in_a_cluster() {
        true => "local",
        false => "os",
    };
    assert_eq!(status["durability"], durability);
    assert_eq!(status["profile"], "test");
    assert_eq!(status["requests"]["accepted"], 1);
    assert_eq!(status["sinks"][0]["lag"], 0);
    assert!(
        status["disk_free_bytes"]
            .as_i64()
            .is_some_and(|bytes| bytes > 0)
    );
    for reply in [json!(connectors), json!(sinks), status] {
        let text = reply.to_string();
        assert!(!text.contains(&app.secret("shop")[17..]));
        assert!(!text.contains("old_key_0123456789"));
        assert!(!text.contains(&app.admin_token()));
    }
}
