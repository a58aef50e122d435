//! What a renderer is told first: everything, then changes, without a gap in between.

use std::collections::BTreeMap;

use live::{Cut, ItemFilter, Subscribe, Subscription};
use serde_json::Value;

use crate::app::{Message, TestApp, Transport};
use crate::setup::Setup;
use crate::wait::DEADLINE;

/// Two streams with a key each, and a read key for both.
fn two_streams() -> Setup {
    Setup::new()
        .stream("orders")
        .key("shop", "orders")
        .stream("readings")
        .key("meters", "readings")
        .read_key("screen", &["orders", "readings"], "")
        .unlimited()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_stream_begins_with_a_snapshot_and_the_messages_are_the_protocols() {
    let app = two_streams().start().await;
    let shop = app.caller("shop");
    let body = r#"[{"id": 1, "of": {"n": 1.10}}, {"id": "ä\n"}]"#;
    shop.ingest_by("id", body).await.receipt();
    let item = &app.items("orders").await[0];
    let (time, epoch) = (&item.updated_at, app.position().epoch);
    for transport in Transport::ALL {
        let mut renderer = app.renderer(transport, &["orders", "readings"]);
        renderer.connect().await;
        let mut messages = renderer.snapshots().await;
        assert_eq!(messages.len(), 2, "{messages:?}");
        messages.sort_by(|a, b| a.stream.cmp(&b.stream));
        // Which comes first is not promised; the position is good only once both are there.
        let ids: Vec<u64> = messages.iter().map(|message| message.place().1).collect();
        assert!(ids == [0, 2] || ids == [2, 0], "{ids:?}");
        let [orders, readings] = &ids[..] else {
            panic!()
        };
        assert_eq!(
            messages[0].text,
            format!(
                r#"{{"type":"snapshot","stream":"orders","id":"{epoch}:{orders}","items":[{{"key":"1","fields":{{"id":1,"of.n":1.10}},"updated_at":"{time}","seq":1}},{{"key":"ä\n","fields":{{"id":"ä\n"}},"updated_at":"{time}","seq":2}}],"complete":true}}"#
            )
        );
        assert_eq!(
            messages[1].text,
            format!(
                r#"{{"type":"snapshot","stream":"readings","id":"{epoch}:{readings}","items":[],"complete":true}}"#
            )
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_transports_carry_the_same_json() {
    let app = two_streams().start().await;
    let mut renderers = Transport::ALL.map(|transport| app.renderer(transport, &["orders"]));
    for renderer in &mut renderers {
        renderer.connect().await;
        renderer.snapshots().await;
    }
    let shop = app.caller("shop");
    for body in [r#"{"id": 7, "n": 1}"#, r#"{"id": 7, "n": 2}"#] {
        shop.ingest_by("id", body).await.receipt();
        app.drain().await;
    }
    app.remove("shop", "orders", "7").await;
    let [sse, websocket] = &mut renderers;
    let removed = |message: &Message| message.kind == "remove";
    let of_sse = sse.until("the removal", removed).await;
    let of_websocket = websocket.until("the removal", removed).await;
    let epoch = app.position().epoch;
    let last = format!(r#"{{"type":"remove","stream":"orders","id":"{epoch}:3","keys":["7"]}}"#);
    for messages in [&of_sse, &of_websocket] {
        assert_eq!(messages.last().expect("a message").text, last);
    }
    // One may have been told of fewer of the changes; what both were told is the same text.
    for message in &of_sse {
        let same = of_websocket.iter().find(|other| other.id == message.id);
        assert_eq!(same.map_or(&message.text, |same| &same.text), &message.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_names_all_streams_of_the_key_are_followed() {
    let app = two_streams().start().await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    for transport in Transport::ALL {
        let mut renderer = app.renderer(transport, &["orders", "readings"]);
        renderer.names_no_streams();
        renderer.connect().await;
        let mut streams: Vec<String> = Vec::new();
        for message in renderer.snapshots().await {
            streams.push(message.stream);
        }
        streams.sort();
        assert_eq!(streams, ["orders", "readings"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_while_the_parts_arrive_is_neither_lost_nor_left_behind() {
    /// More than the sockets' buffers hold.
    const ITEMS: usize = 3_000;
    let app = Setup::screen().start().await;
    let shop = app.caller("shop");
    let fill = "x".repeat(4_000);
    let numbers: Vec<usize> = (0..ITEMS).collect();
    for some in numbers.chunks(200) {
        let items = some
            .iter()
            .map(|number| format!(r#"{{"id": "{number:05}", "fill": "{fill}"}}"#));
        let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
        shop.ingest_by("id", body).await.receipt();
    }
    app.drain().await;
    for (round, transport) in Transport::ALL.into_iter().enumerate() {
        let mut renderer = app.renderer(transport, &["orders"]);
        renderer.connect().await;
        let first = renderer.next().await.expect("a part");
        assert!(!first.completes());
        let told: Vec<String> = first.keys().into_iter().map(str::to_owned).collect();
        // The last items of the snapshot have not been sent yet.
        let late = |back: usize| format!("{:05}", ITEMS - 10 * round - back);
        app.remove("shop", "orders", &told[0]).await;
        app.remove("shop", "orders", &told[1]).await;
        app.remove("shop", "orders", &late(1)).await;
        let change = |key: &str, round: usize| format!(r#"{{"id": "{key}", "now": {round}}}"#);
        let changed = [
            &told[1],
            &told[2],
            &late(2),
            &late(3),
            &format!("new-{round}"),
        ];
        for key in changed {
            shop.ingest_by("id", change(key, round)).await.receipt();
        }
        app.drain().await;
        app.remove("shop", "orders", &late(3)).await;
        let content = app.content(&["orders"]).await;
        let messages = renderer.holds(&content).await;
        let removed: Vec<&str> = (messages.iter())
            .filter(|message| message.kind == "remove")
            .flat_map(Message::keys)
            .collect();
        assert!(removed.contains(&told[0].as_str()), "{removed:?}");
        let whole = messages.iter().find(|message| message.completes());
        assert!(whole.expect("a whole").place().1 >= first.place().1);
    }
}

/// A renderer without a connection: it reads a message when the test says so.
fn subscribed(app: &TestApp, since: Option<String>) -> Subscription {
    let reader = app.parts.catalog.reader(app.read_secret("screen"));
    let reader = reader.expect("a read key");
    app.parts.live.subscribe(Subscribe {
        filter: ItemFilter::default(),
        permit: app.parts.live.permit(&reader).expect("a seat"),
        reader,
        streams: vec!["orders".into()],
        since,
        max_rate: None,
        transport: live::Transport::Sse,
        agent: None,
        screen: None,
        client: "test".to_owned(),
        cut: Cut(Box::new(|| {})),
    })
}

async fn message(subscription: &mut Subscription) -> Value {
    let next = tokio::time::timeout(DEADLINE, subscription.next()).await;
    let frame = next.expect("a message in time").expect("it goes on");
    serde_json::from_slice(&frame.json()).expect("JSON")
}

/// Takes the items of a message: key and number of the update.
fn take(held: &mut BTreeMap<String, u64>, message: &Value) {
    for item in message["items"].as_array().into_iter().flatten() {
        let key = item["key"].as_str().expect("a key");
        let round = item["fields"]["round"].as_u64().expect("a number");
        held.insert(key.to_owned(), round);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_snapshot_of_a_stream_that_changes_faster_than_it_is_read_ends() {
    const ITEMS: u64 = 40;
    const ROUNDS: u64 = 12;
    let app = Setup::screen().start().await;
    let shop = app.caller("shop");
    let fill = "x".repeat(10_000);
    // A message holds a few of them.
    let update = async |round: u64| {
        let items =
            (0..ITEMS).map(|id| format!(r#"{{"id": "{id}", "round": {round}, "fill": "{fill}"}}"#));
        let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
        shop.ingest_by("id", body).await.receipt();
        app.drain().await;
    };
    update(0).await;
    let mut subscription = subscribed(&app, None);
    let mut held = BTreeMap::new();
    let mut id = None;
    for round in 1..=ROUNDS {
        let part = message(&mut subscription).await;
        take(&mut held, &part);
        assert_eq!(part["type"], "snapshot");
        if part["complete"] == true {
            id = part["id"].as_str().map(str::to_owned);
            break;
        }
        update(round).await;
    }
    let id = id.expect("the snapshot is complete");
    update(ROUNDS).await;
    let last = (0..ITEMS).map(|id| (id.to_string(), ROUNDS)).collect();
    // It goes on with updates, and so does one who was away since.
    let mut resumed = (subscribed(&app, Some(id)), held.clone());
    for (subscription, held) in [
        (&mut subscription, &mut held),
        (&mut resumed.0, &mut resumed.1),
    ] {
        while *held != last {
            let update = message(subscription).await;
            assert_eq!(update["type"], "update");
            take(held, &update);
        }
    }
}
