//! What a sink may take of everybody's: lines of the log, the host's time and memory, cores.

use std::time::Instant;

use super::{
    QUICK_RETRIES, beside_a_good_sink, beside_a_good_sink_within, guest, keys, nobody_else_suffers,
};
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use crate::wait::eventually;

/// What `floods_and_hoards` writes for each batch.
const LINES_A_BATCH: usize = 3_000;

/// Lines of guests in a log, and how many it says were left out.
fn lines(log: &str) -> (usize, usize) {
    let (mut written, mut left_out) = (0, 0);
    for line in log.lines().filter(|line| line.contains("headgate::guest")) {
        match line.split_once(" left out: ") {
            None => written += 1,
            Some((before, _)) => {
                let words = before.split_whitespace().rev().nth(1);
                let count: usize = words.expect("a number").parse().expect("a number");
                left_out += count;
            }
        }
    }
    (written, left_out)
}

#[test]
fn a_sink_that_floods_its_output_and_is_started_anew_each_time_has_one_budget() {
    let more = "batch = { items_max = 1 }\n";
    let started = Instant::now();
    let process = beside_a_good_sink_within("", "floods_and_hoards", more).spawn();
    let batches = 20;
    for number in 0..batches {
        process.accepted("hostile", BY_ID, &format!("{{\"id\": \"{number}\"}}"));
    }
    let all = batches * LINES_A_BATCH;
    eventually("every line is written or told of", || {
        let (written, left_out) = lines(&process.log());
        (written + left_out == all).then_some(())
    });
    let (written, left_out) = lines(&process.log());
    // A burst, and what a second allows: a slow machine only allows more.
    let allowed = 300.0 + 100.0 * (started.elapsed().as_secs_f64() + 1.0);
    assert!(written as f64 <= allowed, "{written} lines");
    assert!(left_out > 0);
    let sink = process.sink("hostile");
    assert_eq!(sink["lag"], 0, "it goes on all the same");
    assert_eq!(sink["state"], "failing");
    let reason = sink["reason"].as_str().expect("text");
    assert!(
        reason.contains("the plugin leaks batch or request handles"),
        "{reason}"
    );
    assert!(
        process
            .problems()
            .contains("sink hostile misbehaves: the plugin leaks")
    );
    nobody_else_suffers(process);
}

/// The reason of the dead letter of an item that has this field.
fn refused(fields: &str) -> String {
    let folder = beside_a_good_sink_within("", "asks_for_much", QUICK_RETRIES);
    let process = folder.spawn();
    process.failed("hostile", BY_ID, &format!("{{\"id\": \"a\", {fields}}}"));
    let letter = process.dead_letter("hostile");
    assert!(keys(&folder, "hostile").is_empty());
    nobody_else_suffers(process);
    letter["reason"].as_str().expect("text").to_owned()
}

#[test]
fn what_a_sink_asks_of_the_host_is_bounded_before_it_is_done() {
    let text = format!(", \"text\": \"{}\"", "x".repeat(1_000));
    for (how, words) in [
        (
            "4,000,000 indexes",
            "a selection of 4000000 items; the batch has 1, a selection may have 100000: select in parts",
        ),
        (
            "the same over and over",
            "derived batches and state are more than 67108864 bytes in one call",
        ),
        (
            "effects on everything",
            "effects on more than 100000 items in one call",
        ),
        ("random numbers", "requested len 65537 exceeds limit 65536"),
    ] {
        let much = if how.starts_with("the same") {
            &*text
        } else {
            ""
        };
        let reason = refused(&format!("\"how\": \"{how}\"{much}"));
        assert!(reason.contains(words), "{reason}");
    }
}

#[test]
fn what_a_sink_may_ask_of_the_host_is_done() {
    let folder = beside_a_good_sink_within("", "asks_for_much", QUICK_RETRIES);
    let process = folder.spawn();
    for how in ["some random numbers", "many fields"] {
        let body = format!("{{\"id\": \"{how}\", \"how\": \"{how}\", \"7\": 1.50}}");
        process.processed("hostile", BY_ID, &body);
    }
    let items = folder.items("hostile");
    let [(key, fields, _)] = &items[..] else {
        panic!("one item was expected: {items:?}");
    };
    assert_eq!(key, "many fields");
    assert_eq!(*fields, serde_json::json!({"7": 1.5}));
    nobody_else_suffers(process);
}

/// The priority of each thread of a process whose name begins so.
fn priorities(process: &Process, name: &str) -> Vec<i32> {
    let folder = format!("/proc/{}/task", process.id());
    let threads = std::fs::read_dir(folder).expect("the process lives");
    let stats = threads.filter_map(|thread| {
        let thread = thread.ok()?.path();
        std::fs::read_to_string(thread.join("stat")).ok()
    });
    let named = stats.filter_map(|stat| {
        let (before, after) = stat.rsplit_once(") ")?;
        let (_, own) = before.split_once('(')?;
        // The 19th field is the nice value; the first after the name is the third.
        let nice = after.split(' ').nth(16)?.parse().ok()?;
        own.starts_with(name).then_some(nice)
    });
    named.collect()
}

#[test]
fn threads_of_plugins_from_files_give_way_to_all_others() {
    let process = beside_a_good_sink("stages_twice", "").spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    let own = priorities(&process, "headgate");
    let usual = *own.first().expect("a thread");
    assert_eq!(priorities(&process, "sink-pool"), [usual]);
    assert_eq!(priorities(&process, "sink-hostile"), [(usual + 5).min(19)]);
    nobody_else_suffers(process);
}

#[test]
fn sinks_that_compute_for_ever_leave_others_their_turns() {
    // More than there are cores, each as long as nobody stops it.
    let limits = "[plugins]\ncpu_timeout_ms = 1_000_000\nwrite_timeout_ms = 10_000_000\n";
    let mut folder = Setup::with_streams(&["hostile", "behaves", "innocent"]).toml(limits);
    let cores = std::thread::available_parallelism().expect("cores").get();
    for number in 0..cores + 1 {
        let name = format!("loops-{number}");
        folder = folder.sink(&name, &guest("loops"), "hostile", QUICK_RETRIES);
    }
    let process = folder
        .sink("behaves", &guest("stages_twice"), "behaves", "")
        .sink("pool", "pool", "innocent", "")
        .spawn();
    process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    for number in 0..5 {
        let body = format!("{{\"id\": \"{number}\"}}");
        process.processed("innocent", BY_ID, &body);
        process.processed("behaves", BY_ID, &body);
    }
    for number in 0..cores + 1 {
        let name = format!("loops-{number}");
        // It may have had to wait for its turn to start.
        let sink = process.sink_becomes(&name, "running", |sink| sink["state"] == "running");
        // It is still in its first call.
        let stands = (&sink["cursor"], &sink["last_error"]);
        assert_eq!(stands, (&0.into(), &().into()), "{sink}");
    }
    process.kill();
}
