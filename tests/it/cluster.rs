//! Several daemons over one PostgreSQL database.
//!
//! Each test starts a server of its own, and the real program for each node.
//!
//! **Invariant**: what one node has answered 202 is shown by every node, whichever of them dies.

mod acts;
mod asks;
mod bench;
mod books;
mod bounds;
mod clocks;
mod failover;
mod faults;
mod figures;
mod large;
mod limits;
mod load;
mod moving;
mod pages;
mod polls;
mod repeats;
mod revokes;
mod same;
mod screens;
mod signed_in;
mod splits;
mod times;
mod told;
mod upgrade;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres_server::Postgres;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{BY_ID, JSON, Process, bearer};
use crate::program::output;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;
pub(crate) use asks::{ids, with_a_receiver};

/// The read key `screen` of every node.
pub(crate) const READ_KEY: &str = "rk_live_of_every_node_of_a_cluster";

/// A node of the cluster in this server.
pub(crate) fn node(server: &Postgres, name: &str) -> Setup {
    node_at(&server.url(), name)
}

fn node_at(url: &str, name: &str) -> Setup {
    let setup = Setup::with_streams(&["orders"])
        .given_read_key("screen", &["orders"], READ_KEY, "")
        .sink("pool", "pool", "*", "")
        .set("live.heartbeat_seconds", 1);
    in_cluster(setup, url, name)
}

/// The same setup as a node.
fn in_cluster(setup: Setup, url: &str, name: &str) -> Setup {
    setup
        .set("storage.engine", "postgres")
        .set("cluster.urls", vec![url])
        // All nodes share it, whatever engine the tests run on.
        .set("cluster.schema", "headgate")
        .set("cluster.name", name)
        .set("cluster.durability", "local")
        .set("cluster.commit_wait_seconds", 2)
}

/// A renderer of a node at this address, which reads what it is sent.
fn screen(service: SocketAddr) -> TcpStream {
    screen_with(service, "streams=orders", READ_KEY)
}

/// The same with this query and read key.
fn screen_with(service: SocketAddr, query: &str, key: &str) -> TcpStream {
    let mut screen = TcpStream::connect(service).expect("it listens");
    let asked = format!(
        "GET /api/live?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{}\r\n",
        bearer(key)
    );
    screen.write_all(asked.as_bytes()).expect("it is sent");
    screen
}

/// The items as a node shows them.
fn items(node: &Process) -> Vec<(String, Value)> {
    items_of(node, "orders")
}

/// Those of any stream.
fn items_of(node: &Process, stream: &str) -> Vec<(String, Value)> {
    let mut items = Vec::new();
    let first = format!("/api/streams/{stream}/items?limit=1000");
    let mut path = first.clone();
    loop {
        let answer = node.ask("GET", &path, READ_KEY, "", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = answer.json();
        let page = answer["data"].as_array().expect("a page");
        let text = |item: &Value| item["key"].as_str().expect("a key").to_owned();
        items.extend(page.iter().map(|item| (text(item), item.clone())));
        match answer["next"].as_str() {
            Some(next) => path = format!("{first}&cursor={next}"),
            None => return items,
        }
    }
}

/// Waits until a node shows so many items; they.
fn shows(node: &Process, count: usize) -> Vec<(String, Value)> {
    eventually("every item is shown", || {
        let items = items(node);
        (items.len() == count).then_some(items)
    })
}

fn submit(node: &Process, id: &str) -> u16 {
    let body = json!({ "id": id, "n": 1 }).to_string();
    node.post("orders", BY_ID, &body).status
}

/// Submits until it is accepted: a node may be answering 503 meanwhile.
fn accepted(node: &Process, id: &str) {
    eventually("it is accepted", || (submit(node, id) == 202).then_some(()));
}

/// What a node says of all of them.
fn nodes(node: &Process) -> Vec<Value> {
    let nodes = node.admin("/api/admin/cluster")["nodes"].clone();
    nodes.as_array().expect("a list").clone()
}

/// The name of the live node that runs the sinks, which there is soon.
pub(crate) fn owner(asked: &Process) -> String {
    eventually("a node runs the sinks", || {
        let nodes = nodes(asked);
        let runs = |node: &&Value| node["runs_sinks"] == true && node["live"] == true;
        let owner = nodes.iter().find(runs)?;
        owner["name"].as_str().map(str::to_owned)
    })
}

/// Of the nodes `a` and `b`: the one that runs the sinks, and the other.
pub(crate) fn owner_first([a, b]: [Process; 2]) -> [Process; 2] {
    match owner(&a).as_str() {
        "a" => [a, b],
        _ => [b, a],
    }
}

/// Waits until a node answers 200 to `/readyz`, or 503 with this reason.
fn ready_becomes(node: &Process, reason: Option<&str>) {
    eventually("it is ready, or no longer", || {
        let answer = node.ask("GET", "/readyz", "", "", "");
        match reason {
            None => (answer.status == 200).then_some(()),
            Some(reason) => {
                let fields = answer.json()["error"]["details"][0]["field"].clone();
                (answer.status == 503 && fields == reason).then_some(())
            }
        }
    });
}

#[test]
fn every_node_accepts_and_shows_and_another_runs_the_sinks_when_one_is_killed() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let Some(server) = Postgres::start("every_node_accepts_and_shows") else {
        return;
    };
    let mut running: Vec<(&str, Process)> = (NAMES.iter())
        .map(|name| (*name, node(&server, name).spawn()))
        .collect();
    for (name, node) in &running {
        accepted(node, &format!("first-{name}"));
    }
    for (_, node) in &running {
        shows(node, 3);
    }
    let mut sent = 3;
    for round in 0..3 {
        let killed = owner(&running[0].1);
        let at = running.iter().position(|(name, _)| *name == killed);
        let (name, owner_process) = running.remove(at.expect("it is one of them"));
        let setup = owner_process.setup.clone();
        owner_process.kill();
        for (name, node) in &running {
            accepted(node, &format!("{round}-{name}"));
            sent += 1;
        }
        let shown: Vec<_> = running.iter().map(|(_, node)| shows(node, sent)).collect();
        assert_eq!(shown[0], shown[1], "the copies are equal");
        eventually("another one is said to run the sinks", || {
            (owner(&running[0].1) != killed).then_some(())
        });
        // It comes back with what it missed.
        let back = setup.spawn();
        assert_eq!(shows(&back, sent), shown[0]);
        running.push((name, back));
    }
    let positions: Vec<_> = (running.iter())
        .map(|(_, node)| shows(node, sent))
        .collect();
    assert!(positions.iter().all(|items| *items == positions[0]));
    for (_, node) in running {
        node.stop();
    }
    let sums = "SELECT count(*) FROM headgate.nodes";
    assert_eq!(server.query(sums), "0", "who stops leaves");
}

#[test]
fn a_key_counts_on_every_node_when_the_call_returns() {
    let Some(server) = Postgres::start("a_key_counts_on_every_node") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    let post = |node: &Process, secret: &str| {
        let headers = format!("{JSON}{BY_ID}");
        let body = r#"{"id": "made"}"#;
        (node.ask("POST", "/api/ingest", secret, &headers, body)).status
    };
    for round in 0..10 {
        let (one, other) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        let name = format!("k{round}");
        let key = json!({ "name": name, "stream": "orders" });
        let made = one.make("/api/admin/connectors/tests/keys", &key);
        let secret = made.secret();
        assert_eq!(post(other, &secret), 202, "round {round}");
        let path = format!("/api/admin/connectors/tests/keys/{name}");
        let revoked = other.call("DELETE", &path, "");
        assert_eq!(revoked.status, 200, "{}", revoked.body);
        assert_eq!(post(one, &secret), 401, "round {round}");
    }
    // One chain, whichever node wrote an entry.
    let chains = nodes
        .each_ref()
        .map(|node| node.admin("/api/admin/audit/verify"));
    assert_eq!(chains[0], chains[1]);
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_sink_that_is_made_on_one_node_gets_what_any_node_accepts_from_then_on() {
    let Some(server) = Postgres::start("a_sink_that_is_made_on_one_node") else {
        return;
    };
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let url = receiver.url("");
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    accepted(&waits, "before");
    shows(&waits, 1);
    let sink = json!({ "name": "copy", "plugin": "http-forward", "streams": ["orders"],
        "config": { "url": format!("{url}/") },
        "http": { "hosts": [url], "networks": ["127.0.0.0/8"] } });
    for round in 0..6 {
        waits.make("/api/admin/sinks", &sink);
        // The lane may not run yet.
        accepted(&waits, &format!("one-{round}"));
        accepted(&runs, &format!("two-{round}"));
        let is_sent = |id: &str| {
            let id = format!("{id}-{round}");
            receiver.seen().iter().any(|seen| seen.body.contains(&id))
        };
        eventually("both are sent", || {
            (is_sent("one") && is_sent("two")).then_some(())
        });
        waits.sink_becomes("copy", "elsewhere", |sink| sink["state"] == "elsewhere");
        let deleted = waits.call("DELETE", "/api/admin/sinks/copy?discard=true", "");
        assert_eq!(deleted.status, 200, "{}", deleted.body);
        // What nobody is to get any more: a sink of the same name is another one.
        accepted(&waits, &format!("none-{round}"));
    }
    let others = receiver.seen().into_iter();
    let others: Vec<_> = others.filter(|seen| seen.body.contains("none")).collect();
    assert!(others.is_empty(), "{others:?}");
    for node in [runs, waits] {
        node.stop();
    }
}

#[test]
fn what_a_new_cluster_accepts_first_reaches_every_sink() {
    let Some(server) = Postgres::start("what_a_new_cluster_accepts_first") else {
        return;
    };
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let url = receiver.url("");
    let more = format!(
        "config = {{ url = \"{url}/\" }}\nhttp = {{ hosts = [\"{url}\"], networks = [\"127.0.0.0/8\"] }}\n"
    );
    for round in 0..4 {
        let node = node(&server, "a")
            .set("cluster.schema", format!("first_{round}"))
            .sink("back", "http-forward", "orders", &more)
            .spawn();
        // The sinks may not run yet.
        accepted(&node, "one");
        eventually("both sinks have it", || {
            let is_sent = receiver.seen().len() == round + 1;
            (is_sent && items(&node).len() == 1).then_some(())
        });
        node.stop();
    }
}

#[test]
fn a_second_node_of_a_name_does_not_start() {
    let Some(server) = Postgres::start("a_second_node_of_a_name_does_not_start") else {
        return;
    };
    let first = node(&server, "a").spawn();
    let second = node(&server, "a")
        .try_spawn()
        .expect_err("the name is taken");
    assert_eq!(second.status.code(), Some(2), "{}", second.log);
    assert!(
        second.log.contains("with the name a is running"),
        "{}",
        second.log
    );
    assert_eq!(submit(&first, "one"), 202);
    let backup = first.call("POST", "/api/admin/backups", "{}");
    assert_eq!(backup.status, 409, "{}", backup.body);
    first.stop();
}

#[test]
fn what_a_server_cannot_keep_is_said_by_the_check_and_by_the_start() {
    let Some(server) = Postgres::start("what_a_server_cannot_keep_is_said") else {
        return;
    };
    let run = |setup: &Setup, verb: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        let ran = output(command.args(verb).arg("--config").arg(setup.write()));
        let ran = ran.expect("it runs");
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.code(), String::from_utf8(said).expect("a text"))
    };
    let check = |setup: &Setup| run(setup, &["check"]);
    let init = |setup: &Setup| run(setup, &["cluster", "init"]);
    let standby = node(&server, "a").set("cluster.durability", "standby");
    let refused = standby.try_spawn().expect_err("no commit waits");
    assert_eq!(refused.status.code(), Some(2), "{}", refused.log);
    for said in [refused.log, check(&standby).1, init(&standby).1] {
        assert!(said.contains("synchronous_standby_names"), "{said}");
    }
    let (code, said) = check(&node_at("postgres://127.0.0.1:1/headgate", "a"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the database cannot be used"), "{said}");
    let usable = node(&server, "a");
    for (verb, expected) in [
        (&check as &dyn Fn(&Setup) -> _, "is valid"),
        (&init, "are made"),
        (&init, "nothing was changed"),
    ] {
        let (code, said): (Option<i32>, String) = verb(&usable);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
