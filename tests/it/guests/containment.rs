//! One test for each way to misbehave with a batch.

use super::{
    IMPATIENT, LIMITS, QUICK_RETRIES, beside_a_good_sink, beside_a_good_sink_within, guest, keys,
    nobody_else_suffers,
};
use crate::pages::signed_in;
use crate::process::BY_ID;
use crate::setup::Setup;
use crate::stored::one;
use base::clock::Unix;

/// The guest never takes a batch: after so many attempts the item is a dead letter whose reason has these words, and
/// nothing that the guest staged is in the pool.
fn gives_up(name: &str, attempts: u32, words: &str) {
    gives_up_within(LIMITS, name, attempts, words);
}

/// The same with other limits.
fn gives_up_within(limits: &str, name: &str, attempts: u32, words: &str) {
    let folder = beside_a_good_sink_within(limits, name, QUICK_RETRIES);
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a", "n": 1.10}"#);

    let request = process.request_becomes(&id, "failed");
    assert_eq!(request["sinks"][0]["name"], "hostile");
    assert_eq!(request["sinks"][0]["state"], "failed");
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["request_id"], *id);
    assert_eq!(letter["key"], "a");
    assert_eq!(letter["stream"], "hostile");
    assert_eq!(letter["fields"].to_string(), r#"{"id":"a","n":1.1}"#);
    assert_eq!(letter["attempts"], attempts);
    let reason = letter["reason"].as_str().expect("text");
    assert!(reason.contains(words), "{reason}");

    // It is seen in the file before the lane goes on.
    let sink = process.sink_becomes("hostile", "past it", |sink| sink["lag"] == 0);
    assert_eq!(sink["state"], "failing");
    assert_eq!(sink["retries"], 0);
    assert_eq!(sink["dead_letters"], 1);
    let last_error = sink["last_error"]["reason"].as_str().expect("text");
    assert!(last_error.contains(words), "{last_error}");
    assert!(folder.items("hostile").is_empty());
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_panics_is_tried_three_times_and_its_message_is_shown() {
    gives_up("panics", 3, "the guest gives up");
}

#[test]
fn a_sink_that_computes_for_ever_is_interrupted() {
    // What it computes is counted, however long that takes on a busy machine.
    let limits = "[plugins]\ncpu_timeout_ms = 200\nwrite_timeout_ms = 100_000\n";
    gives_up_within(limits, "loops", 3, "used up its time");
}

#[test]
fn a_sink_that_waits_for_ever_in_the_host_is_interrupted() {
    gives_up_within(IMPATIENT, "sleeps", 3, "no answer within 1200 ms");
}

#[test]
fn a_sink_that_takes_all_memory_is_refused_it() {
    gives_up("grows", 3, "memory limit of 8388608 bytes");
}

#[test]
fn a_sink_that_recurses_without_end_ends_itself_only() {
    gives_up("recurses", 3, "stack");
}

#[test]
fn a_sink_that_exits_ends_itself_only() {
    gives_up("exits", 3, "exit");
}

#[test]
fn what_a_sink_staged_before_it_trapped_never_happened() {
    gives_up("stages_then_panics", 3, "after staging");
}

#[test]
fn a_sink_that_stages_without_end_is_stopped() {
    gives_up("stages_without_end", 3, "more than 1000 effects");
}

#[test]
fn what_a_sink_rejects_is_a_dead_letter_at_once() {
    gives_up("rejects", 1, "not for this sink");
}

#[test]
fn what_a_sink_staged_before_it_rejected_does_not_come_with_the_next_batch() {
    let folder = beside_a_good_sink("stages_then_rejects", QUICK_RETRIES);
    let process = folder.spawn();
    process.failed("hostile", BY_ID, r#"{"id": "bad"}"#);
    process.processed("hostile", BY_ID, r#"{"id": "good"}"#);
    assert_eq!(keys(&folder, "hostile"), ["good"]);
    nobody_else_suffers(process);
}

#[test]
fn a_reason_of_four_mebibytes_is_cut_before_it_is_kept() {
    let process = beside_a_good_sink("rejects_at_length", QUICK_RETRIES).spawn();
    let body = format!("[{}]", vec![r#"{"a": 1}"#; 300].join(","));
    process.failed("hostile", "", &body);
    let letters = process.dead_letters("hostile");
    assert_eq!(letters.len(), 300);
    for letter in letters {
        let reason = letter["reason"].as_str().expect("text");
        assert!(reason.starts_with("éééé"));
        assert!(reason.len() < 10_000, "{} bytes", reason.len());
    }
    assert!(process.log().len() < 50_000);
    nobody_else_suffers(process);
}

#[test]
fn a_request_is_accepted_while_its_sink_retries_and_processed_after_that() {
    let folder = beside_a_good_sink("retries_twice", QUICK_RETRIES);
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    let sink = process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
    assert_eq!(sink["state"], "running");
    let reason = sink["last_error"]["reason"].as_str().expect("text");
    assert!(reason.ends_with("is too early"), "{reason}");
    let request = process.request(&id);
    assert_eq!(request["status"], "accepted");
    assert_eq!(request["sinks"][0]["state"], "retrying");

    let request = process.request_becomes(&id, "processed");
    assert_eq!(request["sinks"][0]["state"], "done");
    assert!(request["processed_at"].is_string());
    assert_eq!(keys(&folder, "hostile"), ["a"]);
    let sink = process.sink("hostile");
    assert_eq!(sink["retries"], 0);
    assert_eq!(sink["dead_letters"], 0);
    nobody_else_suffers(process);
}

#[test]
fn a_wish_for_a_retry_after_the_end_of_time_is_bounded() {
    let folder = beside_a_good_sink("retries_at_the_end_of_time", QUICK_RETRIES);
    let process = folder.spawn();
    let id = process.accepted("hostile", "", r#"{"id": "a"}"#);
    process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
    assert_eq!(process.request(&id)["status"], "accepted");
    let due_ms: i64 = one(&folder.pool(), "SELECT due_ms FROM retries");
    let now_ms = Unix::now().to_column();
    assert!((now_ms + 60_000..=now_ms + 86_400_000).contains(&due_ms));
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_keeps_its_batches_still_gets_new_ones_and_is_named() {
    let folder = beside_a_good_sink("hoards", "batch = { items_max = 1 }\n");
    let process = folder.spawn();
    let mut client = process.client();
    for number in 0..50 {
        let body = format!("{{\"id\": \"{number}\"}}");
        let answer = client.post("hostile", BY_ID, &body);
        assert_eq!(answer.expect("an answer").status, 202);
    }
    process.drained();
    assert_eq!(keys(&folder, "hostile").len(), 50);
    let sink = process.sink("hostile");
    assert_eq!(sink["last_error"], serde_json::Value::Null);
    assert_eq!(sink["state"], "failing", "{sink}");
    let reason = sink["reason"].as_str().expect("text");
    assert!(
        reason.contains("(10 instances replaced in a row)"),
        "{reason}"
    );
    assert!(process.problems().contains(reason));
    let said = process.log().matches("the sink fails").count();
    assert_eq!(said, 1);
    let page = signed_in(&process).page("/sinks/hostile");
    assert!(
        page.contains("</bdi> is failing: <bdi>the plugin leaks"),
        "{page}"
    );
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_floods_its_output_neither_fills_the_log_nor_steers_a_terminal() {
    // With the default limits: writing takes its time on a busy machine.
    let process = beside_a_good_sink_within("", "chatters", "").spawn();
    for _ in 0..3 {
        process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    }
    let log = process.log();
    assert!(log.contains("lines left out"), "{log}");
    assert!(log.len() < 300_000, "{} bytes of log", log.len());
    assert!(!log.contains('\u{1b}'));
    nobody_else_suffers(process);
}

#[test]
fn what_a_sink_stages_twice_is_there_once() {
    let folder = beside_a_good_sink("stages_twice", QUICK_RETRIES);
    let process = folder.spawn();
    let body = r#"[{"id": "a", "n": 1}, {"id": "b"}, {"id": "a", "n": 2}]"#;
    process.processed("hostile", BY_ID, body);
    let items = folder.items("hostile");
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].1["n"], 2);
    nobody_else_suffers(process);
}

#[test]
fn many_hostile_sinks_on_one_stream_cost_the_good_one_nothing() {
    let names = ["panics", "loops", "sleeps", "grows", "recurses", "rejects"];
    let mut folder = Setup::with_streams(&["hostile", "innocent"]).toml(LIMITS);
    for name in names {
        let limits = match name {
            "sleeps" => "limits = { write_timeout_ms = 1200 }\n",
            _ => "",
        };
        let more = format!("{QUICK_RETRIES}{limits}");
        folder = folder.sink(name, &guest(name), "*", &more);
    }
    let folder = folder.sink("pool", "pool", "*", "");
    let mut process = folder.spawn();
    let mut client = process.client();
    for number in 0..300 {
        let body = format!("{{\"id\": \"{number}\"}}");
        let answer = client.post("hostile", BY_ID, &body);
        assert_eq!(answer.expect("an answer").status, 202);
    }
    process.sink_becomes("pool", "done", |sink| sink["lag"] == 0);
    assert_eq!(keys(&folder, "hostile").len(), 300);
    assert_eq!(process.sink("pool")["last_error"], serde_json::Value::Null);
    for name in names {
        process.sink_becomes(name, "seen to fail", |sink| sink["last_error"].is_object());
    }
    assert!(process.lives());
    // Six lanes in the middle of something: it stops in order all the same.
    process.stop();
}
