//! What reaches the data pool: adding a sink does not take it away, and streams that reach nothing are named.

use std::io::Write as _;

use serde_json::json;

use crate::command_line::run;
use crate::guests::guest;
use crate::pages::signed_in;
use crate::process::BY_ID;
use crate::setup::Setup;
use crate::wait::eventually;

/// A sink that takes a stream elsewhere, as the README shows it.
const TEAM: &str = r#"
[[sinks]]
name = "team"
plugin = "http-forward"
streams = ["orders"]
config = { url = "http://127.0.0.1:9/orders" }

[sinks.http]
hosts = ["http://127.0.0.1:9"]
"#;

#[test]
fn a_sink_that_is_added_leaves_the_pool_where_it_is() {
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    process.processed("orders", BY_ID, r#"{"id": "before"}"#);
    let file = folder.path("headgate.toml");
    let mut file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("the configuration");
    file.write_all(TEAM.as_bytes()).expect("it is written");
    drop(file);
    eventually("the new sink is there", || {
        let sinks = process.admin("/api/admin/sinks");
        let names: Vec<_> = sinks.as_array()?.iter().map(|sink| &sink["name"]).collect();
        (names == ["pool", "team"]).then_some(())
    });
    process.accepted("orders", BY_ID, r#"{"id": "after"}"#);
    eventually("both items are in the pool", || {
        (folder.items("orders").len() == 2).then_some(())
    });
    assert!(!process.problems().contains("data pool"));
    // Said when all of it counts; the sinks are there before.
    process.says("configuration reloaded");
    let log = process.log();
    assert!(!log.contains("the sink is stopped"), "{log}");
    // Nor did the start itself, which makes a folder for plugins, have it read again.
    assert_eq!(log.matches("configuration reloaded").count(), 1);
}

#[test]
fn streams_that_reach_no_sink_or_no_pool_are_named_everywhere() {
    let mut folder = Setup::with_streams(&["orders", "stock"])
        .sink("pool", "pool", "stock", "")
        .toml(TEAM);
    let process = folder.spawn();
    let unseen = "no sink writes the stream orders to the data pool, so screens do not show it (the connector tests sends there)";
    process.says(unseen);
    assert!(
        process.problems().contains(unseen),
        "{}",
        process.problems()
    );
    let page = signed_in(&process).page("/");
    assert!(
        page.contains(unseen) && !page.contains("Everything works"),
        "{page}"
    );
    let told = run(&folder.path(""), ["check", "--config", "headgate.toml"]).ok();
    assert!(told.contains(&format!("warning: {unseen}\n")), "{told}");

    // One that is made at run time counts as well.
    process.make("/api/admin/streams", &json!({"name": "later"}));
    let told = process.problems();
    assert!(told.contains("the stream later reaches no sink"), "{told}");

    folder.change("streams = [\"stock\"]", "streams = [\"*\"]");
    eventually("nothing is wrong", || {
        (process.problems() == "[]").then_some(())
    });
}

#[test]
fn a_component_writes_the_pool_if_it_asks_for_the_means() {
    let process = Setup::with_streams(&["orders", "stock"])
        .sink("first", &guest("rejects"), "orders", "")
        .sink("second", &guest("sorts"), "stock", "config = { least = 1 }")
        .spawn();
    for sink in ["first", "second"] {
        process.sink_becomes(sink, "loaded", |sink| sink["state"] == "running");
    }
    let told = process.problems();
    assert!(
        told.contains("no sink writes the stream orders to the data pool"),
        "{told}"
    );
    assert!(!told.contains("stock"), "{told}");
}
