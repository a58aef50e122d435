//! What is kept and for how long, and how much is looked at: counted, not timed.

use super::{changed, feed, scores, send};
use crate::app::TestApp;

async fn built(app: &TestApp) -> f64 {
    app.admin().metric("headgate_feeds_built_total").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_is_built_once_for_all_who_poll() {
    if crate::setup::one_node_only("each node builds its own feeds") {
        return;
    }
    let app = scores().stream("news").key("wire", "news").start().await;
    send(&app, r#"[{"id": "m1", "goals": 1}, {"id": "m2"}]"#).await;
    assert_eq!(built(&app).await, 0.0);
    let token = app.read_secret("screen");
    let polls = (0..500).map(async |number| {
        // Each appends something of its own, as spreadsheets do.
        let path = format!("/feed/scores.csv?ts={number}&token={token}");
        app.anonymous().get(&path).await
    });
    let replies = futures_util::future::join_all(polls).await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.status == 200 && reply.body == replies[0].body)
    );
    assert_eq!(built(&app).await, 1.0);
    // Another query is another body; a change makes each anew, once.
    feed(&app, "scores.json").await;
    assert_eq!(built(&app).await, 2.0);
    send(&app, r#"{"id": "m1", "goals": 2}"#).await;
    let after = changed(&app, "scores.csv", &replies[0]).await;
    assert!(after.text().contains("m1,m1,2"), "{}", after.text());
    for _ in 0..20 {
        assert_eq!(feed(&app, "scores.csv").await.body, after.body);
    }
    assert_eq!(built(&app).await, 3.0);
    // What another stream gets does not count.
    let wire = app.caller("wire");
    wire.ingest(r#"{"headline": "x"}"#).await.receipt();
    app.drain().await;
    feed(&app, "scores.csv").await;
    assert_eq!(built(&app).await, 3.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_feed_has_as_many_rows_and_bytes_as_it_may() {
    let app = scores().start().await;
    let many = |from: u32, to: u32| {
        let items: Vec<String> = (from..to)
            .map(|number| format!(r#"{{"id":{number}}}"#))
            .collect();
        format!("[{}]", items.join(","))
    };
    send(&app, &many(0, 12_000)).await;
    let reply = feed(&app, "scores.csv?limit=10000").await;
    assert_eq!(reply.text().lines().count(), 10_001);
    assert_eq!(reply.header("x-total-count"), Some("12000"));
    assert!(
        reply.text().starts_with("_key,id\n0,0\n1,1\n2,2\n"),
        "in the order of numbers"
    );
    let rest = feed(&app, "scores.csv?limit=10000&offset=10000&header=false").await;
    assert_eq!(rest.text().lines().count(), 2_000);
    assert!(rest.text().ends_with("11999,11999\n"));
    // More than is looked at.
    for from in (12_000..101_000).step_by(40_000) {
        send(&app, &many(from, from + 40_000)).await;
    }
    let screen = app.reader("screen");
    let refusal = screen
        .get("/feed/scores.csv?sort=id")
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(
        refusal.message.contains("more than 100000 items"),
        "{}",
        refusal.message
    );
    assert_eq!(
        feed(&app, "scores.txt?key=131999&fields=id").await.text(),
        "131999"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_feed_that_would_be_too_large_is_refused_in_plain_words() {
    if crate::setup::one_node_only("each node builds its own feeds") {
        return;
    }
    let app = scores().start().await;
    let text = "x".repeat(900_000);
    for number in 0..19 {
        send(&app, &format!(r#"{{"id": {number}, "text": "{text}"}}"#)).await;
    }
    let screen = app.reader("screen");
    let refusal = screen
        .get("/feed/scores.json")
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(
        refusal.message.contains("16 MiB") && refusal.message.contains("limit"),
        "{}",
        refusal.message
    );
    let before = built(&app).await;
    screen
        .get("/feed/scores.json")
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(
        built(&app).await,
        before,
        "that it is too large is kept, too"
    );
    assert_eq!(
        feed(&app, "scores.json?limit=2").await.body.len(),
        1_800_000 + 2 * 29 + 4
    );
    assert_eq!(
        feed(&app, "scores.txt?fields=id&join=,").await.text().len(),
        10 + 9 * 2 + 18
    );
}
