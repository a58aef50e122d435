//! Acts on items, and nodes that die while they make them.
//!
//! **Invariant**: every act that a node shows is in the audit log once, whichever node copied it there. So is every PUT whose
//! data is stored.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::process::Client;

/// Items of a round, each of which is overridden once.
const ITEMS: u64 = 60;

/// Overrides one item after the other, until the node is killed after so many.
fn overrides(node: &Process, round: u64, killed_after: u64) {
    const PATH: &str = "/api/admin/streams/orders/override";
    let (admin, token) = (node.admin, node.setup.admin_token());
    let act = move |item: u64| {
        let body = json!({ "key": format!("{round}-{item}"), "fields": { "n": item } });
        let mut client = Client::connect(admin).ok()?;
        let answer = client.call("POST", PATH, &token, &body.to_string()).ok()?;
        (answer.status == 202).then_some(())
    };
    until_killed(node, killed_after, act);
}

/// Acts on one item after the other, until the node is killed after so many.
fn until_killed(node: &Process, killed_after: u64, act: impl Fn(u64) -> Option<()> + Send) {
    let made = &AtomicU64::new(0);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let acted = (0..ITEMS).take_while(|item| act(*item).is_some());
            acted.for_each(|item| made.store(item + 1, Ordering::Release));
        });
        eventually("so many are made", || {
            (made.load(Ordering::Acquire) >= killed_after).then_some(())
        });
        // The next one is under way.
        node.signal(Signal::KILL);
    });
}

/// Waits until a node shows an item.
fn has_item(node: &Process, key: &str) {
    let path = format!("/api/admin/streams/orders/items/{key}");
    eventually("the node has the item", || {
        (node.try_call("GET", &path, "") == Some(200)).then_some(())
    });
}

/// How many items have an override.
fn overridden(node: &Process) -> usize {
    let acts = node.admin("/api/admin/streams/orders/acts");
    acts["overridden"].as_object().map_or(0, |keys| keys.len())
}

/// The requests of the overrides in the audit log.
fn audited(node: &Process) -> Vec<String> {
    let entries = node.list("/api/admin/audit?action=override&limit=500");
    let request = |entry: &Value| entry["after"]["request_id"].as_str().map(str::to_owned);
    let requests: Option<Vec<String>> = entries.iter().map(request).collect();
    requests.unwrap_or_else(|| panic!("an act without a request: {entries:?}"))
}

#[test]
fn an_act_of_a_node_that_is_killed_is_in_the_audit_log_once() {
    let Some(server) = Postgres::start("an_act_of_a_node_that_is_killed") else {
        return;
    };
    let [runs, mut waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    for round in 0..4 {
        let items = (0..ITEMS).map(|item| json!({ "id": format!("{round}-{item}"), "n": 0 }));
        let items: Vec<Value> = items.collect();
        waits.accepted("orders", BY_ID, &json!(items).to_string());
        has_item(&waits, &format!("{round}-{}", ITEMS - 1));
        let setup = waits.setup.clone();
        overrides(&waits, round, 7 + 5 * round);
        drop(waits);
        // Nobody acts on the other node, and it copies what is left nevertheless.
        eventually("every act is in the audit log", || {
            let (shown, requests) = (overridden(&runs), audited(&runs));
            (shown > 0 && requests.len() == shown).then_some(())
        });
        waits = setup.spawn();
    }
    waits.accepted("orders", BY_ID, r#"{"id": "last", "n": 0}"#);
    has_item(&waits, "last");
    let last = json!({ "key": "last", "fields": { "n": 1 } }).to_string();
    let path = "/api/admin/streams/orders/override";
    assert_eq!(waits.call("POST", path, &last).status, 202);
    for node in [&runs, &waits] {
        eventually("every act is there once", || {
            let requests = audited(node);
            let different: BTreeSet<&String> = requests.iter().collect();
            assert_eq!(different.len(), requests.len(), "{requests:?}");
            (requests.len() == overridden(node)).then_some(())
        });
    }
    [runs, waits].into_iter().for_each(Process::stop);
}

/// Puts an item; none: it had no response.
fn put(admin: SocketAddr, token: &str, key: &str, n: u64) -> Option<()> {
    let path = format!("/api/admin/streams/orders/items/{key}");
    let body = json!({ "n": n }).to_string();
    let mut client = Client::connect(admin).ok()?;
    let answer = client.call("PUT", &path, token, &body).ok()?;
    (answer.status == 202).then_some(())
}

/// Puts one item after the other, until the node is killed after so many.
fn puts(node: &Process, round: u64, killed_after: u64) {
    let (admin, token) = (node.admin, node.setup.admin_token());
    until_killed(node, killed_after, move |item| {
        put(admin, &token, &format!("{round}-{item}"), item)
    });
}

/// The ids in a list, each once.
fn ids(list: &[Value], id: impl Fn(&Value) -> Option<&str>) -> BTreeSet<String> {
    let all: Vec<String> = list
        .iter()
        .map(|one| id(one).expect("an id").to_owned())
        .collect();
    let different: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
    different
}

/// Requests whose data is stored, and those whose act is in the audit log.
fn stored_and_audited(node: &Process) -> [BTreeSet<String>; 2] {
    let log = node.list("/api/admin/connectors/operator/requests?limit=500");
    let audit = node.list("/api/admin/audit?action=put&limit=500");
    [
        ids(&log, |entry| entry["request_id"].as_str()),
        ids(&audit, |entry| entry["after"]["request_id"].as_str()),
    ]
}

#[test]
fn a_put_of_a_node_that_is_killed_is_an_act_once_on_another_node() {
    let Some(server) = Postgres::start("a_put_of_a_node_that_is_killed") else {
        return;
    };
    let [runs, mut waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    for round in 0..3 {
        let setup = waits.setup.clone();
        puts(&waits, round, 3 + 2 * round);
        drop(waits);
        // Between the data and the act.
        waits = setup.spawn();
        let pause = "/api/admin/sinks/pool/pause";
        assert_eq!(runs.call("POST", pause, "").status, 200);
        let [before, _] = stored_and_audited(&runs);
        std::thread::scope(|threads| {
            let (admin, token) = (waits.admin, waits.setup.admin_token());
            threads.spawn(move || put(admin, &token, &format!("{round}-last"), 1));
            eventually("the data is stored", || {
                let [now, _] = stored_and_audited(&runs);
                (now.len() > before.len()).then_some(())
            });
            waits.signal(Signal::KILL);
        });
        drop(waits);
        let resume = "/api/admin/sinks/pool/resume";
        assert_eq!(runs.call("POST", resume, "").status, 200);
        // The node that died is not there, and nobody acts on the other one.
        eventually("every item that is stored is an act", || {
            let [stored, audited] = stored_and_audited(&runs);
            (!stored.is_empty() && stored == audited).then_some(())
        });
        has_item(&runs, &format!("{round}-last"));
        waits = setup.spawn();
    }
    for node in [&runs, &waits] {
        eventually("every act is there once", || {
            let [stored, audited] = stored_and_audited(node);
            (stored == audited).then_some(())
        });
    }
    // Each can be undone: the newest first.
    let undone = runs.call("POST", "/api/admin/streams/orders/undo", "{}");
    assert_eq!(undone.data(202)["undone"], "PUT");
    [runs, waits].into_iter().for_each(Process::stop);
}
