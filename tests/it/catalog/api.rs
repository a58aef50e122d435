//! The routes: what they make, change and refuse, and that all of it counts at once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Renderer, TestApp, Transport};
use crate::setup::Setup;
use crate::wait::eventually_async;

const STREAMS: &str = "/api/admin/streams";
const CONNECTORS: &str = "/api/admin/connectors";
const READ_KEYS: &str = "/api/admin/read-keys";

fn secret(made: &Value) -> &str {
    made["secret"].as_str().expect("a secret")
}

/// The stream `news`, the connector `crm` and its key `main`.
async fn crm(app: &TestApp) -> String {
    let admin = app.admin();
    admin.make(STREAMS, json!({"name": "news"})).await;
    let crm = json!({"name": "crm", "kind": "webhook", "item_key": "id"});
    admin.make(CONNECTORS, crm).await;
    let key = json!({"name": "main", "stream": "news"});
    let made = admin.make("/api/admin/connectors/crm/keys", key).await;
    secret(&made).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_may_remove_items_is_a_setting_of_the_connector() {
    let app = Setup::shop().start().await;
    let secret = crm(&app).await;
    let admin = app.admin();
    let item = "/api/streams/news/items/1";
    let remove = async || {
        let caller = app.caller_with(&secret);
        caller.call(Method::DELETE, item, &[], "").await
    };
    let one = format!("{CONNECTORS}/crm");
    for (wish, kind, may) in [
        (json!({}), "webhook", false),
        (json!({"may_delete": true}), "webhook", true),
        (json!({"may_delete": null}), "webhook", false),
        (json!({"kind": "ingest"}), "ingest", true),
        (json!({"may_delete": false}), "ingest", false),
    ] {
        let shown = admin.send(Method::PATCH, &one, &wish).await.data();
        assert_eq!(
            (&shown["kind"], &shown["may_delete"]),
            (&json!(kind), &json!(may))
        );
        match may {
            true => drop(remove().await.receipt()),
            false => drop(remove().await.refused(403, "FORBIDDEN")),
        }
    }
    let refused = admin
        .send(Method::PATCH, &one, &json!({"may_delete": "yes"}))
        .await;
    assert_eq!(refused.status, 400);
    let app = app.restart().await;
    let shown = app.admin().get(&one).await.data();
    assert_eq!(shown["may_delete"], false, "it was kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_made_can_be_used_at_once() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    let stream = json!({"name": "höhe/ü", "on_update": "merge", "stale_after_seconds": 60});
    let stream = admin.make(STREAMS, stream).await;
    assert_eq!(
        (&stream["on_update"], &stream["declared"]),
        (&json!("merge"), &json!(false))
    );
    let connector = json!({"name": "crm", "kind": "webhook", "item_key": "id", "burst": 7});
    let connector = admin.make(CONNECTORS, connector).await;
    assert_eq!(
        (&connector["id"], &connector["burst"], &connector["keys"]),
        (&json!("crm"), &json!(7), &json!([]))
    );
    let key = json!({"name": "main", "stream": "höhe/ü"});
    let reply = admin
        .send(Method::POST, "/api/admin/connectors/crm/keys", &key)
        .await;
    assert_eq!(
        (reply.status, reply.header("cache-control")),
        (201, Some("no-store"))
    );
    let made = reply.json()["data"].take();
    assert_eq!(made["key"]["prefix"], secret(&made)[..16]);
    assert_eq!(
        (&made["key"]["state"], &made["previous"]),
        (&json!("active"), &Value::Null)
    );
    let path = made["key"]["path"].as_str().expect("a path");
    assert_eq!(path, "/api/webhook/h%C3%B6he%2F%C3%BC");

    let caller = app.caller_with(secret(&made));
    let reply = caller.post(path, &[], r#"{"id": 1, "a": 1, "b": 1}"#).await;
    reply.receipt();
    assert!(
        reply
            .header("ratelimit-policy")
            .is_some_and(|policy| policy.contains('7')),
        "{:?}",
        reply.headers
    );
    caller
        .post(path, &[], r#"{"id": 1, "a": 2}"#)
        .await
        .receipt();
    let merged = (r#"1"#.to_owned(), r#"{"id":1,"a":2,"b":1}"#.to_owned());
    assert_eq!(app.fields("höhe/ü").await, [merged]);
    let one = "/api/admin/streams/h%C3%B6he%2F%C3%BC";
    let changed = admin
        .send(Method::PATCH, one, &json!({"on_update": "replace"}))
        .await
        .data();
    assert_eq!(
        (&changed["on_update"], &changed["stale_after_seconds"]),
        (&json!("replace"), &json!(60))
    );
    caller
        .post(path, &[], r#"{"id": 1, "a": 3}"#)
        .await
        .receipt();
    let replaced = (r#"1"#.to_owned(), r#"{"id":1,"a":3}"#.to_owned());
    assert_eq!(app.fields("höhe/ü").await, [replaced]);
    assert_eq!(admin.log("crm", "").await.len(), 3);

    // What changes of the connector counts for the next request.
    let change = json!({"item_key": "a", "burst": null});
    admin
        .send(Method::PATCH, "/api/admin/connectors/crm", &change)
        .await
        .data();
    caller
        .post(path, &[], r#"{"id": 1, "a": 9}"#)
        .await
        .receipt();
    assert_eq!(app.fields("höhe/ü").await.len(), 2);
    let app = app.restart().await;
    let again = app.admin().get("/api/admin/connectors/crm").await.data();
    assert_eq!(
        (&again["item_key"], &again["burst"]),
        (&json!("a"), &Value::Null)
    );
    app.caller_with(secret(&made))
        .post(path, &[], "{\"a\": 1}")
        .await
        .receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_declared_is_shown_as_such_and_refused_with_the_way_out() {
    let app = Setup::screen().start().await;
    let admin = app.admin();
    // Only keys can be revoked, and only those of connectors rotated.
    let neither = [
        "/api/admin/streams/orders/revoke",
        "/api/admin/streams/orders/rotate",
        "/api/admin/connectors/shop/revoke",
        "/api/admin/connectors/shop/rotate",
        "/api/admin/read-keys/screen/rotate",
    ];
    for path in [
        "/api/admin/streams/orders",
        "/api/admin/connectors/shop",
        "/api/admin/connectors/shop/keys/key-0",
        "/api/admin/read-keys/screen",
    ] {
        let shown = admin.get(path).await.data();
        assert_eq!(
            (&shown["declared"], &shown["created_at"]),
            (&json!(true), &Value::Null)
        );
        for (method, path) in [
            (Method::PATCH, path.to_owned()),
            (Method::DELETE, path.to_owned()),
            (Method::POST, format!("{path}/revoke")),
            (Method::POST, format!("{path}/rotate")),
        ] {
            let reply = admin.send(method, &path, &json!({})).await;
            if neither.contains(&&*path) {
                assert_eq!(reply.status, 404, "{path}");
                continue;
            }
            let told = reply.refused(409, "DECLARED").message;
            assert!(told.contains("configuration"), "{told}");
        }
    }
    assert_eq!(admin.get("/api/admin/audit").await.list(), [Value::Null; 0]);
    // A declared connector may have a key more.
    let key = json!({"name": "more", "stream": "orders"});
    let made = admin.make("/api/admin/connectors/shop/keys", key).await;
    app.caller_with(secret(&made)).ingest("{}").await.receipt();
    app.caller("shop").ingest("{}").await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_be_is_refused_and_says_what_to_do() {
    let app = Setup::screen().start().await;
    crm(&app).await;
    let admin = app.admin();
    let keys = "/api/admin/connectors/crm/keys";
    let main = "/api/admin/connectors/crm/keys/main";
    let (post, patch) = (Method::POST, Method::PATCH);
    let mut tried = 0;
    // What is sent -> what the answer says.
    for (method, path, table) in [
        (
            &post,
            STREAMS,
            r#"[] -> object
               {} -> name
               {"nam": "a"} -> did you mean "name"
               {"name": 7} -> name must be a text
               {"name": ""} -> 1 to 128
               {"name": "a", "on_update": "join"} -> "replace" or "merge"
               {"name": "a", "stale_after_seconds": 0} -> from 1
               {"name": "a", "stale_after_seconds": 1.5} -> whole number
               {"name": "a", "delete_when": {"field": "ik_live_a", "is": ["x"]}} -> delete_when.field begins like a secret"#,
        ),
        (
            &patch,
            "/api/admin/streams/news",
            r#"{"name": "b"} -> name"#,
        ),
        (
            &post,
            CONNECTORS,
            r#"{"name": "a b"} -> letters
               {"name": "a", "kind": "hook"} -> webhook
               {"name": "a", "burst": 0} -> burst must be from 1
               {"name": "a", "item_key": ""} -> item_key
               {"name": "a", "delete_when": {"field": "ik_live_a", "is": ["x"]}} -> delete_when.field begins like a secret"#,
        ),
        (
            &post,
            keys,
            r#"{"name": "a"} -> stream
               {"name": "a", "stream": "newz"} -> did you mean "news"
               {"name": "a", "stream": "news", "expires_at": "soon"} -> 2030-01-31
               {"name": "a", "stream": "news", "expires_at": "2001-01-01T00:00:00Z"} -> in the past"#,
        ),
        (&patch, main, r#"{"stream": "orders"} -> expires_at"#),
        (
            &post,
            "/api/admin/connectors/crm/keys/main/rotate",
            r#"{"grace_seconds": 2592001} -> 2592000"#,
        ),
        (
            &post,
            READ_KEYS,
            r#"{"name": "a", "streams": []} -> at least one
               {"name": "a", "streams": "news"} -> list
               {"name": "a", "streams": ["news"], "allow_in_url": "yes"} -> true or false"#,
        ),
    ] {
        for (body, says) in table.lines().filter_map(|line| line.split_once(" -> ")) {
            let json = serde_json::from_str(body).expect("JSON");
            let reply = admin.send(method.clone(), path, &json).await;
            let told = reply.refused(400, "INVALID_REQUEST").message;
            assert!(told.contains(says), "{body}: {told}");
            tried += 1;
        }
    }
    assert_eq!(tried, 24);
    for (path, body, code) in [
        (STREAMS, json!({"name": "news"}), "NAME_TAKEN"),
        (CONNECTORS, json!({"name": "shop"}), "NAME_TAKEN"),
        (
            keys,
            json!({"name": "main", "stream": "news"}),
            "NAME_TAKEN",
        ),
        (
            READ_KEYS,
            json!({"name": "screen", "streams": ["news"]}),
            "NAME_TAKEN",
        ),
    ] {
        admin
            .send(Method::POST, path, &body)
            .await
            .refused(409, code);
    }
    let wall = json!({"name": "wall", "streams": ["news"]});
    admin.make(READ_KEYS, wall).await;
    let refused = admin.call(Method::DELETE, "/api/admin/streams/news").await;
    let told = refused.refused(409, "STREAM_IN_USE");
    assert!(
        told.message.contains("\"main\" of \"crm\"") && told.message.contains("force=true"),
        "{told:?}"
    );
    assert_eq!(
        told.details,
        [
            json!({"kind": "key", "name": "main", "connector": "crm"}),
            json!({"kind": "read_key", "name": "wall"}),
        ]
    );
    let nowhere = json!({"name": "spare", "stream": "nowhere"});
    let refused = admin.send(Method::POST, keys, &nowhere).await;
    let told = refused.refused(400, "INVALID_REQUEST");
    assert!(told.message.contains("/api/admin/streams"), "{told:?}");
    assert_eq!(
        told.details,
        [json!({"field": "stream", "kind": "stream", "name": "nowhere"})]
    );
    let reply = admin
        .call(Method::DELETE, "/api/admin/streams/news?force=yes")
        .await;
    reply.refused(400, "INVALID_REQUEST");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn keys_of_a_stream_that_is_gone_are_answered_404() {
    let app = Setup::screen().start().await;
    let key = crm(&app).await;
    let admin = app.admin();
    let made = admin
        .make(READ_KEYS, json!({"name": "wall", "streams": ["news"]}))
        .await;
    let (caller, reader) = (app.caller_with(&key), app.caller_with(secret(&made)));
    caller.ingest(r#"{"id": 1}"#).await.receipt();
    app.drain().await;
    assert_eq!(reader.get("/api/streams/news/items").await.list().len(), 1);
    admin
        .call(Method::DELETE, "/api/admin/streams/news?force=true")
        .await
        .data();
    caller.ingest("{}").await.refused(404, "STREAM_NOT_FOUND");
    reader
        .get("/api/streams/news/items")
        .await
        .refused(404, "STREAM_NOT_FOUND");
    // They are not keys of a stream that is made with its name.
    admin.make(STREAMS, json!({"name": "news"})).await;
    caller
        .ingest(r#"{"id": 2}"#)
        .await
        .refused(401, "UNAUTHORIZED");
    reader
        .get("/api/streams/news/items")
        .await
        .refused(401, "UNAUTHORIZED");
    // A connector takes its keys along, and a new one of its name does not bring them back.
    admin
        .call(Method::DELETE, "/api/admin/connectors/crm")
        .await
        .data();
    caller.ingest("{}").await.refused(401, "UNAUTHORIZED");
    admin.make(CONNECTORS, json!({"name": "crm"})).await;
    caller.ingest("{}").await.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lists_are_paged_by_name() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    for n in 0..7 {
        admin.make(STREAMS, json!({"name": format!("s {n}")})).await;
        admin
            .make(CONNECTORS, json!({"name": format!("c{n}")}))
            .await;
        let key = json!({"name": format!("k{n}"), "stream": "orders"});
        admin.make("/api/admin/connectors/shop/keys", key).await;
        let key = json!({"name": format!("r{n}"), "streams": ["orders"]});
        admin.make(READ_KEYS, key).await;
    }
    for (path, count) in [
        (STREAMS, 8),
        (CONNECTORS, 8),
        ("/api/admin/connectors/shop/keys", 8),
        (READ_KEYS, 7),
        ("/api/admin/audit", 28),
    ] {
        let all = admin.get(&format!("{path}?limit=500")).await;
        assert_eq!(all.json()["next"], Value::Null);
        let all = all.list();
        assert_eq!(all.len(), count, "{path}");
        let mut paged = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = admin.get(&format!("{path}?limit=3{cursor}")).await;
            paged.extend(page.list());
            assert!(paged.len() <= count, "pages without end");
            match &page.json()["next"] {
                Value::String(next) => cursor = format!("&cursor={}", crate::app::encoded(next)),
                _ => break,
            }
        }
        assert_eq!(paged, all, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_change_is_in_the_audit_trail() {
    let app = Setup::shop().start().await;
    let key = crm(&app).await;
    let admin = app.admin();
    let main = "/api/admin/connectors/crm/keys/main";
    let ends = json!({"expires_at": "2999-01-31T00:00:00Z"});
    admin.send(Method::PATCH, main, &ends).await.data();
    admin
        .make(&format!("{main}/rotate"), json!({"grace_seconds": 5}))
        .await;
    admin
        .call(Method::POST, &format!("{main}/revoke"))
        .await
        .data();
    admin
        .send(Method::PATCH, main, &ends)
        .await
        .refused(409, "KEY_REVOKED");
    let trail = admin.get("/api/admin/audit").await.list();
    let told: Vec<String> = trail
        .iter()
        .map(|entry| format!("{} {}", entry["action"], entry["kind"]))
        .collect();
    assert_eq!(
        told,
        [
            "\"revoke\" \"key\"",
            "\"rotate\" \"key\"",
            "\"change\" \"key\"",
            "\"create\" \"key\"",
            "\"create\" \"connector\"",
            "\"create\" \"stream\"",
        ]
    );
    let changed = &trail[2];
    assert_eq!(
        (&changed["connector"], &changed["name"]),
        (&json!("crm"), &json!("main"))
    );
    assert_eq!(
        (&changed["who"], &changed["client"]),
        (&json!("admin token"), &json!("127.0.0.1"))
    );
    assert_eq!(changed["before"]["expires_at"], Value::Null);
    assert_eq!(changed["after"]["expires_at"], "2999-01-31T00:00:00.000Z");
    assert_eq!(changed["before"]["prefix"], key[..16]);
    assert_eq!(trail[1]["after"]["old"]["prefix"], key[..16]);
    assert_eq!(
        (&trail[5]["before"], &trail[5]["after"]["name"]),
        (&Value::Null, &json!("news"))
    );
}

/// Waits for the last word.
async fn is_sent_away(renderer: &mut Renderer) {
    let rest = renderer.rest().await;
    assert_eq!(rest.last().expect("a last word").kind, "bye");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn renderers_follow_what_their_read_key_may() {
    let app = Setup::screen().start().await;
    let key = crm(&app).await;
    let admin = app.admin();
    let made = admin
        .make(READ_KEYS, json!({"name": "wall", "streams": ["news"]}))
        .await;
    let connect = async |streams: &[&str]| {
        let mut renderer = Renderer::new(&app.service, Transport::Sse, secret(&made), streams);
        renderer.try_connect(None).await.map(|()| renderer)
    };
    let mut renderer = connect(&["news"]).await.expect("it is let in");
    assert_eq!(renderer.next().await.expect("a message").kind, "snapshot");
    app.caller_with(&key).ingest(r#"{"id": 1}"#).await.receipt();
    assert_eq!(renderer.next().await.expect("a message").kind, "update");
    // A limit that comes while it is connected.
    let stale = json!({"stale_after_seconds": 1});
    admin
        .send(Method::PATCH, "/api/admin/streams/news", &stale)
        .await
        .data();
    assert_eq!(renderer.next().await.expect("a message").kind, "stale");
    let never = json!({"stale_after_seconds": null});
    admin
        .send(Method::PATCH, "/api/admin/streams/news", &never)
        .await
        .data();
    assert_eq!(renderer.next().await.expect("a message").kind, "fresh");
    // More streams: it comes back for them.
    let more = json!({"streams": ["news", "orders"]});
    admin
        .send(Method::PATCH, "/api/admin/read-keys/wall", &more)
        .await
        .data();
    is_sent_away(&mut renderer).await;
    let mut renderer = connect(&["orders"]).await.expect("it is let in");
    admin
        .call(Method::POST, "/api/admin/read-keys/wall/revoke")
        .await
        .data();
    is_sent_away(&mut renderer).await;
    let refused = connect(&["news"]).await.map(drop);
    refused.expect_err("revoked").refused(401, "UNAUTHORIZED");
    eventually_async("nobody is connected", async || {
        admin
            .get("/api/admin/renderers")
            .await
            .list()
            .is_empty()
            .then_some(())
    })
    .await;
    admin
        .call(Method::DELETE, "/api/admin/read-keys/wall")
        .await
        .data();
    assert_eq!(admin.get(READ_KEYS).await.list().len(), 1);
}
