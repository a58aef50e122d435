//! Programs that poll several nodes, of which one is behind.
//!
//! **Invariant**: nobody who sends the tag of a state is answered with an older one.

use postgres_server::Line;

use super::*;
use crate::process::Answer;

const FEED: &str = "/feed/orders.csv?fields=id";
const LIST: &str = "/api/streams/orders/items";
const ITEM: &str = "/api/streams/orders/items/one";

/// The read key of a program, which may poll as often as it likes.
const KEY: &str = "rk_live_of_a_program_that_polls_nodes";
/// One that sees a part of the stream: items leave it while others stay.
const PART: &str = "rk_live_of_a_program_that_polls_a_part";

/// A node with these keys.
fn polled(url: &str, name: &str) -> Setup {
    const OFTEN: &str = "requests_per_second = 100000\n";
    let part = format!("{OFTEN}where = \"n<10\"\nfields = \"id,n\"");
    node_at(url, name)
        .given_read_key("polls", &["orders"], KEY, OFTEN)
        .given_read_key("part", &["orders"], PART, &part)
}

/// What the programs ask for: read key and path.
fn polls() -> impl Iterator<Item = (&'static str, &'static str)> {
    let paths = |key| [LIST, ITEM, FEED].map(|path| (key, path));
    [KEY, PART].into_iter().flat_map(paths)
}

/// What a node answers to a program that has this state.
fn poll(node: &Process, (key, path): (&str, &str), tag: &str) -> Answer {
    let known = format!("If-None-Match: {tag}\r\n");
    node.ask("GET", path, key, &known, "")
}

/// The tag of what a node shows.
fn tag_of(node: &Process, (key, path): (&str, &str)) -> String {
    eventually("the path is answered", || {
        let answer = node.ask("GET", path, key, "", "");
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
    put(&ahead, "three", 3);
    for node in [&ahead, &behind] {
        shows_version(node, "one", 1);
        shows_version(node, "three", 3);
    }
    let before: Vec<_> = polls()
        .map(|of| {
            let tag = tag_of(&ahead, of);
            assert_eq!(poll(&behind, of, &tag).status, 304, "{of:?}: {tag}");
            (of, tag)
        })
        .collect();
    line.stall();
    put(&ahead, "one", 2);
    // It leaves the part.
    put(&ahead, "three", 30);
    put(&ahead, "two", 2);
    shows_version(&ahead, "two", 2);
    for (of, before) in &before {
        let of = *of;
        let after = eventually("the state is another one", || {
            let after = tag_of(&ahead, of);
            (after != *before).then_some(after)
        });
        let begun = Instant::now();
        let refused = poll(&behind, of, &after);
        assert_eq!(refused.status, 503, "{of:?}: {}", refused.body);
        assert_eq!(refused.header("retry-after"), Some("1"), "{of:?}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{of:?}");
        let either = format!("{before}, W/{after}");
        assert_eq!(poll(&behind, of, &either).status, 503, "{of:?}");
        // Those who know of nothing newer are answered.
        assert_eq!(poll(&behind, of, before).status, 304, "{of:?}");
        for older in ["\"x\"", "\"1:1\"", "\"x-1:99999999\""] {
            let answer = poll(&behind, of, older);
            assert_eq!(answer.status, 200, "{of:?}: {older}: {}", answer.body);
        }
    }
    let newest: Vec<_> = polls().map(|of| (of, tag_of(&ahead, of))).collect();
    line.go_on();
    for (of, tag) in newest {
        eventually("the copy is there", || {
            let answer = poll(&behind, of, &tag);
            assert_ne!(answer.status, 200, "{of:?}: {}", answer.body);
            (answer.status == 304).then_some(())
        });
    }
    let shown = behind.ask("GET", FEED, PART, "", "");
    assert!(!shown.body.contains("three"), "{}", shown.body);
    // What does not alter the bytes of a feed does not have it sent again: another field, or an item that a key does not see.
    for (key, id) in [(KEY, "two"), (PART, "three")] {
        let of = (key, FEED);
        let before = tag_of(&ahead, of);
        put(&ahead, id, 31);
        shows_version(&ahead, id, 31);
        let after = eventually("the position is another one", || {
            let answer = poll(&ahead, of, &before);
            assert_eq!(answer.status, 304, "{}", answer.body);
            let after = answer.header("etag").expect("a tag").to_owned();
            (after != before).then_some(after)
        });
        let bytes = |tag: &str| tag.split('-').next().map(str::to_owned);
        assert_eq!(bytes(&before), bytes(&after));
    }
    for node in [ahead, behind] {
        node.stop();
    }
}
