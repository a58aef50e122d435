//! From where requests come: networks of keys and of the admin listener, proxies that announce clients, and those whom no
//! key vouches for.

use reqwest::Method;
use serde_json::json;

use crate::app::Raw;
use crate::setup::Setup;
use crate::wait::eventually_async;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_taken_from_its_networks_only() {
    let app = Setup::new()
        .stream("orders")
        .given_key(
            "shop",
            "orders",
            "ik_live_for_one_network_0001",
            "networks = [\"203.0.113.0/24\"]",
        )
        .read_key("lobby", &["orders"], "networks = [\"203.0.113.7\"]")
        .set("server.trusted_proxies", json!(["127.0.0.1"]))
        .start()
        .await;
    let from = |address: &'static str| [("X-Forwarded-For", address)];
    let shop = app.caller("shop");
    let sent = shop.post("/api/ingest", &from("203.0.113.9"), "{}").await;
    sent.receipt();
    for headers in [&from("198.51.100.1")[..], &[]] {
        let reply = shop.post("/api/ingest", headers, "{}").await;
        let told = reply.refused(403, "ADDRESS_NOT_ALLOWED").message;
        assert!(told.contains("networks"), "{told}");
    }
    let logged = app.admin().log("shop", "status=rejected").await;
    assert_eq!(logged.len(), 2, "{logged:?}");
    let lobby = app.reader("lobby");
    let items = "/api/streams/orders/items";
    let get = Method::GET;
    let reply = lobby
        .call(get.clone(), items, &from("203.0.113.7"), "")
        .await;
    assert_eq!(reply.status, 200);
    let reply = lobby.call(get, items, &from("203.0.113.9"), "").await;
    reply.refused(403, "ADDRESS_NOT_ALLOWED");
    let reply = lobby
        .post(
            "/api/tickets",
            &from("203.0.113.7"),
            r#"{"streams":["orders"]}"#,
        )
        .await;
    let ticket = reply.json()["data"]["ticket"]
        .as_str()
        .expect("a ticket")
        .to_owned();
    // A ticket is good where its key is.
    let follow = format!("/api/live?token={ticket}");
    let reply = app.anonymous().get(&follow).await;
    reply.refused(403, "ADDRESS_NOT_ALLOWED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn networks_of_a_key_are_changed_while_the_daemon_runs() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    let made = admin.make(
        "/api/admin/read-keys",
        json!({"name": "far", "streams": ["orders"], "networks": ["203.0.113.0/24", "unix"]}),
    );
    let made = made.await;
    assert_eq!(made["key"]["networks"], json!(["203.0.113.0/24", "unix"]));
    let far = app.caller_with(made["secret"].as_str().expect("a secret"));
    let reply = far.get("/api/streams/orders/items").await;
    reply.refused(403, "ADDRESS_NOT_ALLOWED");
    let path = "/api/admin/read-keys/far";
    let patch = Method::PATCH;
    let reply = admin
        .send(patch.clone(), path, &json!({"networks": ["nowhere"]}))
        .await;
    let told = reply.refused(400, "INVALID_REQUEST").message;
    assert!(told.contains("\"unix\""), "{told}");
    let reply = admin.send(patch, path, &json!({"networks": []})).await;
    assert_eq!(reply.data()["networks"], json!([]));
    let reply = far.get("/api/streams/orders/items").await;
    assert_eq!(reply.status, 200);
    // They are there after a start.
    let key = admin.make(
        "/api/admin/connectors/shop/keys",
        json!({"name": "far", "stream": "orders", "networks": ["203.0.113.0/24"]}),
    );
    let secret = key.await["secret"].as_str().expect("a secret").to_owned();
    let app = app.restart().await;
    let far = app.caller_with(&secret);
    far.ingest("{}").await.refused(403, "ADDRESS_NOT_ALLOWED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_admin_listener_is_for_its_networks() {
    let elsewhere = Setup::shop().set("admin.networks", json!(["203.0.113.0/24"]));
    let app = elsewhere.start().await;
    for path in ["/healthz", "/", "/api/admin/status"] {
        let reply = app.admin().get(path).await;
        reply.refused(403, "ADDRESS_NOT_ALLOWED");
    }
    let here = Setup::shop().set("admin.networks", json!(["127.0.0.0/8"]));
    let app = here.start().await;
    assert_eq!(app.admin().get("/api/admin/status").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_proxy_begins_with_the_address_of_its_client() {
    let app = Setup::shop()
        .set("server.trusted_proxies", json!(["127.0.0.1"]))
        .set("server.proxy_header", "proxy-protocol")
        .start()
        .await;
    for (header, client) in [
        ("PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n", "203.0.113.9"),
        ("PROXY UNKNOWN\r\n", "127.0.0.1"),
    ] {
        let mut raw = Raw::connect(&app.service).await;
        raw.send(header).await;
        let secret = app.secret("shop").to_owned();
        raw.post_head(&secret, "Content-Length: 2\r\n").await;
        raw.send("{}").await;
        assert_eq!(raw.reply().await.status, 202);
        eventually_async("it is logged", async || {
            // The admin listener is behind the same proxies.
            let mut raw = Raw::connect(&app.admin_url).await;
            raw.send("PROXY UNKNOWN\r\n").await;
            let token = app.admin_token();
            raw.send(format!(
                "GET /api/admin/connectors/shop/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
            ))
            .await;
            let list = raw.reply().await.list();
            (list.first().is_some_and(|one| one["client"] == client)).then_some(())
        })
        .await;
    }
    // Without the header there is no answer.
    let mut raw = Raw::connect(&app.service).await;
    raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(raw.rest().await, b"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_without_a_key_wait_and_those_with_one_do_not() {
    let app = Setup::shop()
        .set("limits.unauthorized_per_second", 1)
        .start()
        .await;
    let stranger = app.caller_with("ik_live_nobody_knows_this_key");
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(stranger.ingest("{}").await.status);
    }
    assert_eq!(statuses[..5], [401; 5]);
    let reply = eventually_async("it is too much", async || {
        let reply = stranger.ingest("{}").await;
        (reply.status == 429).then_some(reply)
    })
    .await;
    let told = reply.refused(429, "RATE_LIMITED").message;
    assert!(told.contains("without a valid key"), "{told}");
    let seconds = reply.header("retry-after").expect("when to come again");
    let policy = reply.header("ratelimit-policy");
    assert_eq!(policy, Some("\"address\";q=5;w=5"));
    let left = format!("\"address\";r=0;t={seconds}");
    assert_eq!(reply.header("ratelimit"), Some(&*left));
    assert!(reply.header("www-authenticate").is_none());
    // Who has a key is told of the key.
    let reply = app.caller("shop").ingest("{}").await;
    reply.receipt();
    let policy = reply.header("ratelimit-policy").expect("a policy");
    assert!(policy.starts_with("\"key\""), "{policy}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_address_has_so_many_connections() {
    let app = Setup::screen()
        .set("server.connections_per_address_max", 8)
        .start()
        .await;
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::connect(&app.service).await;
        raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(raw.reply().await.status, 200);
        open.push(raw);
    }
    // Health is answered all the same, once for each connection, and nothing else is.
    let mut health = Raw::connect(&app.service).await;
    health.send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(health.reply().await.status, 200);
    assert_eq!(health.rest().await, b"");
    let mut more = Raw::connect(&app.service).await;
    more.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(more.rest().await, b"");
    let problems = app.admin().get("/api/admin/status").await.data()["problems"].to_string();
    assert!(
        problems.contains("connections_per_address_max"),
        "{problems}"
    );
    let refused = "headgate_connections_refused_total{listener=\"service\"}";
    assert!(app.admin().metric(refused).await >= 1.0);
    open.pop();
    eventually_async("there is a place again", async || {
        let mut raw = Raw::connect(&app.service).await;
        let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let sent = raw.try_send(last).await;
        (sent && !raw.rest().await.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_without_a_request_give_way_to_others_of_their_address() {
    let app = Setup::screen()
        .set("server.connections_per_address_max", 8)
        .start()
        .await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::connect(&app.service).await;
        raw.send("POST /api/ingest HTTP/1.1\r\nHost: x\r\n").await;
        silent.push(raw);
    }
    // They are closed for others once they have had a moment for their requests.
    eventually_async("there is a place for a request", async || {
        let mut raw = Raw::connect(&app.service).await;
        let asks = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let sent = raw.try_send(asks).await;
        (sent && !raw.rest().await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(silent[0].rest().await, b"", "the oldest is closed");
}
