//! Keys that expire or are revoked: their connections end within a second.

use std::time::{Duration, Instant};

use super::{admitted, ask, header, refusal, setup, subprotocol, ticket, url};
use crate::app::{Renderer, TestApp, Transport};
use crate::setup::Setup;

/// Waits for the last word and the end.
async fn is_sent_away(renderer: &mut Renderer) {
    let rest = renderer.rest().await;
    let last = rest.last().expect("a last word");
    assert_eq!(last.kind, "bye", "{}", last.text);
    let again = renderer.try_connect(None).await;
    again.expect_err("refused").refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_expires_ends_its_connections_within_a_second() {
    let ends_ms = headgate::clock::unix_ms() + 2_500;
    let ends = headgate::clock::rfc3339(ends_ms);
    let app = Setup::screen()
        .read_key("short", &["orders"], &format!("expires_at = {ends}"))
        .start()
        .await;
    let secret = app.read_secret("short");
    let tickets = app.caller_with(secret);
    let early = ticket(&ask(&tickets, &[], "").await);
    let late = ticket(&ask(&tickets, &[], "").await);
    let mut renderers = Vec::new();
    for transport in Transport::ALL {
        renderers.push(admitted(&app, transport, header(secret)).await);
    }
    renderers.push(admitted(&app, Transport::Sse, url(&early)).await);
    let mut other = admitted(&app, Transport::Sse, header(app.read_secret("screen"))).await;
    assert!(
        headgate::clock::unix_ms() < ends_ms,
        "the machine is too slow"
    );
    for renderer in &mut renderers {
        is_sent_away(renderer).await;
    }
    let now_ms = headgate::clock::unix_ms();
    assert!(
        (ends_ms..ends_ms + 1_000).contains(&now_ms),
        "{now_ms} instead of {ends_ms}"
    );
    refused_ticket(&app, &late).await;
    ask(&tickets, &[], "").await.refused(401, "UNAUTHORIZED");
    // The others stay.
    app.caller("shop").ingest("{}").await.receipt();
    let next = other.next().await.expect("it goes on");
    assert_eq!(next.kind, "update");
}

async fn refused_ticket(app: &TestApp, given: &str) {
    let mut renderer = app.renderer(Transport::Sse, &["orders"]).with(url(given));
    refusal(&mut renderer).await.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_is_revoked_ends_its_connections_within_a_second() {
    let app = setup().start().await;
    let secret = app.read_secret("both");
    let given = ticket(&ask(&app.reader("both"), &[], "").await);
    let late = ticket(&ask(&app.reader("both"), &[], "").await);
    let mut renderers = vec![
        admitted(&app, Transport::Sse, header(secret)).await,
        admitted(&app, Transport::WebSocket, header(secret)).await,
        admitted(&app, Transport::WebSocket, subprotocol(secret)).await,
        admitted(&app, Transport::Sse, url(&given)).await,
    ];
    let mut other = admitted(
        &app,
        Transport::WebSocket,
        header(app.read_secret("screen")),
    )
    .await;
    app.revoke("both");
    let revoked = Instant::now();
    for renderer in &mut renderers {
        is_sent_away(renderer).await;
    }
    assert!(revoked.elapsed() < Duration::from_secs(1));
    refused_ticket(&app, &late).await;
    let reply = app.reader("both").get("/api/streams/orders/items").await;
    reply.refused(401, "UNAUTHORIZED");
    app.caller("shop").ingest("{}").await.receipt();
    let next = other.next().await.expect("it goes on");
    assert_eq!(next.kind, "update");
}
