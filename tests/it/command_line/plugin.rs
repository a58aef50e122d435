//! `headgate plugin`: what an author sees without a daemon.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::{fs, io};

use serde_json::{Value, json};

use super::{Done, finish, headgate, run};
use crate::guests::guest;

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
    assert!(text.contains("takes settings, and these fit"), "{text}");
    let writes = "can write the data pool; which streams it may write there, its section says: writes = [\"orders\"]";
    assert!(text.contains(writes), "{text}");
    let none = run(folder.path(), ["plugin", "check", &guest("rejects")]).ok();
    assert!(!none.contains("the data pool"), "{none}");
    assert!(text.contains("\n  headgate:sink/sink@1.2.0\n"), "{text}");
    assert!(
        text.contains("may take 64 MiB of memory, 5000 ms"),
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
    assert_eq!(report["state"], json!([{"key": "seen", "bytes": 3}]));
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
