//! The sink `threshold` does the same in every language, in Rust here and in others as a new project; and the other
//! examples do what their READMEs say.
#![expect(
    clippy::disallowed_methods,
    reason = "a large component compiles for longer than the helpers wait"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    COMPILED, JAVASCRIPT, RUST, Workshop, available, follow_readme, headgate, shell, tried,
};
use crate::command_line::finish;
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

const FOUR: &str = r#"[{"id": "a", "value": 12.50, "secret": "s"}, {"id": "b", "value": 3, "secret": "s"}, {"id": "c", "value": "high"}, {"id": "d", "value": 10}]"#;

/// Waits until a request has this status; a sink's first request waits for its component, which for Python takes long.
pub(super) fn becomes(process: &Process, request_id: &str, status: &str) {
    let started = Instant::now();
    while process.request(request_id)["status"] != status {
        let waited = started.elapsed() < Duration::from_secs(240);
        assert!(waited, "{}\n{}", process.request(request_id), process.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn checked(workshop: &Workshop, component: &Path, more: &[&str]) -> Value {
    let mut command = headgate(Path::new("."));
    command.env(COMPILED, workshop.compiled());
    command.args(["plugin", "check", "--output", "json"]);
    command.arg(component).args(more);
    let report = finish(&mut command, "").ok();
    serde_json::from_str(&report).expect("JSON")
}

/// What all languages have in common.
pub(super) fn keeps_what_is_over_the_threshold(workshop: &Workshop, component: &Path) {
    let report: Value = serde_json::from_str(&tried(workshop, component, FOUR).out).expect("JSON");
    let expected = json!({
        "result": "rejected 1 of 4 items",
        "effects": [
            {"effect": "upsert", "stream": "orders", "key": "a", "fields": {"id": "a", "value": 12.50}},
            {"effect": "upsert", "stream": "orders", "key": "d", "fields": {"id": "d", "value": 10}},
            {"effect": "publish", "stream": "orders", "key": "a"},
            {"effect": "publish", "stream": "orders", "key": "d"},
        ],
        "state": [],
        "rejected": [{"index": 2, "reason": "value is not a number"}],
        "kept_handles": false,
    });
    assert_eq!(report, expected);

    let plugin = component.display().to_string();
    let folder = Setup::with_streams(&["orders"]).sink(
        "mine",
        &plugin,
        "orders",
        "config = { least = 10 }\n",
    );
    workshop.hand_compiled_to(&folder);
    let process = folder.spawn();
    let id = process.accepted("orders", BY_ID, FOUR);
    becomes(&process, &id, "failed");
    let kept = [
        (
            "a".to_owned(),
            json!({"id": "a", "value": 12.50}),
            id.clone(),
        ),
        ("d".to_owned(), json!({"id": "d", "value": 10}), id),
    ];
    assert_eq!(folder.items("orders"), kept);
    let letter = process.dead_letter("mine");
    assert_eq!(letter["key"], "c");
    assert_eq!(letter["reason"], "value is not a number");

    // The same instance goes on after an error.
    let id = process.accepted("orders", BY_ID, r#"{"id": "b", "value": 11}"#);
    becomes(&process, &id, "processed");
    assert_eq!(folder.items("orders").len(), 3);
    let metrics = process.metrics();
    let counter = "headgate_plugin_events_total{sink=\"mine\",name=\"kept\"} 3";
    let counted = metrics.lines().any(|line| line.starts_with(counter));
    assert!(counted, "{metrics}");
    process.stop();
}

#[test]
fn rust() {
    assert!(available("rust", RUST));
    let workshop = Workshop::enter("examples");
    let project = workshop.example("rust");
    let built = "target/wasm32-wasip2/release/threshold.wasm";
    keeps_what_is_over_the_threshold(&workshop, &follow_readme(&workshop, &project, built));

    let project = workshop.example("rust-smallest");
    let lines = std::fs::read_to_string(project.join("src/lib.rs")).expect("a file");
    assert!(lines.lines().count() < 15, "its README says so");
    let built = "target/wasm32-wasip2/release/smallest.wasm";
    let smallest = follow_readme(&workshop, &project, built);
    let folder = Setup::with_streams(&["orders"]).sink(
        "mine",
        &smallest.display().to_string(),
        "orders",
        "",
    );
    let process = folder.spawn();
    let id = process.accepted("orders", BY_ID, FOUR);
    becomes(&process, &id, "processed");
    let kept = folder.items("orders").into_iter();
    assert_eq!(kept.map(|(key, ..)| key).collect::<Vec<_>>(), ["a", "d"]);
    process.stop();
}

/// What the README says of components without WASI.
pub(super) fn asks_for_no_wasi(workshop: &Workshop, component: &Path, name: &str) {
    let report = checked(workshop, component, &["--settings", r#"{"least": 10}"#]);
    assert_eq!(report["name"], name);
    let imports = report["imports"].as_array().expect("a list").iter();
    let wasi = imports.filter(|import| import.as_str().is_some_and(|i| i.starts_with("wasi:")));
    assert_eq!(wasi.count(), 0, "{report}");
}

#[test]
fn the_bindings_for_c_fit_the_world() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plugins/c");
    let workshop = Workshop::enter("bindings");
    shell(&workshop, &folder, "sh bindings.sh --check").ok();
    let copy = workshop.example("c");
    let world = workshop.root.join("plugins/sdk/wit/sink.wit");
    let text = std::fs::read_to_string(&world).expect("the world");
    std::fs::write(&world, format!("// A remark.\n{text}")).expect("a file");
    shell(&workshop, &copy, "sh bindings.sh --check").ok();
    std::fs::write(&world, text.replace("attempt: func", "attempts: func")).expect("a file");
    let told = shell(&workshop, &copy, "sh bindings.sh --check").failed(1);
    assert!(
        told.contains("run examples/plugins/c/bindings.sh"),
        "{told}"
    );
}

#[test]
fn javascript_with_fetch() {
    if !available("languages::behaviour::javascript_with_fetch", JAVASCRIPT) {
        return;
    }
    let workshop = Workshop::enter("javascript-fetch");
    let project = workshop.example("javascript-fetch");
    let component = follow_readme(&workshop, &project, "notify.wasm");
    let receiver = Receiver::start(|seen, before| match (seen.path.as_str(), before) {
        ("/in", 0) => answer(503, "", ""),
        ("/in", _) => answer(204, "", ""),
        _ => answer(400, "", ""),
    });
    let sink = |name: &str| {
        let (stream, url) = (name, receiver.url(&format!("/{name}")));
        let host = url.trim_end_matches(&format!("/{name}"));
        format!(
            "[[sinks]]\nname = {name:?}\nplugin = {component:?}\nstreams = [{stream:?}]\n\
             retry = {{ first_ms = 10, max_ms = 40, attempts = 3 }}\nconfig = {{ url = {url:?} }}\n\
             http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
        )
    };
    let folder = Setup::with_streams(&["in", "bad"])
        .toml(&sink("in"))
        .toml(&sink("bad"));
    workshop.hand_compiled_to(&folder);
    let process = folder.spawn();
    let id = process.accepted("in", BY_ID, FOUR);
    becomes(&process, &id, "processed");
    let seen = receiver.seen();
    let [first, second] = &seen[..] else {
        panic!("two requests were expected: {seen:?}");
    };
    assert_eq!(first.method, "POST");
    assert_eq!(second.json()[0]["fields"]["value"], json!(12.5));
    assert_eq!(second.json().as_array().map(Vec::len), Some(4));
    assert_eq!(first.body, second.body);
    let key = second.header("idempotency-key");
    assert!(key.is_some() && key == first.header("idempotency-key"));
    let id = process.accepted("bad", BY_ID, r#"{"id": "a"}"#);
    becomes(&process, &id, "failed");
    assert_eq!(process.dead_letters("bad")[0]["reason"], "answered 400");
    process.stop();
}
