//! `DELETE` of an item: who may, what renderers hear, and that older requests do not bring it back.

use reqwest::Method;
use serde_json::Value;

use crate::app::{Caller, Reply, TestApp, Transport};
use crate::guests::guest;
use crate::process::{BY_ID, Client, bearer};
use crate::setup::{Setup, key_of};
use crate::wait::eventually_async;

const SEVEN: &str = "/api/streams/orders/items/7";

async fn delete(caller: &Caller, path: &str) -> Reply {
    caller.call(Method::DELETE, path, &[], "").await
}

async fn put(app: &TestApp, body: &str) {
    app.caller("shop").ingest_by("id", body).await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_removal_is_answered_like_a_submission_and_renderers_hear_it() {
    let app = Setup::screen().start().await;
    put(&app, r#"{"id": 7}"#).await;
    app.drain().await;
    let mut renderers = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]));
    for renderer in &mut renderers {
        renderer.connect().await;
        renderer.snapshots().await;
        assert_eq!(renderer.items("orders").len(), 1);
    }
    let receipt = delete(&app.caller("shop"), SEVEN).await.receipt();
    assert_eq!((&*receipt.stream, receipt.items), ("orders", 1));
    for renderer in &mut renderers {
        let message = renderer.next().await.expect("a message");
        assert_eq!(message.kind, "remove");
        assert!(renderer.items("orders").is_empty());
    }
    // Also of what is not there: something that was accepted before may bring it yet.
    let again = delete(&app.caller("shop"), SEVEN).await.receipt();
    assert_ne!(again.request_id, receipt.request_id);
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_an_ingest_key_of_the_stream_removes() {
    let app = Setup::screen()
        .stream("readings")
        .key("meters", "readings")
        .test_key("probe", "orders")
        .start()
        .await;
    put(&app, r#"{"id": 7}"#).await;
    app.drain().await;
    for nobody in [
        app.reader("screen"),
        app.anonymous(),
        app.caller_with("ik_live_x"),
    ] {
        delete(&nobody, SEVEN).await.refused(401, "UNAUTHORIZED");
    }
    let meters = app.caller("meters");
    delete(&meters, SEVEN)
        .await
        .refused(404, "STREAM_NOT_FOUND");
    let shop = app.caller("shop");
    let long = format!("/api/streams/orders/items/{}", "x".repeat(513));
    delete(&shop, &long).await.refused(400, "INVALID_PAYLOAD");
    // A test key: everything is checked, nothing happens.
    delete(&app.caller("probe"), SEVEN).await.receipt();
    app.drain().await;
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 1);
    assert_eq!(app.position().seq.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn keys_of_tools_remove_only_where_that_is_allowed() {
    let app = Setup::screen()
        .connector("tool", "kind = \"webhook\"")
        .key("tool", "orders")
        .connector("trusted", "kind = \"webhook\"\nmay_delete = true")
        .key("trusted", "orders")
        .connector("feed", "may_delete = false")
        .key("feed", "orders")
        .start()
        .await;
    put(&app, r#"{"id": 7}"#).await;
    for name in ["tool", "feed"] {
        let reply = delete(&app.caller(name), SEVEN).await;
        let told = reply.refused(403, "FORBIDDEN");
        assert!(told.message.contains("may_delete"), "{told:?}");
        assert!(told.message.contains(name), "{told:?}");
        app.drain().await;
        let log = app.admin().log(name, "status=rejected").await;
        assert_eq!(log[0]["http_status"], 403, "{log:?}");
    }
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 1);
    delete(&app.caller("trusted"), SEVEN).await.receipt();
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_removal_stands_in_the_request_log() {
    let app = Setup::screen().test_key("probe", "orders").start().await;
    put(&app, r#"{"id": 7}"#).await;
    app.drain().await;
    let receipt = delete(&app.caller("shop"), SEVEN).await.receipt();
    delete(&app.caller("probe"), SEVEN).await.receipt();
    app.drain().await;
    let log = app.admin().log("shop", "status=removed").await;
    let [entry] = &log[..] else { panic!("{log:?}") };
    assert_eq!(entry["stream"], "orders");
    assert_eq!(entry["request_id"], receipt.request_id);
    assert_eq!(app.admin().log("shop", "").await.len(), 2);
    assert_eq!(app.admin().log("probe", "status=test").await.len(), 1);
    let path = format!("/api/requests/{}", receipt.request_id);
    let state = app.caller("shop").get(&path).await.data();
    assert_eq!(state["status"], "removed");
    assert_eq!(state["sinks"][0]["name"], "pool");
    assert_eq!(state["sinks"][0]["state"], "done");
    assert!(state["processed_at"].is_string(), "{state}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_repeated_removal_is_processed_once() {
    let app = Setup::screen().start().await;
    let shop = app.caller("shop");
    let headers = [("Idempotency-Key", "gone-1")];
    let ask = async || shop.call(Method::DELETE, SEVEN, &headers, "").await;
    put(&app, r#"{"id": 7}"#).await;
    let first = ask().await.receipt();
    put(&app, r#"{"id": 7}"#).await;
    let again = ask().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.receipt().request_id, first.request_id);
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn removals_count_against_the_keys_rate() {
    let app = Setup::shop()
        .connector("shop", "requests_per_second = 1\nburst = 3")
        .start()
        .await;
    let shop = app.caller("shop");
    for _ in 0..3 {
        delete(&shop, SEVEN).await.receipt();
    }
    let reply = delete(&shop, SEVEN).await;
    reply.refused(429, "RATE_LIMITED");
    assert!(reply.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_keep_their_place_among_submissions() {
    let app = Setup::screen().unlimited().start().await;
    let shop = app.caller("shop");
    for round in 0..30 {
        for step in 0..5 {
            put(&app, &format!(r#"{{"id": 7, "n": {step}}}"#)).await;
            delete(&shop, SEVEN).await.receipt();
        }
        if round % 3 > 0 {
            put(&app, &format!(r#"{{"id": 7, "n": {round}}}"#)).await;
        }
        if round % 5 == 0 {
            let held = app.content(&["orders"]).await["orders"].len();
            assert_eq!(held, usize::from(round % 3 > 0), "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_later_request_brings_the_item_back() {
    let app = Setup::screen().start().await;
    let mut renderer = app.renderer(Transport::WebSocket, &["orders"]);
    renderer.connect().await;
    for round in 0..5 {
        put(&app, &format!(r#"{{"id": 7, "round": {round}}}"#)).await;
        app.drain().await;
        let content = app.content(&["orders"]).await;
        assert_eq!(content["orders"].len(), 1);
        renderer.holds(&content).await;
        delete(&app.caller("shop"), SEVEN).await.receipt();
        renderer.holds(&app.content(&["orders"]).await).await;
    }
}

/// Two sinks for the same streams: `pool` writes at once, `late` writes items whose key begins with `late`
/// half a second later, each request for itself.
fn with_a_late_sink() -> Setup {
    late_sink(Setup::screen(), true)
}

fn late_sink(setup: Setup, beside_the_pool: bool) -> Setup {
    let pool = match beside_the_pool {
        true => "[[sinks]]\nname = \"pool\"\nplugin = \"pool\"\nstreams = [\"*\"]\n",
        false => "",
    };
    let late = guest("late");
    setup.toml(&format!(
        "{pool}[[sinks]]\nname = \"late\"\nplugin = {late:?}\nstreams = [\"*\"]\nwrites = [\"*\"]\nbatch = {{ items_max = 1 }}"
    ))
}

/// Waits until no sink has anything before it, retries included.
async fn all_delivered(app: &TestApp) {
    app.drain().await;
    let admin = app.admin();
    eventually_async("no retries wait", async || {
        let sinks = admin.get("/api/admin/sinks").await.list();
        let done = |sink: &Value| sink["retries"] == 0 && sink["lag"] == 0;
        sinks.iter().all(done).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_delivered_late_does_not_bring_an_item_back() {
    let app = with_a_late_sink().start().await;
    let mut renderer = app.renderer(Transport::Sse, &["orders"]);
    renderer.connect().await;
    put(&app, r#"{"id": "late", "n": 1}"#).await;
    app.drain().await;
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 1);
    app.remove("shop", "orders", "late").await;
    all_delivered(&app).await;
    let content = app.content(&["orders"]).await;
    assert_eq!(content["orders"].len(), 0);
    put(&app, r#"{"id": "last"}"#).await;
    let content = app.content(&["orders"]).await;
    let messages = renderer.holds(&content).await;
    let gone = messages.iter().position(|message| message.kind == "remove");
    let after = messages.iter().skip(gone.expect("a removal"));
    let told = after.filter(|message| message.kind == "update" && message.keys().contains(&"late"));
    assert_eq!(told.count(), 0, "{messages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_on_its_way_is_removed_in_advance() {
    let app = late_sink(Setup::screen(), false).start().await;
    let mut renderer = app.renderer(Transport::Sse, &["orders"]);
    renderer.connect().await;
    put(&app, r#"{"id": "late"}"#).await;
    app.drain().await;
    // Accepted, and waits for a retry.
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 0);
    app.remove("shop", "orders", "late").await;
    all_delivered(&app).await;
    let content = app.content(&["orders"]).await;
    assert_eq!(content["orders"].len(), 0, "{content:?}");
    renderer.holds(&content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_outlives_a_restart_while_an_older_request_waits() {
    let app = with_a_late_sink().start().await;
    put(&app, r#"{"id": "late", "n": 1}"#).await;
    app.drain().await;
    app.remove("shop", "orders", "late").await;
    let app = app.restart().await;
    all_delivered(&app).await;
    assert_eq!(app.content(&["orders"]).await["orders"].len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_merging_stream_nothing_from_before_the_removal_is_filled_in() {
    let setup = Setup::new()
        .stream("orders")
        .merging("orders")
        .key("shop", "orders")
        .read_key("screen", &["orders"], "");
    let app = late_sink(setup, true).start().await;
    let mut renderer = app.renderer(Transport::WebSocket, &["orders"]);
    renderer.connect().await;
    put(&app, r#"{"id": "late", "a": 1}"#).await;
    put(&app, r#"{"id": "late", "b": 2}"#).await;
    app.drain().await;
    app.remove("shop", "orders", "late").await;
    put(&app, r#"{"id": "late", "c": 3}"#).await;
    all_delivered(&app).await;
    let fields = app.fields("orders").await;
    assert_eq!(
        fields,
        [("late".to_owned(), r#"{"id":"late","c":3}"#.to_owned())]
    );
    renderer.holds(&app.content(&["orders"]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_request_fills_in_late_reaches_renderers() {
    let setup = Setup::new()
        .stream("orders")
        .merging("orders")
        .key("shop", "orders")
        .read_key("screen", &["orders"], "");
    // The first request waits; the second one, of the same item, has a position of its own and does not.
    let app = late_sink(setup, false).start().await;
    let mut renderer = app.renderer(Transport::Sse, &["orders"]);
    renderer.connect().await;
    put(&app, r#"{"id": "late", "a": 1}"#).await;
    put(&app, r#"{"id": "late", "b": 2}"#).await;
    all_delivered(&app).await;
    let content = app.content(&["orders"]).await;
    let item = &content["orders"]["late"]["fields"];
    assert_eq!((&item["a"], &item["b"]), (&1.into(), &2.into()));
    renderer.holds(&content).await;
}

/// `DELETE` over a connection to a process; the status.
fn remove(client: &mut Client, key: &str) -> u16 {
    let path = format!("/api/streams/orders/items/{key}");
    let answer = client.request("DELETE", &path, &bearer(&key_of("orders")), "");
    answer.expect("an answer").status
}

#[test]
fn a_removal_that_was_answered_survives_a_kill() {
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "orders", "");
    let mut left: Vec<String> = Vec::new();
    for round in 0..5 {
        let process = folder.spawn();
        let mut client = process.client();
        for number in 0..30 {
            let key = format!("{round}-{number}");
            let body = format!("{{\"id\": \"{key}\"}}");
            let answer = client.post("orders", BY_ID, &body);
            assert_eq!(answer.expect("an answer").status, 202);
            if number % 3 > 0 {
                left.push(key);
                continue;
            }
            assert_eq!(remove(&mut client, &key), 202);
        }
        process.kill();
        let process = folder.spawn();
        process.drained();
        let found: Vec<String> = folder
            .items("orders")
            .into_iter()
            .map(|(key, ..)| key)
            .collect();
        left.sort();
        assert_eq!(found, left, "round {round}");
        process.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_of_what_never_was_are_forgotten_once_nothing_older_waits() {
    let app = with_a_late_sink().start().await;
    let remembered = || {
        let sql = "SELECT count(*) FROM removed";
        let count = app.pool().query_row(sql, [], |row| row.get::<_, u32>(0));
        count.expect("a count")
    };
    put(&app, r#"{"id": "late"}"#).await;
    app.drain().await;
    // Behind every cursor, and before a retry.
    for key in ["x", "y"] {
        app.remove("shop", "orders", key).await;
    }
    all_delivered(&app).await;
    eventually_async("they are forgotten", async || {
        (remembered() == 0).then_some(())
    })
    .await;
    app.remove("shop", "orders", "z").await;
    eventually_async("it is, too", async || (remembered() == 0).then_some(())).await;
}
