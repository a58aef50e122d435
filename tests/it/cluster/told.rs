//! Problems as items of a stream: those of every node, and what becomes of them when a node is gone.

use super::*;

const LOBBY_KEY: &str = "rk_live_of_the_screen_in_the_lobby";
const EXPECTED: &str = "expect = true\naway_after_seconds = 1\npage = \"/render/orders\"";

/// A node that misses a screen, so it has a problem that every other one has, too.
fn missing_a_screen(server: &Postgres, name: &str) -> Setup {
    let setup = Setup::with_streams(&["orders"])
        .set("problems.stream", "_problems")
        .given_read_key("screen", &["orders", "_problems"], READ_KEY, "")
        .given_read_key("lobby", &["orders"], LOBBY_KEY, EXPECTED)
        .sink("pool", "pool", "*", "");
    in_cluster(setup, &server.url(), name)
}

/// The problem of a node, as another one shows it.
fn told(asked: &Process, node: &str) -> Option<Value> {
    let key = format!("screen_away:lobby@{node}");
    let mut items = items_of(asked, "_problems").into_iter();
    items
        .find(|(own, _)| *own == key)
        .map(|(_, item)| item["fields"].clone())
}

/// Waits until the problem of a node is shown as open, or as resolved; it.
fn becomes(asked: &Process, node: &str, state: &str) -> Value {
    eventually(&format!("the problem of {node} is {state}"), || {
        told(asked, node).filter(|fields| fields["state"] == state)
    })
}

#[test]
fn each_node_has_an_item_for_a_problem_and_that_of_a_node_that_is_gone_is_resolved() {
    let Some(server) = Postgres::start("each_node_has_an_item_for_a_problem") else {
        return;
    };
    let [runs, gone] = owner_first(["a", "b"].map(|name| missing_a_screen(&server, name).spawn()));
    let (owner, other) = match owner(&runs).as_str() {
        "a" => ("a", "b"),
        _ => ("b", "a"),
    };
    for asked in [&runs, &gone] {
        for node in [owner, other] {
            let fields = becomes(asked, node, "open");
            assert_eq!(fields["node"], node, "{fields}");
            let message = fields["message"].as_str().expect("a sentence");
            assert!(message.starts_with("screen lobby"), "{message}");
        }
    }
    let listed = gone.list("/api/admin/problems");
    let keys: Vec<_> = listed.iter().map(|one| one["key"].as_str()).collect();
    let own = format!("screen_away:lobby@{other}");
    assert!(keys.contains(&Some(&*own)), "{keys:?}");

    let setup = gone.setup.clone();
    gone.kill();
    let fields = becomes(&runs, other, "resolved");
    let message = fields["message"].as_str().expect("a sentence");
    let begins = format!("resolved: node {other} is gone, which said: screen lobby");
    assert!(message.starts_with(&begins), "{message}");
    let state = told(&runs, owner).map(|fields| fields["state"].clone());
    assert_eq!(state, Some(json!("open")), "its own lasts");

    // The problem still exists, so the node that is back says so again.
    let back = setup.spawn();
    for asked in [&runs, &back] {
        becomes(asked, other, "open");
    }
    [runs, back].into_iter().for_each(Process::stop);
}

/// The keys of the problems that a node has.
fn problem_keys(node: &Process) -> Vec<String> {
    let listed = node.list("/api/admin/problems");
    let keys = listed.iter().filter_map(|one| one["key"].as_str());
    let mut keys: Vec<String> = keys.map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn a_database_that_is_away_is_one_problem_and_hides_no_other() {
    let Some(mut server) = Postgres::start("a_database_that_is_away_is_one_problem") else {
        return;
    };
    let node = missing_a_screen(&server, "a").spawn();
    owner(&node);
    accepted(&node, "one");
    shows(&node, 1);
    let of_screen = "screen_away:lobby@a".to_owned();
    eventually("the screen is missed", || {
        (problem_keys(&node) == [of_screen.clone()]).then_some(())
    });
    server.crash();
    ready_becomes(&node, Some("database"));
    for number in 0..20 {
        let body = format!("{{\"id\": \"{number}\"}}");
        assert_eq!(node.post("orders", BY_ID, &body).status, 503);
    }
    let expected = ["cluster:daemon@a".to_owned(), of_screen.clone()];
    eventually("the outage is one problem", || {
        (problem_keys(&node) == expected).then_some(())
    });
    let said = node.problems();
    assert!(said.contains("nothing expires"), "{said}");
    server.resume();
    ready_becomes(&node, None);
    eventually("only the screen is missed", || {
        (problem_keys(&node) == [of_screen.clone()]).then_some(())
    });
    node.stop();
}
