//! Sinks that are started, stopped, replaced and re-configured while the daemon runs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{LIMITS, QUICK_RETRIES, beside_a_good_sink, guest, keys, nobody_else_suffers};
use crate::process::{BY_ID, Client, Process, SetOnDrop};
use crate::setup::Setup;
use crate::stored::one;
use crate::wait::eventually;

/// A component that does the same as a guest and is another file.
fn variant(name: &str, number: u32, at: &Path) {
    let mut bytes = std::fs::read(guest(name)).expect("a guest");
    // A custom section: its length, the length of its name, its name, its content.
    bytes.extend([0, 7, 2, b'v', b'n']);
    bytes.extend(number.to_le_bytes());
    let unfinished = at.with_extension("unfinished");
    std::fs::write(&unfinished, bytes).expect("a file");
    std::fs::rename(unfinished, at).expect("a file");
}

/// How many items the sink `hostile`, which is `sorts`, has counted in its state.
fn seen(folder: &Setup) -> u32 {
    let sql = "SELECT coalesce(max(length(value)), 0) FROM sink_state WHERE key = 'seen'";
    one(&folder.pool(), sql)
}

/// A daemon whose stream `hostile` goes to a copy of a guest that can be replaced.
fn replaceable(name: &str, more: &str) -> (Setup, std::path::PathBuf) {
    let folder = Setup::with_streams(&["hostile", "innocent"]).toml(LIMITS);
    let plugin = folder.path("replaceable.wasm");
    std::fs::copy(guest(name), &plugin).expect("a file");
    let folder = folder
        .sink("hostile", &plugin.display().to_string(), "hostile", more)
        .sink("pool", "pool", "innocent", "");
    (folder, plugin)
}

fn says(process: &Process, words: &str) {
    eventually(&format!("the log says {words:?}"), || {
        process.log().contains(words).then_some(())
    });
}

fn refused(process: &Process, words: &str) {
    process.sink_becomes("hostile", &format!("refused with {words:?}"), |sink| {
        let reason = sink["refused"].as_str();
        reason.is_some_and(|reason| reason.contains(words)) && sink["state"] == "running"
    });
    let problems = process.problems();
    assert!(
        problems.contains("sink hostile runs with its previous settings"),
        "{problems}"
    );
}

#[test]
fn replacing_and_configuring_under_load_loses_and_doubles_nothing() {
    let (mut folder, plugin) = replaceable("sorts", "config = { least = 10 }\n");
    let process = folder.spawn();
    // What is replaced before it was loaded is no change.
    eventually("the sink is loaded", || {
        let log = process.log();
        let mut lines = log.lines();
        lines
            .any(|line| line.contains("the sink is loaded") && line.contains("hostile"))
            .then_some(())
    });
    let ended = AtomicBool::new(false);
    let posted = std::thread::scope(|scope| {
        let service = process.service;
        let ended = &ended;
        let end = SetOnDrop(ended);
        let posting = scope.spawn(move || {
            let mut client = Client::connect(service).expect("it listens");
            let mut number: u32 = 0;
            while !ended.load(Ordering::Relaxed) {
                let body = format!("{{\"id\": \"{number}\", \"n\": 50}}");
                let answer = client.post("hostile", BY_ID, &body);
                assert_eq!(answer.expect("an answer").status, 202);
                number += 1;
            }
            number
        });
        let mut least = 10;
        for round in 0..4 {
            let loaded = process.log().matches("uses its new settings").count();
            if round % 2 == 0 {
                variant("sorts", round, &plugin);
            } else {
                let from = format!("least = {least}");
                least += 1;
                folder.change(&from, &format!("least = {least}"));
            }
            eventually("the change is taken", || {
                let now = process.log().matches("uses its new settings").count();
                (now > loaded).then_some(())
            });
        }
        drop(end);
        posting.join().expect("it posts")
    });
    process.drained();
    assert!(posted > 0);
    assert_eq!(keys(&folder, "hostile").len() as u32, posted);
    // What counts each item commits with the items.
    assert_eq!(seen(&folder), posted);
    assert!(process.dead_letters("hostile").is_empty());
    nobody_else_suffers(process);
}

#[test]
fn a_bad_file_or_setting_leaves_the_old_one_running_and_says_why() {
    let (mut folder, plugin) = replaceable("sorts", "config = { least = 10 }\n");
    let process = folder.spawn();
    let goes_on = |id: &str| {
        let body = format!("{{\"id\": \"{id}\", \"n\": 50}}");
        process.processed("hostile", BY_ID, &body);
    };
    goes_on("a");
    std::fs::write(&plugin, b"\0asm what follows is nothing").expect("a file");
    refused(&process, "not a usable WebAssembly component");
    goes_on("b");
    std::fs::copy(guest("wants_files"), &plugin).expect("a file");
    refused(&process, "wasi:filesystem");
    std::fs::copy(guest("loops_at_start"), &plugin).expect("a file");
    refused(&process, "does not start");
    goes_on("c");
    variant("sorts", 1, &plugin);
    process.sink_becomes("hostile", "well again", |sink| sink["refused"].is_null());
    goes_on("d");

    folder.change("least = 10", "least = \"ten\"");
    refused(&process, "/least");
    goes_on("e");
    folder.change("least = \"ten\"", "leest = 7 }\n[nonsense]\na = { b = 1");
    let problems = || process.problems();
    eventually("the configuration is refused", || {
        let problems = problems();
        (problems.contains("the configuration was changed") && problems.contains("nonsense"))
            .then_some(())
    });
    process.hang_up();
    goes_on("f");
    folder.change("leest = 7 }\n[nonsense]\na = { b = 1", "least = 60");
    eventually("all is well", || (problems() == "[]").then_some(()));
    process.processed("hostile", BY_ID, r#"{"id": "g", "n": 50}"#);
    assert_eq!(keys(&folder, "low"), ["g"], "the new settings count");
    assert_eq!(keys(&folder, "hostile"), ["a", "b", "c", "d", "e", "f"]);
    nobody_else_suffers(process);
}

#[test]
fn a_refused_configuration_is_read_again_when_a_file_that_it_names_comes_and_components_are_taken_meanwhile()
 {
    let (folder, plugin) = replaceable("sorts", "config = { least = 10 }\n");
    let mut folder = folder.toml("# here\n");
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a", "n": 50}"#);
    let late = folder.path("late.wasm");
    let section = format!(
        "[[sinks]]\nname = \"late\"\nplugin = {:?}\nstreams = [\"elsewhere\"]\nwrites = []\n",
        late.display().to_string()
    );
    folder.change("# here\n", &section);
    eventually("the configuration is refused", || {
        process.problems().contains("late.wasm").then_some(())
    });
    // A component of another sink has nothing to do with it.
    variant("sorts", 7, &plugin);
    says(&process, "uses its new settings");
    process.processed("hostile", BY_ID, r#"{"id": "b", "n": 50}"#);
    assert!(process.problems().contains("late.wasm"));
    let unfinished = late.with_extension("unfinished");
    std::fs::copy(guest("doorkeeper"), &unfinished).expect("a file");
    std::fs::rename(unfinished, &late).expect("a file");
    eventually("the sink runs", || {
        let sinks = process.list("/api/admin/sinks");
        let mut late = sinks.iter().filter(|sink| sink["name"] == "late");
        late.any(|sink| sink["state"] == "running").then_some(())
    });
    eventually("all is well", || (process.problems() == "[]").then_some(()));
    nobody_else_suffers(process);
}

#[test]
fn new_sinks_start_now_or_with_the_oldest_request_and_removed_ones_end() {
    if crate::setup::file_only("the database keeps payloads for some hours") {
        return;
    }
    // The sink that takes nothing holds the payloads.
    let mut folder = beside_a_good_sink(
        "doorkeeper",
        "retry = { first_ms = 3600000, max_ms = 3600000, attempts = 9 }\n",
    );
    let process = folder.spawn();
    let held = || -> Option<i64> {
        let journal = folder.journal();
        let sql = "SELECT count(*) FROM payloads";
        journal.query_row(sql, [], |row| row.get(0)).ok()
    };
    process.accepted("hostile", BY_ID, r#"{"id": "close"}"#);
    eventually("no payload is held", || (held() == Some(0)).then_some(()));
    let old = process.accepted("hostile", BY_ID, r#"{"id": "retry-old"}"#);
    process.sink_becomes("hostile", "at work", |sink| sink["retries"] == 1);
    let sinks = "[[sinks]]\nname = \"pool\"";
    let added = |name: &str, start: &str| {
        format!(
            "[[sinks]]\nname = \"{name}\"\nplugin = \"{name}\"\nstreams = [\"hostile\"]\nstart = \"{start}\"\n{sinks}"
        )
    };
    // Named before it is there: dropped into the plugins folder, it starts.
    folder.change(sinks, &added("oldest", "oldest"));
    says(&process, "neither a built-in plugin nor a file");
    let dropped = folder.data_dir().join("plugins/oldest.wasm");
    std::fs::copy(guest("keeps_order"), dropped.with_extension("new")).expect("a file");
    std::fs::rename(dropped.with_extension("new"), dropped).expect("a file");
    says(&process, "a new sink");
    let dropped = folder.data_dir().join("plugins/now.wasm");
    std::fs::copy(guest("keeps_order"), dropped).expect("a file");
    folder.change(sinks, &added("now", "now"));
    eventually("both are there", || {
        let sinks = process.admin("/api/admin/sinks");
        (sinks.as_array()?.len() == 4).then_some(())
    });
    process.accepted("hostile", BY_ID, r#"{"id": "new"}"#);
    let lagless = |sink: &Value| sink["lag"] == 0 && sink["state"] == "running";
    process.sink_becomes("oldest", "done", lagless);
    process.sink_becomes("now", "done", lagless);
    let taken = |sink: &str| -> String {
        let pool = folder.pool();
        let sql = "SELECT CAST(value AS TEXT) FROM sink_state WHERE sink = ?1 AND key = 'order'";
        pool.query_row(sql, [sink], |row| row.get(0))
            .expect("a row")
    };
    assert_eq!(
        (&*taken("oldest"), &*taken("now")),
        ("retry-old new ", "new ")
    );
    let sinks = process.request(&old)["sinks"].to_string();
    assert!(
        sinks.contains("oldest") && !sinks.contains("\"now\""),
        "{sinks}"
    );

    // Out of the configuration, the one that takes nothing still holds what it has not; forgotten, nothing.
    let hostile = format!("name = \"hostile\"\nplugin = \"{}\"", guest("doorkeeper"));
    folder.change(
        &format!("[[sinks]]\n{hostile}\nstreams = [\"hostile\"]\nwrites = [\"*\"]\nretry = {{ first_ms = 3600000, max_ms = 3600000, attempts = 9 }}\n"),
        "",
    );
    process.sink_becomes("hostile", "unconfigured", |sink| {
        sink["state"] == "unconfigured" && sink["retries"] == 1
    });
    process.request_becomes(&old, "processed");
    let held = || -> Option<i64> {
        let journal = folder.journal();
        let sql = "SELECT count(*) FROM payloads";
        journal.query_row(sql, [], |row| row.get(0)).ok()
    };
    assert!(held() > Some(0));
    assert_eq!(
        process
            .call("DELETE", "/api/admin/sinks/hostile", "")
            .status,
        200
    );
    eventually("no payload is held", || (held() == Some(0)).then_some(()));
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_is_missing_from_the_configuration_keeps_its_backlog_until_it_is_forgotten() {
    let mut folder = beside_a_good_sink("doorkeeper", QUICK_RETRIES);
    let process = folder.spawn();
    let send = |process: &Process, key: &str| {
        process.accepted("hostile", BY_ID, &format!("{{\"id\": \"{key}\"}}"))
    };
    let closed = send(&process, "close");
    process.request_becomes(&closed, "processed");
    let refused = send(&process, "reject-a");
    process.request_becomes(&refused, "failed");
    let waiting = send(&process, "retry-b");
    process.sink_becomes("hostile", "at work", |sink| sink["retries"] == 1);
    process.stop();
    let names = ["name = \"hostile\"\nplugin", "name = \"other\"\nplugin"];
    folder.change(names[0], names[1]);

    let process = folder.spawn();
    let meanwhile = send(&process, "c");
    process.request_becomes(&meanwhile, "processed");
    let sink = process.sink("hostile");
    let counts = ["lag", "retries", "dead_letters"].map(|name| sink[name].as_u64());
    // What waits to be tried again is behind, too.
    assert_eq!(counts, [Some(2), Some(1), Some(1)], "{sink}");
    let problems = process.problems();
    assert!(
        problems.contains("headgate sink forget hostile"),
        "{problems}"
    );
    let answer = process.call("DELETE", "/api/admin/sinks/pool", "");
    assert_eq!(answer.status, 409, "{}", answer.body);
    process.stop();
    folder.change(names[1], names[0]);

    let process = folder.spawn();
    let opened = send(&process, "open");
    process.request_becomes(&opened, "processed");
    assert_eq!(
        process
            .call("POST", "/api/admin/sinks/hostile/retry", "")
            .status,
        200
    );
    process.request_becomes(&waiting, "processed");
    let taken = super::letters::taken(&folder);
    assert_eq!(taken, 4, "what was accepted meanwhile is among them");
    assert_eq!(process.dead_letters("hostile").len(), 1);
    assert_eq!(process.sink("other")["state"], "unconfigured");
    assert_eq!(
        process.call("DELETE", "/api/admin/sinks/other", "").status,
        200
    );
    assert_eq!(
        process.call("DELETE", "/api/admin/sinks/other", "").status,
        404
    );
    let problems = process.problems();
    assert!(!problems.contains("sink forget"), "{problems}");
    let trail = process.admin("/api/admin/audit").to_string();
    assert!(trail.contains("\"forget\""), "{trail}");
    nobody_else_suffers(process);
}

#[test]
fn other_streams_count_from_the_next_batch_on() {
    let (mut folder, _plugin) = replaceable("keeps_order", QUICK_RETRIES);
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    folder.change("streams = [\"hostile\"]", "streams = [\"nothing\"]");
    says(&process, "uses its new settings");
    process.accepted("hostile", BY_ID, r#"{"id": "b"}"#);
    process.sink_becomes("hostile", "past it", |sink| sink["lag"] == 0);
    folder.change("streams = [\"nothing\"]", "streams = [\"hostile\"]");
    eventually("the settings are back", || {
        let sink = process.sink("hostile");
        (sink["streams"][0] == "hostile").then_some(())
    });
    process.processed("hostile", BY_ID, r#"{"id": "c"}"#);
    let sql = "SELECT CAST(value AS TEXT) FROM sink_state WHERE key = 'order'";
    let order: String = one(&folder.pool(), sql);
    assert_eq!(order, "a c ");
    nobody_else_suffers(process);
}

#[test]
fn a_new_sink_gets_what_is_kept_after_all_others_have_it() {
    if crate::setup::file_only("the database keeps payloads for some hours") {
        return;
    }
    let mut folder = Setup::with_streams(&["innocent", "hostile"])
        .set("storage.payload_retention_minutes", 60)
        .set("storage.payload_retention_bytes", 1000)
        .sink("pool", "pool", "*", "");
    let process = folder.spawn();
    let text = "x".repeat(200);
    for number in 0..12 {
        let body = format!("{{\"id\": \"{number:02}\", \"text\": \"{text}\"}}");
        process.processed("hostile", BY_ID, &body);
    }
    let kept = || -> Vec<i64> {
        let journal = folder.journal();
        let mut statement = journal
            .prepare("SELECT seq FROM payloads ORDER BY seq")
            .expect("a table");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    };
    eventually("only the newest are kept", || {
        (kept() == [9, 10, 11, 12]).then_some(())
    });
    process.kill();
    let process = folder.spawn();
    let dropped = folder.data_dir().join("plugins/late.wasm");
    std::fs::copy(guest("keeps_order"), dropped).expect("a file");
    folder.change(
        "[[sinks]]\n",
        "[[sinks]]\nname = \"late\"\nplugin = \"late\"\nstreams = [\"hostile\"]\nstart = \"oldest\"\n[[sinks]]\n",
    );
    says(&process, "a new sink");
    process.sink_becomes("late", "done", |sink| {
        sink["lag"] == 0 && sink["state"] == "running"
    });
    let sql = "SELECT CAST(value AS TEXT) FROM sink_state WHERE sink = 'late'";
    let order: String = one(&folder.pool(), sql);
    assert_eq!(order, "08 09 10 11 ");
    nobody_else_suffers(process);
}
