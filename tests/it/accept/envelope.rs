//! The error envelope on every path, methods, and what is not HTTP.

use reqwest::Method;

use crate::app::Raw;
use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn unknown_paths_are_404_in_the_envelope() {
    let app = Setup::shop().start().await;
    let paths = [
        "/",
        "/api",
        "/api/",
        "/api/ingest/x",
        "/api/requests",
        "/nothing",
        "/api/ingest%2F",
        "//",
        "/..%2f..%2fetc/passwd",
        "/%FF",
        "/api/admin/status",
    ];
    for path in paths {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let caller = app.caller("shop");
            let reply = caller.call(method, path, &[], "").await;
            reply.refused(404, "NOT_FOUND");
        }
    }
    for path in [
        "/nothing",
        "/api/admin",
        "/api/admin/nothing",
        "/api/ingest",
        "/readyz/x",
    ] {
        app.admin().get(path).await.refused(404, "NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_methods_are_405_and_told_which_are_taken() {
    let app = Setup::shop().start().await;
    let brew = Method::from_bytes(b"BREW").expect("a method");
    let others = [
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
        brew,
    ];
    for caller in [app.anonymous(), app.caller("shop")] {
        for (path, allowed, also) in [
            ("/api/ingest", "POST", Method::GET),
            ("/api/webhook/orders", "POST", Method::GET),
            ("/api/webhook/no-such-stream", "POST", Method::GET),
            (
                "/api/requests/0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10",
                "GET, HEAD",
                Method::POST,
            ),
            ("/healthz", "GET, HEAD", Method::POST),
            ("/readyz", "GET, HEAD", Method::POST),
            ("/openapi.json", "GET, HEAD", Method::POST),
        ] {
            for method in others.iter().chain([&also]) {
                let reply = caller.call(method.clone(), path, &[], "").await;
                reply.refused(405, "METHOD_NOT_ALLOWED");
                assert_eq!(reply.header("allow"), Some(allowed), "{method} {path}");
            }
            let reply = caller.call(Method::HEAD, path, &[], "").await;
            assert_eq!(reply.body, b"");
            assert!(reply.header("x-request-id").is_some());
            if allowed == "POST" {
                assert_eq!(reply.status, 405);
                assert_eq!(reply.header("allow"), Some(allowed));
            }
        }
    }
    let reply = app.admin().call(Method::POST, "/api/admin/status").await;
    reply.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(reply.header("allow"), Some("GET, HEAD"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_not_http_ends_its_connection_and_nothing_else() {
    let app = Setup::shop().start().await;
    for noise in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"HELO there\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /api/ingest HTTP/9.9\r\n\r\n",
        b"POST /api/ingest HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
        b"POST /api/ingest HTTP/1.1\r\nno colon\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut raw = Raw::connect(&app.service).await;
        raw.send(noise).await;
        raw.hang_up().await;
    }
    let mut raw = Raw::connect(&app.service).await;
    raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
    for _ in 0..2_000 {
        if !raw
            .try_send(format!("X-Filler: {}\r\n", "x".repeat(500)))
            .await
        {
            break;
        }
    }
    raw.try_send("\r\n").await;
    drop(raw);
    app.caller("shop").ingest("{}").await.receipt();
    let panics = app.admin().metric("headgate_panics_total").await;
    assert_eq!(panics, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_goes_on_after_a_refusal() {
    let app = Setup::shop().start().await;
    let secret = app.secret("shop");
    let mut raw = Raw::connect(&app.service).await;
    for _ in 0..2 {
        raw.post_head("ik_live_wrong", "Content-Length: 7\r\n")
            .await;
        raw.send("[1,2,3]").await;
        raw.reply().await.refused(401, "UNAUTHORIZED");
        raw.post_head(secret, "Content-Length: 7\r\n").await;
        raw.send("[1,2,3]").await;
        raw.reply().await.refused(400, "INVALID_PAYLOAD");
        raw.post_head(secret, "Content-Length: 4\r\n").await;
        raw.send("[{}]").await;
        raw.reply().await.receipt();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_sent_ahead_are_answered_in_order() {
    let app = Setup::shop().start().await;
    let secret = app.secret("shop").to_owned();
    let mut raw = Raw::connect(&app.service).await;
    for count in 1..=5 {
        let body = format!("[{}]", vec!["{}"; count].join(","));
        let length = format!("Content-Length: {}\r\n", body.len());
        raw.post_head(&secret, &length).await;
        raw.send(body).await;
    }
    for count in 1..=5 {
        assert_eq!(raw.reply().await.receipt().items, count);
    }
}
