//! Coming back: what changed meanwhile is told, or everything afresh, and never anything in between.

use crate::app::{Content, Message, Renderer, TestApp, Transport};
use crate::setup::{Setup, is_in_a_cluster};
use crate::stored::one;

/// A daemon with items `0` to `9` in `orders`.
async fn ten_items() -> TestApp {
    let app = Setup::screen().start().await;
    for number in 0..10 {
        put(&app, number, "first").await;
    }
    app.drain().await;
    app
}

async fn put(app: &TestApp, number: u32, value: &str) {
    let body = format!(r#"{{"id": {number}, "value": "{value}"}}"#);
    app.caller("shop").ingest_by("id", body).await.receipt();
}

/// One renderer by each transport that holds everything and has gone away.
async fn gone_away(app: &TestApp, content: &Content) -> [Renderer; 2] {
    let mut both = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]));
    for renderer in &mut both {
        renderer.holds(content).await;
        renderer.disconnect();
    }
    both
}

/// Connects, and checks that it is told exactly this, without a snapshot, and then a heartbeat.
async fn resumes(renderer: &mut Renderer, content: &Content, updated: &[&str], removed: &[&str]) {
    renderer.connect().await;
    let messages = renderer.caught_up().await;
    assert_eq!(renderer.content, *content);
    let keys = |kind: &str| {
        let messages = messages.iter().filter(|message| message.kind == kind);
        let mut keys: Vec<&str> = messages.flat_map(Message::keys).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys("update"), updated);
    assert_eq!(keys("remove"), removed);
    let others = messages.iter().map(|message| message.kind.as_str());
    let others = others.filter(|kind| !["update", "remove", "heartbeat"].contains(kind));
    assert_eq!(others.count(), 0, "{messages:?}");
}

/// Connects with this position, and checks that everything is told afresh.
async fn begins_anew(renderer: &mut Renderer, since: &str, content: &Content) {
    renderer.connect_from(Some(since)).await;
    let reset = renderer.next().await.expect("a message");
    assert_eq!(reset.kind, "reset", "{since}: {}", reset.text);
    let reason = reset.json["reason"].as_str();
    assert!(reason.is_some_and(|reason| !reason.is_empty()));
    let messages = renderer.snapshots().await;
    assert!(messages.iter().all(|message| message.kind == "snapshot"));
    assert_eq!(renderer.content, *content, "{since}");
    renderer.disconnect();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_comes_back_is_told_the_newest_value_of_what_changed_and_what_is_gone() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let mut renderers = gone_away(&app, &content).await;
    for value in ["second", "third"] {
        put(&app, 3, value).await;
        put(&app, 4, value).await;
        app.drain().await;
    }
    app.remove("shop", "orders", "4").await;
    app.remove("shop", "orders", "5").await;
    app.remove("shop", "orders", "6").await;
    put(&app, 6, "again").await;
    put(&app, 11, "new").await;
    let content = app.content(&["orders"]).await;
    for renderer in &mut renderers {
        renderer.connect().await;
        let messages = renderer.caught_up().await;
        assert_eq!(renderer.content, content);
        let told: Vec<&str> = messages.iter().flat_map(Message::keys).collect();
        // Whether the removal of 6 is told before its return is left open.
        let told: Vec<&str> = told.into_iter().filter(|key| *key != "6").collect();
        assert_eq!(told, ["3", "4", "5", "11"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_comes_back_to_nothing_new_is_told_so() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    for renderer in &mut gone_away(&app, &content).await {
        resumes(renderer, &content, &[], &[]).await;
        let id = renderer.id.clone().expect("an id");
        assert_eq!(id, app.position().to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn positions_outlive_a_restart_and_so_does_what_was_removed() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let mut renderers = gone_away(&app, &content).await;
    put(&app, 1, "before").await;
    app.drain().await;
    app.remove("shop", "orders", "2").await;
    let app = app.restart().await;
    put(&app, 3, "after").await;
    app.drain().await;
    app.remove("shop", "orders", "4").await;
    let content = app.content(&["orders"]).await;
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        resumes(renderer, &content, &["1", "3"], &["2", "4"]).await;
        renderer.disconnect();
    }
    // From the file alone.
    put(&app, 5, "later").await;
    app.drain().await;
    app.remove("shop", "orders", "6").await;
    let content = app.content(&["orders"]).await;
    let app = app.restart().await;
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        resumes(renderer, &content, &["5"], &["6"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_position_that_means_nothing_here_gives_a_reset_and_everything() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let position = app.position();
    let (epoch, seq) = (position.epoch.get(), position.seq.get());
    let mut positions = vec![
        format!("{}:{seq}", epoch + 1),
        format!("{}:{seq}", epoch - 1),
        format!("{epoch}:99999999999999999999999999"),
        format!("{epoch}"),
        format!("{epoch}:"),
        format!("{epoch}:-1"),
        format!("{epoch}:+1"),
        format!("{epoch}:1:1"),
        "1:1' OR 1=1 --".to_owned(),
        "0:0".to_owned(),
        ":".to_owned(),
        "null".to_owned(),
    ];
    // With several nodes it is the position of a screen that comes from a node that is further.
    if !is_in_a_cluster() {
        positions.push(format!("{epoch}:{}", seq + 1));
    }
    for transport in Transport::ALL {
        let mut renderer = app.renderer(transport, &["orders"]);
        for since in &positions {
            begins_anew(&mut renderer, since, &content).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_header_goes_before_the_query() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let position = app.position().to_string();
    put(&app, 1, "second").await;
    let after = app.content(&["orders"]).await;
    let mut renderer = app.renderer(Transport::Sse, &["orders"]);
    renderer.content = content;
    // As an EventSource that was opened with `since` comes back.
    renderer.asks("since=1:1");
    renderer.id = Some(position);
    resumes(&mut renderer, &after, &["1"], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_left_before_the_snapshots_were_complete_gets_them_without_a_reset() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let epoch = app.position().epoch;
    for transport in Transport::ALL {
        let mut renderer = app.renderer(transport, &["orders"]);
        renderer.connect_from(Some(&format!("{epoch}:0"))).await;
        let messages = renderer.snapshots().await;
        assert!(messages.iter().all(|message| message.kind == "snapshot"));
        assert_eq!(renderer.content, content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_position_from_before_forgotten_removals_gives_a_reset_and_a_later_one_does_not() {
    let app = ten_items().await;
    let before = app.content(&["orders"]).await;
    let mut renderers = gone_away(&app, &before).await;
    app.remove("shop", "orders", "1").await;
    app.remove("shop", "orders", "2").await;
    let between = app.content(&["orders"]).await;
    let mut later = gone_away(&app, &between).await;
    app.remove("shop", "orders", "3").await;
    let content = app.content(&["orders"]).await;
    let stopped = app.stop().await;
    // As if there were more.
    stopped.tamper(
        "pool.db",
        "UPDATE history SET floor = (SELECT max(seq) FROM removed WHERE key <> '3');
         DELETE FROM removed WHERE key <> '3'",
    );
    let app = stopped.start().await;
    let left: i64 = one(&app.pool(), "SELECT count(*) FROM removed");
    assert_eq!(left, 1);
    // At once, and after a restart.
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        let id = renderer.id.clone().expect("an id");
        begins_anew(renderer, &id, &content).await;
        // Back to where it was.
        renderer.id = Some(id);
    }
    let app = app.restart().await;
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        let id = renderer.id.clone().expect("an id");
        begins_anew(renderer, &id, &content).await;
    }
    for renderer in &mut later {
        renderer.moved(&app.service);
        resumes(renderer, &content, &[], &["3"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_history_that_was_lost_with_the_file_begins_with_a_reset() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let mut renderers = gone_away(&app, &content).await;
    let stopped = app.stop().await;
    stopped.tamper("pool.db", "UPDATE history SET epoch = epoch + 1");
    let app = stopped.start().await;
    let content = app.content(&["orders"]).await;
    for renderer in &mut renderers {
        renderer.moved(&app.service);
        let id = renderer.id.clone().expect("an id");
        begins_anew(renderer, &id, &content).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_changes_than_the_memory_holds_are_told_from_the_file() {
    let app = ten_items().await;
    let content = app.content(&["orders"]).await;
    let mut renderers = gone_away(&app, &content).await;
    // So that there is a memory at all.
    let mut present = app.renderer(Transport::Sse, &["orders"]);
    present.holds(&content).await;
    put(&app, 1, "forgotten by the memory").await;
    app.drain().await;
    app.remove("shop", "orders", "2").await;
    let fill = "x".repeat(60_000);
    for number in 100..420 {
        put(&app, number, &fill).await;
    }
    put(&app, 3, "in memory").await;
    app.drain().await;
    app.remove("shop", "orders", "4").await;
    let content = app.content(&["orders"]).await;
    for renderer in renderers.iter_mut().chain([&mut present]) {
        let messages = renderer.holds(&content).await;
        assert!(messages.iter().all(|message| message.kind != "snapshot"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_id_of_a_message_holds_for_all_streams_at_any_moment() {
    let app = Setup::screen()
        .stream("readings")
        .key("meters", "readings")
        .read_key("both", &["orders", "readings"], "")
        .start()
        .await;
    let streams = ["orders", "readings"];
    let meters = app.caller("meters");
    let mut renderer = app.renderer(Transport::Sse, &streams);
    renderer = renderer.with(crate::app::Pass::Header(app.read_secret("both").to_owned()));
    renderer.connect().await;
    renderer.snapshots().await;
    renderer.disconnect();
    for number in 0..20 {
        put(&app, number, "new").await;
        let body = format!(r#"{{"id": {number}}}"#);
        meters.ingest_by("id", body).await.receipt();
        app.drain().await;
    }
    let content = app.content(&streams).await;
    // One message at a time, and away again.
    for _ in 0..100 {
        renderer.connect().await;
        renderer.next().await.expect("a message");
        renderer.disconnect();
        if renderer.content == content {
            return;
        }
        if renderer.id.as_deref() == Some(&app.position().to_string()) {
            panic!("at the end without everything");
        }
        // What was told before is told again until the other stream has come as far.
        renderer.connect().await;
        renderer.next().await.expect("a message");
        renderer.next().await.expect("another message");
        renderer.disconnect();
    }
    panic!("no end: {:?}", renderer.id);
}
