//! What one key, screen or stranger can take, and that it is not what others need.

use serde_json::json;

use crate::app::{Raw, TestApp, Transport};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// A body that lacks its last byte, so that the daemon holds the others.
async fn unfinished(app: &TestApp, connector: &str, bytes: usize) -> Raw {
    let mut raw = Raw::connect(&app.service).await;
    let length = format!("Content-Length: {}\r\n", bytes + 1);
    raw.post_head(app.secret(connector), &length).await;
    raw.send(vec![b' '; bytes]).await;
    raw
}

/// Waits until so many bytes of bodies are read.
async fn is_read(app: &TestApp, bytes: usize) {
    eventually_async("all that was sent is read", async || {
        let status = app.admin().get("/api/admin/status").await.data();
        let mut limits = status["limits"].as_array().into_iter().flatten();
        let bodies = limits.find(|limit| limit["name"] == "limits.max_pending_bytes")?;
        (bodies["used"] == bytes).then_some(())
    })
    .await;
}

/// A daemon with 1 MiB for all bodies, and 512 KiB for those of a key.
async fn small() -> TestApp {
    let setup = ["shop", "till", "door"].iter().fold(
        Setup::new()
            .unlimited()
            .set("limits.max_pending_bytes", 1 << 20)
            .set("limits.max_pending_bytes_per_key", 512 << 10),
        |setup, name| setup.stream(name).key(name, name),
    );
    setup.start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn slow_bodies_of_one_key_are_in_nobodys_way() {
    let app = small().await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(unfinished(&app, "shop", 100 << 10).await);
    }
    // Some of them are too many for the key, and are told so.
    let shop = app.caller("shop");
    let refused = eventually_async("the key has its part", async || {
        let reply = shop.ingest(vec![b' '; 100 << 10]).await;
        (reply.status == 503).then_some(reply)
    });
    let told = refused.await.refused(503, "UNAVAILABLE").message;
    assert!(told.contains("this key has too many"), "{told}");
    for name in ["till", "door"] {
        let body = format!("[{}]", " ".repeat(400_000));
        app.caller(name).ingest(body).await.receipt();
    }
    drop(slow);
    eventually_async("there is room again", async || {
        (shop.ingest("{}").await.status == 202).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_has_most_gives_way_to_a_third() {
    let app = small().await;
    // All room is taken by two.
    let mut held = Vec::new();
    for number in 1..=5 {
        held.push(unfinished(&app, "shop", 100 << 10).await);
        // One by one: it is known which is the oldest.
        is_read(&app, (number * 100) << 10).await;
    }
    let mut till = unfinished(&app, "till", 450 << 10).await;
    is_read(&app, (5 * 100 + 450) << 10).await;
    let body = format!("[{}]", " ".repeat(150_000));
    app.caller("door").ingest(body).await.receipt();
    let told = held[0].reply().await;
    let told = told.refused(503, "UNAVAILABLE").message;
    assert!(told.contains("the upload was too slow"), "{told}");
    held[1].send(b" ").await;
    assert_eq!(held[1].reply().await.status, 400, "it was read");
    till.send(b" ").await;
    let reply = till.reply().await;
    assert_eq!(reply.status, 400, "it was read: {}", reply.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_read_key_has_so_many_renderers() {
    let app = Setup::shop()
        .read_key("lobby", &["orders"], "")
        .read_key("stage", &["orders"], "")
        .set("live.connections_per_key_max", 2)
        .set("live.connections_max", 3)
        .start()
        .await;
    let follow = |key: &str, transport| {
        let (service, secret) = (app.service.clone(), app.read_secret(key).to_owned());
        async move {
            let mut renderer = crate::app::Renderer::new(&service, transport, &secret, &["orders"]);
            renderer.try_connect(None).await.map(|()| renderer)
        }
    };
    let first = follow("lobby", Transport::Sse).await.map_err(|_| ());
    let first = first.expect("a seat");
    let second = follow("lobby", Transport::WebSocket).await.map_err(|_| ());
    let _second = second.expect("a seat");
    for transport in [Transport::Sse, Transport::WebSocket] {
        let refused = follow("lobby", transport).await.expect_err("none is left");
        let told = refused.refused(429, "TOO_MANY_CONNECTIONS").message;
        assert!(told.contains("live.connections_per_key_max"), "{told}");
        assert_eq!(refused.header("retry-after"), Some("5"));
    }
    let third = follow("stage", Transport::Sse).await.map_err(|_| ());
    let _third = third.expect("a seat");
    let full = follow("stage", Transport::Sse)
        .await
        .expect_err("none is left");
    full.refused(503, "UNAVAILABLE");
    let problems = app.admin().get("/api/admin/status").await.data()["problems"].to_string();
    assert!(problems.contains("the read key lobby"), "{problems}");
    drop(first);
    eventually_async("the seat is free", async || {
        follow("lobby", Transport::Sse).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pages_that_nobody_reads_hold_up_their_own_key() {
    let app = Setup::shop()
        .read_key("lobby", &["orders"], "")
        .read_key("stage", &["orders"], "")
        .unlimited()
        .set("live.max_page_bytes", 16 << 20)
        .set("live.max_page_bytes_per_key", 4 << 20)
        .start()
        .await;
    let shop = app.caller("shop");
    let text = "x".repeat(900 << 10);
    for id in 0..4 {
        let body = json!({"id": id, "text": text}).to_string();
        shop.ingest_by("id", body).await.receipt();
    }
    app.drain().await;
    // More than the system keeps on its way.
    let mut unread = Vec::new();
    for _ in 0..3 {
        let mut raw = Raw::connect(&app.service).await;
        let secret = app.read_secret("lobby");
        let head = format!(
            "GET /api/streams/orders/items?limit=1000 HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {secret}\r\n\r\n"
        );
        raw.send(head.repeat(3)).await;
        unread.push(raw);
    }
    let items = "/api/streams/orders/items?limit=1000";
    let whole = app.reader("stage").get(items).await;
    assert_eq!(whole.list().len(), 4);
    assert!(whole.body.len() > 3 << 20);
    // In their turn they are answered, or told that it did not come.
    let answered = unread.into_iter().map(|mut raw| async move {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(raw.reply().await.status);
        }
        statuses
    });
    let statuses = futures_util::future::join_all(answered).await.concat();
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(
        statuses.iter().all(|one| [200, 503].contains(one)),
        "{statuses:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_small_body_stays_small() {
    let app = Setup::shop().unlimited().start().await;
    let shop = app.caller("shop");
    let leaves: Vec<String> = (0..4_000).map(|n| format!("\"{n}\":0")).collect();
    let nested = |path: usize| {
        let path = "p".repeat(path);
        format!("{{\"{path}\":{{{}}}}}", leaves.join(","))
    };
    let refused = shop.ingest(nested(4_000)).await;
    let told = refused.refused(400, "INVALID_PAYLOAD").message;
    assert!(told.contains("nest less deeply"), "{told}");
    shop.ingest(nested(40)).await.receipt();
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(700 << 10));
    shop.ingest(large).await.receipt();

    let app = Setup::shop()
        .set("limits.max_item_bytes", 1_000)
        .start()
        .await;
    let shop = app.caller("shop");
    let two = format!("[{{\"a\":1}},{{\"a\":\"{}\"}}]", "x".repeat(1_000));
    let told = shop.ingest(two).await;
    let told = told.refused(400, "INVALID_PAYLOAD").message;
    assert!(
        told.starts_with("item 1 takes 1008 bytes") && told.contains("limits.max_item_bytes"),
        "{told}"
    );
}
