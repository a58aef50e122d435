//! Nodes whose wall clocks are wrong.
//!
//! **Invariant**: nodes agree by the clock of the database and by clocks that nobody can set: a wall clock that is wrong by some
//! seconds changes nothing, and with one that is wrong by more than a minute a node does not start.

use super::signed_in::{opens, ticket};
use super::*;
use crate::faults::Preload;
use crate::pages::Site;

const SECOND_MS: i64 = 1_000;
/// Of two nodes, one is ahead by this, the other one behind.
const WRONG_MS: i64 = 20 * SECOND_MS;

/// Submits under a key; the request.
fn once(node: &Process, key: &str) -> String {
    let headers = format!("{BY_ID}Idempotency-Key: {key}\r\n");
    let body = json!({ "id": key, "n": 1 }).to_string();
    let answer = eventually("a node accepts it", || {
        let answer = node.post("orders", &headers, &body);
        (answer.status == 202).then_some(answer)
    });
    answer.request_id()
}

/// What one of them makes counts on the other one.
fn are_one_cluster([one, other]: [&Process; 2], name: &str) {
    let first = once(one, name);
    assert_eq!(once(other, name), first, "{name}: a repeat");
    for node in [one, other] {
        node.request_becomes(&first, "processed");
    }
    let given = ticket(one, READ_KEY, "{}");
    assert_eq!(opens(other, &given), 200, "{name}: a ticket");
    assert_eq!(opens(one, &given), 401, "{name}: the same ticket");
    let link = one.sign_in_link();
    let (_, invitation) = link.split_once('#').expect("a secret");
    let mut site = Site::of(other);
    assert_eq!(site.sign_in(invitation).status, 303, "{name}: a link");
    assert_eq!(Site::of(one).sign_in(invitation).status, 401, "{name}");
    assert_eq!(site.at(one).get("/").status, 200, "{name}: a session");
    let key = json!({ "name": name, "stream": "orders" });
    let made = one.make("/api/admin/connectors/tests/keys", &key);
    let headers = format!("{JSON}{BY_ID}");
    let post = |node: &Process| {
        let body = r#"{"id": "made"}"#;
        (node.ask("POST", "/api/ingest", &made.secret(), &headers, body)).status
    };
    assert_eq!(post(other), 202, "{name}: a key");
    let path = format!("/api/admin/connectors/tests/keys/{name}");
    let revoked = other.call("DELETE", &path, "");
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    assert_eq!(post(one), 401, "{name}: a revoked key");
}

#[test]
fn nodes_whose_clocks_differ_are_one_cluster() {
    let test = "nodes_whose_clocks_differ_are_one_cluster";
    let Some(server) = Postgres::start(test) else {
        return;
    };
    let setups = ["a", "b"].map(|name| node(&server, name));
    let [Some(ahead), Some(behind)] = setups.each_ref().map(|setup| Preload::new(test, setup))
    else {
        return;
    };
    ahead.shift_clock(WRONG_MS);
    behind.shift_clock(-WRONG_MS);
    let nodes = [ahead.start(&setups[0]), behind.start(&setups[1])];
    for node in &nodes {
        node.says("have both follow a time server");
    }
    let [a, b] = &nodes;
    are_one_cluster([a, b], "from-a-to-b");
    are_one_cluster([b, a], "from-b-to-a");
    // Whoever runs the sinks is replaced when it is frozen, not before, whichever clock is ahead. Then the other way round.
    let mut shown = shows(a, 3).len();
    for round in 0..2 {
        // Who was frozen may not know yet that it was replaced.
        let runs = eventually("both know who runs the sinks", || {
            let [one, same] = [owner(a), owner(b)];
            (one == same).then_some(one)
        });
        let is_a = runs == "a";
        let (frozen, other) = if is_a { (a, b) } else { (b, a) };
        let begun = Instant::now();
        frozen.signal(Signal::STOP);
        accepted(other, &format!("meanwhile-{round}"));
        shown += 1;
        shows(other, shown);
        assert!(
            begun.elapsed() >= Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        frozen.signal(Signal::CONT);
        assert_eq!(shows(frozen, shown), shows(other, shown));
    }
    // Both are corrected while they run, and by too much.
    ahead.shift_clock(-WRONG_MS);
    behind.shift_clock(WRONG_MS);
    are_one_cluster([a, b], "corrected-from-a-to-b");
    are_one_cluster([b, a], "corrected-from-b-to-a");
    for name in ["from-a-to-b", "from-b-to-a"] {
        assert_eq!(once(a, name), once(b, name), "{name}: a repeat, later");
    }
    nodes.into_iter().for_each(Process::stop);
}

#[test]
fn a_node_whose_clock_is_wrong_by_more_than_a_minute_does_not_start() {
    let test = "a_node_whose_clock_is_wrong_by_more_than_a_minute";
    let Some(server) = Postgres::start(test) else {
        return;
    };
    let setup = node(&server, "a");
    let Some(clock) = Preload::new(test, &setup) else {
        return;
    };
    for wrong in [90 * SECOND_MS, -90 * SECOND_MS] {
        clock.shift_clock(wrong);
        let refused = clock.try_start(&setup).expect_err("its clock is wrong");
        assert_eq!(refused.status.code(), Some(2), "{}", refused.log);
        let mut check = clock.runs();
        check.args(["check", "--config"]).arg(setup.write());
        let checked = output(&mut check).expect("it runs");
        assert_eq!(checked.status.code(), Some(2), "{checked:?}");
        let said = [checked.stdout, checked.stderr].concat();
        let said = String::from_utf8(said).expect("a text");
        for said in [refused.log, said] {
            let sentence = "the clocks of this machine and of the database server differ by ";
            let (_, rest) = said.split_once(sentence).expect("it says why");
            assert!(!rest.contains(sentence), "once: {said}");
            let (seconds, rest) = rest.split_once(" s; ").expect("how much, and what to do");
            // Less, if the machine paused between the two clocks.
            let seconds: u32 = seconds.parse().expect("a number");
            assert!((61..=90).contains(&seconds), "{said}");
            assert!(rest.starts_with("have both follow a time server"), "{said}");
        }
    }
    clock.shift_clock(0);
    let node = clock.start(&setup);
    accepted(&node, "one");
    node.stop();
}
