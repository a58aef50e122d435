//! The streams that a sink may write in the data pool: its own section says which, and nobody else.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{QUICK_RETRIES, beside_a_good_sink_within, guest, keys, nobody_else_suffers};
use crate::command_line::run;
use crate::pages::signed_in;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use crate::stored::one;

/// A daemon with a sink of the stream `hostile` that writes where items say.
fn moving(writes: &str) -> Setup {
    beside_a_good_sink_within("", "moves", &format!("{writes}{QUICK_RETRIES}"))
}

/// The reason of the newest dead letter, which has this key.
fn reason(process: &Process, key: &str) -> String {
    let letters = process.dead_letters("hostile");
    assert_eq!(letters[0]["key"], key, "{letters:?}");
    letters[0]["reason"].as_str().expect("text").to_owned()
}

#[test]
fn a_sink_writes_what_its_section_lists_and_nothing_else() {
    let folder = moving("writes = [\"hostile\", \"moved\", \"v-*\"]\n");
    let process = folder.spawn();
    process.processed("innocent", BY_ID, r#"{"id": "precious"}"#);
    let body = r#"[{"id": "a"}, {"id": "b", "to": "moved"}, {"id": "c", "to": "v-1,v-,hostile"}]"#;
    process.processed("hostile", BY_ID, body);
    assert_eq!(keys(&folder, "hostile"), ["a", "c"]);
    assert_eq!(keys(&folder, "moved"), ["b"]);
    assert_eq!(keys(&folder, "v-"), ["c"]);

    for (key, to, how) in [
        ("precious", "innocent", "upsert"),
        ("precious", "innocent", "delete"),
        ("precious", "innocent", "publish"),
        ("forged", "innocent", "upsert"),
        ("other", "moved-too", "upsert"),
        ("late", "moved,v", "upsert"),
    ] {
        let item = json!({"id": key, "to": to, "how": how});
        process.failed("hostile", BY_ID, &item.to_string());
        let reason = reason(&process, key);
        let stream = to.rsplit(',').next().expect("a name");
        let words = format!(
            "the sink may not write the stream \"{stream}\" of the data pool: `writes` of its section does not list it"
        );
        assert!(reason.contains(&words), "{reason}");
        // Between two that fail, one that does not: the sink is not down.
        process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    }
    // What is written in the same call does not happen either, and others' items are as they were.
    assert_eq!(keys(&folder, "moved"), ["b"]);
    let items = folder.items("innocent");
    assert_eq!(items[0].1, json!({"id": "precious"}));
    assert_eq!(items.len(), 1);

    // A bad item among good ones is alone in the end.
    let body = r#"[{"id": "d"}, {"id": "e", "to": "innocent"}, {"id": "f"}]"#;
    process.failed("hostile", BY_ID, body);
    assert!(reason(&process, "e").contains("`writes`"));
    process.drained();
    assert_eq!(keys(&folder, "hostile"), ["a", "c", "d", "f"]);

    assert_eq!(
        process.sink("hostile")["writes"],
        json!(["hostile", "moved", "v-*"])
    );
    assert_eq!(process.sink("pool")["writes"], json!(["innocent"]));
    let page = signed_in(&process).page("/sinks/hostile");
    assert!(
        page.contains("<dd><bdi>hostile, moved, v-*</bdi></dd>"),
        "{page}"
    );
    nobody_else_suffers(process);
}

#[test]
fn a_sink_whose_section_does_not_speak_of_it_waits_for_somebody_who_does() {
    let mut folder = moving("#writes = []\n");
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    let words = "the sink may not write the stream \"hostile\" of the data pool: its section has no `writes`; to allow it, add writes = [\"hostile\"]";
    process.sink_becomes("hostile", "paused", |sink| {
        sink["state"] == "paused" && sink["reason"] == words
    });
    let sink = process.sink("hostile");
    assert_eq!(
        (&sink["retries"], &sink["dead_letters"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(sink["writes"], json!([]));
    assert_eq!(process.request(&id)["status"], "accepted");
    let problems: Value = serde_json::from_str(&process.problems()).expect("JSON");
    let told = format!("sink hostile is paused: {words}");
    let problems = problems.as_array().expect("a list");
    assert!(problems.contains(&json!(told)), "{problems:?}");
    let told = run(&folder.path(""), ["check", "--config", "headgate.toml"]).ok();
    let line = "warning: the plugin of sink hostile can write the data pool, but the sink is not allowed to: add writes = [\"hostile\"] to its section, or writes = [] to keep it so\n";
    assert!(told.contains(line), "{told}");

    folder.change("#writes = []", "writes = [\"hostile\"]");
    process.request_becomes(&id, "processed");
    assert_eq!(keys(&folder, "hostile"), ["a"]);
    let told = run(&folder.path(""), ["check", "--config", "headgate.toml"]).ok();
    assert!(!told.contains("warning"), "{told}");

    // What is said is another thing than what is not.
    folder.change("writes = [\"hostile\"]", "writes = []");
    process.sink_becomes("hostile", "without streams", |sink| {
        sink["writes"] == json!([])
    });
    process.failed("hostile", BY_ID, r#"{"id": "b"}"#);
    assert!(reason(&process, "b").contains("does not list it"));
    nobody_else_suffers(process);
}

#[test]
fn removals_that_an_older_sink_does_not_hear_of_reach_no_further_than_it_does() {
    let streams = ["hostile", "hostile-too", "innocent"];
    let more = format!("writes = [\"hostile*\"]\n{QUICK_RETRIES}");
    let mut folder = Setup::with_streams(&streams)
        .sink("hostile", &guest("moves"), "hostile*", &more)
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    for stream in ["hostile", "hostile-too"] {
        process.processed(stream, BY_ID, r#"{"id": "a"}"#);
    }
    folder.change("writes = [\"hostile*\"]", "writes = [\"hostile\"]");
    process.sink_becomes("hostile", "of one stream", |sink| {
        sink["writes"] == json!(["hostile"])
    });
    for stream in ["hostile", "hostile-too"] {
        process.removed(stream, "a");
    }
    process.drained();
    assert!(keys(&folder, "hostile").is_empty());
    assert_eq!(keys(&folder, "hostile-too"), ["a"]);
    assert!(process.dead_letters("hostile").is_empty());
    nobody_else_suffers(process);
}

/// Streams that the pool has a view for, or will have.
fn views(pool: &Connection) -> u32 {
    one(pool, "SELECT count(*) FROM views WHERE stream LIKE 'v-%'")
}

#[test]
fn sinks_make_a_thousand_streams_and_no_more() {
    let more = format!("writes = [\"v-*\"]\n{QUICK_RETRIES}");
    let folder = beside_a_good_sink_within("", "makes_streams", &more);
    let process = folder.spawn();
    let make = |first: u32, last: u32| {
        json!({"id": format!("{first}-{last}"), "first": first, "last": last}).to_string()
    };
    // `hostile` and `innocent` were created.
    process.processed("innocent", BY_ID, r#"{"id": "a"}"#);
    process.processed("hostile", BY_ID, &make(1, 600));
    process.failed("hostile", BY_ID, &make(500, 1_001));
    let words = "the sink may not create the stream \"v-1001\": sinks have created 1000 streams, the maximum";
    let told = reason(&process, "500-1001");
    assert!(told.contains(words), "{told}");
    process.processed("hostile", BY_ID, &make(500, 1_000));
    // Those that are there can be written.
    process.processed("hostile", BY_ID, &make(900, 1_000));
    process.failed("hostile", BY_ID, &make(2_000, 2_000));
    process.make("/api/admin/streams", &json!({"name": "v-2000"}));
    process.processed("hostile", BY_ID, &make(2_000, 2_000));
    process.failed("hostile", BY_ID, &make(2_001, 2_001));
    process.stop();
    assert_eq!(views(&folder.pool()), 1_001);

    let process = folder.spawn();
    process.failed("hostile", BY_ID, &make(2_002, 2_002));
    process.make("/api/admin/streams", &json!({"name": "v-1"}));
    process.processed("hostile", BY_ID, &make(2_002, 2_002));
    process.failed("hostile", BY_ID, &make(2_003, 2_003));
    nobody_else_suffers(process);
    assert_eq!(views(&folder.pool()), 1_002);
}
