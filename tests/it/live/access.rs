//! Who may follow: keys and how they are shown.

mod ending; // expired and revoked keys end their connections
mod origins; // pages of which origins may read
mod tickets; // what stands for a key in a URL, once

use reqwest::Method;
use serde_json::Value;

use crate::app::{Caller, Pass, Renderer, Reply, TestApp, Transport};
use crate::setup::Setup;

const ALLOWED: &str = "https://signage.example.com";
/// Allowed as well.
const OTHER: &str = "https://other.example";

/// Two streams; the read keys `screen` (`orders`), `both`, and `url` (`orders`, may stand in a URL).
fn setup() -> Setup {
    Setup::screen()
        .stream("readings")
        .key("meters", "readings")
        .read_key("both", &["orders", "readings"], "")
        .read_key("url", &["orders"], "allow_in_url = true")
        .set("live.origins", vec![ALLOWED, OTHER])
}

fn header(secret: &str) -> Pass {
    Pass::Header(secret.to_owned())
}

fn url(secret: &str) -> Pass {
    Pass::Url(secret.to_owned())
}

fn subprotocol(secret: &str) -> Pass {
    Pass::Subprotocol(secret.to_owned())
}

async fn refusal(renderer: &mut Renderer) -> Reply {
    let refused = renderer.try_connect(None).await;
    let reply = refused.expect_err("it is refused");
    assert_eq!(reply.header("upgrade"), None);
    assert_eq!(reply.header("sec-websocket-protocol"), None);
    reply
}

async fn refused(app: &TestApp, pass: Pass, status: u16, code: &str) {
    for transport in Transport::ALL {
        if matches!((&pass, transport), (Pass::Subprotocol(_), Transport::Sse)) {
            continue;
        }
        let mut renderer = app.renderer(transport, &["orders"]).with(pass.clone());
        let reply = refusal(&mut renderer).await;
        let told = reply.refused(status, code);
        if status == 401 {
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        if let Pass::Header(secret) | Pass::Url(secret) | Pass::Subprotocol(secret) = &pass {
            assert!(
                secret.len() < 10 || !reply.text().contains(secret.as_str()),
                "{told:?}"
            );
        }
    }
    assert_eq!(app.renderers().await.len(), 0);
}

async fn admitted(app: &TestApp, transport: Transport, pass: Pass) -> Renderer {
    let mut renderer = app.renderer(transport, &["orders"]).with(pass);
    renderer.connect().await;
    renderer.snapshots().await;
    renderer
}

/// Asks for a ticket.
async fn ask(caller: &Caller, headers: &[(&str, &str)], body: &str) -> Reply {
    caller.post("/api/tickets", headers, body).await
}

/// A ticket that was given.
fn ticket(reply: &Reply) -> String {
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let json = reply.json();
    assert_eq!(json["success"], true);
    let ticket = json["data"]["ticket"].as_str().expect("a ticket");
    assert!(ticket.starts_with("tk_") && ticket.len() > 20, "{ticket}");
    ticket.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_valid_read_key_nobody_follows() {
    let app = setup().start().await;
    let unknown = "rk_live_unknown_unknown_unknown_00";
    for secret in [unknown, app.secret("shop"), "tk_unknown", "", "x"] {
        for pass in [header(secret), url(secret)] {
            refused(&app, pass, 401, "UNAUTHORIZED").await;
        }
        if !secret.is_empty() {
            refused(&app, subprotocol(secret), 401, "UNAUTHORIZED").await;
        }
    }
    refused(&app, Pass::None, 401, "UNAUTHORIZED").await;
    let basic = Caller::new(&app.service, None);
    let value = format!("Basic {}", app.read_secret("screen"));
    let reply = basic
        .call(Method::GET, "/api/live", &[("Authorization", &value)], "")
        .await;
    reply.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_read_key_follows_its_own_streams_only() {
    let app = setup().start().await;
    for transport in Transport::ALL {
        for streams in [&["readings"][..], &["orders", "readings"], &["nothing"]] {
            let mut renderer = app.renderer(transport, streams);
            refusal(&mut renderer)
                .await
                .refused(404, "STREAM_NOT_FOUND");
        }
        admitted(&app, transport, header(app.read_secret("screen"))).await;
        admitted(&app, transport, header(app.read_secret("both"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_read_key_in_a_url_must_be_marked_for_it() {
    let app = setup().start().await;
    refused(&app, url(app.read_secret("screen")), 401, "UNAUTHORIZED").await;
    for transport in Transport::ALL {
        admitted(&app, transport, url(app.read_secret("url"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_websocket_that_offers_its_key_as_a_subprotocol_is_answered_with_the_name_only() {
    let app = setup().start().await;
    let secret = app.read_secret("screen");
    let given = ticket(&ask(&app.reader("screen"), &[], "").await);
    for offered in [secret, &given] {
        let renderer = admitted(&app, Transport::WebSocket, subprotocol(offered)).await;
        let head = renderer.head.expect("it is open");
        assert_eq!(head.header("sec-websocket-protocol"), Some("headgate"));
        assert!(!format!("{:?}", head.headers).contains(offered));
    }
    // Without an offer none is chosen.
    let renderer = admitted(&app, Transport::WebSocket, header(secret)).await;
    let head = renderer.head.expect("it is open");
    assert_eq!(head.header("sec-websocket-protocol"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn parameters_that_cannot_be_used_are_refused_in_words() {
    let app = setup().start().await;
    for transport in Transport::ALL {
        for query in [
            "max_rate=0",
            "max_rate=1001",
            "max_rate=-1",
            "max_rate=x",
            "max_rate=",
        ] {
            let mut renderer = app.renderer(transport, &["orders"]);
            renderer.asks(query);
            let told = refusal(&mut renderer).await.refused(400, "INVALID_REQUEST");
            assert!(told.message.contains("max_rate"), "{told:?}");
        }
        let mut renderer = app.renderer(transport, &["orders"]);
        renderer.asks("feilds=a");
        let refused = refusal(&mut renderer).await.refused(400, "INVALID_REQUEST");
        assert!(refused.message.contains("`fields`"), "{refused:?}");
        for query in ["max_rate=1", "max_rate=1000"] {
            let mut renderer = app.renderer(transport, &["orders"]);
            renderer.asks(query);
            renderer.connect().await;
            renderer.snapshots().await;
        }
    }
    // Asks to upgrade, but not as a WebSocket does.
    let screen = app.reader("screen");
    for headers in [
        &[("Connection", "Upgrade"), ("Upgrade", "h2c")][..],
        &[("Connection", "Upgrade"), ("Upgrade", "websocket")],
        &[
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "12"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ],
    ] {
        let reply = screen.call(Method::GET, "/api/live", headers, "").await;
        reply.refused(400, "INVALID_REQUEST");
    }
    let reply = screen.call(Method::POST, "/api/live", &[], "").await;
    reply.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(app.renderers().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_operator_sees_who_is_connected_and_may_give_tickets() {
    let app = setup().start().await;
    let renderers = [
        admitted(&app, Transport::Sse, header(app.read_secret("screen"))).await,
        admitted(&app, Transport::WebSocket, header(app.read_secret("both"))).await,
    ];
    let seen = app.admin().get("/api/admin/renderers").await;
    assert!(!seen.text().contains(app.read_secret("screen")));
    let of = |list: &[Value], name: &str| -> Vec<String> {
        let members = list
            .iter()
            .map(|one| one[name].as_str().unwrap_or_default());
        members.map(str::to_owned).collect()
    };
    let list = seen.list();
    assert_eq!(of(&list, "key"), ["screen", "both"]);
    assert_eq!(of(&list, "transport"), ["sse", "websocket"]);
    assert_eq!(of(&list, "client"), ["127.0.0.1"; 2]);
    let metric = async || app.admin().metric("headgate_renderers").await;
    assert_eq!(metric().await, 2.0);
    drop(renderers);
    crate::wait::eventually_async("nobody is connected", async || {
        (metric().await == 0.0).then_some(())
    })
    .await;
    app.stranger()
        .get("/api/admin/renderers")
        .await
        .refused(401, "UNAUTHORIZED");
    app.stranger()
        .call(Method::POST, "/api/admin/tickets")
        .await
        .refused(401, "UNAUTHORIZED");
    let given = app.admin().call(Method::POST, "/api/admin/tickets").await;
    let given = ticket(&given);
    admitted(&app, Transport::Sse, url(&given)).await;
}
