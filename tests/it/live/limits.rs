//! Read keys with limits: what they hide cannot be learnt by any route.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Renderer, TestApp, Transport};
use crate::setup::{Setup, is_in_a_cluster};

const LIMITS: &str = "allow_in_url = true\nrequests_per_second = 1000000\nwhere = \"team:red\"\nfields = \"name,home.*\"\n";

/// What is seen, in both pools.
const SEEN: &str = r#"[
    {"id": "a", "name": "Ada", "home": {"score": 3}, "team": "red"},
    {"id": "c", "name": "Cleo", "home": {"score": 1.50}, "team": "red"},
    {"id": "e", "home": {"score": 2, "note": "<x>"}, "team": "red"}]"#;

/// What is hidden: fields of items that are seen, and items. The second pool has others, more, and in another order.
const HIDDEN: [&str; 2] = [
    r#"[{"id": "a", "secret": 9, "team": "red"}]"#,
    r#"[{"id": "b", "name": "Bob", "home": {"hidden": 1}, "other": 1, "team": "blue"},
        {"id": "0", "first": true, "home": {"zero": 0}},
        {"id": "z", "name": "Zoe", "secret": "x", "team": "blue"},
        {"id": "c", "secret": 1, "team": "red"}, {"id": "e", "secret": 2, "rank": 1, "team": "red"}]"#,
];

/// Two pools that differ only in what the key does not see.
async fn pools() -> [TestApp; 2] {
    let pool = async |hidden: &str| {
        let setup = Setup::shop()
            .merging("orders")
            .read_key("screen", &["orders"], LIMITS);
        let app = setup.unlimited().start().await;
        let shop = app.caller("shop");
        for body in [hidden, SEEN] {
            shop.ingest_by("id", body).await.receipt();
            app.drain().await;
        }
        app
    };
    [pool(HIDDEN[0]).await, pool(HIDDEN[1]).await]
}

/// A text without numbers of changes, times and ids of requests.
fn told(text: &str) -> Value {
    fn plain(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for name in ["seq", "updated_at", "request_id", "time", "id"] {
                    if members.get(name).is_some_and(|one| !one.is_null()) {
                        members.insert(name.to_owned(), "…".into());
                    }
                }
                members.values_mut().for_each(plain);
            }
            Value::Array(values) => values.iter_mut().for_each(plain),
            _ => {}
        }
    }
    // A feed of rss has times; they end with their element.
    let timeless = |text: &str| -> String {
        let parts = text.split("<pubDate>");
        parts
            .map(|part| part.split_once("</pubDate>").map_or(part, |(_, rest)| rest))
            .collect()
    };
    serde_json::from_str(text).map_or_else(
        |_| timeless(text).into(),
        |mut value| {
            plain(&mut value);
            value
        },
    )
}

const ROUTES: [&str; 42] = [
    "/feed/orders.csv",
    "/feed/orders.tsv",
    "/feed/orders.json",
    "/feed/orders.ndjson",
    "/feed/orders.xml",
    "/feed/orders.rss?title={name}%20{secret}",
    "/feed/orders.txt?text={_key}:{name}:{secret}:{team}",
    "/feed/orders.json?sort=-secret",
    "/feed/orders.json?sort=secret,name",
    "/feed/orders.json?sort=-team,-home.score",
    "/feed/orders.json?where=secret%3F",
    "/feed/orders.json?where=secret%3E0",
    "/feed/orders.json?where=!secret%3F",
    "/feed/orders.json?where=team:red",
    "/feed/orders.json?where=team:blue",
    "/feed/orders.json?where=name:Bob",
    "/feed/orders.json?key=a,b,z",
    "/feed/orders.json?key=b",
    "/feed/orders.csv?fields=name,secret,team,other",
    "/feed/orders.csv?fields=home.*",
    "/feed/orders.csv?fields=-name",
    "/feed/orders.json?shape=object",
    "/feed/orders.json?shape=one&sort=-_key",
    "/feed/orders.json?shape=fields&key=c",
    "/feed/orders.csv?limit=1&offset=1",
    "/feed/orders.csv?offset=3",
    "/feed/orders.json?names=nested",
    "/feed/secret.json",
    "/api/streams/orders/items",
    "/api/streams/orders/items?limit=1",
    "/api/streams/orders/items?limit=1&cursor=a",
    "/api/streams/orders/items?limit=2&cursor=b",
    "/api/streams/orders/items?flat=false",
    "/api/streams/orders/items?where=secret%3F",
    "/api/streams/orders/items?where=team:red",
    "/api/streams/orders/items?where=!team:red&fields=team,secret,home.*",
    "/api/streams/orders/items?key=a,b,0,z",
    "/api/streams/orders/items?fields=-name",
    "/api/streams/orders/items/a",
    "/api/streams/orders/items/b",
    "/api/streams/orders/items/z?flat=false",
    "/api/streams/orders/items/unknown",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_key_does_not_see_changes_no_answer() {
    let [one, other] = pools().await;
    for format in feed::formats() {
        let feed = format!("/feed/orders.{format}");
        let has_route = ROUTES.iter().any(|route| route.starts_with(&feed));
        assert!(has_route, "{feed} is not asked for");
    }
    for route in ROUTES {
        let (first, second) = (one.reader("screen"), other.reader("screen"));
        let (first, second) = (first.get(route).await, second.get(route).await);
        assert_eq!(first.status, second.status, "{route}");
        assert_eq!(told(&first.text()), told(&second.text()), "{route}");
        for name in ["x-total-count", "content-type"] {
            assert_eq!(first.header(name), second.header(name), "{route}");
        }
        if route.starts_with("/feed/orders") {
            let is_timed = route.contains(".rss");
            let same_tag = first.header("etag") == second.header("etag");
            // With several nodes, tags have a position, which any change moves.
            assert!(is_timed || same_tag || is_in_a_cluster(), "{route}");
            assert!(is_timed || first.body == second.body, "{route}");
        }
        for hidden in ["Bob", "Zoe", "hidden", "rank", "first", "zero"] {
            assert!(
                !second.text().contains(hidden),
                "{route}: {}",
                second.text()
            );
        }
    }
    let count = async |query: &str| {
        let path = format!("/feed/orders.json{query}");
        let reply = other.reader("screen").get(&path).await;
        let total = reply.header("x-total-count").expect("a total");
        total.parse::<usize>().expect("a number")
    };
    assert_eq!(count("").await, 3);
    assert_eq!(count("?where=home.score%3E=2").await, 2);
    let hidden = other
        .reader("screen")
        .get("/api/streams/orders/items/b")
        .await;
    hidden.refused(404, "ITEM_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_key_does_not_see_is_not_told() {
    let [one, other] = pools().await;
    for (transport, query) in [
        (Transport::Sse, ""),
        (Transport::WebSocket, ""),
        (Transport::Sse, "where=secret%3F"),
        (Transport::Sse, "key=a,b,z"),
        (Transport::WebSocket, "fields=-name&where=!other%3F"),
    ] {
        let mut all = Vec::new();
        for app in [&one, &other] {
            let mut renderer = app.renderer(transport, &["orders"]);
            renderer.asks(query);
            renderer.connect().await;
            let messages = renderer.snapshots().await;
            let texts = messages.iter().map(|message| told(&message.text));
            all.push(texts.collect::<Vec<_>>());
        }
        assert_eq!(all[0], all[1], "{query}");
    }
}

async fn put(app: &TestApp, body: Value) {
    app.caller("shop")
        .ingest_by("id", body.to_string())
        .await
        .receipt();
    app.drain().await;
}

/// The next message with items or keys.
async fn next(renderer: &mut Renderer) -> (String, Vec<String>) {
    let told = renderer
        .until("a change", |message| {
            matches!(&*message.kind, "update" | "remove")
        })
        .await;
    let last = told.last().expect("a message");
    let keys = last.keys().into_iter().map(str::to_owned).collect();
    (last.kind.clone(), keys)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_hidden_leaves_and_nothing_is_told_of_others() {
    let [_, app] = pools().await;
    let mut renderer = app.renderer(Transport::Sse, &["orders"]);
    renderer.connect().await;
    renderer.snapshots().await;
    put(&app, json!({"id": "b", "name": "Bob 2"})).await;
    app.remove("shop", "orders", "z").await;
    app.drain().await;
    put(&app, json!({"id": "b", "team": "red"})).await;
    assert_eq!(
        next(&mut renderer).await,
        ("update".into(), vec!["b".into()])
    );
    put(&app, json!({"id": "b", "team": "blue"})).await;
    assert_eq!(
        next(&mut renderer).await,
        ("remove".into(), vec!["b".into()])
    );
    app.remove("shop", "orders", "b").await;
    app.drain().await;
    put(&app, json!({"id": "a", "name": "Ada 2"})).await;
    assert_eq!(
        next(&mut renderer).await,
        ("update".into(), vec!["a".into()])
    );
    // Who comes back begins anew: what became hidden meanwhile is not told by its key.
    let id = renderer.id.clone();
    renderer.disconnect();
    put(&app, json!({"id": "0", "first": false})).await;
    renderer.connect_from(id.as_deref()).await;
    let first = renderer.next().await.expect("a message");
    assert_eq!(first.kind, "reset", "{}", first.text);
    let told = renderer.snapshots().await;
    assert!(told.iter().all(|message| message.kind != "remove"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_limits_ends_what_was_seen() {
    let app = Setup::screen().start().await;
    put(
        &app,
        json!([{"id": "a", "team": "red"}, {"id": "b", "team": "blue"}]),
    )
    .await;
    let key = json!({"name": "wall", "streams": ["orders"], "where": "_key:a"});
    let made = app.admin().make("/api/admin/read-keys", key).await;
    assert_eq!(made["key"]["where"], "_key:a");
    assert_eq!(made["key"]["fields"], Value::Null);
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let change = async |patch: Value| {
        let admin = app.admin();
        admin
            .send(Method::PATCH, "/api/admin/read-keys/wall", &patch)
            .await
    };
    let mut renderers = Vec::new();
    for transport in Transport::ALL {
        let pass = crate::app::Pass::Header(secret.clone());
        let mut renderer = app.renderer(transport, &["orders"]).with(pass);
        renderer.connect().await;
        renderer.snapshots().await;
        assert_eq!(renderer.items("orders").keys().collect::<Vec<_>>(), ["a"]);
        renderers.push(renderer);
    }
    for wrong in [
        json!({"where": "team"}),
        json!({"fields": "Team:team"}),
        json!({"fields": "-team"}),
        json!({"where": "_request_id:r"}),
    ] {
        change(wrong).await.refused(400, "INVALID_REQUEST");
    }
    assert_eq!(change(json!({"description": "a wall"})).await.status, 200);
    let changed = change(json!({"where": "_key:b", "fields": "team"})).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    for renderer in &mut renderers {
        let before = renderer.id.clone();
        let rest = renderer.rest().await;
        let kinds: Vec<&str> = rest.iter().map(|message| &*message.kind).collect();
        let last = &kinds[kinds.len() - 2..];
        assert_eq!(last, ["reset", "bye"], "{kinds:?}");
        assert!(renderer.content.values().all(|items| items.is_empty()));
        // From the position of what was seen before nobody goes on, nor from a position of another key.
        for since in [before.expect("an id"), app.position().to_string()] {
            renderer.disconnect();
            renderer.connect_from(Some(&since)).await;
            let first = renderer.next().await.expect("a message");
            assert_eq!(first.kind, "reset", "{since}: {}", first.text);
            renderer.snapshots().await;
            let items = renderer.items("orders");
            assert_eq!(items.len(), 1);
            assert_eq!(items["b"]["fields"], json!({"team": "blue"}));
        }
        // From its own position it does: its limits are about keys alone.
        let id = renderer.id.clone();
        renderer.disconnect();
        renderer.connect_from(id.as_deref()).await;
        let told = renderer.caught_up().await;
        assert!(
            told.iter().all(|message| message.kind == "heartbeat"),
            "{told:?}"
        );
    }
    let log = app.admin().get("/api/admin/audit").await.text();
    assert!(
        log.contains(r#""where":"_key:b""#) && log.contains(r#""where":"_key:a""#),
        "{log}"
    );
    let app = app.restart().await;
    let items = app
        .caller_with(&secret)
        .get("/api/streams/orders/items")
        .await;
    let items = items.json();
    assert_eq!(
        items["data"][0]["fields"],
        json!({"team": "blue"}),
        "{items}"
    );
    assert_eq!(items["data"].as_array().map(Vec::len), Some(1));
}

#[test]
fn limits_that_cannot_be_read_are_named() {
    for (limits, expected) in [
        ("where = \"team\"", "where, character 5: `:`"),
        (
            "fields = \"Name:name\"",
            "fields, character 1: a limit renames nothing",
        ),
        (
            "fields = \"-name\"",
            "fields, character 1: a limit leaves nothing out",
        ),
    ] {
        let setup = Setup::shop().read_key("screen", &["orders"], &format!("{limits}\n"));
        let problem = setup.try_spawn().expect_err("it must not start").log;
        assert!(problem.contains(expected), "{limits}: {problem}");
    }
}
