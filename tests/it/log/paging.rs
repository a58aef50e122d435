//! Pages of the log, and filters by status and by time.

use std::time::Duration;

use serde_json::Value;

use crate::app::TestApp;
use crate::setup::Setup;
use crate::stored::one;
use crate::wait::eventually_async;
use base::clock::Unix;

/// All pages of a list: the entries, and the length of each page.
async fn pages(app: &TestApp, path: &str) -> (Vec<Value>, Vec<usize>) {
    pages_after(app, path, String::new()).await
}

/// All pages after the one whose `next` is given as `&cursor=…`.
async fn pages_after(app: &TestApp, path: &str, mut cursor: String) -> (Vec<Value>, Vec<usize>) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let (mut entries, mut lengths) = (Vec::new(), Vec::new());
    loop {
        let reply = app.admin().get(&format!("{path}{cursor}")).await;
        let page = reply.list();
        lengths.push(page.len());
        assert!(lengths.len() <= 1_000, "pages without end");
        entries.extend(page);
        match &reply.json()["next"] {
            Value::Null => return (entries, lengths),
            Value::String(next) => cursor = format!("{separator}cursor={next}"),
            other => panic!("next is a text or null, not {other}"),
        }
    }
}

fn id(entry: &Value) -> &str {
    entry["request_id"].as_str().expect("a request id")
}

fn ids(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn paging_is_newest_first_without_holes_or_repeats() {
    let app = Setup::shop().key("rival", "orders").start().await;
    let (shop, rival) = (app.caller("shop"), app.caller("rival"));
    let mut sent = Vec::new();
    for n in 0..130 {
        // Entries of others, and refused ones, lie in between.
        if n % 3 == 0 {
            rival.ingest("{}").await.receipt();
        }
        let reply = if n % 5 == 0 {
            shop.ingest("oops").await
        } else {
            shop.ingest("{}").await
        };
        sent.push(reply.header("x-request-id").expect("an id").to_owned());
    }
    sent.reverse();
    app.drain().await;
    for (limit, first) in [
        ("", 50),
        ("?limit=1", 1),
        ("?limit=7", 7),
        ("?limit=130", 130),
        ("?limit=500", 130),
    ] {
        let path = format!("/api/admin/connectors/shop/requests{limit}");
        let (entries, lengths) = pages(&app, &path).await;
        assert_eq!(ids(&entries), sent, "{limit}");
        assert_eq!(lengths[0], first, "{limit}");
        assert!(lengths.len() <= 130 / first + 1, "{lengths:?}");
    }

    // What arrives meanwhile moves nothing.
    let path = "/api/admin/connectors/shop/requests?limit=60";
    let reply = app.admin().get(path).await;
    let mut seen = reply.list();
    let next = reply.json();
    let cursor = format!("&cursor={}", next["next"].as_str().expect("there is more"));
    for _ in 0..10 {
        shop.ingest("{}").await.receipt();
    }
    app.drain().await;
    let (rest, _) = pages_after(&app, path, cursor).await;
    seen.extend(rest);
    assert_eq!(ids(&seen), sent);
}

/// A daemon whose log has every status. The stream `stuck` goes to a sink that cannot be loaded, so its
/// requests stay accepted; a dead letter, put into the pool by hand, makes one request failed.
async fn every_status() -> TestApp {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.wasm");
    std::fs::write(&broken, "no component").expect("a file");
    let app = Setup::shop()
        .stream("stuck")
        .key("shop", "stuck")
        .test_key("shop", "orders")
        .toml(&format!(
            "[[sinks]]\nname = \"pool\"\nplugin = \"pool\"\nstreams = [\"orders\"]\n\
             [[sinks]]\nname = \"broken\"\nplugin = {broken:?}\nstreams = [\"stuck\"]"
        ))
        .start()
        .await;
    let shop = app.caller("shop");
    for n in 0..6 {
        shop.ingest_once(&format!("k{n}"), "{}").await.receipt();
        shop.ingest_once(&format!("k{n}"), "{}").await.receipt();
        shop.ingest("oops").await.refused(400, "INVALID_PAYLOAD");
        app.caller_of("shop", 1).ingest("{}").await.receipt();
        app.caller_of("shop", 2).ingest("{}").await.receipt();
    }
    eventually_async("the pool has everything", async || {
        let state = app.admin().get("/api/admin/sinks").await.list();
        (app.fields_now("orders").len() == 1 && state[0]["lag"] == 0).then_some(())
    })
    .await;
    let seq = first_accepted(&app, "orders");
    give_up(&app, seq);
    app
}

fn first_accepted(app: &TestApp, stream: &str) -> i64 {
    let sql = format!("SELECT min(seq) FROM requests WHERE stream = '{stream}' AND outcome = 0");
    one(&app.setup().journal(), &sql)
}

fn give_up(app: &TestApp, seq: i64) {
    let sql = format!(
        "INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms)
         VALUES ('pool', {seq}, '', 'orders', 0, '0', '{{}}', 'by hand', 1, 0)"
    );
    assert_eq!(app.setup().tamper("pool.db", &sql), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_log_can_be_filtered_by_every_status_and_by_several() {
    let app = every_status().await;
    let path = "/api/admin/connectors/shop/requests";
    let (all, _) = pages(&app, path).await;
    assert_eq!(all.len(), 30);
    let mut seen = 0;
    for (statuses, count) in [
        (&["accepted"][..], 6),
        (&["processed"], 5),
        (&["failed"], 1),
        (&["rejected"], 6),
        (&["duplicate"], 6),
        (&["test"], 6),
    ] {
        let (found, _) = pages(&app, &format!("{path}?status={}", statuses.join(","))).await;
        assert_eq!(found.len(), count, "{statuses:?}");
        assert!(found.iter().all(|entry| entry["status"] == statuses[0]));
        seen += count;
    }
    assert_eq!(seen, all.len(), "every entry has one status");
    for statuses in [
        &["rejected", "test"][..],
        &["accepted", "failed"],
        &["failed", "duplicate", "processed"],
        &[
            "accepted",
            "processed",
            "failed",
            "rejected",
            "duplicate",
            "test",
        ],
    ] {
        let expected: Vec<&Value> = (all.iter())
            .filter(|entry| statuses.iter().any(|status| entry["status"] == **status))
            .collect();
        for limit in [1, 4, 500] {
            let query = format!("{path}?status={}&limit={limit}", statuses.join(","));
            let (found, _) = pages(&app, &query).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        }
    }
    let problems = app.admin().get("/api/admin/status").await.data()["problems"].to_string();
    assert!(problems.contains("broken"), "{problems}");
    let letters = app
        .admin()
        .get("/api/admin/sinks/pool/dead-letters")
        .await
        .list();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["reason"], "by hand");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_log_can_be_cut_by_time() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let mut times = Vec::new();
    for _ in 0..3 {
        shop.ingest("{}").await.receipt();
        app.drain().await;
        let newest = app.admin().log("shop", "limit=1").await[0]["timestamp"].clone();
        let newest = newest.as_str().expect("a time").to_owned();
        let ms = base::clock::parse_rfc3339(&newest).expect("RFC 3339");
        eventually_async("the next millisecond", async || {
            (Unix::now() > ms).then_some(())
        })
        .await;
        times.push((newest, ms));
    }
    let [first, second, third] = [0, 1, 2].map(|index| times[index].0.clone());
    let before_all = base::clock::rfc3339(times[0].1 - Duration::from_millis(1));
    let elsewhere = first.replace('Z', "%2B00:00");
    for (query, found) in [
        (format!("since={first}"), 3),
        (format!("since={elsewhere}"), 3),
        (format!("since={second}"), 2),
        (format!("until={second}"), 2),
        (format!("until={first}"), 1),
        (format!("until={before_all}"), 0),
        (format!("since={second}&until={second}"), 1),
        (format!("since={third}&until={first}"), 0),
        ("since=2999-01-01T00:00:00Z".to_owned(), 0),
        (
            "until=2999-01-01T00:00:00Z&since=1970-01-01T00:00:00Z".to_owned(),
            3,
        ),
        (format!("since={second}&status=processed&limit=1"), 1),
    ] {
        assert_eq!(
            app.admin().log("shop", &query).await.len(),
            found,
            "{query}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_log_can_be_searched_for_a_text() {
    let app = Setup::shop().key("rival", "orders").start().await;
    let shop = app.caller("shop");
    let first = shop
        .ingest_once("Order-7_x", "{}")
        .await
        .receipt()
        .request_id;
    let uuid = "0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10";
    let named = shop.ingest_once(uuid, "{}").await.receipt().request_id;
    let refused = shop.ingest("oops").await;
    let refused = refused.header("x-request-id").expect("an id").to_owned();
    let theirs = app.caller("rival").ingest("{}").await.receipt().request_id;
    app.drain().await;
    let (first, named, refused) = (first.as_str(), named.as_str(), refused.as_str());
    for (query, found) in [
        ("text=order-7", vec![first]),
        ("text=R-7_X", vec![first]),
        ("text=7%25x", vec![]),
        ("text=LINE%201&status=rejected", vec![refused]),
        ("text=line%201&status=processed", vec![]),
        ("text=127.0.0.1", vec![refused, named, first]),
        (
            "text=127.0.0.1&status=processed,rejected&limit=2",
            vec![refused, named, first],
        ),
        ("text=", vec![refused, named, first]),
        // The id of a request; of another connector's; of none, so it is a text.
        (&format!("text={first}"), vec![first]),
        (&format!("text={first}&status=rejected"), vec![]),
        (&format!("text={theirs}"), vec![]),
        (&format!("text={uuid}"), vec![named]),
    ] {
        let path = format!("/api/admin/connectors/shop/requests?{query}");
        let (entries, _) = pages(&app, &path).await;
        assert_eq!(ids(&entries), found, "{query}");
    }
}
