//! Many requests that wait at once, and many streams, on the nodes of a cluster.
//!
//! **Invariant**: what may wait is bounded, what waits is answered, and no group is larger than the numbers of a transaction.

use std::io::{BufRead as _, BufReader};

use super::*;
use crate::process::Client;
use crate::setup::key_of;

/// More than one transaction has numbers for.
const WAITING: usize = 4_200;
/// As many as a read key may have.
const STREAMS: usize = 1_000;

/// Sends a request on each of so many connections, whose answers are not read yet.
fn begin(node: &Process, count: usize, body: impl Fn(usize) -> String) -> Vec<Client> {
    (0..count)
        .map(|at| {
            let (mut client, body) = (node.client(), body(at));
            let begun = client.begin_post("orders", BY_ID, body.len());
            begun.and_then(|()| client.send(&body)).expect("it is sent");
            client
        })
        .collect()
}

/// How many of the answers are 202; the others are 503.
fn accepted_of(clients: Vec<Client>) -> usize {
    let statuses = clients.into_iter().map(|mut client| {
        let answer = client.answer().expect("an answer");
        let is_known = [202, 503].contains(&answer.status);
        assert!(is_known, "{}: {}", answer.status, answer.body);
        answer.status
    });
    statuses.filter(|status| *status == 202).count()
}

#[test]
fn more_requests_than_a_transaction_has_numbers_for_wait_and_are_answered() {
    let test = "more_requests_than_a_transaction_has_numbers_for_wait_and_are_answered";
    let Some(server) = Postgres::start(test) else {
        return;
    };
    let patient = |name| {
        let node = node(&server, name).unlimited();
        node.set("cluster.commit_wait_seconds", 200)
    };
    let many = patient("a").spawn();
    let few = patient("b")
        .set("limits.max_body_bytes", 1 << 20)
        .set("limits.max_flattened_bytes", 1 << 20)
        .set("limits.max_pending_bytes", 2 << 20)
        .spawn();
    for node in [&many, &few] {
        accepted(node, "before");
    }
    // Nobody accepts until it is dropped.
    let held = server.begin_with("LOCK TABLE headgate.writers");
    let small = |at| json!({ "id": format!("many-{at}"), "n": at }).to_string();
    let large = |at| json!({ "id": format!("few-{at}"), "text": "x".repeat(64 << 10) }).to_string();
    let waiting = begin(&many, WAITING, small);
    // Four times as many as may wait: those beyond are answered while the others wait.
    let beyond = begin(&few, 128, large);
    eventually("those beyond are answered", || {
        let refused = "headgate_requests_total{outcome=\"unavailable\"}";
        few.metric(refused).filter(|refused| *refused > 0.0)
    });
    drop(held);
    let of_many = accepted_of(waiting);
    let of_few = accepted_of(beyond);
    eprintln!("{of_many} of {WAITING} accepted, {of_few} of 128 where 2 MiB may wait");
    assert_eq!(of_many, WAITING);
    assert!((1..128).contains(&of_few), "{of_few}");
    let shown = [&many, &few].map(|node| shows(node, 1 + of_many + of_few));
    assert_eq!(shown[0], shown[1]);
    let metric = |name: &str| many.metric(&format!("headgate_journal_group_size_{name}"));
    let groups = metric("count");
    assert!(groups >= Some(2.0), "{groups:?}");
    assert_eq!(metric("bucket{le=\"4096.0\"}"), groups);
    for node in [many, few] {
        node.stop();
    }
}

#[test]
fn a_thousand_streams_are_accepted_shown_and_followed_on_every_node() {
    let Some(server) = Postgres::start("a_thousand_streams_are_accepted") else {
        return;
    };
    let names: Vec<String> = (0..STREAMS).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let nodes = ["a", "b"].map(|name| {
        let setup = Setup::with_streams(&names)
            .given_read_key("screen", &names, READ_KEY, "")
            .sink("pool", "pool", "*", "");
        in_cluster(setup, &server.url(), name).spawn()
    });
    let mut clients = nodes.each_ref().map(Process::client);
    // What every screen of a node is sent of the last stream.
    let screens = nodes
        .each_ref()
        .map(|node| screen_with(node.service, "", READ_KEY));
    for (at, name) in names.iter().enumerate() {
        let body = json!({ "id": "one", "n": at }).to_string();
        eventually("it is accepted", || {
            let answer = clients[at % 2].post(name, BY_ID, &body).expect("an answer");
            (answer.status == 202).then_some(())
        });
    }
    for screen in screens {
        let last = format!("\"stream\":\"s{}\"", STREAMS - 1);
        let last = (last.as_str(), "\"n\":999");
        is_sent(screen, last);
    }
    for client in &mut clients {
        for (at, name) in names.iter().enumerate() {
            let path = format!("/api/streams/{name}/items/one");
            eventually("it is shown", || {
                let answer = client.get(&path, READ_KEY).expect("an answer");
                (answer.status == 200 && answer.data(200)["fields"]["n"] == at).then_some(())
            });
        }
    }
    let unknown = key_of("s1000");
    let refused = nodes[0].ask("POST", "/api/ingest", &unknown, JSON, "{}");
    assert_eq!(refused.status, 401, "{}", refused.body);
    nodes.into_iter().for_each(Process::stop);
}

/// Reads what a screen is sent until a line has both texts.
fn is_sent(screen: TcpStream, (one, other): (&str, &str)) {
    let lines = BufReader::new(screen).lines();
    let mut lines = lines.map(|line| line.expect("it goes on"));
    let is_there = lines.any(|line| line.contains(one) && line.contains(other));
    assert!(is_there, "it ended");
}
