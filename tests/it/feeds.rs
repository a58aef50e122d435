//! Feeds: streams as tables for programs that only poll.

mod access; // who may, how often
mod consumers; // what each program needs that polls
mod export; // all of a stream as a file; the page of feeds
mod formats; // the bytes of each format
mod kept; // what is kept, for how long, and how much is looked at
mod names; // any name of a field

use crate::app::{Reply, TestApp};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// The stream `scores` with the ingest key `desk`, and the read key `screen`, which may stand in a URL and polls as
/// often as it likes.
fn scores() -> Setup {
    let may = "allow_in_url = true\nrequests_per_second = 1000000";
    Setup::new()
        .stream("scores")
        .key("desk", "scores")
        .read_key("screen", &["scores"], may)
        .unlimited()
}

/// Sends items that are known by their `id`, and waits until they are in the pool.
async fn send(app: &TestApp, body: &str) {
    app.caller("desk").ingest_by("id", body).await.receipt();
    app.drain().await;
}

/// A feed that is answered with 200.
async fn feed(app: &TestApp, query: &str) -> Reply {
    let reply = app.reader("screen").get(&format!("/feed/{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply
}

/// The feed as soon as it is another one: what was sent a moment ago is kept for a while.
async fn changed(app: &TestApp, query: &str, before: &Reply) -> Reply {
    eventually_async("the feed changes", async || {
        let reply = feed(app, query).await;
        (reply.body != before.body).then_some(reply)
    })
    .await
}
