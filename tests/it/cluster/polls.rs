//! Programs that poll several nodes, of which one is behind.
//!
//! **Invariant**: nobody who sends the tag of a state is answered with an older one.

use postgres_server::Line;

use super::*;
use crate::process::Answer;

const FEED: &str = "/feed/orders.csv?fields=id";
const LIST: &str = "/api/streams/orders/items";
const ITEM: &str = "/api/streams/orders/items/one";

/// The read key of the program, which may poll as often as it likes.
const KEY: &str = "rk_live_of_a_program_that_polls_nodes";

/// A node with this key.
fn polled(url: &str, name: &str) -> Setup {
    node_at(url, name).given_read_key("polls", &["orders"], KEY, "requests_per_second = 100000")
}

/// What a node answers to a program that has this state.
fn poll(node: &Process, path: &str, tag: &str) -> Answer {
    let known = format!("If-None-Match: {tag}\r\n");
    node.ask("GET", path, KEY, &known, "")
}

/// The tag of what a node shows.
fn tag_of(node: &Process, path: &str) -> String {
    eventually("the path is answered", || {
        let answer = node.ask("GET", path, KEY, "", "");
        let tag = answer.header("etag").map(str::to_owned);
        tag.filter(|_| answer.status == 200)
    })
}

/// Stores a version of an item.
fn put(node: &Process, id: &str, n: u32) {
    let body = json!({ "id": id, "n": n }).to_string();
    eventually("it is accepted", || {
        (node.post("orders", BY_ID, &body).status == 202).then_some(())
    });
}

/// Waits until a node shows this of an item.
fn shows_version(node: &Process, id: &str, n: u32) {
    eventually("the version is shown", || {
        let mut items = items(node).into_iter();
        let (_, item) = items.find(|(key, _)| key == id)?;
        (item["fields"]["n"] == n).then_some(())
    });
}

#[test]
fn a_node_that_is_behind_answers_no_older_state_than_a_program_has() {
    let Some(server) = Postgres::start("a_node_that_is_behind_answers_no_older_state") else {
        return;
    };
    let line = Line::to(&server);
    let ahead = polled(&server.url(), "a").spawn();
    // It runs no sinks: what it misses goes on without it.
    let behind = polled(&line.url(), "b").set("cluster.sinks", false);
    let behind = behind.spawn();
    put(&ahead, "one", 1);
    for node in [&ahead, &behind] {
        shows_version(node, "one", 1);
    }
    let before = [LIST, ITEM, FEED].map(|path| {
        let tag = tag_of(&ahead, path);
        assert_eq!(poll(&behind, path, &tag).status, 304, "{path}: {tag}");
        (path, tag)
    });
    line.stall();
    put(&ahead, "one", 2);
    put(&ahead, "two", 2);
    shows_version(&ahead, "two", 2);
    for (path, before) in &before {
        let after = eventually("the state is another one", || {
            let after = tag_of(&ahead, path);
            (after != *before).then_some(after)
        });
        let begun = Instant::now();
        let refused = poll(&behind, path, &after);
        assert_eq!(refused.status, 503, "{path}: {}", refused.body);
        assert_eq!(refused.header("retry-after"), Some("1"), "{path}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{path}");
        let either = format!("{before}, W/{after}");
        assert_eq!(poll(&behind, path, &either).status, 503, "{path}");
        // Those who know of nothing newer are answered.
        assert_eq!(poll(&behind, path, before).status, 304, "{path}");
        for older in ["\"x\"", "\"1:1\"", "\"x-1:99999999\""] {
            let answer = poll(&behind, path, older);
            assert_eq!(answer.status, 200, "{path}: {older}: {}", answer.body);
        }
    }
    let newest = [LIST, ITEM, FEED].map(|path| (path, tag_of(&ahead, path)));
    line.go_on();
    for (path, tag) in newest {
        eventually("the copy is there", || {
            let answer = poll(&behind, path, &tag);
            assert_ne!(answer.status, 200, "{path}: {}", answer.body);
            (answer.status == 304).then_some(())
        });
    }
    // What does not alter the bytes of a feed does not have it sent again.
    let before = tag_of(&ahead, FEED);
    put(&ahead, "two", 3);
    shows_version(&ahead, "two", 3);
    let after = eventually("the position is another one", || {
        let answer = poll(&ahead, FEED, &before);
        assert_eq!(answer.status, 304, "{}", answer.body);
        let after = answer.header("etag").expect("a tag").to_owned();
        (after != before).then_some(after)
    });
    let bytes = |tag: &str| tag.split('-').next().map(str::to_owned);
    assert_eq!(bytes(&before), bytes(&after));
    for node in [ahead, behind] {
        node.stop();
    }
}
