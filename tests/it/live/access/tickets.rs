//! Tickets: what stands for a read key in a URL, once.

use super::{
    ALLOWED, OTHER, admitted, ask, header, refusal, refused, setup, subprotocol, ticket, url,
};
use crate::app::Transport;
use crate::wait::eventually_async;
use base::clock::Unix;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_ticket_opens_one_connection() {
    let app = setup().start().await;
    let screen = app.reader("screen");
    for transport in Transport::ALL {
        let reply = ask(&screen, &[], "").await;
        let expires_at = reply.json()["data"]["expires_at"].clone();
        let expires_at = expires_at.as_str().and_then(base::clock::parse_rfc3339);
        let left = expires_at.expect("a time") - Unix::now();
        assert!((20_000..=60_000).contains(&left.as_millis()), "{left:?}");
        let given = ticket(&reply);
        admitted(&app, transport, url(&given)).await;
        eventually_async("it has gone", async || {
            app.renderers().await.is_empty().then_some(())
        })
        .await;
        refused(&app, url(&given), 401, "UNAUTHORIZED").await;
        refused(&app, subprotocol(&given), 401, "UNAUTHORIZED").await;
    }
    // It is no read key.
    let given = ticket(&ask(&screen, &[], "").await);
    refused(&app, header(&given), 401, "UNAUTHORIZED").await;
    let caller = app.caller_with(&given);
    let reply = caller.get("/api/streams/orders/items").await;
    reply.refused(401, "UNAUTHORIZED");
    ask(&caller, &[], "").await.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_ticket_is_for_the_streams_that_were_asked_for() {
    let app = setup().start().await;
    let both = app.reader("both");
    for transport in Transport::ALL {
        let given = ticket(&ask(&both, &[], r#"{"streams": ["readings"]}"#).await);
        let mut renderer = app.renderer(transport, &["orders"]).with(url(&given));
        refusal(&mut renderer)
            .await
            .refused(404, "STREAM_NOT_FOUND");
        let given = ticket(&ask(&both, &[], r#"{"streams": ["readings"]}"#).await);
        let mut renderer = app.renderer(transport, &["readings"]).with(url(&given));
        renderer.names_no_streams();
        renderer.connect().await;
        renderer.snapshots().await;
    }
    let screen = app.reader("screen");
    for body in [
        r#"{"streams": ["readings"]}"#,
        r#"{"streams": ["orders", "?"]}"#,
    ] {
        ask(&screen, &[], body)
            .await
            .refused(404, "STREAM_NOT_FOUND");
    }
    for body in [
        r#"{"streams": []}"#,
        r#"{"streams": "orders"}"#,
        r#"{"stream": ["orders"]}"#,
        "[]",
        "{",
    ] {
        ask(&screen, &[], body)
            .await
            .refused(400, "INVALID_REQUEST");
    }
    ask(&app.anonymous(), &[], "")
        .await
        .refused(401, "UNAUTHORIZED");
    let shop = app.caller("shop");
    ask(&shop, &[], "").await.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_ticket_is_bound_to_the_origin_that_asked_or_that_was_named() {
    let app = setup().start().await;
    let screen = app.reader("screen");
    let named = format!(r#"{{"origin": "{ALLOWED}"}}"#);
    for transport in Transport::ALL {
        for (headers, body) in [(&[("Origin", ALLOWED)][..], ""), (&[], &*named)] {
            let given = ticket(&ask(&screen, headers, body).await);
            let renderer = app.renderer(transport, &["orders"]).with(url(&given));
            renderer.of_page(ALLOWED).connect().await;
            for page in [Some(OTHER), None] {
                let given = ticket(&ask(&screen, headers, body).await);
                let mut renderer = app.renderer(transport, &["orders"]).with(url(&given));
                if let Some(page) = page {
                    renderer = renderer.of_page(page);
                }
                refusal(&mut renderer).await.refused(401, "UNAUTHORIZED");
            }
        }
        // A program without an origin gets one that any program may use.
        let given = ticket(&ask(&screen, &[], "").await);
        let renderer = app.renderer(transport, &["orders"]).with(url(&given));
        renderer.of_page(ALLOWED).connect().await;
    }
}
