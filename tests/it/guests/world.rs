//! What the world offers to a sink that behaves, and its bounds.

use serde_json::json;

use super::{
    LIMITS, QUICK_RETRIES, beside_a_good_sink, beside_a_good_sink_within, guest, keys,
    nobody_else_suffers,
};
use crate::command_line::run;
use crate::process::BY_ID;
use crate::setup::Setup;

/// A daemon whose stream `hostile` goes to the sink that sorts.
fn sorting(config: &str) -> Setup {
    let more = format!("{QUICK_RETRIES}config = {config}\n");
    beside_a_good_sink("sorts", &more)
}

#[test]
fn a_sink_selects_derives_removes_and_rejects_single_items() {
    let folder = sorting("{ least = 10 }");
    let process = folder.spawn();
    let body = r#"[{"id": "a", "n": 1.50, "secret": "s"}, {"id": "b", "n": 20}, {"id": "c", "n": "x"}, {"id": "d", "n": 30}]"#;
    let id = process.accepted("hostile", BY_ID, body);
    process.drained();
    assert_eq!(keys(&folder, "hostile"), ["b", "d"]);
    let low = folder.items("low");
    let [(key, fields, request_id)] = &low[..] else {
        panic!("one low item was expected: {low:?}");
    };
    assert_eq!((key.as_str(), request_id), ("a", &id));
    assert_eq!(*fields, json!({"id": "a", "low.n": 1.5}));
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["key"], "c");
    assert_eq!(letter["position"], 2);
    assert_eq!(letter["reason"], r#"n is Some("\"x\"")"#);
    assert_eq!(letter["attempts"], 1);
    assert_eq!(process.request(&id)["status"], "failed");

    process.processed("hostile", BY_ID, r#"{"id": "b", "gone": true}"#);
    assert_eq!(keys(&folder, "hostile"), ["d"]);
    process.processed("hostile", BY_ID, r#"{"id": "b", "n": 50}"#);
    assert_eq!(keys(&folder, "hostile"), ["b", "d"]);
    nobody_else_suffers(process);
}

#[test]
fn a_component_that_was_built_for_an_earlier_world_runs() {
    let (now, then) = (b"@1.2.0", b"@1.0.0");
    let mut component = std::fs::read(guest("sorts")).expect("a guest");
    let places: Vec<usize> = (component.windows(now.len()).enumerate())
        .filter_map(|(at, bytes)| (bytes == now).then_some(at))
        .collect();
    assert!(
        !places.is_empty(),
        "it names the world that it was built for"
    );
    for at in places {
        component[at..at + then.len()].copy_from_slice(then);
    }
    let folder = Setup::with_streams(&["hostile", "innocent"]).toml(LIMITS);
    let plugin = folder.path("earlier.wasm");
    std::fs::write(&plugin, component).expect("a file");
    let more = format!("{QUICK_RETRIES}config = {{ least = 10 }}\n");
    let folder = folder
        .sink("hostile", &plugin.display().to_string(), "hostile", &more)
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a", "n": 20}"#);
    assert_eq!(keys(&folder, "hostile"), ["a"]);
    nobody_else_suffers(process);
}

#[test]
fn state_and_log_belong_to_the_sink_and_outlive_the_process() {
    let folder = sorting("{ least = 10 }");
    let process = folder.spawn();
    process.processed(
        "hostile",
        BY_ID,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 2}]"#,
    );
    process.kill();
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "c", "n": 3}"#);
    let log = process.log();
    assert!(log.contains("seen 3"), "{log}");
    let pool = folder.pool();
    let sql = "SELECT sink, key, length(value) FROM sink_state";
    let row = pool.query_row(sql, [], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, u32>(2)?,
        ))
    });
    assert_eq!(row, Ok(("hostile".to_owned(), "seen".to_owned(), 3)));
    drop(pool);
    nobody_else_suffers(process);
}

#[test]
fn settings_that_do_not_fit_pause_the_sink_and_name_the_place() {
    for (config, words) in [
        ("{ leest = 10 }", "leest"),
        ("{ least = \"ten\" }", "/least"),
        ("{ least = 1001 }", "least is too much"),
    ] {
        let folder = sorting(config);
        let process = folder.spawn();
        let id = process.accepted("hostile", BY_ID, r#"{"id": "a", "n": 1}"#);
        let contains = |text: &serde_json::Value| text.as_str().is_some_and(|t| t.contains(words));
        process.sink_becomes("hostile", &format!("paused with {words:?}"), |sink| {
            sink["state"] == "paused" && contains(&sink["reason"])
        });
        assert_eq!(process.request(&id)["status"], "accepted", "its data waits");
        nobody_else_suffers(process);
        let check = ["check", "--config", "headgate.toml"];
        let said = run(&folder.path(""), check).failed(2);
        assert!(
            said.contains("sink hostile: ") && said.contains(words),
            "{said}"
        );
    }
}

#[test]
fn rejecting_an_item_that_does_not_exist_is_a_trap_and_stages_nothing() {
    let more = "retry = { first_ms = 10, max_ms = 40, attempts = 1 }\n";
    let folder = beside_a_good_sink("rejects_what_is_not_there", more);
    let process = folder.spawn();
    process.failed("hostile", BY_ID, r#"{"id": "a"}"#);
    assert!(keys(&folder, "hostile").is_empty());
    let letters = process.dead_letters("hostile");
    assert_eq!(letters[0]["reason"], "it rejects item 1; the batch has 1");
    nobody_else_suffers(process);
}

#[test]
fn what_a_sink_derives_and_keeps_is_bounded() {
    // Whatever else the machine does, the bytes end the call.
    let limits = "[plugins]\nmemory_max_bytes = 8388608\ncpu_timeout_ms = 1_000_000\nwrite_timeout_ms = 10_000_000\n";
    for name in ["derives_without_end", "fills_its_state"] {
        let more = "retry = { first_ms = 10, max_ms = 40, attempts = 1 }\n";
        let process = beside_a_good_sink_within(limits, name, more).spawn();
        process.failed("hostile", BY_ID, r#"{"id": "a"}"#);
        let letters = process.dead_letters("hostile");
        let reason = letters[0]["reason"].as_str().expect("text");
        assert!(reason.contains("more than 8388608 bytes"), "{reason}");
        nobody_else_suffers(process);
    }
}

#[test]
fn a_sink_counts_and_reads_the_secrets_that_it_is_granted() {
    const CANARY: &str = "canary-0123456789";
    let more = format!("{QUICK_RETRIES}secrets = {{ token = \"{CANARY}\" }}\n");
    let process = beside_a_good_sink("measures", &more).spawn();
    process.processed("hostile", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    let metrics = process.metrics();
    for line in [
        "headgate_plugin_events_total{sink=\"hostile\",name=\"rows\"} 2",
        "headgate_plugin_value{sink=\"hostile\",name=\"secret_bytes\"} 17",
        "headgate_plugin_value{sink=\"hostile\",name=\"other\"} 0.5",
    ] {
        assert!(
            metrics.lines().any(|own| own.starts_with(line)),
            "{metrics}"
        );
    }
    process.failed("hostile", BY_ID, r#"{"id": "c", "metric": "a b"}"#);
    let letters = process.dead_letters("hostile");
    let reason = letters[0]["reason"].as_str().expect("text");
    assert!(reason.contains("1 to 64 letters"), "{reason}");
    assert!(!process.log().contains(CANARY) && !metrics.contains(CANARY));
    nobody_else_suffers(process);
}
