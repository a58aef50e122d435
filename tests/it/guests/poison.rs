//! Items that a sink cannot take, among others that it can.

use super::{QUICK_RETRIES, beside_a_good_sink, keys, nobody_else_suffers};

#[test]
fn a_poison_item_among_a_thousand_ends_alone_in_the_dead_letters() {
    let folder = beside_a_good_sink("poisoned", QUICK_RETRIES);
    let process = folder.spawn();
    let item = |number| match number {
        617 => r#"{"id": "poison", "n": 617}"#.to_owned(),
        number => format!("{{\"id\": \"{number}\", \"n\": {number}}}"),
    };
    let body = (0..1_000).map(item).collect::<Vec<_>>().join(",");
    let id = process.accepted("hostile", "X-Item-Key: id\r\n", &format!("[{body}]"));
    process.drained();

    let delivered = keys(&folder, "hostile");
    assert_eq!(delivered.len(), 999);
    assert!(!delivered.contains(&"poison".to_owned()));
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["request_id"], *id);
    assert_eq!(letter["key"], "poison");
    assert_eq!(letter["position"], 617);
    assert_eq!(letter["fields"]["n"], 617);
    // Three on the whole, one on each of the halves: 500, 250, 125, 63, 32, 16, 8, 4, 2, 1; rounding may save one.
    let attempts = letter["attempts"].as_u64().expect("a number");
    assert!((12..=13).contains(&attempts), "{attempts} attempts");
    let reason = letter["reason"].as_str().expect("text");
    assert!(reason.contains("this item is poison"), "{reason}");
    assert_eq!(process.request(&id)["status"], "failed");
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_takes_single_items_only_gets_them_by_halving() {
    let more = "retry = { first_ms = 10, max_ms = 40, attempts = 1 }\n";
    let folder = beside_a_good_sink("one_at_a_time", more);
    let process = folder.spawn();
    let body = (0..13)
        .map(|number| format!("{{\"id\": \"{number}\"}}"))
        .collect::<Vec<_>>()
        .join(",");
    process.processed("hostile", "X-Item-Key: id\r\n", &format!("[{body}]"));
    assert_eq!(keys(&folder, "hostile").len(), 13);
    assert_eq!(process.sink("hostile")["dead_letters"], 0);
    nobody_else_suffers(process);
}

#[test]
fn poison_in_many_requests_one_after_another_does_not_block_what_comes_behind() {
    let folder = beside_a_good_sink("poisoned", QUICK_RETRIES);
    let process = folder.spawn();
    let mut poisoned = Vec::new();
    for number in 0..5 {
        let body = format!("{{\"id\": \"poison-{number}\"}}");
        poisoned.push(process.accepted("hostile", "X-Item-Key: id\r\n", &body));
        let seen = |sink: &serde_json::Value| sink["lag"] == 0 || sink["state"] == "paused";
        process.sink_becomes("hostile", "done with it for now", seen);
    }
    process.processed("hostile", "X-Item-Key: id\r\n", r#"{"id": "good"}"#);
    assert_eq!(keys(&folder, "hostile"), ["good"]);
    for id in poisoned {
        process.request_becomes(&id, "failed");
    }
    assert_eq!(process.dead_letters("hostile").len(), 5);
    let sink = process.sink_becomes("hostile", "past it", |sink| sink["state"] == "failing");
    assert_eq!(sink["retries"], 0);
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_is_down_stays_paused_with_its_data_over_a_restart() {
    let folder = beside_a_good_sink("panics", QUICK_RETRIES);
    let process = folder.spawn();
    let mut sent = 0;
    let paused = loop {
        let body = format!("{{\"id\": \"{sent}\"}}");
        process.accepted("hostile", "X-Item-Key: id\r\n", &body);
        sent += 1;
        let seen = |sink: &serde_json::Value| sink["lag"] == 0 || sink["state"] == "paused";
        let sink = process.sink_becomes("hostile", "done with it for now", seen);
        if sink["state"] == "paused" {
            break sink;
        }
        assert!(sent < 50, "never paused: {sink}");
    };
    let reason = paused["reason"].as_str().expect("text");
    assert!(reason.contains("the guest gives up"), "{reason}");
    assert!(paused["paused_until"].is_string());
    let status = process.admin("/api/admin/status");
    let problems = status["problems"].to_string();
    assert!(problems.contains("sink hostile is paused"), "{problems}");
    let waiting = |process: &crate::process::Process| {
        let sink = process.sink("hostile");
        // What waits to be tried again is behind.
        sink["lag"].as_u64().expect("a number") + sink["dead_letters"].as_u64().expect("a number")
    };
    assert_eq!(waiting(&process), sent);
    process.stop();

    let process = folder.spawn();
    assert_eq!(waiting(&process), sent);
    nobody_else_suffers(process);
}
