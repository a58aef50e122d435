//! What the routes do: a sink from its making to its end.

use serde_json::{Value, json};

use super::{forwards, patch, refusal, sent};
use crate::guests::guest;
use crate::pages::Site;
use crate::process::Process;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

#[test]
fn a_sink_is_made_changed_paused_and_deleted_without_a_file() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let process = Setup::with_streams(&["orders"]).spawn();
    process.processed("orders", "", r#"{"number": 0}"#);

    let made = process.make("/api/admin/sinks", &forwards(&receiver, "team", "orders"));
    let made = made.data(201);
    assert_eq!(made["declared"], false);
    assert_eq!(made["enabled"], true);
    assert_eq!(made["start"], "now");
    assert_eq!(made["mode"], "journal");
    assert_eq!(made["leaves"], "skip");
    assert_eq!(made["ordering"], "key");
    assert_eq!(made["in_flight"], 1);
    assert_eq!(made["batch"]["linger_ms"], 0);
    assert_eq!(made["retry"]["attempts"], 12);
    assert_eq!(made["postgres"], Value::Null);
    assert_eq!(
        made["grants"],
        json!([
            format!("may call {}", receiver.url("")),
            "may call addresses in 127.0.0.0/8"
        ])
    );
    assert_eq!(made["section"], forwards(&receiver, "team", "orders"));

    // What was accepted after the answer, and nothing before it.
    process.processed("orders", "", r#"{"number": 1}"#);
    assert_eq!(sent(&receiver), [json!({"number": 1})]);

    let changed = patch(
        &process,
        "team",
        &json!({"where": "number>=3", "fields": "n:number"}),
    );
    let changed = changed.data(200);
    assert_eq!(changed["where"], "number>=3");
    assert_eq!(changed["section"]["fields"], "n:number");
    eventually("the lane has its new settings", || {
        process.accepted("orders", "", r#"{"number": 3}"#);
        process.drained();
        sent(&receiver).contains(&json!({"n": 3})).then_some(())
    });
    let before = sent(&receiver).len();
    process.processed("orders", "", r#"{"number": 2}"#);
    assert_eq!(sent(&receiver).len(), before);

    let paused = process
        .call("POST", "/api/admin/sinks/team/pause", "")
        .data(200);
    assert_eq!(
        (
            &paused["state"],
            &paused["paused_by"],
            &paused["paused_until"]
        ),
        (&json!("paused"), &json!("admin token"), &Value::Null)
    );
    assert_eq!(paused["section"]["enabled"], false);
    let again = process
        .call("POST", "/api/admin/sinks/team/pause", "")
        .data(200);
    assert_eq!(again["paused_at"], paused["paused_at"]);
    process.accepted("orders", "", r#"{"number": 4}"#);
    assert!(
        process
            .problems()
            .contains("sink team waits, with 1 request behind it: admin token paused it")
    );
    let told = refusal(&process.call("DELETE", "/api/admin/sinks/team", ""), 409);
    assert_eq!(told.0, "SINK_NOT_EMPTY");
    assert!(
        told.1
            .contains("up to 1 requests, 0 retries, 0 dead letters"),
        "{told:?}"
    );

    let resumed = process
        .call("POST", "/api/admin/sinks/team/resume", "")
        .data(200);
    assert_eq!(resumed["paused_by"], Value::Null);
    process.drained();
    assert!(sent(&receiver).contains(&json!({"n": 4})));

    let gone = process
        .call("DELETE", "/api/admin/sinks/team", "")
        .data(200);
    assert_eq!(gone, json!({"lag": 0, "retries": 0, "dead_letters": 0}));
    let answer = process.call("GET", "/api/admin/sinks/team", "");
    assert_eq!(refusal(&answer, 404).0, "SINK_NOT_FOUND");
    assert_eq!(process.list("/api/admin/sinks").len(), 1);
    let actions: Vec<Value> = (process.list("/api/admin/audit").iter())
        .map(|entry| entry["action"].clone())
        .collect();
    assert_eq!(actions, ["delete", "resume", "pause", "change", "create"]);
    process.stop();
}

#[test]
fn a_paused_sink_stays_so_after_a_restart_and_declared_ones_can_be_paused() {
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let paused = process
        .call("POST", "/api/admin/sinks/pool/pause", "")
        .data(200);
    assert_eq!(
        (&paused["declared"], &paused["state"]),
        (&json!(true), &json!("paused"))
    );
    process.accepted("orders", "", r#"{"number": 1}"#);
    process.kill();

    let process = folder.spawn();
    assert_eq!(process.sink("pool")["paused_by"], "admin token");
    assert_eq!(process.sink("pool")["lag"], 1);
    process
        .call("POST", "/api/admin/sinks/pool/resume", "")
        .data(200);
    process.drained();
    assert_eq!(folder.rows("orders").len(), 1);
    process.stop();
}

#[test]
fn one_that_is_not_enabled_is_made_and_waits() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let process = Setup::with_streams(&["orders"]).spawn();
    let mut sink = forwards(&receiver, "team", "orders");
    sink["enabled"] = false.into();
    let made = process.make("/api/admin/sinks", &sink).data(201);
    assert_eq!(
        (&made["state"], &made["enabled"]),
        (&json!("paused"), &json!(false))
    );
    process.accepted("orders", "", r#"{"number": 1}"#);
    let changed = patch(&process, "team", &json!({"enabled": true})).data(200);
    assert_eq!(
        (&changed["enabled"], &changed["paused_by"]),
        (&json!(true), &Value::Null)
    );
    process.drained();
    assert_eq!(sent(&receiver), [json!({"number": 1})]);
    process.stop();
}

#[test]
fn what_waits_goes_only_if_somebody_says_so_and_a_new_one_has_nothing_of_it() {
    let receiver = Receiver::start(|_, _| answer(400, "", "no"));
    let process = Setup::with_streams(&["orders"]).spawn();
    process
        .make("/api/admin/sinks", &forwards(&receiver, "team", "orders"))
        .data(201);
    process.failed("orders", "", r#"{"number": 1}"#);
    let told = refusal(&process.call("DELETE", "/api/admin/sinks/team", ""), 409);
    assert!(told.1.contains("1 dead letters"), "{told:?}");
    let gone = process
        .call("DELETE", "/api/admin/sinks/team?discard=true", "")
        .data(200);
    assert_eq!(gone["dead_letters"], 1);
    let made = process
        .make("/api/admin/sinks", &forwards(&receiver, "team", "orders"))
        .data(201);
    assert_eq!(
        (&made["dead_letters"], &made["lag"]),
        (&json!(0), &json!(0))
    );
    process.stop();
}

#[test]
fn a_file_that_names_it_later_counts_and_is_told_of() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let mut folder = Setup::with_streams(&["orders", "others"]).toml("# here\n");
    let process = folder.spawn();
    process
        .make("/api/admin/sinks", &forwards(&receiver, "team", "orders"))
        .data(201);
    let declared = "[[sinks]]\nname = \"team\"\nplugin = \"pool\"\nstreams = [\"others\"]\n";
    folder.change("# here\n", declared);
    process.hang_up();
    process.says("the sink \"team\" was created at run time and is declared now");
    let sink = process.sink_becomes("team", "declared", |sink| sink["plugin"] == "pool");
    assert_eq!(
        (&sink["declared"], &sink["plugin"]),
        (&json!(true), &json!("pool"))
    );
    assert!(
        process
            .problems()
            .contains("was created at run time and is declared now")
    );
    let answer = patch(&process, "team", &json!({"streams": ["orders"]}));
    assert_eq!(refusal(&answer, 409).0, "DECLARED");
    // One way out: the file is changed again, and the one that was made goes on.
    folder.change(declared, "# here\n");
    process.hang_up();
    eventually("the one that was made runs again", || {
        (process.sink("team")["plugin"] == "http-forward").then_some(())
    });
    // The other one.
    folder.change("# here\n", declared);
    process.hang_up();
    eventually("the declared one runs again", || {
        (process.sink("team")["plugin"] == "pool").then_some(())
    });
    process
        .call("DELETE", "/api/admin/sinks/team", "")
        .data(200);
    assert!(!process.problems().contains("created at run time"));
    assert_eq!(process.sink("team")["declared"], true);
    process.stop();
}

#[test]
fn a_sink_that_takes_nothing_is_failing_and_one_that_takes_something_runs() {
    let receiver = Receiver::start(|seen, _| match seen.body.contains("good") {
        true => answer(200, "", ""),
        false => answer(400, "", "no"),
    });
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    process.make("/api/admin/sinks", &forwards(&receiver, "team", "orders"));
    process.failed("orders", "", r#"{"is": "bad"}"#);
    let fails = |process: &Process| {
        let sink = process.sink_becomes("team", "failing", |sink| sink["state"] == "failing");
        let reason = sink["reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("its last batch became dead letters: "),
            "{reason}"
        );
    };
    fails(&process);
    // A start changes nothing of it.
    process.kill();
    let process = folder.spawn();
    fails(&process);
    assert!(
        process
            .problems()
            .contains("sink team takes nothing: its last batch")
    );
    process.processed("orders", "", r#"{"is": "good"}"#);
    let runs = |process: &Process| {
        process.sink_becomes("team", "running", |sink| sink["state"] == "running");
    };
    runs(&process);
    process.kill();
    let process = folder.spawn();
    runs(&process);
    process.stop();
}

#[test]
fn a_component_that_is_dropped_is_listed_and_told_of_and_is_no_problem() {
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let built_in = process.admin("/api/admin/plugins/http-forward");
    assert_eq!(built_in["kind"], "built-in");
    assert_eq!(built_in["schema"]["then"]["required"], json!(["url"]));
    assert_eq!(
        process.admin("/api/admin/plugins/pool")["used_by"],
        json!(["pool"])
    );
    let plugins = folder.data_dir().join("plugins");
    std::fs::copy(guest("doorkeeper"), plugins.join("mine.wasm")).expect("a copy");
    std::fs::write(plugins.join("odd.wasm"), "no component").expect("a file");
    process.says("a plugin is installed plugin=\"mine\"");
    process.says("a plugin is installed and cannot be used plugin=\"odd\"");
    let mine = process.admin("/api/admin/plugins/mine");
    assert_eq!(
        (&mine["kind"], &mine["used_by"], &mine["error"]),
        (&json!("file"), &json!([]), &Value::Null)
    );
    assert_eq!(mine["sha256"].as_str().map(str::len), Some(64));
    let odd = process.admin("/api/admin/plugins/odd");
    assert!(odd["error"].is_string(), "{odd}");
    assert_eq!(process.problems(), "[]");
    let page = Site::signed_in(&process).page("/sinks");
    assert!(page.contains("is installed and not used"), "{page}");
    // It is used by its name.
    let sink = json!({"name": "door", "plugin": "mine", "streams": ["orders"]});
    process.make("/api/admin/sinks", &sink);
    assert_eq!(
        process.admin("/api/admin/plugins/mine")["used_by"],
        json!(["door"])
    );
    assert_eq!(process.sink("door")["section"]["plugin"], "mine");
    let answer = process.call("GET", "/api/admin/plugins/nobody", "");
    assert_eq!(refusal(&answer, 404).0, "PLUGIN_NOT_FOUND");
    process.stop();
}
