//! Reading: pages of items, single items, what has not changed.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Caller, Raw, Reply, TestApp, encoded};
use crate::setup::Setup;

const ITEMS: &str = "/api/streams/orders/items";

/// Keys that a path, a query or JSON could trip over.
const KEYS: [&str; 24] = [
    "a/b",
    "/",
    "//",
    "a/",
    "100%",
    "%2F",
    "%",
    "%zz",
    "ä€😀",
    "line\nbreak",
    "\r\n",
    "\t",
    " ",
    "+",
    "a b",
    "?",
    "#",
    "&a=b",
    ".",
    "..",
    "\"",
    "\\",
    "\u{1}\u{7f}",
    "{key}",
];

async fn with_items(keys: &[&str]) -> TestApp {
    let app = Setup::screen().start().await;
    let items: Vec<Value> = keys.iter().map(|key| json!({"id": key})).collect();
    let body = serde_json::to_vec(&items).expect("JSON");
    let received = app.caller("shop").ingest_by("id", body).await.receipt();
    assert_eq!(received.items, keys.len() as u64);
    app.drain().await;
    app
}

/// A request whose path is sent as it is: HTTP clients resolve `..` even if it is encoded.
async fn get_as_is(app: &TestApp, secret: &str, path: &str) -> Reply {
    let mut raw = Raw::connect(&app.service).await;
    raw.send(format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n"
    ))
    .await;
    raw.reply().await
}

/// All items of the stream in pages of this size.
async fn pages(screen: &Caller, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = format!("{ITEMS}?limit={limit}");
    loop {
        let mut json = screen.get(&path).await.json();
        let Value::Array(items) = json["data"].take() else {
            panic!("no list: {json}");
        };
        assert!(items.len() <= limit);
        all.extend(items);
        let Some(next) = json["next"].as_str() else {
            assert_eq!(json["next"], Value::Null);
            return all;
        };
        path = format!("{ITEMS}?limit={limit}&cursor={}", encoded(next));
        assert!(all.len() < 1_000, "no end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pages_of_any_size_hold_every_item_once_in_the_order_of_the_keys() {
    let app = with_items(&KEYS).await;
    let screen = app.reader("screen");
    let content = app.content(&["orders"]).await;
    let expected: Vec<Value> = content["orders"].values().cloned().collect();
    assert_eq!(expected.len(), KEYS.len());
    for limit in [1, 2, 7, KEYS.len() - 1, KEYS.len(), 1_000] {
        assert_eq!(pages(&screen, limit).await, expected, "limit {limit}");
    }
    let reply = screen.get(ITEMS).await;
    assert_eq!(reply.list(), expected);
    assert_eq!(reply.json()["next"], Value::Null);
    // A page goes on after the place even if the item there is gone.
    let first = expected[0]["key"].as_str().expect("a key");
    app.remove("shop", "orders", first).await;
    let path = format!("{ITEMS}?limit=1&cursor={}", encoded(first));
    assert_eq!(screen.get(&path).await.list(), expected[1..2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_of_large_items_is_shorter_and_says_that_there_is_more() {
    let app = Setup::screen().start().await;
    let fill = "x".repeat(900_000);
    for number in 0..12 {
        let body = format!(r#"{{"id": "{number:02}", "fill": "{fill}"}}"#);
        app.caller("shop").ingest_by("id", body).await.receipt();
    }
    app.drain().await;
    let reply = app.reader("screen").get(ITEMS).await;
    let items = reply.list().len();
    assert!((2..12).contains(&items), "{items}");
    assert_eq!(pages(&app.reader("screen"), 100).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_item_is_found_by_its_key_whatever_stands_in_it() {
    let app = with_items(&KEYS).await;
    let secret = app.read_secret("screen").to_owned();
    let content = app.content(&["orders"]).await;
    for key in KEYS {
        let path = format!("{ITEMS}/{}", encoded(key));
        let reply = get_as_is(&app, &secret, &path).await;
        assert_eq!(reply.data(), content["orders"][key], "{key:?}");
    }
    for key in KEYS {
        let mut raw = Raw::connect(&app.service).await;
        let secret = app.secret("shop");
        let path = format!("{ITEMS}/{}", encoded(key));
        raw.send(format!(
            "DELETE {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n"
        ))
        .await;
        raw.reply().await.receipt();
    }
    assert_eq!(app.content(&["orders"]).await["orders"], BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn streams_with_any_name_are_found_by_their_path() {
    let names = ["a/b", "100%", "ä, ö", "..", "a b+c", "?&#"];
    let setup = names.iter().fold(Setup::new(), |setup, name| {
        setup.stream(name).key("shop", name)
    });
    let app = setup.read_key("screen", &names, "").start().await;
    let secret = app.read_secret("screen").to_owned();
    for (number, name) in names.iter().enumerate() {
        let shop = app.caller_of("shop", number);
        shop.ingest_by("id", r#"{"id": "7"}"#).await.receipt();
        app.drain().await;
        let path = format!("/api/streams/{}/items", encoded(name));
        let list = get_as_is(&app, &secret, &path).await.list();
        assert_eq!(list[0]["key"], "7", "{name:?}");
        let item = get_as_is(&app, &secret, &format!("{path}/7")).await;
        assert_eq!(item.data(), list[0]);
    }
    for transport in crate::app::Transport::ALL {
        let mut renderer = app.renderer(transport, &names);
        renderer.connect().await;
        renderer.snapshots().await;
        assert_eq!(renderer.content, app.content(&names).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nested_objects_come_back_when_they_are_asked_for() {
    let app = Setup::screen().start().await;
    let body = r#"{"id": 7, "of": {"a": {"b": 1.10}, "list": [1, {"c": 2}]}}"#;
    app.caller("shop").ingest_by("id", body).await.receipt();
    app.drain().await;
    let screen = app.reader("screen");
    for path in [ITEMS.to_owned() + "?", format!("{ITEMS}/7?")] {
        let flat = screen.get(&path).await.text();
        assert!(flat.contains(r#""of.a.b":1.10"#), "{flat}");
        assert_eq!(screen.get(&format!("{path}flat=true")).await.text(), flat);
        let nested = screen.get(&format!("{path}flat=false")).await.text();
        assert!(nested.contains(r#""of":{"a":{"b":1.10}"#), "{nested}");
        for wrong in ["flat=", "flat=1", "flat=FALSE"] {
            let reply = screen.get(&format!("{path}{wrong}")).await;
            reply.refused(400, "INVALID_REQUEST");
        }
    }
}

/// The entity tag of an answer.
fn tag(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("etag").expect("an entity tag").to_owned()
}

async fn get_if_changed(screen: &Caller, path: &str, tags: &str) -> Reply {
    let headers = [("If-None-Match", tags)];
    screen.call(Method::GET, path, &headers, "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_not_changed_is_not_sent_again() {
    let app = Setup::screen()
        .stream("readings")
        .key("meters", "readings")
        .start()
        .await;
    let shop = app.caller("shop");
    let screen = app.reader("screen");
    let put = async |body: &str| {
        shop.ingest_by("id", body).await.receipt();
        app.drain().await;
    };
    let empty = tag(&screen.get(ITEMS).await);
    put(r#"{"id": 1}"#).await;
    put(r#"{"id": 2}"#).await;
    let one = format!("{ITEMS}/1");
    let list_tag = tag(&screen.get(ITEMS).await);
    let item_tag = tag(&screen.get(&one).await);
    assert_ne!(list_tag, empty);
    for (path, tag) in [(ITEMS, &list_tag), (&one, &item_tag)] {
        for known in [
            tag.clone(),
            format!("W/{tag}"),
            format!("\"x\", {tag}"),
            "*".to_owned(),
        ] {
            let reply = get_if_changed(&screen, path, &known).await;
            assert_eq!((reply.status, &*reply.body), (304, &b""[..]), "{known}");
            assert_eq!(reply.header("etag"), Some(&**tag));
        }
        for unknown in ["\"x\"", "", "\"1:1\", \"x\""] {
            let reply = get_if_changed(&screen, path, unknown).await;
            assert_eq!(reply.status, 200, "{unknown}");
        }
    }
    // Another stream, another item.
    app.caller("meters").ingest("{}").await.receipt();
    app.drain().await;
    assert_eq!(get_if_changed(&screen, ITEMS, &list_tag).await.status, 304);
    put(r#"{"id": 2, "n": 1}"#).await;
    assert_eq!(get_if_changed(&screen, &one, &item_tag).await.status, 304);
    let list_tag_after = tag(&get_if_changed(&screen, ITEMS, &list_tag).await);
    // A removal changes the list.
    app.remove("shop", "orders", "2").await;
    let changed = get_if_changed(&screen, ITEMS, &list_tag_after).await;
    assert_eq!(changed.list().len(), 1);
    // A restart changes nothing.
    let list_tag = tag(&changed);
    let secret = app.read_secret("screen").to_owned();
    let app = app.restart().await;
    let screen = app.caller_with(&secret);
    assert_eq!(get_if_changed(&screen, ITEMS, &list_tag).await.status, 304);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_entity_tag_never_means_an_older_content_again() {
    let app = with_items(&["1", "2"]).await;
    let screen = app.reader("screen");
    let before = tag(&screen.get(ITEMS).await);
    app.remove("shop", "orders", "1").await;
    let secret = app.read_secret("screen").to_owned();
    let stopped = app.stop().await;
    // As if there were more.
    let sql = "UPDATE history SET floor = (SELECT max(seq) FROM removed); DELETE FROM removed";
    stopped.tamper("pool.db", sql);
    let app = stopped.start().await;
    let screen = app.caller_with(&secret);
    let reply = get_if_changed(&screen, ITEMS, &before).await;
    assert_eq!(reply.list().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_be_read_is_refused() {
    let app = Setup::screen()
        .stream("readings")
        .read_key("url", &["orders"], "allow_in_url = true")
        .start()
        .await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    let screen = app.reader("screen");
    for path in [
        "/api/streams/readings/items",
        "/api/streams/nothing/items/0",
    ] {
        screen.get(path).await.refused(404, "STREAM_NOT_FOUND");
    }
    let missing = screen.get(&format!("{ITEMS}/1")).await;
    missing.refused(404, "ITEM_NOT_FOUND");
    for query in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit="] {
        let reply = screen.get(&format!("{ITEMS}?{query}")).await;
        let told = reply.refused(400, "INVALID_REQUEST");
        assert!(told.message.contains("limit"), "{told:?}");
    }
    for path in [ITEMS.to_owned(), format!("{ITEMS}/0")] {
        for nobody in [
            app.anonymous(),
            app.caller("shop"),
            app.caller_with("rk_live_x"),
        ] {
            nobody.get(&path).await.refused(401, "UNAUTHORIZED");
        }
        // A key in a URL must be marked for it.
        let with_key = |name| format!("{path}?token={}", encoded(app.read_secret(name)));
        let anybody = app.anonymous();
        let reply = anybody.get(&with_key("screen")).await;
        reply.refused(401, "UNAUTHORIZED");
        anybody.get(&with_key("url")).await.data();
    }
    let reply = screen.call(Method::PUT, ITEMS, &[], "").await;
    reply.refused(405, "METHOD_NOT_ALLOWED");
}
