//! In which order a sink gets its batches.

use super::{LIMITS, beside_a_good_sink, guest, keys, nobody_else_suffers};
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use crate::stored::one;

const ONE_AT_A_TIME: &str = "batch = { items_max = 1, linger_ms = 0 }\n";

/// The keys in the order in which the sink took them.
fn order(folder: &Setup) -> String {
    let sql = "SELECT CAST(value AS TEXT) FROM sink_state WHERE key = 'order'";
    let order: String = one(&folder.pool(), sql);
    order.trim_end().to_owned()
}

fn keeping(ordering: &str, more: &str) -> (Setup, Process) {
    let more = format!("ordering = \"{ordering}\"\n{more}");
    let folder = beside_a_good_sink("keeps_order", &more);
    let process = folder.spawn();
    (folder, process)
}

fn send(process: &Process, body: &str) -> String {
    process.accepted("hostile", BY_ID, body)
}

#[test]
fn only_in_strict_order_new_batches_wait_behind_a_retry() {
    for (ordering, expected) in [("any", "b c a"), ("strict", "a b c")] {
        let (folder, process) = keeping(ordering, ONE_AT_A_TIME);
        let first = send(&process, r#"{"id": "a", "retries": 1, "after_ms": 2000}"#);
        process.sink_becomes("hostile", "at work", |sink| sink["retries"] == 1);
        send(&process, r#"{"id": "b"}"#);
        send(&process, r#"{"id": "c"}"#);
        process.request_becomes(&first, "processed");
        process.drained();
        assert_eq!(order(&folder), expected, "{ordering}");
        nobody_else_suffers(process);
    }
}

#[test]
fn in_strict_order_an_item_that_traps_is_found_and_the_others_keep_their_order() {
    let retry = "retry = { first_ms = 1, max_ms = 2, attempts = 3 }\n";
    let (folder, process) = keeping("strict", retry);
    let item = |number: u32| match number {
        700 => format!("{{\"id\": \"{number}\", \"traps\": true}}"),
        _ => format!("{{\"id\": \"{number}\"}}"),
    };
    let items: Vec<String> = (0..1_000).map(item).collect();
    let id = send(&process, &format!("[{}]", items.join(",")));
    send(&process, r#"{"id": "last"}"#);
    process.request_becomes(&id, "failed");
    process.drained();
    let mut expected: Vec<String> = (0..1_000)
        .filter(|n| *n != 700)
        .map(|n| n.to_string())
        .collect();
    expected.push("last".to_owned());
    assert_eq!(order(&folder), expected.join(" "));
    let letters = process.dead_letters("hostile");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["key"], "700");
    assert_eq!(process.sink("hostile")["state"], "running");
    nobody_else_suffers(process);
}

#[test]
fn in_strict_order_attempts_end_what_holds_up_the_others() {
    let retry = "retry = { first_ms = 1, max_ms = 2, attempts = 6 }\n";
    let (folder, process) = keeping("strict", &format!("{ONE_AT_A_TIME}{retry}"));
    let refused = send(&process, r#"{"id": "a", "retries": 1000000}"#);
    let taken = ["b", "c"].map(|key| send(&process, &format!("{{\"id\": \"{key}\"}}")));
    process.request_becomes(&refused, "failed");
    for id in taken {
        process.request_becomes(&id, "processed");
    }
    assert_eq!(order(&folder), "b c");
    let letters = process.dead_letters("hostile");
    assert_eq!((letters.len(), &letters[0]["attempts"]), (1, &6.into()));
    process.sink_becomes("hostile", "running", |sink| sink["state"] == "running");
    nobody_else_suffers(process);
}

#[test]
fn in_strict_order_a_sink_that_is_down_waits_and_gives_nothing_up_early() {
    let folder = Setup::with_streams(&["hostile", "innocent"]).toml(LIMITS);
    let plugin = folder.path("mended.wasm");
    std::fs::copy(guest("keeps_order"), &plugin).expect("a file");
    let retry = "retry = { first_ms = 1, max_ms = 2, attempts = 1000 }\n";
    let more = format!("ordering = \"strict\"\n{ONE_AT_A_TIME}{retry}");
    let folder = folder
        .sink("hostile", &plugin.display().to_string(), "hostile", &more)
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    let first = send(&process, r#"{"id": "a", "retries": 1000000}"#);
    let second = send(&process, r#"{"id": "b"}"#);
    let paused = |sink: &serde_json::Value| sink["state"] == "paused";
    let sink = process.sink_becomes("hostile", "paused", paused);
    assert_eq!(
        (&sink["dead_letters"], &sink["retries"]),
        (&0.into(), &1.into())
    );
    assert_eq!(process.request(&second)["status"], "accepted");
    std::fs::copy(guest("measures"), &plugin).expect("a file");
    process.request_becomes(&first, "processed");
    process.request_becomes(&second, "processed");
    assert_eq!(keys(&folder, "hostile"), ["a", "b"]);
    nobody_else_suffers(process);
}
