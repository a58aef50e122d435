//! What reaches the data pool: adding a sink does not take it away, and streams that reach nothing are named.

use std::io::Write as _;

use crate::command_line::run;
use crate::guests::guest;
use crate::pages::signed_in;
use crate::process::{Process, eventually, items};
use crate::setup::Setup;

const BY_ID: &str = "X-Item-Key: id\r\n";
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

fn problems(process: &Process) -> String {
    process.admin("/api/admin/status")["problems"].to_string()
}

#[test]
fn a_sink_that_is_added_leaves_the_pool_where_it_is() {
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let first = process.accepted("orders", BY_ID, r#"{"id": "before"}"#);
    process.request_becomes(&first, "processed");
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
        (items(folder.data_dir(), "orders").len() == 2).then_some(())
    });
    assert!(!problems(&process).contains("data pool"));
    let log = process.log();
    assert!(!log.contains("the sink is stopped"), "{log}");
    // Nor did the start itself, which makes a folder for plugins, have it read again.
    assert_eq!(log.matches("the configuration was read again").count(), 1);
}

#[test]
fn streams_that_reach_no_sink_or_no_pool_are_named_everywhere() {
    let mut folder = Setup::with_streams(&["orders", "stock"])
        .sink("pool", "pool", "stock", "")
        .toml(TEAM);
    let process = folder.spawn();
    let unseen = "no sink writes the data pool for the stream orders: screens will not see it (the connector tests sends there)";
    eventually("the log says it", || {
        process.log().contains(unseen).then_some(())
    });
    assert!(
        problems(&process).contains(unseen),
        "{}",
        problems(&process)
    );
    let page = signed_in(&process).page("/");
    assert!(
        page.contains(unseen) && !page.contains("Everything works."),
        "{page}"
    );
    let told = run(&folder.path(""), ["check", "--config", "headgate.toml"]).ok();
    assert!(told.contains(&format!("warning: {unseen}\n")), "{told}");

    // One that is made at run time counts as well.
    let made = process.call("POST", "/api/admin/streams", r#"{"name": "later"}"#);
    assert_eq!(made.status, 201, "{}", made.body);
    let told = problems(&process);
    assert!(told.contains("the stream later reaches no sink"), "{told}");

    folder.change("streams = [\"stock\"]", "streams = [\"*\"]");
    eventually("nothing is wrong", || {
        (problems(&process) == "[]").then_some(())
    });
}

#[test]
fn a_component_writes_the_pool_if_it_asks_for_the_means() {
    let folder = Setup::with_streams(&["orders", "stock"])
        .sink("first", &guest("rejects"), "orders", "")
        .sink("second", &guest("sorts"), "stock", "config = { least = 1 }");
    let process = folder.spawn();
    for sink in ["first", "second"] {
        process.sink_becomes(sink, "loaded", |sink| sink["state"] == "running");
    }
    let told = problems(&process);
    assert!(
        told.contains("no sink writes the data pool for the stream orders:"),
        "{told}"
    );
    assert!(!told.contains("stock"), "{told}");
}
