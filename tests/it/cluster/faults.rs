//! What happens to a cluster when its parts fail.
//!
//! **Invariant**: nothing that got a 202 is lost or shown twice, and what fails comes back by itself.

pub(super) mod damage;
mod outage;

use std::fs;
use std::io::Read as _;

use postgres_server::Line;

use super::*;
use crate::faults::pause;
use crate::process::Client;

/// Waits until a screen of a node is sent this.
fn sends(node: &Process, text: &str) {
    let mut screen = screen(node.service);
    let (mut sent, mut part) = (String::new(), [0; 4_096]);
    while !sent.contains(text) {
        let length = screen.read(&mut part).expect("it goes on");
        assert_ne!(length, 0, "it ended: {sent}");
        sent.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// What only the database has, and what would change something, is answered 503 with the reason.
fn says_why(node: &Process) {
    let act = r#"{"key": "one", "fields": {"n": 2}}"#;
    for (method, path, body) in [
        ("GET", "/api/admin/connectors/tests/requests", ""),
        ("GET", "/api/admin/search?q=one", ""),
        ("POST", "/api/admin/streams/orders/override", act),
        ("POST", "/api/admin/cluster/nodes/a/claim", ""),
        ("POST", "/api/admin/streams", r#"{"name": "more"}"#),
    ] {
        let refused = node.call(method, path, body);
        assert_eq!(refused.status, 503, "{path}: {}", refused.body);
        let says_so = refused.body.contains("the database of the cluster");
        assert!(says_so, "{path}: {}", refused.body);
    }
}

#[test]
fn the_database_may_go_and_come_back() {
    let Some(mut server) = Postgres::start("the_database_may_go_and_come_back") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    accepted(&nodes[0], "one");
    let before = nodes.each_ref().map(|node| shows(node, 1));
    server.crash();
    for (node, before) in nodes.iter().zip(&before) {
        ready_becomes(node, Some("database"));
        let refused = node.post("orders", BY_ID, r#"{"id": "lost"}"#);
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert!(refused.header("retry-after").is_some());
        let unknown = "ik_live_made_elsewhere_000000000000000";
        let headers = format!("{JSON}{BY_ID}");
        let refused = node.ask("POST", "/api/ingest", unknown, &headers, "{}");
        assert_eq!(refused.status, 503, "it may be a new one: {}", refused.body);
        assert_eq!(&items(node), before, "the last state is shown");
        says_why(node);
        sends(node, r#""stale":true"#);
    }
    server.resume();
    for (number, node) in nodes.iter().enumerate() {
        accepted(node, &format!("after-{number}"));
        ready_becomes(node, None);
    }
    let _ = nodes.each_ref().map(|node| shows(node, 3));
    // A change that was under way when the database went can come later than the items.
    let [one, other] = &nodes;
    eventually("both nodes show the same", || {
        (items(one) == items(other)).then_some(())
    });
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_copy_that_is_gone_damaged_or_suspect_is_taken_anew() {
    let Some(server) = Postgres::start("a_copy_that_is_gone_damaged_or_suspect") else {
        return;
    };
    let first = node(&server, "a").spawn();
    let mut second = node(&server, "b").spawn();
    for number in 0..3 {
        accepted(&second, &format!("{number}"));
    }
    let shown = shows(&second, 3);
    type Harm = fn(&std::path::Path);
    let harms: [(&str, Harm); 4] = [
        ("deleted", |pool| {
            fs::remove_file(pool).expect("it is there")
        }),
        ("truncated", |pool| {
            let file = fs::OpenOptions::new().write(true).open(pool);
            file.expect("it opens").set_len(5_000).expect("it shrinks");
        }),
        ("no database", |pool| {
            fs::write(pool, "no database").expect("it writes")
        }),
        ("suspect", |pool| {
            sqlite::suspect::mark(pool, "met by a test")
        }),
    ];
    for (name, harm) in harms {
        let setup = second.setup.clone();
        second.stop();
        let pool = setup.data_dir().join("pool.db");
        harm(&pool);
        second = setup.spawn();
        assert_eq!(shows(&second, 3), shown, "{name}");
    }
    // A folder with data of its own is nobody's copy, and is left alone.
    let alone = node(&server, "c").set("storage.engine", "file");
    let own = alone.spawn();
    accepted(&own, "own");
    shows(&own, 1);
    own.stop();
    let refused = alone.set("storage.engine", "postgres").try_spawn();
    let refused = refused.expect_err("it has data of its own");
    assert_eq!(refused.status.code(), Some(2), "{}", refused.log);
    assert!(
        refused.log.contains("no copy of this cluster"),
        "{}",
        refused.log
    );
    for node in [first, second] {
        node.stop();
    }
}

#[test]
fn a_frozen_owner_is_replaced_and_writes_nothing_when_it_wakes() {
    let Some(server) = Postgres::start("a_frozen_owner_is_replaced") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    accepted(&nodes[0], "before");
    nodes.iter().for_each(|node| drop(shows(node, 1)));
    let frozen = usize::from(owner(&nodes[0]) == "b");
    let (frozen, other) = (&nodes[frozen], &nodes[1 - frozen]);
    let begun = Instant::now();
    frozen.signal(Signal::STOP);
    accepted(other, "meanwhile");
    shows(other, 2);
    // By the clock of the one that waits: not before the lease of the other is over.
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    frozen.signal(Signal::CONT);
    accepted(frozen, "awake");
    let shown = shows(other, 3);
    assert_eq!(shows(frozen, 3), shown);
    let events: Vec<_> = shown.iter().map(|(_, item)| item["seq"].clone()).collect();
    assert_eq!(events.len(), 3);
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_node_stops_while_nobody_knows_what_became_of_a_change() {
    let Some(server) = Postgres::start("a_node_stops_while_nobody_knows") else {
        return;
    };
    let line = Line::to(&server);
    let setup = node_at(&line.url(), "a").set("server.shutdown_seconds", 1);
    let first = setup.spawn();
    accepted(&first, "one");
    shows(&first, 1);
    // The change is committed, and nobody is told.
    line.stall_at("made-in-doubt");
    let stream = json!({ "name": "made-in-doubt" }).to_string();
    let (mut client, token) = (
        Client::connect(first.admin).expect("it listens"),
        first.setup.admin_token(),
    );
    let asking = std::thread::spawn(move || {
        let answer = client.call("POST", "/api/admin/streams", &token, &stream);
        answer.is_ok_and(|answer| answer.status == 201)
    });
    eventually("it is in the log", || {
        let sql = "SELECT count(*) FROM headgate.log WHERE position('made-in-doubt'::bytea IN change) > 0";
        (server.query(sql) == "1").then_some(())
    });
    first.terminate();
    let ended = first.ended();
    assert!(
        !asking.join().expect("no panic"),
        "nobody said that it is made"
    );
    assert!(ended.log.contains("stopping"), "{}", ended.log);
    line.go_on();
    let next = setup.spawn();
    shows(&next, 1);
    let streams = next.list("/api/admin/streams");
    assert!(
        streams
            .iter()
            .any(|stream| stream["name"] == "made-in-doubt")
    );
    next.stop();
}

#[test]
fn an_act_in_doubt_is_answered_and_holds_nothing_up() {
    let Some(server) = Postgres::start("an_act_in_doubt_is_answered") else {
        return;
    };
    let line = Line::to(&server);
    let node = node_at(&line.url(), "a").spawn();
    accepted(&node, "one");
    shows(&node, 1);
    // The act is committed, and nobody is told.
    line.stall_at("of-an-act-in-doubt");
    let act = json!({ "key": "one", "fields": { "n": "of-an-act-in-doubt" } }).to_string();
    let path = "/api/admin/streams/orders/override";
    let answer = node.call("POST", path, &act);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("nobody knows yet"), "{}", answer.body);
    for path in [
        "/api/admin/streams/orders/acts",
        "/api/admin/streams/orders/items/one",
        "/api/admin/sinks",
        "/api/admin/status",
        "/metrics",
    ] {
        let answer = node.call("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    line.go_on();
    eventually("the act is shown", || {
        let (_, item) = items(&node).pop()?;
        (item["fields"]["n"] == "of-an-act-in-doubt").then_some(())
    });
    node.stop();
}

#[test]
fn a_transaction_of_somebody_else_holds_nothing_up() {
    let Some(server) = Postgres::start("a_transaction_of_somebody_else") else {
        return;
    };
    let node = node(&server, "a").spawn();
    accepted(&node, "one");
    shows(&node, 1);
    let held = server.begin();
    for (number, id) in ["two", "three"].into_iter().enumerate() {
        accepted(&node, id);
        shows(&node, number + 2);
    }
    drop(held);
    accepted(&node, "four");
    shows(&node, 4);
    node.stop();
}

/// Submits items until the disk of the database is full: the answer that says so. Those that are accepted are listed.
fn fills_up(node: &Process, accepted: &mut Vec<String>) -> crate::process::Answer {
    eventually("the disk of the database is full", || {
        let id = format!("full-{}", accepted.len());
        // Not so long that the database makes it shorter.
        let body = json!({ "id": id, "n": 1, "text": "x".repeat(1_500) }).to_string();
        let answer = node.post("orders", BY_ID, &body);
        match answer.status {
            202 => {
                accepted.push(id);
                None
            }
            503 => Some(answer),
            other => panic!("{other}: {}", answer.body),
        }
    })
}

#[test]
fn a_full_disk_of_the_database_is_503_until_it_has_space() {
    const TEST: &str = "a_full_disk_of_the_database";
    let Some(server) = Postgres::start(TEST) else {
        return;
    };
    let Some(disk) = server.small_disk(TEST, 64) else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    let mut ids = vec!["before".to_owned()];
    accepted(&nodes[0], "before");
    nodes.iter().for_each(|node| drop(shows(node, 1)));
    disk.fill();
    for _ in 0..3 {
        for node in &nodes {
            let refused = fills_up(node, &mut ids);
            assert!(refused.header("retry-after").is_some());
            assert!(refused.body.contains("disk is full"), "{}", refused.body);
            assert!(!items(node).is_empty(), "the last state is shown");
        }
    }
    disk.free();
    for (at, node) in nodes.iter().enumerate() {
        let id = format!("after-{at}");
        accepted(node, &id);
        ids.push(id);
    }
    let [a, b] = &nodes;
    eventually("both have everything that was accepted", || {
        let shown = items(a);
        let has = |id: &String| shown.iter().any(|(key, _)| key == id);
        (ids.iter().all(has) && items(b) == shown).then_some(())
    });
    for node in nodes {
        ready_becomes(&node, None);
        node.stop();
    }
}

/// Why a node is said not to fit the others.
fn why_not(asked: &Process, name: &str) -> Option<String> {
    let nodes = nodes(asked);
    let node = nodes.iter().find(|node| node["name"] == name)?;
    Some(node["problems"].get(0)?.as_str()?.to_owned())
}

#[test]
fn a_node_with_another_configuration_is_named_on_every_node_and_runs_no_sinks() {
    const WHY: &str = "its declared configuration differs from that of node a";
    let Some(server) = Postgres::start("a_node_with_another_configuration") else {
        return;
    };
    let first = node(&server, "a").spawn();
    accepted(&first, "one");
    shows(&first, 1);
    let differs = node(&server, "b").read_key("of-this-node", &["orders"], "");
    let differs = differs.spawn();
    for asked in [&first, &differs] {
        let why = eventually("the node that differs is named", || why_not(asked, "b"));
        let expected = format!("{WHY}, which runs the sinks");
        assert!(why.starts_with(&expected), "{why}");
        assert_eq!(why_not(asked, "a"), None);
        let expected = format!("node b does not fit the other nodes: {WHY}");
        eventually("the status names both", || {
            asked.problems().contains(&expected).then_some(())
        });
        let refused = asked.call("POST", "/api/admin/cluster/nodes/b/claim", "");
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert!(refused.body.contains(WHY), "{}", refused.body);
    }
    first.kill();
    // Any other node would have them within a second or two.
    let begun = Instant::now();
    accepted(&differs, "two");
    while begun.elapsed() < Duration::from_secs(8) {
        let runs = |node: &Value| node["name"] == "b" && node["runs_sinks"] == true;
        assert!(!nodes(&differs).iter().any(runs));
        pause(Duration::from_millis(100));
    }
    assert_eq!(items(&differs).len(), 1, "nobody runs the sinks");
    let why = why_not(&differs, "b").expect("it differs still");
    let expected = format!("{WHY}, which ran the sinks last");
    assert!(why.starts_with(&expected), "{why}");
    let fits = node(&server, "c").spawn();
    assert_eq!(owner(&fits), "c");
    let shown = [&differs, &fits].map(|node| shows(node, 2));
    assert_eq!(shown[0], shown[1]);
    for node in [differs, fits] {
        node.stop();
    }
}

#[test]
fn a_node_whose_copy_is_behind_accepts_and_is_not_ready() {
    let Some(server) = Postgres::start("a_node_whose_copy_is_behind") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    accepted(&nodes[0], "one");
    for node in &nodes {
        shows(node, 1);
        ready_becomes(node, None);
    }
    // Nobody reads the log of changes; everything else in the database is as it was.
    let held = server.begin_with("LOCK TABLE headgate.log");
    for (at, node) in nodes.iter().enumerate() {
        ready_becomes(node, Some("copy"));
        accepted(node, &format!("behind-{at}"));
        let problems = eventually("the status says so", || {
            let problems = node.problems();
            problems.contains("cannot follow").then_some(problems)
        });
        assert!(problems.contains("show an older state"), "{problems}");
        assert_eq!(items(node).len(), 1, "the last state is shown");
    }
    drop(held);
    let shown = nodes.each_ref().map(|node| shows(node, 3));
    assert_eq!(shown[0], shown[1]);
    for node in nodes {
        ready_becomes(&node, None);
        node.stop();
    }
}
