//! Requests as large as the configuration allows, several at once, with the history of their items.
//!
//! **Invariant**: what one entry of the log cannot take is divided or refused; the nodes live, have the same, and accept what
//! comes next.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::*;
use crate::faults::pause;
use crate::process::Client;
use crate::stored::one;

/// What an entry has at most if it has several items.
const ENTRY_BYTES_MAX: u64 = 64 << 20;

/// A body of items that flatten to nearly eight times as much: each field has a long path, and a short name in the body.
struct Body {
    items: usize,
    fields: usize,
    /// Bytes of the path that all fields of an item share.
    path: usize,
    /// Bytes of a value.
    value: usize,
}

impl Body {
    fn of(&self, request: &str) -> String {
        let (path, value) = ("p".repeat(self.path), "v".repeat(self.value));
        let fields: Vec<String> = (0..self.fields)
            .map(|at| format!(r#""f{at:05}":"{value}""#))
            .collect();
        let fields = fields.join(",");
        let items: Vec<String> = (0..self.items)
            .map(|at| format!(r#"{{"id":"{request}-{at}","{path}":{{{fields}}}}}"#))
            .collect();
        format!("[{}]", items.join(","))
    }

    /// At least so many bytes of a body are flattened to.
    fn flattened(&self) -> usize {
        self.items * self.fields * (self.path + self.value)
    }
}

/// What a node has.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    /// Key, length and digest of each item.
    items: Vec<(String, usize, u64)>,
    /// Number of past values, but for those of the first items, and bytes of their names and values.
    past: i64,
    past_bytes: i64,
}

fn stored(node: &Process) -> Stored {
    let pool = node.setup.pool();
    let sql = "SELECT key, fields FROM items WHERE stream = 'orders' ORDER BY key";
    let mut statement = pool.prepare(sql).expect("the table items");
    let items = statement.query_map([], |row| {
        let (key, fields): (String, String) = (row.get(0)?, row.get(1)?);
        let mut digest = DefaultHasher::new();
        fields.hash(&mut digest);
        Ok((key, fields.len(), digest.finish()))
    });
    let items = items.expect("it reads").collect::<Result<_, _>>();
    let sql = "SELECT count(*), coalesce(sum(length(field) + length(value)), 0) FROM past_values
        WHERE key NOT LIKE 'first-%'";
    let past = pool.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (past, past_bytes) = past.expect("it reads");
    Stored {
        items: items.expect("it reads"),
        past,
        past_bytes,
    }
}

/// Submits bodies of these requests at once, each to the node of its place, until it is accepted: a node has memory for some.
fn submit_at_once(nodes: &[Process], body: &Body, requests: &[&str]) {
    std::thread::scope(|scope| {
        for (at, request) in requests.iter().enumerate() {
            let service = nodes[at % nodes.len()].service;
            scope.spawn(move || {
                let body = body.of(request);
                let headers = format!("{BY_ID}Idempotency-Key: {request}\r\n");
                eventually("a large request is accepted", || {
                    // A node that refuses a body does not read it to its end.
                    let sent = Client::connect(service)
                        .and_then(|mut client| client.post("orders", &headers, &body));
                    let answer = sent.ok()?;
                    let is_known = matches!(answer.status, 202 | 503);
                    assert!(is_known, "{}: {}", answer.status, answer.body);
                    (answer.status == 202).then_some(())
                });
            });
        }
    });
}

/// Waits until every node has so many items, the same, with so many past values. A look reads all of them: not too often.
fn equal_copies(nodes: &[Process], items: usize, past: i64) {
    let looked_at = |node: &Process| {
        pause(Duration::from_millis(300));
        let count = one::<i64>(&node.setup.pool(), "SELECT count(*) FROM items");
        (usize::try_from(count) == Ok(items)).then(|| stored(node))
    };
    let first = eventually("every item is there", || {
        looked_at(&nodes[0]).filter(|stored| stored.past == past)
    });
    for node in &nodes[1..] {
        eventually("the copies are equal", || {
            looked_at(node).filter(|stored| *stored == first).map(drop)
        });
    }
}

/// Nothing was given up, the nodes live, and a small request reaches all of them.
fn everything_works(nodes: &mut [Process], items: usize) {
    let past = stored(&nodes[0]).past;
    accepted(&nodes[1], "small");
    // Two fields.
    equal_copies(nodes, items + 1, past + 2);
    for node in nodes {
        node.drained_when(|| node.sink("pool")["retries"] == 0);
        assert_eq!(node.dead_letters("pool"), Vec::<Value>::new());
        assert!(node.lives());
    }
}

fn largest_entry(server: &Postgres) -> u64 {
    let largest = server.query("SELECT max(octet_length(change)) FROM headgate.log");
    largest.trim().parse().expect("a number")
}

#[test]
fn requests_of_a_megabyte_that_flatten_to_all_that_is_allowed_reach_every_node() {
    let Some(server) = Postgres::start("requests_of_a_megabyte_that_flatten") else {
        return;
    };
    let start = |name: &&str| {
        let node = node(&server, name).of_stream("orders", "history = 10");
        let node = node.set("plugins.cpu_timeout_ms", 600_000);
        let node = node.set("plugins.write_timeout_ms", 600_000);
        node.set("cluster.commit_wait_seconds", 120).spawn()
    };
    let mut nodes: Vec<Process> = ["a", "b", "c"].iter().map(start).collect();
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("first-{at}"));
    }
    // In an item of 2 MiB, each field is 30 bytes of the body, and 220 flattened.
    let body = Body {
        items: 4,
        fields: 8_400,
        path: 190,
        value: 18,
    };
    let requests = ["r0", "r1", "r2", "r3", "r4", "r5"];
    assert!(body.of("r0").len() < 1 << 20);
    assert!(body.flattened() > 6 << 20);
    submit_at_once(&nodes[..2], &body, &requests);
    let items = nodes.len() + requests.len() * body.items;
    let past = requests.len() * body.items * (body.fields + 1);
    equal_copies(&nodes, items, i64::try_from(past).expect("it fits"));
    everything_works(&mut nodes, items);
    assert!(largest_entry(&server) <= ENTRY_BYTES_MAX);
    for node in nodes {
        node.stop();
    }
}

#[test]
fn entries_of_the_log_are_bounded_whatever_the_limits_allow() {
    let Some(server) = Postgres::start("entries_of_the_log_are_bounded") else {
        return;
    };
    let start = |name: &&str| {
        // Everything that can be raised is.
        let setup = Setup::with_streams(&["orders"])
            .of_stream("orders", "history = 10")
            .given_read_key("screen", &["orders"], READ_KEY, "")
            .sink(
                "pool",
                "pool",
                "*",
                "batch = { items_max = 1000000, bytes_max = 1073741824 }",
            )
            .set("limits.max_body_bytes", 64 << 20)
            .set("limits.max_flattened_bytes", 256 << 20)
            .set("limits.max_item_bytes", 256 << 20)
            .set("limits.body_timeout_seconds", 300)
            .set("limits.max_pending_bytes", 1_i64 << 30)
            .set("limits.max_pending_bytes_per_key", 1_i64 << 30)
            .set("plugins.cpu_timeout_ms", 3_600_000)
            .set("plugins.write_timeout_ms", 3_600_000);
        let setup = in_cluster(setup, &server.url(), name);
        setup.set("cluster.commit_wait_seconds", 120).spawn()
    };
    let mut nodes: Vec<Process> = ["a", "b", "c"].iter().map(start).collect();
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("first-{at}"));
    }
    // Of each request, 60 MB of items and as much of past values.
    let body = Body {
        items: 20,
        fields: 200,
        path: 13_000,
        value: 2_000,
    };
    assert!(body.of("r0").len() < 64 << 20);
    assert!(body.flattened() > 55 << 20);
    submit_at_once(&nodes[..2], &body, &["r0", "r1"]);
    let items = nodes.len() + 2 * body.items;
    let past = 2 * body.items * (body.fields + 1);
    equal_copies(&nodes, items, i64::try_from(past).expect("it fits"));
    let largest = largest_entry(&server);
    assert!(largest <= ENTRY_BYTES_MAX, "{largest} bytes");
    assert!(largest > ENTRY_BYTES_MAX / 4, "{largest} bytes");
    // An item that is as large as a body can be has no parts: it is an entry of its own.
    let text = "x".repeat((64 << 20) - 100);
    let whole = format!(r#"{{"id":"whole","text":"{text}"}}"#);
    let answer = nodes[0].post("orders", BY_ID, &whole);
    assert_eq!(answer.status, 202, "{}", answer.body);
    equal_copies(&nodes, items + 1, i64::try_from(past + 2).expect("it fits"));
    assert!(largest_entry(&server) > 120 << 20);
    // By its length alone.
    let mut client = nodes[1].client();
    let begun = client.begin_post("orders", BY_ID, (64 << 20) + 1);
    begun.expect("it is sent");
    let refused = client.answer().expect("an answer");
    assert_eq!(refused.status, 413, "{}", refused.body);
    everything_works(&mut nodes, items + 1);
    for node in nodes {
        node.stop();
    }
}
