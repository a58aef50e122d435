//! `headgate plugin`: what an author sees without a daemon.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::{fs, io};

use serde_json::{Value, json};

use super::{Done, finish, headgate, run};
use crate::guests::guest;
use crate::program::{Lines, RUN_MAX};

const LEAST: [&str; 2] = ["--settings", r#"{"least": 10}"#];

/// The program with this on its standard input.
fn fed<'a>(arguments: impl IntoIterator<Item = &'a str>, input: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    finish(headgate(folder.path()).args(arguments), input)
}

#[test]
fn check_says_what_a_component_is_and_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let sorts = guest("sorts");
    let text = run(
        folder.path(),
        ["plugin", "check", &sorts, LEAST[0], LEAST[1]],
    )
    .ok();
    assert!(text.contains("headgate-test-guests 0.0.0, "), "{text}");
    assert!(text.contains("\n  headgate:sink/state@"), "{text}");
    assert!(text.contains("has settings, and these are valid"), "{text}");
    let writes =
        "can write the data pool; its section lists the allowed streams: writes = [\"orders\"]";
    assert!(text.contains(writes), "{text}");
    let none = run(folder.path(), ["plugin", "check", &guest("rejects")]).ok();
    assert!(!none.contains("the data pool"), "{none}");
    assert!(text.contains("\n  headgate:sink/sink@1.2.0\n"), "{text}");
    assert!(
        text.contains("64 MiB of memory, 5000 ms of CPU time"),
        "{text}"
    );
    assert!(
        text.contains("tried with one item: it rejected 1 of 1"),
        "{text}"
    );
    let more = [
        "plugin", "check", &sorts, LEAST[0], LEAST[1], "--output", "json",
    ];
    let report: Value = serde_json::from_str(&run(folder.path(), more).ok()).expect("JSON");
    assert_eq!(report["config_schema"]["required"], json!(["least"]));
    assert_eq!(report["asks_for_pool"], true);
    let imports = report["imports"].as_array().expect("a list");
    assert!(!imports.contains(&json!("wasi:filesystem/types")));

    for (plugin, settings, words) in [
        (sorts.as_str(), "{}", "\"least\" is a required property"),
        (sorts.as_str(), "{", "--settings is not JSON"),
        ("pool", r#"{"a": 1}"#, "it takes no settings, not a"),
        ("nothing.wasm", "{}", "cannot read the plugin nothing.wasm"),
        (&guest("wants_files"), "{}", "wasi:filesystem"),
        (&guest("loops_at_start"), "{}", "does not start"),
        (&guest("panics"), "{}", "the trial run failed: "),
    ] {
        let refused = run(
            folder.path(),
            ["plugin", "check", plugin, "--settings", settings],
        );
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
}

#[test]
fn compiled_code_is_kept_where_only_its_user_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let sorts = guest("sorts");
    let check = |cache: &str| {
        let mut command = headgate(folder.path());
        command.env("HEADGATE_PLUGIN_CACHE", cache);
        command.args(["plugin", "check", &sorts, LEAST[0], LEAST[1]]);
        finish(&mut command, "")
    };
    let kept = || {
        let entries = fs::read_dir(folder.path().join("mine/plugin-cache")).expect("a folder");
        let metadata = |entry: io::Result<fs::DirEntry>| entry.and_then(|entry| entry.metadata());
        let inode = |metadata: fs::Metadata| metadata.ino();
        entries
            .map(|entry| inode(metadata(entry).expect("an entry")))
            .collect::<Vec<_>>()
    };
    check("mine").ok();
    let first = kept();
    assert_eq!(first.len(), 1);
    check("mine").ok();
    assert_eq!(kept(), first, "it was compiled again");

    // Without a folder of its own, that of the data folder.
    let plain = || {
        run(
            folder.path(),
            ["plugin", "check", &sorts, LEAST[0], LEAST[1]],
        )
        .ok()
    };
    plain();
    assert!(!folder.path().join("data").exists(), "none is made for it");
    fs::create_dir(folder.path().join("data")).expect("a folder");
    plain();
    let compiled = || {
        fs::read_dir(folder.path().join("data/plugin-cache"))
            .expect("a folder")
            .count()
    };
    assert_eq!(compiled(), 1);
    // A daemon that runs keeps it: what is there is used all the same, and more is left for it.
    let held = fs::File::open(folder.path().join("data/plugin-cache")).expect("a folder");
    held.lock().expect("a lock");
    plain();
    let other = guest("rejects");
    run(folder.path(), ["plugin", "check", &other]).ok();
    assert_eq!(compiled(), 2);

    let used = fs::File::open(folder.path().join("mine/plugin-cache")).expect("a folder");
    used.lock().expect("a lock");
    let told = check("mine").failed(2);
    assert!(told.contains("another process uses it"), "{told}");

    fs::create_dir(folder.path().join("ours")).expect("a folder");
    let shared = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path().join("ours"), shared).expect("a mode");
    let told = check("ours").failed(2);
    assert!(told.contains("other users can write to it"), "{told}");
    assert!(!folder.path().join("ours/plugin-cache").exists());
}

#[test]
fn test_prints_what_a_sink_would_have_done() {
    let sorts = guest("sorts");
    let input = r#"[{"id": "a", "n": 1.50, "secret": "x"}, {"id": "b", "n": 20}, {"id": "c", "gone": true}]"#;
    let arguments = [
        "plugin",
        "test",
        &sorts,
        LEAST[0],
        LEAST[1],
        "--item-key",
        "id",
        "--stream",
        "orders",
        "--output",
        "json",
    ];
    let report = fed(arguments, input).ok();
    assert!(report.contains("1.50"), "numbers keep their text: {report}");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["result"], "took all items");
    assert_eq!(
        report["effects"],
        json!([
            {"effect": "upsert", "stream": "orders", "key": "b", "fields": {"id": "b", "n": 20}},
            {"effect": "upsert", "stream": "low", "key": "a", "fields": {"id": "a", "low.n": 1.5}},
            {"effect": "delete", "stream": "orders", "key": "c"},
            {"effect": "publish", "stream": "orders", "key": "b"},
        ])
    );
    assert_eq!(
        report["state"],
        json!([{"key": "seen", "bytes": 3, "text": "..."}])
    );
    let some = arguments.into_iter().chain(["--writes", "orders"]);
    let refused = fed(some, input);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let words = "the sink may not write the stream \"low\" of the data pool: `writes` of its section does not list it";
    assert!(refused.err.contains(words), "{refused:?}");

    let bad = fed(
        arguments[..9].iter().copied(),
        r#"{"id": "d", "n": "\u001b[31m"}"#,
    );
    assert_eq!(bad.code, Some(1));
    assert!(
        bad.out.contains("reject") && bad.out.contains("item 0"),
        "{bad:?}"
    );
    assert!(
        bad.err.contains("the sink rejected 1 of 1 items"),
        "{bad:?}"
    );
    assert!(!bad.out.contains('\u{1b}') && !bad.err.contains('\u{1b}'));
    let malformed = fed(["plugin", "test", "pool"], "[1]");
    assert_eq!(malformed.code, Some(2), "{malformed:?}");
    let retry = fed(["plugin", "test", &guest("retries_twice")], "{}");
    assert!(
        retry.err.contains("asks for a retry in 1500 ms"),
        "{retry:?}"
    );
    let trap = fed(["plugin", "test", &guest("panics")], "{}");
    assert_eq!(trap.code, Some(1));
    assert!(trap.err.contains("failed: "), "{trap:?}");
}

#[test]
fn what_is_expected_is_compared_and_a_watch_tries_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let items = r#"[{"id": "a", "n": 1.50}, {"id": "b", "n": 20}]"#;
    fs::write(at("items.json"), items).expect("a file");
    let expected = json!({
        "result": "took all items",
        "effects": [{"effect": "upsert", "key": "b"}, {"stream": "low", "key": "a"}, {"effect": "publish"}],
        "max_ms": 60_000,
    });
    fs::write(at("expected.json"), expected.to_string()).expect("a file");
    let sorts = guest("sorts");
    let test = [
        "plugin",
        "test",
        &sorts,
        LEAST[0],
        LEAST[1],
        "--item-key",
        "id",
        "--input",
        "items.json",
    ];
    let expecting: Vec<&str> = test
        .into_iter()
        .chain(["--expect", "expected.json"])
        .collect();
    let told = run(folder.path(), &expecting).ok();
    assert!(
        told.contains("as expected: the sink took all items"),
        "{told}"
    );

    fs::write(at("items.json"), r#"[{"id": "b", "n": 20}]"#).expect("a file");
    let told = run(folder.path(), &expecting).failed(1);
    assert!(
        told.contains("effects[1].key: \"a\" was expected, it is \"b\""),
        "{told}"
    );
    fs::write(at("expected.json"), r#"{"efects": []}"#).expect("a file");
    let told = run(folder.path(), &expecting).failed(2);
    assert!(told.contains("`efects` is not known"), "{told}");
    let told = run(folder.path(), ["plugin", "test", &sorts, "--watch"]).failed(2);
    assert!(told.contains("name its file with --input"), "{told}");

    fs::write(at("expected.json"), expected.to_string()).expect("a file");
    let mut watching = headgate(folder.path());
    let watching = watching.args(&expecting).arg("--watch");
    let mut child = watching
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let told = Lines::of(child.stderr.take().expect("piped"));
    let printed = Lines::of(child.stdout.take().expect("piped"));
    let waits = |lines: &Lines, words: &str| {
        while let Some(line) = lines.next_within(RUN_MAX) {
            if line.contains(words) {
                return;
            }
        }
        panic!("it does not say {words:?}");
    };
    waits(&told, "it is not as expected");
    waits(&told, "watching for changes");
    fs::write(at("items.json"), items).expect("a file");
    waits(&printed, "as expected: the sink took all items");
    child.kill().expect("a child");
    child.wait().expect("a child");
}

#[test]
fn what_is_no_sink_is_named_in_words_for_its_author() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).expect("a file");
        run(folder.path(), ["plugin", "check", name]).failed(2)
    };
    for (bytes, words) in [
        (&b"fn main() {}\n"[..], "it is a text file"),
        (b"\0asm\x01\0\0\0", "it is a core module, not a component"),
        // A component with nothing in it.
        (
            b"\0asm\x0d\0\x01\0",
            "it lacks the export headgate:sink/sink@1.2.0",
        ),
    ] {
        let told = check("mine.wasm", bytes);
        assert!(told.contains(words), "{words}: {told}");
    }
    let late = run(folder.path(), ["plugin", "check", &guest("hoards")]);
    assert_eq!(late.code, Some(0), "{late:?}");
    let kept = fed(["plugin", "test", &guest("hoards")], "{}");
    assert!(kept.err.contains("warning: it keeps handles"), "{kept:?}");
}
