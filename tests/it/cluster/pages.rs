//! The admin pages of a node that does not run the sinks: they offer and do what those of the other node do.
//!
//! **Invariant**: what a form has done is seen on both nodes, at the receiver and in the audit log.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::*;
use crate::pages::Site;
use crate::pages::managed::leads_to;
use crate::process::Answer;

const OPERATOR_TOKEN: &str = "token-of-an-operator-of-the-tests";
/// The page of the sink of the receiver.
const SINK: &str = "/sinks/copy";

/// A node with an operator who is not an administrator.
fn with_operator(server: &Postgres, name: &str) -> Setup {
    node(server, name).toml(&format!(
        "[[admin.tokens]]\nname = \"desk\"\nrole = \"operator\"\nsecret = \"{OPERATOR_TOKEN}\"\n"
    ))
}

/// The addresses of the forms and buttons of a page.
fn forms(page: &str) -> BTreeSet<String> {
    let addresses = [" action=\"", " formaction=\""]
        .into_iter()
        .flat_map(|attribute| page.split(attribute).skip(1))
        .filter_map(|rest| rest.split('"').next());
    addresses.map(str::to_owned).collect()
}

/// Waits until a page of each of them has these forms below a path; no others there.
fn offer(sites: &[&Site], page: &str, below: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = (expected.iter())
        .map(|form| format!("{below}/{form}"))
        .collect();
    for (number, site) in sites.iter().enumerate() {
        eventually(
            &format!("site {number} offers {expected:?} on {page}"),
            || {
                let offered = forms(&site.page(page));
                let own = offered.into_iter().filter(|form| form.starts_with(below));
                (own.collect::<BTreeSet<_>>() == expected).then_some(())
            },
        );
    }
}

/// Sends a form of the sink, which leads to its page; the message there.
fn said(site: &Site, verb: &str, fields: &str) -> String {
    leads_to(&site.submit(&format!("{SINK}/{verb}"), fields), SINK);
    flash(site, SINK)
}

/// The message of a page about the form before.
fn flash(site: &Site, page: &str) -> String {
    let page = site.page(page);
    let after = page.split("<p class=\"said\"").nth(1);
    let flash = after.and_then(|rest| rest.split("</p>").next());
    flash
        .unwrap_or_else(|| panic!("no message: {page}"))
        .to_owned()
}

fn claim_path(name: &str) -> String {
    format!("/settings/nodes/{name}/claim")
}

fn is_refused(answer: &Answer, status: u16, why: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(why), "{}", answer.body);
}

#[test]
fn a_button_has_a_node_run_the_sinks_on_any_node_and_for_an_administrator_only() {
    let Some(server) = Postgres::start("a_button_has_a_node_run_the_sinks") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| with_operator(&server, name).spawn());
    let excluded = with_operator(&server, "c")
        .set("cluster.sinks", false)
        .spawn();
    let at_a = Site::signed_in(&nodes[0]);
    let sites = [&at_a, &at_a.at(&nodes[1]), &at_a.at(&excluded)];
    for round in 0..6 {
        let (before, name) = match owner(&nodes[0]).as_str() {
            "a" => ("a", "b"),
            _ => ("b", "a"),
        };
        let form = format!("{name}/claim");
        offer(&sites, "/settings", "/settings/nodes", &[&*form]);
        let site = sites[round % 3];
        let question = format!("Run the sinks on node {name}? Node {before} stops them first.");
        assert!(site.page("/settings").contains(&question), "{question}");
        leads_to(&site.submit(&claim_path(name), ""), "/settings");
        let told = flash(site, "/settings");
        assert!(
            told.contains(&format!("Node {name} runs the sinks.")),
            "{told}"
        );
        for node in &nodes {
            eventually("every node knows", || (owner(node) == name).then_some(()));
        }
        accepted(&nodes[round % 2], &format!("{round}"));
        shows(&excluded, round + 1);
    }
    let claims = nodes[0].list("/api/admin/audit?action=claim");
    assert_eq!(claims.len(), 6, "{claims:?}");
    assert!(claims.iter().all(|entry| entry["who"] == "admin page"));

    // What cannot be done is said in place, with the form.
    let refused = at_a.submit(&claim_path("c"), "");
    is_refused(&refused, 409, "cluster.sinks is false");
    is_refused(&refused, 409, "<button>Retry</button>");
    is_refused(
        &at_a.submit(&claim_path("d"), ""),
        404,
        "no node d in the cluster",
    );
    let mut desk = Site::of(&nodes[1]);
    assert_eq!(desk.sign_in(OPERATOR_TOKEN).status, 303);
    offer(&[&desk], "/settings", "/settings/nodes", &[]);
    assert!(desk.page("/settings").contains("runs them"));
    for name in ["a", "b"] {
        is_refused(
            &desk.submit(&claim_path(name), ""),
            403,
            "needs the role admin",
        );
    }
    excluded.stop();
    nodes.into_iter().for_each(Process::stop);
}

#[test]
fn a_sink_is_operated_by_the_pages_of_a_node_that_does_not_run_it() {
    let Some(server) = Postgres::start("a_sink_is_operated_by_the_pages") else {
        return;
    };
    let (taken, status, sink) = with_a_receiver();
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    ready_becomes(&waits, None);
    waits.make("/api/admin/sinks", &sink);
    runs.sink_becomes("copy", "running", |sink| sink["state"] == "running");
    let at_owner = Site::signed_in(&runs);
    let here = &at_owner.at(&waits);
    let both = [&at_owner, here];
    offer(&both, SINK, SINK, &["pause", "refill", "retry"]);
    // It writes the data pool, so there is nothing to fill it with.
    offer(&both, "/sinks/pool", "/sinks/pool", &["pause", "retry"]);

    let first = waits.accepted("orders", BY_ID, r#"{"id": "one"}"#);
    offer(
        &both,
        SINK,
        SINK,
        &["end-retries", "pause", "refill", "retry"],
    );
    offer(&both, &format!("/requests/{first}"), SINK, &["retry"]);
    status.store(200, Ordering::Relaxed);
    let told = said(here, "retry", "");
    assert!(told.contains("1 batch is being retried."), "{told}");
    runs.drained();
    assert_eq!(ids(&taken), ["one"]);

    status.store(503, Ordering::Relaxed);
    let second = waits.accepted("orders", BY_ID, r#"{"id": "two"}"#);
    accepted(&runs, "three");
    let letters = eventually("all are dead letters", || {
        said(here, "end-retries", "all=yes");
        (waits.sink("copy")["dead_letters"] == 2).then(|| waits.dead_letters("copy"))
    });
    let all = ["again", "discard", "pause", "refill", "retry"];
    offer(&both, SINK, SINK, &all);
    offer(
        &both,
        &format!("/requests/{second}"),
        SINK,
        &["again", "discard"],
    );
    let newest = letters[0]["id"].as_str().expect("an id");
    let letter = format!("{SINK}/dead-letters/{newest}");
    offer(&both, &letter, SINK, &["again", "discard"]);
    let told = said(here, "discard", &format!("id={newest}"));
    assert!(told.contains("1 dead letter is discarded."), "{told}");
    status.store(200, Ordering::Relaxed);
    let told = said(here, "again", "all=yes");
    assert!(told.contains("1 item is being retried."), "{told}");
    runs.drained();
    assert_eq!(ids(&taken).len(), 2);

    // While it is filled, it cannot be filled again; on either node.
    status.store(503, Ordering::Relaxed);
    let told = said(here, "refill", "");
    assert!(
        told.contains("refilled with 3 items of the data pool"),
        "{told}"
    );
    offer(&both, SINK, SINK, &["end-retries", "pause", "retry"]);
    is_refused(
        &here.submit(&format!("{SINK}/refill"), ""),
        409,
        "It is being filled.",
    );
    status.store(200, Ordering::Relaxed);
    said(here, "retry", "");
    eventually("it is filled", || {
        (ids(&taken) == ["one", "three", "two"]).then_some(())
    });
    offer(&both, SINK, SINK, &["pause", "refill", "retry"]);

    // Which items have pending requests is known to the node that runs the sinks.
    runs.drained();
    let expired = here.submit("/streams/orders/expire-items", "key=two");
    leads_to(&expired, "/streams/orders");
    let told = flash(here, "/streams/orders");
    assert!(told.contains("1 item"), "{told}");
    eventually("it is gone everywhere", || {
        let gone = |process: &Process| process.setup.items("orders").len() == 2;
        (gone(&runs) && gone(&waits)).then_some(())
    });

    for (verb, state, state_here, offered) in [
        ("pause", "paused", "paused", ["refill", "resume", "retry"]),
        (
            "resume",
            "running",
            "elsewhere",
            ["pause", "refill", "retry"],
        ),
    ] {
        said(here, verb, "");
        runs.sink_becomes("copy", state, |sink| sink["state"] == state);
        waits.sink_becomes("copy", state_here, |sink| sink["state"] == state_here);
        offer(&both, SINK, SINK, &offered);
    }
    let owner = owner(&runs);
    for (process, site) in [(&runs, &at_owner), (&waits, here)] {
        assert_eq!(process.sink("copy")["node"], *owner);
        let page = site.page("/sinks");
        assert!(
            page.contains(&format!("on node <bdi>{owner}</bdi>")),
            "{page}"
        );
        // That another node runs them is no problem.
        assert!(!page.contains("is elsewhere:"), "{page}");
        let own = process.admin("/api/admin/status")["node"].clone();
        let connectors = site.page("/connectors");
        let shown = format!("those of node <bdi>{}</bdi>", own.as_str().expect("a name"));
        assert!(connectors.contains(&shown), "{connectors}");
    }

    let deleted = here.submit(&format!("{SINK}/delete"), "discard=yes");
    leads_to(&deleted, "/sinks");
    for site in both {
        eventually("it is gone", || {
            let page = site.page("/sinks");
            (!page.contains(&format!("href=\"{SINK}\""))).then_some(())
        });
    }
    for action in [
        "retry",
        "end_retries",
        "discard",
        "resend",
        "refill",
        "pause",
        "resume",
    ] {
        let entries = runs.list(&format!("/api/admin/audit?action={action}"));
        assert!(!entries.is_empty(), "{action}");
        assert!(
            entries.iter().all(|entry| entry["who"] == "admin page"),
            "{entries:?}"
        );
    }
    [runs, waits].into_iter().for_each(Process::stop);
}

#[test]
fn other_admin_tokens_are_a_problem_of_every_node_and_keep_no_sinks_away() {
    let Some(server) = Postgres::start("other_admin_tokens_are_a_problem") else {
        return;
    };
    let a = node(&server, "a").spawn();
    owner(&a);
    let b = node(&server, "b")
        .set("admin.token", "another-admin-token-of-the-tests")
        .spawn();
    // The token that the cluster made is another one, too.
    let c = node(&server, "c").without_token().spawn();
    let why = "its admin tokens differ from those of node a";
    for process in [&a, &b, &c] {
        eventually("both are named", || {
            let problems = process.problems();
            let is_named = |name: &str| {
                problems.contains(&format!("node {name} does not fit the other nodes: {why}"))
            };
            let listed = nodes(process);
            let differs = |one: &Value| one["problems"].to_string().contains(why);
            let is_listed = listed
                .iter()
                .all(|one| differs(one) == (one["name"] != "a"));
            (is_named("b") && is_named("c") && !is_named("a") && is_listed).then_some(())
        });
    }
    let at_a = Site::signed_in(&a);
    eventually("the page says so", || {
        at_a.page("/settings").contains(why).then_some(())
    });
    let claimed = a.call("POST", "/api/admin/cluster/nodes/b/claim", "");
    assert_eq!(claimed.status, 200, "{}", claimed.body);
    eventually("every node knows", || (owner(&c) == "b").then_some(()));
    // With the same tokens there is none.
    c.stop();
    b.stop();
    let b = node(&server, "b").spawn();
    eventually("they fit", || {
        let known = nodes(&a);
        let fit = known.iter().all(|node| node["problems"] == json!([]));
        (known.len() == 2 && fit && !a.problems().contains(why)).then_some(())
    });
    [a, b].into_iter().for_each(Process::stop);
}
