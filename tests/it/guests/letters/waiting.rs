//! Retries that wait, and lanes that are paused, until an operator says so.

use serde_json::{Value, json};

use super::super::{guest, keys, nobody_else_suffers};
use super::{BY_ID, RETRY, done, door, with_a_door};
use crate::process::Folder;

#[test]
fn waiting_retries_are_tried_when_an_operator_says_so() {
    let folder = with_a_door("");
    let process = folder.start();
    door(&process, "close");
    let id = process.accepted("hostile", BY_ID, r#"{"id": "retry-a"}"#);
    process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
    door(&process, "open");
    assert_eq!(
        process.request(&id)["status"],
        "accepted",
        "it waits for an hour"
    );
    assert_eq!(done(&process, "POST", RETRY, ""), json!({"retries": 1}));
    process.request_becomes(&id, "processed");
    assert_eq!(done(&process, "POST", RETRY, ""), json!({"retries": 0}));
    assert!(keys(&folder, "hostile").contains(&"retry-a".to_owned()));
    nobody_else_suffers(&folder, process);
}

#[test]
fn a_pause_ends_when_an_operator_says_so_and_costs_no_attempts() {
    let folder = Folder::new(&["hostile", "innocent"]);
    let plugin = folder.path("mended.wasm");
    std::fs::write(&plugin, "no component").expect("a file");
    let folder = folder
        .with_sink("hostile", &plugin.display().to_string(), "hostile", "")
        .with_sink("pool", "pool", "innocent", "");
    let process = folder.start();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    let left_ms = |sink: &Value| {
        let until = sink["paused_until"].as_str()?;
        headgate::clock::parse_rfc3339(until)?.checked_sub(headgate::clock::unix_ms())
    };
    let long = |sink: &Value| left_ms(sink).is_some_and(|left| left > 3_500);
    process.sink_becomes("hostile", "paused for long", long);
    // It tries at once, and pauses again, not for as long as before.
    let error = process.sink("hostile")["last_error"]["at"].take();
    done(&process, "POST", RETRY, "");
    let again = |sink: &Value| sink["state"] == "paused" && sink["last_error"]["at"] != error;
    let sink = process.sink_becomes("hostile", "paused again", again);
    assert!(left_ms(&sink).is_none_or(|left| left <= 2_000), "{sink}");

    process.sink_becomes("hostile", "paused for long", long);
    std::fs::copy(guest("stages_twice"), &plugin).expect("a file");
    let before = headgate::clock::unix_ms();
    let left = left_ms(&process.sink("hostile")).expect("it is paused");
    done(&process, "POST", RETRY, "");
    process.request_becomes(&id, "processed");
    let took = headgate::clock::unix_ms() - before;
    assert!(took < left, "{took} ms of {left} ms");
    assert_eq!(process.sink("hostile")["state"], "running");
    nobody_else_suffers(&folder, process);
}
