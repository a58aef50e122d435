//! Pages of which origins may read, and what browsers are told of it.

use reqwest::Method;

use super::{ALLOWED, ask, header, refusal, setup, subprotocol, ticket, url};
use crate::app::Transport;
use crate::setup::Setup;

/// Browsers send no `Origin` when a page opens an EventSource to where it came from, and what stands in
/// front of the daemon may speak TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_behind_a_proxy_with_tls_uses_its_own_ticket() {
    let app = setup().start().await;
    let host = app.service.strip_prefix("http://").expect("TCP");
    let own = format!("https://{host}");
    let screen = app.reader("screen");
    let given = ticket(&ask(&screen, &[("Origin", &own)], "").await);
    let renderer = app.renderer(Transport::WebSocket, &["orders"]);
    renderer.with(url(&given)).of_page(&own).connect().await;
    let given = ticket(&ask(&screen, &[("Origin", &own)], "").await);
    let mut renderer = app.renderer(Transport::Sse, &["orders"]).with(url(&given));
    renderer.connect().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_of_an_origin_that_is_not_allowed_is_refused_whatever_it_shows() {
    let app = setup().start().await;
    let host = app.service.strip_prefix("http://").expect("TCP");
    let evil = [
        "https://evil.example",
        "null",
        "http://signage.example.com",
        "https://signage.example.com.evil.example",
        "https://signage.example.com:444",
    ];
    for origin in evil {
        for transport in Transport::ALL {
            let renderer = app.renderer(transport, &["orders"]);
            let reply = refusal(&mut renderer.of_page(origin)).await;
            reply.refused(403, "ORIGIN_NOT_ALLOWED");
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
        let screen = app.reader("screen");
        let headers = [("Origin", origin)];
        ask(&screen, &headers, "")
            .await
            .refused(403, "ORIGIN_NOT_ALLOWED");
        for path in ["/api/streams/orders/items", "/api/streams/orders/items/1"] {
            let reply = screen.call(Method::GET, path, &headers, "").await;
            reply.refused(403, "ORIGIN_NOT_ALLOWED");
            let reply = screen.call(Method::OPTIONS, path, &headers, "").await;
            reply.refused(403, "ORIGIN_NOT_ALLOWED");
        }
    }
    let own = format!("http://{host}");
    for origin in [ALLOWED, &own] {
        for transport in Transport::ALL {
            let mut renderer = app.renderer(transport, &["orders"]).of_page(origin);
            renderer.connect().await;
            let head = renderer.head.expect("it is open");
            assert_eq!(head.header("access-control-allow-origin"), Some(origin));
            assert_eq!(head.header("vary"), Some("origin"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pages_from_files_and_from_anywhere_read_where_that_is_configured() {
    for (configured, origin) in [
        ("null", "null"),
        ("*", "https://any.example"),
        ("*", "null"),
    ] {
        let app = Setup::screen()
            .set("live.origins", vec![configured])
            .start()
            .await;
        for transport in Transport::ALL {
            let mut renderer = app.renderer(transport, &["orders"]).of_page(origin);
            renderer.connect().await;
            let head = renderer.head.expect("it is open");
            assert_eq!(head.header("access-control-allow-origin"), Some(origin));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn browsers_may_ask_before_they_send() {
    let app = setup().start().await;
    let anybody = app.anonymous();
    let headers = [
        ("Origin", ALLOWED),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    for path in [
        "/api/live",
        "/api/tickets",
        "/api/streams/orders/items",
        "/api/streams/orders/items/7",
    ] {
        let reply = anybody.call(Method::OPTIONS, path, &headers, "").await;
        assert_eq!((reply.status, &*reply.body), (204, &b""[..]), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(ALLOWED));
        let methods = reply
            .header("access-control-allow-methods")
            .expect("methods");
        assert!(
            methods.contains("GET") && methods.contains("POST"),
            "{methods}"
        );
        let allowed = reply
            .header("access-control-allow-headers")
            .expect("headers");
        for name in ["authorization", "content-type", "last-event-id"] {
            assert!(allowed.contains(name), "{allowed}");
        }
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_reads_with_the_key_that_allows_its_origin_and_with_no_other() {
    let app = Setup::screen()
        .read_key("file", &["orders"], "origins = [\"null\"]")
        .start()
        .await;
    let page = [("Origin", "null")];
    let (file, screen) = (app.reader("file"), app.reader("screen"));
    for path in ["/api/streams/orders/items", "/feed/orders.json"] {
        let reply = file.call(Method::GET, path, &page, "").await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.header("access-control-allow-origin"), Some("null"));
        let reply = screen.call(Method::GET, path, &page, "").await;
        reply.refused(403, "ORIGIN_NOT_ALLOWED");
        let elsewhere = [("Origin", "https://evil.example")];
        let reply = file.call(Method::GET, path, &elsewhere, "").await;
        reply.refused(403, "ORIGIN_NOT_ALLOWED");
        let reply = app.anonymous().call(Method::OPTIONS, path, &page, "").await;
        assert_eq!(reply.status, 204, "{path}");
    }
    let refused = ask(&screen, &page, "").await;
    refused.refused(403, "ORIGIN_NOT_ALLOWED");
    for transport in Transport::ALL {
        let renderer = || app.renderer(transport, &["orders"]).of_page("null");
        let given = ticket(&ask(&file, &page, "").await);
        renderer().with(url(&given)).connect().await;
        let own = header(app.read_secret("file"));
        renderer().with(own).connect().await;
        // A ticket that a program got is bound to no origin; its key still is.
        let given = ticket(&ask(&screen, &[], "").await);
        let reply = refusal(&mut renderer().with(url(&given))).await;
        reply.refused(403, "ORIGIN_NOT_ALLOWED");
        let other = header(app.read_secret("screen"));
        let reply = refusal(&mut renderer().with(other)).await;
        reply.refused(403, "ORIGIN_NOT_ALLOWED");
    }
    let offered = |name: &str| {
        let renderer = app.renderer(Transport::WebSocket, &["orders"]);
        let secret = subprotocol(app.read_secret(name));
        renderer.of_page("null").with(secret)
    };
    offered("file").connect().await;
    let reply = refusal(&mut offered("screen")).await;
    reply.refused(403, "ORIGIN_NOT_ALLOWED");
    // What writes has no origins.
    let item = "/api/streams/orders/items/1";
    let reply = app.anonymous().call(Method::DELETE, item, &page, "").await;
    reply.refused(403, "ORIGIN_NOT_ALLOWED");

    app.revoke("file");
    let reply = file.call(Method::GET, "/feed/orders.json", &page, "").await;
    reply.refused(403, "ORIGIN_NOT_ALLOWED");
}
