//! Keys that expire or are revoked: their connections end at once.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{admitted, ask, header, refusal, setup, subprotocol, ticket, url};
use crate::app::{Renderer, TestApp, Transport};
use crate::setup::Setup;
use base::clock::Unix;

/// Waits for the last word and the end.
async fn is_sent_away(renderer: &mut Renderer) {
    let rest = renderer.rest().await;
    let last = rest.last().expect("a last word");
    assert_eq!(last.kind, "bye", "{}", last.text);
    let again = renderer.try_connect(None).await;
    again.expect_err("refused").refused(401, "UNAUTHORIZED");
}

/// Who is let in by a key and by a ticket for it, and a ticket that is left.
async fn let_in(app: &TestApp, secret: &str) -> (Vec<Renderer>, String) {
    let tickets = app.caller_with(secret);
    let early = ticket(&ask(&tickets, &[], "").await);
    let late = ticket(&ask(&tickets, &[], "").await);
    let mut renderers = Vec::new();
    for transport in Transport::ALL {
        renderers.push(admitted(app, transport, header(secret)).await);
    }
    renderers.push(admitted(app, Transport::Sse, url(&early)).await);
    (renderers, late)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_expires_ends_its_connections_at_once() {
    let app = Setup::screen().start().await;
    let began = Instant::now();
    let (mut others, _) = let_in(&app, app.read_secret("screen")).await;
    // A key that lives long enough for the same once more, on this machine as busy as it is.
    let lives = Duration::from_secs(1) + 20 * began.elapsed();
    let ends_at = Unix::now() + lives;
    let ends = base::clock::rfc3339(ends_at);
    let key = json!({"name": "short", "streams": ["orders"], "expires_at": ends});
    let made = app.admin().make("/api/admin/read-keys", key).await;
    let secret = made["secret"].as_str().expect("a secret");
    let (mut renderers, late) = let_in(&app, secret).await;
    assert!(Unix::now() < ends_at, "the machine is too slow");
    for renderer in &mut renderers {
        is_sent_away(renderer).await;
    }
    let now = Unix::now();
    // Who is not told waits for the next heartbeat, after fifteen seconds.
    assert!(
        (ends_at..ends_at + Duration::from_secs(10)).contains(&now),
        "{now:?} instead of {ends_at:?}"
    );
    refused_ticket(&app, &late).await;
    let tickets = app.caller_with(secret);
    ask(&tickets, &[], "").await.refused(401, "UNAUTHORIZED");
    // The others stay.
    app.caller("shop").ingest("{}").await.receipt();
    for other in &mut others {
        let told = other
            .until("the update", |message| message.kind == "update")
            .await;
        assert!(
            !told.iter().any(|message| message.kind == "bye"),
            "{told:?}"
        );
    }
}

async fn refused_ticket(app: &TestApp, given: &str) {
    let mut renderer = app.renderer(Transport::Sse, &["orders"]).with(url(given));
    refusal(&mut renderer).await.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_is_revoked_ends_its_connections_at_once() {
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
    // Who is not told waits for the next heartbeat, after fifteen seconds.
    let took = revoked.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    refused_ticket(&app, &late).await;
    let reply = app.reader("both").get("/api/streams/orders/items").await;
    reply.refused(401, "UNAUTHORIZED");
    app.caller("shop").ingest("{}").await.receipt();
    let next = other.next().await.expect("it goes on");
    assert_eq!(next.kind, "update");
}
