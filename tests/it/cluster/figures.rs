//! What each node counts for itself: the last hour, also after its restart, and its calls to the database.

use super::*;
use crate::log::last_hour;

#[test]
fn the_last_hour_of_a_node_is_its_own_after_a_restart_too() {
    let Some(server) = Postgres::start("the_last_hour_of_a_node_is_its_own") else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| node(&server, name).spawn());
    for id in ["one", "two", "three"] {
        accepted(&a, id);
    }
    accepted(&b, "four");
    assert_eq!(b.post("orders", "", "{").status, 400);
    let (of_a, of_b) = ("3 requests, 3 items, 0 % ", "2 requests, 1 items, 50.0 % ");
    // A node that is busy may have refused some: these are counted, too, and not in the log.
    let items = |node: &Process| {
        let line = last_hour(node);
        line.split(", ").nth(1).expect("items").to_owned()
    };
    assert_eq!([&a, &b].map(items), ["3 items", "1 items"]);
    // What is rejected is logged a moment later.
    eventually("it is in the log", || {
        let rejected = a.admin("/api/admin/connectors/tests/requests?status=rejected");
        rejected
            .as_array()
            .is_some_and(|one| one.len() == 1)
            .then_some(())
    });
    let (one, other) = (a.setup.clone(), b.setup.clone());
    a.kill();
    b.stop();
    let [a, b] = [one, other].map(|setup| setup.spawn());
    for (node, expected) in [(&a, of_a), (&b, of_b)] {
        eventually("its part of the log is counted", || {
            (last_hour(node) == expected).then_some(())
        });
    }
    accepted(&a, "five");
    assert_eq!([&a, &b].map(items), ["4 items", "1 items"]);
    [a, b].into_iter().for_each(Process::stop);
}

#[test]
fn a_node_measures_its_calls_to_the_database_by_what_they_are_for() {
    let Some(server) = Postgres::start("a_node_measures_its_calls_to_the_database") else {
        return;
    };
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    for id in ["one", "two", "three"] {
        accepted(&waits, id);
    }
    shows(&waits, 3);
    for (node, call) in [
        (&waits, "accept"),
        (&runs, "append"),
        (&runs, "read"),
        (&runs, "claim"),
        (&waits, "follow"),
        (&waits, "horizon"),
        (&waits, "beat"),
        (&waits, "claim"),
    ] {
        let series = format!("headgate_postgres_call_seconds_count{{call=\"{call}\"}}");
        let count = node.metric(&series);
        assert!(count.is_some_and(|count| count > 0.0), "{call}: {count:?}");
    }
    for node in [runs, waits] {
        node.stop();
    }
}
