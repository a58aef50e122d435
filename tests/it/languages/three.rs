//! The three sinks of `examples/plugins` (`chat`, `lines`, `totals`) do the same in every language.
//!
//! Each is one file: it stands in for the source of the language's project, which is built as its README says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use super::behaviour::becomes;
use super::{C, JAVASCRIPT, PYTHON, RUST, Workshop, available, shell};
use crate::faults::number;
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

/// Kills in a test of totals, unless a variable says how many.
const KILLS: u64 = 4;

/// How a language builds a sink.
struct Language {
    /// The project's folder, and that of its tools.
    name: &'static str,
    workshop: &'static str,
    ending: &'static str,
    source: &'static str,
    /// The file that says which world it is built for, where one does.
    builds_for: Option<&'static str>,
    build: &'static str,
    component: &'static str,
}

const IN_RUST: Language = Language {
    name: "rust",
    workshop: "examples",
    ending: "rs",
    source: "src/lib.rs",
    builds_for: None,
    build: "cargo build --release --target wasm32-wasip2",
    component: "target/wasm32-wasip2/release/threshold.wasm",
};
const IN_JAVASCRIPT: Language = Language {
    name: "javascript",
    workshop: "javascript",
    ending: "js",
    source: "sink.js",
    builds_for: Some("package.json"),
    build: "npm install && npm run build",
    component: "threshold.wasm",
};
const IN_PYTHON: Language = Language {
    name: "python",
    workshop: "python",
    ending: "py",
    source: "app.py",
    builds_for: Some("build.sh"),
    build: "sh build.sh",
    component: "threshold.wasm",
};
const IN_C: Language = Language {
    name: "c",
    workshop: "c",
    ending: "c",
    source: "sink.c",
    builds_for: None,
    build: "sh build.sh",
    component: "threshold.wasm",
};

/// A component of Python takes minutes to compile where other tests compile, too.
fn with_patience(streams: &[&str]) -> Setup {
    Setup::with_streams(streams).set("plugins.compile_timeout_seconds", 3_600)
}

/// Builds a sink in the project of its language, for the world of sinks that call others if it does.
fn built(workshop: &Workshop, language: &Language, sink: &str, calls: bool) -> PathBuf {
    let project = workshop.example(language.name);
    let source = format!("examples/plugins/{sink}/{sink}.{}", language.ending);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    fs::copy(source, project.join(language.source)).expect("a copy");
    if let (true, Some(file)) = (calls, language.builds_for) {
        let file = project.join(file);
        let text = fs::read_to_string(&file).expect("a file");
        fs::write(&file, text.replace("sink-plugin", "calling-sink")).expect("a file");
    }
    shell(workshop, &project, language.build).ok();
    let component = workshop.root.join(format!("{sink}.wasm"));
    fs::copy(project.join(language.component), &component).expect("a component");
    component
}

/// A sink that calls `url`, whose stream has its name.
fn calling(name: &str, component: &Path, url: &str) -> String {
    let parts: Vec<_> = url.splitn(4, '/').take(3).collect();
    let host = parts.join("/");
    format!(
        "[[sinks]]\nname = {name:?}\nplugin = {component:?}\nstreams = [{name:?}]\nwrites = []\n\
         retry = {{ first_ms = 10, max_ms = 40, attempts = 3 }}\nconfig = {{ url = {url:?} }}\n\
         http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    )
}

/// Why the only item of a request was given up.
fn reason(process: &Process, sink: &str, body: &str) -> String {
    let id = process.accepted(sink, BY_ID, body);
    becomes(process, &id, "failed");
    let letter = process.dead_letter(sink);
    letter["reason"].as_str().expect("text").to_owned()
}

/// Messages are told once each, in order; the chat is left alone for as long as it asks.
fn tells_a_chat(component: &Path) {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&times);
    let receiver = Receiver::start(move |seen, before| {
        noted
            .lock()
            .expect("no panic while held")
            .push(Instant::now());
        match before {
            1 => answer(429, "retry-after: 1\r\n", "slow down"),
            _ if seen.body.contains("Nobody") => answer(400, "", "no such member"),
            _ => answer(204, "", ""),
        }
    });
    let setup = with_patience(&["chat", "deaf"])
        .toml(&calling("chat", component, &receiver.url("/hook")))
        .toml(&calling("deaf", component, "http://127.0.0.1:9/hook"));
    let process = setup.spawn();
    let items = json!([
        {"id": "a", "customer": "Anna \"A.\" Ärmel", "total": 120},
        {"id": "b", "customer": "Bo", "total": 12.50},
        {"id": "c", "customer": "Nobody", "total": 1},
        {"id": "d"},
    ]);
    let text = items.to_string().replace("12.5}", "12.50}");
    let id = process.accepted("chat", BY_ID, &text);
    becomes(&process, &id, "failed");
    let letter = process.dead_letter("chat");
    assert_eq!(letter["key"], "c");
    assert_eq!(letter["reason"], "the chat answered 400");
    let seen = receiver.seen();
    let told: Vec<_> = seen
        .iter()
        .map(|seen| seen.json()["text"].clone())
        .collect();
    let bo = "Bo: 12.50";
    assert_eq!(
        told,
        ["Anna \"A.\" Ärmel: 120", bo, bo, "Nobody: 1", "?: ?"]
    );
    let keys: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("idempotency-key"))
        .collect();
    assert!(
        keys[1].is_some() && keys[1] == keys[2] && keys[1] != keys[0],
        "{keys:?}"
    );
    let times = times.lock().expect("no panic while held").clone();
    let waited = times[2].duration_since(times[1]);
    assert!(waited >= Duration::from_millis(950), "{waited:?}");

    let words = "no answer: 127.0.0.1:9 refuses connections";
    assert_eq!(reason(&process, "deaf", r#"{"id": "a"}"#), words);
    process.stop();
}

/// A batch is one request, which comes again as it was.
fn writes_lines(component: &Path) {
    let receiver = Receiver::start(|seen, before| match before {
        0 => answer(503, "", "busy"),
        _ if seen.body.contains("partial") => answer(422, "", "no"),
        _ => answer(204, "", ""),
    });
    let url = receiver.url("/api/v2/write?precision=ms");
    let setup = with_patience(&["lines"]).toml(&calling("lines", component, &url));
    let process = setup.spawn();
    let items = r#"[{"id": "a b,c=d", "value": 12.50}, {"id": "b", "value": "high"}, {"id": "é", "value": -3}]"#;
    let id = process.accepted("lines", BY_ID, items);
    becomes(&process, &id, "failed");
    let letter = process.dead_letter("lines");
    assert_eq!(letter["key"], "b");
    assert_eq!(letter["reason"], "value is not a number");
    let seen = receiver.seen();
    let [first, second] = &seen[..] else {
        panic!("two requests were expected: {seen:?}");
    };
    assert_eq!((&first.body, &first.path), (&second.body, &second.path));
    let key = first.header("idempotency-key");
    assert!(key.is_some() && key == second.header("idempotency-key"));
    let lines: Vec<_> = first.body.lines().collect();
    let begins = [
        "lines,key=a\\ b\\,c\\=d value=12.50 1",
        "lines,key=é value=-3 1",
    ];
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, begins) in lines.iter().zip(begins) {
        // Milliseconds have 13 digits until 2286.
        assert!(line.starts_with(begins), "{line}");
        assert_eq!(line.len(), begins.len() + 12, "{line}");
    }
    let id = process.accepted("lines", BY_ID, r#"{"id": "partial", "value": 1}"#);
    becomes(&process, &id, "failed");
    let letters = process.dead_letters("lines");
    let reasons: Vec<_> = letters.iter().map(|letter| &letter["reason"]).collect();
    assert!(
        reasons.contains(&&json!("the database answered 422")),
        "{reasons:?}"
    );
    process.stop();
}

/// Totals are those of what was accepted, whenever the daemon was killed.
fn keeps_totals(component: &Path) {
    let setup = with_patience(&["orders"]).toml(&format!(
        "[[sinks]]\nname = \"totals\"\nplugin = {component:?}\nstreams = [\"orders\"]\nwrites = []\nmakes = [\"totals\"]\n"
    ));
    let kills = number("HEADGATE_KILLS").unwrap_or(KILLS);
    let mut expected: BTreeMap<String, f64> = BTreeMap::new();
    for round in 0..kills {
        let process = setup.spawn();
        let ids = (0..20_u32).map(|request| {
            let (key, amount) = (format!("k\"{}", request % 5), f64::from(request) - 2.5);
            *expected.entry(key.clone()).or_default() += amount;
            let item = json!({"id": key, "amount": amount});
            process.accepted("orders", BY_ID, &item.to_string())
        });
        let ids: Vec<_> = ids.collect();
        // From the first of the last round on, the component is compiled; every second time some are taken.
        if round % 2 == 0 {
            becomes(&process, &ids[0], "processed");
        }
        process.kill();
    }
    let process = setup.spawn();
    let wrong = r#"[{"id": "x", "amount": "many"}, {"id": "y", "amount": 0.05}]"#;
    expected.insert("y".to_owned(), 0.05);
    let id = process.accepted("orders", BY_ID, wrong);
    becomes(&process, &id, "failed");
    process.drained();
    let letter = process.dead_letter("totals");
    assert_eq!(letter["key"], "x");
    assert_eq!(letter["reason"], "amount is not a number");
    let totals = setup.items("totals").into_iter();
    let totals = totals.map(|(key, fields, _)| (key, fields["total"].as_f64().expect("a number")));
    assert_eq!(totals.collect::<BTreeMap<_, _>>(), expected);
    process.stop();
}

/// All sinks of a language, through the same assertions.
fn works(test: &str, language: &Language, programs: &[&[&str]]) {
    if !available(&format!("languages::three::{test}"), programs) {
        return;
    }
    let workshop = Workshop::enter(language.workshop);
    let chat = built(&workshop, language, "chat", true);
    if test == "javascript" {
        let bytes = fs::metadata(&chat).expect("a component").len();
        assert!(bytes < 2_000_000, "{bytes} bytes");
    }
    tells_a_chat(&chat);
    keeps_totals(&built(&workshop, language, "totals", false));
    writes_lines(&built(&workshop, language, "lines", true));
}

#[test]
fn rust() {
    works("rust", &IN_RUST, RUST);
}

#[test]
fn javascript() {
    works("javascript", &IN_JAVASCRIPT, JAVASCRIPT);
}

#[test]
fn python() {
    works("python", &IN_PYTHON, PYTHON);
}

#[test]
fn c() {
    works("c", &IN_C, C);
}
