//! Updates and removals as they happen: in which order, how often, and what tells that nothing happens.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::app::{Renderer, TestApp, Transport, in_background};
use crate::setup::Setup;

/// Streams `a`, `b` and `c`, each with a connector of its name; the read key `screen` reads all.
fn three_streams() -> Setup {
    let setup = ["a", "b", "c"].iter().fold(Setup::new(), |setup, name| {
        setup.stream(name).key(name, name)
    });
    setup.read_key("screen", &["a", "b", "c"], "").unlimited()
}

/// One renderer by each transport, connected, its snapshots complete.
async fn both(app: &TestApp, streams: &[&str]) -> [Renderer; 2] {
    let mut both = Transport::ALL.map(|transport| app.renderer(transport, streams));
    for renderer in &mut both {
        renderer.connect().await;
        renderer.snapshots().await;
    }
    both
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stream_is_told_completely_and_in_order_to_each_who_follows_it() {
    let app = three_streams().start().await;
    let mut renderers = Vec::new();
    for streams in [&["a", "b", "c"][..], &["a"], &["b", "c"], &["c", "a"]] {
        for transport in Transport::ALL {
            let mut renderer = app.renderer(transport, streams).max_rate(1_000);
            renderer.connect().await;
            renderers.push((streams, renderer));
        }
    }
    let writers = ["a", "b", "c"].map(|stream| {
        let caller = app.caller(stream);
        in_background(async move {
            for number in 0..150 {
                let body = format!(r#"{{"id": {}, "n": {number}}}"#, number % 20);
                caller.ingest_by("id", body).await.receipt();
            }
        })
    });
    for done in join_all(writers).await {
        done.expect("the writers do not fail");
    }
    for (streams, mut renderer) in renderers {
        let content = app.content(streams).await;
        let messages = renderer.holds(&content).await;
        for stream in streams {
            let updates = messages
                .iter()
                .filter(|message| message.kind == "update" && message.stream == **stream);
            let numbers: Vec<u64> = updates
                .flat_map(|message| message.items())
                .map(|item| item["seq"].as_u64().expect("a number"))
                .collect();
            assert!(numbers.is_sorted(), "{stream}: {numbers:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_renderer_that_wants_one_flush_a_second_gets_few_messages_and_the_last_value() {
    let app = Setup::screen().start().await;
    let mut calm = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]).max_rate(1));
    let [quick, _] = &mut both(&app, &["orders"]).await;
    for renderer in &mut calm {
        renderer.connect().await;
        renderer.snapshots().await;
    }
    let shop = app.caller("shop");
    let started = Instant::now();
    let mut sent = 0;
    while sent <= 50 || started.elapsed() < Duration::from_millis(1_500) {
        let body = format!(r#"{{"id": "one", "n": {sent}}}"#);
        shop.ingest_by("id", body).await.receipt();
        // Each is a change of its own.
        app.drain().await;
        sent += 1;
    }
    let content = app.content(&["orders"]).await;
    let many = quick.holds(&content).await.len();
    assert!(many > 10, "{many} messages");
    for renderer in &mut calm {
        let few = renderer.holds(&content).await.len();
        // At once, and one a second; the last one waits for its second.
        let most = 3 + usize::try_from(started.elapsed().as_secs()).expect("it fits");
        assert!((1..=most).contains(&few), "{few} messages, at most {most}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_is_told_at_once_after_a_quiet_time() {
    let app = Setup::screen().start().await;
    let shop = app.caller("shop");
    for renderer in &mut both(&app, &["orders"]).await {
        let sent = Instant::now();
        shop.ingest("{}").await.receipt();
        renderer
            .until("the update", |message| message.kind == "update")
            .await;
        let took = sent.elapsed();
        // Who is not told waits for the next heartbeat, after fifteen seconds.
        assert!(took < Duration::from_secs(14), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_silent_connection_carries_heartbeats_with_the_position_and_the_time() {
    let app = Setup::screen()
        .set("live.heartbeat_seconds", 1)
        .start()
        .await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    let position = app.position().to_string();
    let started = Instant::now();
    for renderer in &mut both(&app, &["orders"]).await {
        for _ in 0..2 {
            let beat = renderer.next().await.expect("it goes on");
            assert_eq!((&*beat.kind, &*beat.id), ("heartbeat", &*position));
            let time = beat.json["time"].as_str().expect("a time");
            base::clock::parse_rfc3339(time).expect("RFC 3339");
        }
    }
    let took = started.elapsed().as_millis();
    // One each fifteen seconds, without the setting.
    assert!((1_900..15_000).contains(&took), "{took} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stopping_says_goodbye_with_a_time_to_come_back_and_is_quick() {
    let app = Setup::screen().start().await;
    let mut renderers = Vec::new();
    for _ in 0..10 {
        renderers.extend(both(&app, &["orders"]).await);
    }
    app.caller("shop").ingest("{}").await.receipt();
    let content = app.content(&["orders"]).await;
    for renderer in &mut renderers {
        renderer.holds(&content).await;
    }
    let started = Instant::now();
    let listening = in_background(async move {
        for renderer in &mut renderers {
            let rest = renderer.rest().await;
            let bye = rest.last().expect("a last word");
            assert_eq!(bye.kind, "bye");
            let retry_ms = bye.json["retry_ms"].as_u64().expect("milliseconds");
            assert!((100..5_000).contains(&retry_ms), "{}", bye.text);
            if let Some(told) = renderer.retry_ms {
                assert_eq!(told, retry_ms);
            }
        }
        let browsers = renderers.iter().filter(|one| one.retry_ms.is_some());
        assert_eq!(browsers.count(), 10, "all that use Server-Sent Events");
        renderers
    });
    let stopped = app.stop().await;
    let took = started.elapsed();
    // Who waits for them ends with the time for open requests, 30 s.
    assert!(took < Duration::from_secs(25), "{took:?}");
    let renderers = listening.await.expect("everybody heard it");
    let app = stopped.start().await;
    for mut renderer in renderers {
        renderer.moved(&app.service);
        let messages = renderer.holds(&content).await;
        let messages = messages.into_iter().chain(renderer.next().await);
        let kinds: Vec<String> = messages.map(|message| message.kind).collect();
        assert_eq!(kinds, ["heartbeat"], "it resumes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_without_data_is_stale_until_data_comes() {
    let app = Setup::new()
        .stream_with("orders", "stale_after_seconds = 1")
        .key("shop", "orders")
        .stream("readings")
        .read_key("screen", &["orders", "readings"], "")
        .start()
        .await;
    let shop = app.caller("shop");
    shop.ingest("{}").await.receipt();
    app.drain().await;
    let updated_at = app.items("orders").await[0].updated_at.clone();
    let mut renderers = both(&app, &["orders", "readings"]).await;
    for renderer in &mut renderers {
        let stale = renderer.next().await.expect("it goes on");
        assert_eq!((&*stale.kind, &*stale.stream), ("stale", "orders"));
        assert_eq!(stale.json["updated_at"], *updated_at);
        assert_eq!(stale.json["stale_after_seconds"], 1);
    }
    // Who comes now is told behind the snapshot.
    for renderer in &mut both(&app, &["orders"]).await {
        let next = renderer.next().await.expect("it goes on");
        assert_eq!(next.kind, "stale");
    }
    // Removing is no data.
    app.remove("shop", "orders", "0").await;
    for renderer in &mut renderers {
        let next = renderer.next().await.expect("it goes on");
        assert_eq!(next.kind, "remove");
    }
    shop.ingest("{}").await.receipt();
    for renderer in &mut renderers {
        let messages = renderer
            .until("that it is fresh", |message| message.kind == "fresh")
            .await;
        let kinds: Vec<&str> = messages.iter().map(|message| &*message.kind).collect();
        assert_eq!(kinds, ["update", "fresh"]);
        let next = renderer.next().await.expect("it goes on");
        assert_eq!(next.kind, "stale", "again after a second");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_empty_stream_is_not_stale_and_its_first_item_is_no_return() {
    let app = Setup::new()
        .stream_with("orders", "stale_after_seconds = 1")
        .key("shop", "orders")
        .read_key("screen", &["orders"], "")
        .set("live.heartbeat_seconds", 2)
        .start()
        .await;
    let [renderer, _] = &mut both(&app, &["orders"]).await;
    let next = renderer.next().await.expect("it goes on");
    assert_eq!(next.kind, "heartbeat");
    app.caller("shop").ingest("{}").await.receipt();
    let next = renderer.next().await.expect("it goes on");
    assert_eq!(next.kind, "update");
}
