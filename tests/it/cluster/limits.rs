//! The limits of a key over all nodes.
//!
//! **Invariant**: however requests are spread over nodes, a key has the limit of one.

use super::*;

const PER_SECOND: u32 = 40;

/// Makes a connector with these limits and a key of it; its secret.
fn limited(node: &Process, limits: &Value) -> String {
    let mut connector = limits.clone();
    connector["name"] = "limited".into();
    node.make("/api/admin/connectors", &connector);
    let key = json!({ "name": "one", "stream": "orders" });
    (node.make("/api/admin/connectors/limited/keys", &key)).secret()
}

/// The status of a request with a body of this length, at least.
fn post(node: &Process, secret: &str, id: usize, bytes: usize) -> u16 {
    let headers = format!("{JSON}{BY_ID}");
    let body = json!({ "id": id.to_string(), "text": "x".repeat(bytes) }).to_string();
    (node.ask("POST", "/api/ingest", secret, &headers, &body)).status
}

/// Parts of 65,536 that a node has published of the only rate.
fn share(server: &Postgres, name: &str) -> u32 {
    let share = server.query(&format!(
        "SELECT coalesce(max(s.share), 0) FROM headgate.rate_shares s JOIN headgate.nodes n USING (node) WHERE n.name = '{name}'"
    ));
    share.trim().parse().expect("a number")
}

#[test]
fn a_rate_is_one_rate_wherever_requests_come() {
    let Some(server) = Postgres::start("a_rate_is_one_rate_wherever_requests_come") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("before-{at}"));
    }
    let limits = json!({ "requests_per_second": PER_SECOND, "burst": PER_SECOND });
    let secret = limited(&nodes[0], &limits);
    // Both at once, until both have published what they use.
    let began = Instant::now();
    let (mut sent, mut taken) = (0, 0);
    let mut submit = |to: &[&Process]| {
        for node in to {
            sent += 1;
            match post(node, &secret, sent, 1) {
                202 => taken += 1,
                status => assert_eq!(status, 429),
            }
        }
    };
    eventually("both nodes say what they use", || {
        submit(&[&nodes[0], &nodes[1]]);
        let shares = ["a", "b"].map(|name| share(&server, name));
        (shares.iter().all(|share| *share > 65_536 / 4)).then_some(())
    });
    // Then one of them, which gets nearly all.
    for (at, name) in [(1, "b"), (0, "a")] {
        eventually("the node that is asked has nearly all", || {
            submit(&[&nodes[at]]);
            (share(&server, name) > 65_536 * 9 / 10).then_some(())
        });
    }
    let elapsed = began.elapsed();
    // A new key is whole on each node for a moment, and a bucket lets one request through.
    let burst = f64::from(2 * PER_SECOND) + 4.0;
    let most = f64::from(PER_SECOND) * (elapsed.as_secs_f64() + 1.0) + burst;
    assert!(f64::from(taken) <= most, "{taken} of {sent} in {elapsed:?}");
    eventually("nothing is kept of a rate that nobody uses", || {
        (server
            .query("SELECT count(*) FROM headgate.rate_shares")
            .trim()
            == "0")
            .then_some(())
    });
    assert_eq!(nodes[0].metric("headgate_cluster_nodes"), Some(2.0));
    let runs = nodes
        .each_ref()
        .map(|node| node.metric("headgate_runs_sinks"));
    assert_eq!(runs.into_iter().flatten().sum::<f64>(), 1.0, "{runs:?}");
    for node in nodes {
        node.stop();
    }
}

#[test]
fn bytes_of_a_day_count_on_all_nodes_and_survive_each_of_them() {
    let Some(server) = Postgres::start("bytes_of_a_day_count_on_all_nodes") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&server, name).spawn());
    for (at, node) in nodes.iter().enumerate() {
        accepted(node, &format!("before-{at}"));
    }
    let secret = limited(&nodes[0], &json!({ "bytes_per_day": 10_000 }));
    let stored = |node: &Process| {
        let status = node.admin("/api/admin/status");
        let limits = status["limits"].as_array().expect("a list").clone();
        let is_it = |limit: &&Value| limit["name"] == "limits.bytes_per_day";
        let limit = limits.iter().find(is_it).expect("it is listed").clone();
        limit["used"].as_u64().unwrap_or(0)
    };
    let [a, b] = nodes;
    for id in 0..9 {
        assert_eq!(post(&a, &secret, id, 1_000), 202);
    }
    eventually("the other node knows", || {
        (stored(&b) > 9_000).then_some(())
    });
    assert_eq!(post(&b, &secret, 10, 1_000), 429);
    assert_eq!(post(&b, &secret, 11, 100), 202);
    let all = stored(&b);
    let setup = a.setup.clone();
    a.kill();
    let a = setup.spawn();
    accepted(&a, "after");
    eventually("its next life knows", || (stored(&a) == all).then_some(()));
    assert_eq!(post(&a, &secret, 12, 1_000), 429);
    a.stop();
    b.stop();
}

#[test]
fn what_other_nodes_accept_counts_in_a_full_stream_before_a_sink_has_it() {
    let Some(server) = Postgres::start("what_other_nodes_accept_counts") else {
        return;
    };
    let [runs, waits] = owner_first(["a", "b"].map(|name| {
        node(&server, name)
            .of_stream("orders", "items_max = 4")
            .spawn()
    }));
    accepted(&waits, "before");
    shows(&runs, 1);
    let paused = |is: bool| {
        let verb = if is { "pause" } else { "resume" };
        let path = format!("/api/admin/sinks/pool/{verb}");
        let answer = runs.call("POST", &path, "");
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    paused(true);
    for id in ["one", "two", "three"] {
        accepted(&runs, id);
    }
    // Each node reads what the other has accepted: some may come before.
    let mut more = 0;
    eventually("the stream is full on the other node", || {
        more += 1;
        (submit(&waits, &format!("more-{more}")) == 429).then_some(())
    });
    accepted(&waits, "two");
    assert_eq!(submit(&runs, "another"), 429);
    paused(false);
    shows(&waits, 3 + more);
    assert_eq!(submit(&waits, "another"), 429);
    accepted(&waits, "three");
    for node in [runs, waits] {
        node.stop();
    }
}
