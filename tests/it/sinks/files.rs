//! Sinks that write files: the newest state as feeds answer it, and rows that are there once whatever dies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::refusal;
use crate::faults::{number, random};
use crate::process::BY_ID;
use crate::setup::Setup;
use crate::wait::eventually;

/// Kills of a run.
const KILLS: u64 = 8;

/// A sink with a folder.
fn writes(name: &str, folder: &str, config: Value, more: Value) -> Value {
    let mut section = json!({
        "name": name,
        "plugin": "file",
        "streams": ["orders"],
        "batch": {"linger_ms": 0},
        "retry": {"first_ms": 1, "max_ms": 20},
        "config": config,
        "folder": {"path": folder},
    });
    let members = section.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    section
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn a_file_of_the_newest_state_has_what_its_feed_answers() {
    let folder = Setup::with_streams(&["orders", "other"]).unlimited();
    let elsewhere = folder.path("graphics");
    let folder = folder
        .read_key("screen", &["orders"], "")
        .set("plugins.folders", vec![elsewhere.display().to_string()]);
    let process = folder.spawn();
    let latest = json!({"mode": "latest", "max_rate": 1000});
    let chosen = json!({
        "mode": "latest", "max_rate": 1000, "where": "n>=2", "fields": "Name:name,n",
    });
    let below = elsewhere.join("live").display().to_string();
    let forms = [
        ("csv", "one", json!({"form": "csv"}), &latest, ""),
        (
            "json",
            "two",
            json!({"form": "json", "names": "nested"}),
            &latest,
            "?names=nested",
        ),
        ("xml", "three", json!({"form": "xml"}), &latest, ""),
        (
            "tsv",
            &*below,
            json!({"form": "tsv", "sort": "-n", "decimals": 1, "bom": true, "limit": 3}),
            &chosen,
            "?sort=-n&decimals=1&bom=true&limit=3&where=n%3E%3D2&fields=Name:name,n",
        ),
    ];
    for (form, path, config, more, _) in &forms {
        let made = process.make(
            "/api/admin/sinks",
            &writes(form, path, config.clone(), (*more).clone()),
        );
        let made = made.data(201);
        let may = format!(
            "may write files in {}",
            match path.starts_with('/') {
                true => (*path).to_owned(),
                false => format!("files/{path} of the data directory"),
            }
        );
        assert_eq!(made["grants"], json!([may]));
    }
    let agree = |about: &str| {
        process.drained();
        for (form, path, _, _, query) in &forms {
            let file = match path.starts_with('/') {
                true => Path::new(path).join(format!("orders.{form}")),
                false => folder
                    .data_dir()
                    .join(format!("files/{path}/orders.{form}")),
            };
            let url = format!("/feed/orders.{form}{query}");
            let feed = || {
                process
                    .ask("GET", &url, folder.read_secret("screen"), "", "")
                    .body
            };
            // A feed may be kept for a moment.
            let what = format!("{about}: {form} has {:?}, not {:?}", text(&file), feed());
            eventually(&what, || (text(&file) == feed()).then_some(()));
        }
    };
    let items = json!([
        {"id": "a", "n": 1, "name": "x,\"y\""}, {"id": "b", "n": 2.25, "name": "<B>"}, {"id": "c", "n": 3, "of": {"more": [1]}},
        {"id": "d", "n": 4}, {"id": "e", "n": 5},
    ]);
    process.processed("orders", BY_ID, &items.to_string());
    process.processed("other", BY_ID, r#"[{"id": "a"}]"#);
    agree("new items");
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 9}, {"id": "e", "n": 0}]"#,
    );
    process.removed("orders", "b");
    agree("changes and a removal");
    for key in ["a", "c", "d", "e"] {
        process.removed("orders", key);
    }
    agree("nothing left");
    let found = fs::read_dir(folder.data_dir().join("files/one")).expect("a folder");
    assert_eq!(
        found.count(),
        1,
        "nothing unfinished stays, and no other stream"
    );
}

/// The rows of a folder by their key, and how often each is there; of each file the first line is that of its columns.
fn rows(folder: &Path) -> BTreeMap<String, u64> {
    let mut rows = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let file = entry.expect("an entry").path();
        let text = text(&file);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("_key,id,n"), "{}", file.display());
        assert!(text.ends_with('\n'), "{}", file.display());
        for line in lines {
            let (key, _) = line.split_once(',').expect("a column");
            assert_eq!(line.split(',').count(), 3, "{line}");
            *rows.entry(key.to_owned()).or_default() += 1;
        }
    }
    rows
}

#[test]
fn a_file_that_grows_has_each_row_once_whatever_dies() {
    let mut random = random("files");
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let folder = setup.data_dir().join("files/out");
    let mut process = setup.spawn();
    let config = json!({"form": "csv", "rotate_bytes": 2_000});
    process
        .make(
            "/api/admin/sinks",
            &writes("rows", "out", config, json!({})),
        )
        .data(201);
    let mut sent = 0_u64;
    for _ in 0..number("HEADGATE_KILLS").unwrap_or(KILLS) {
        for _ in 0..random.within(1..30) {
            let items: Value = (0..random.within(1..20))
                .map(|n| json!({"id": format!("k{}", sent + n), "n": n}))
                .collect();
            sent += items.as_array().map_or(0, Vec::len) as u64;
            process.accepted("orders", BY_ID, &items.to_string());
        }
        process.kill();
        process = setup.spawn();
    }
    process.drained();
    let rows = rows(&folder);
    let expected = (0..sent).map(|n| (format!("k{n}"), 1)).collect();
    assert_eq!(rows, expected, "{}", process.log());
    let files = fs::read_dir(&folder).expect("a folder").count();
    assert!(files > 1 || sent < 200, "{sent} rows are in {files} files");
}

#[test]
fn a_file_that_grows_is_finished_for_what_is_new() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let process = setup.spawn();
    let folder = setup.data_dir().join("files/out");
    let config =
        json!({"form": "csv", "name": "{_stream}-{_date}.csv", "rotate_bytes": 1, "keep_files": 2});
    let more = json!({"fields": "id,n", "batch": {"linger_ms": 0, "items_max": 1}});
    process
        .make("/api/admin/sinks", &writes("kept", "out", config, more))
        .data(201);
    process
        .make(
            "/api/admin/sinks",
            &writes("all", "all", json!({"form": "csv"}), json!({})),
        )
        .data(201);
    for n in 0..4 {
        process.processed("orders", BY_ID, &json!([{"id": "a", "n": n}]).to_string());
    }
    process.removed("orders", "a");
    process.processed("orders", BY_ID, r#"[{"id": "b", "m": 7}]"#);
    process.drained();
    let read = |folder: &Path| -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).expect("a folder");
        let entries = entries.map(|entry| entry.expect("an entry").path());
        let mut files: Vec<(String, String)> = entries
            .map(|file| {
                (
                    file.file_name()
                        .expect("a name")
                        .to_string_lossy()
                        .into_owned(),
                    text(&file),
                )
            })
            .collect();
        files.sort_unstable();
        files
    };
    let kept = read(&folder);
    let texts: Vec<&str> = kept.iter().map(|(_, text)| &**text).collect();
    assert_eq!(texts.len(), 3, "{kept:?}");
    for text in ["id,n\na,2\n", "id,n\na,3\n", "id,n\nb,\n"] {
        assert!(texts.contains(&text), "{text:?}: {kept:?}");
    }
    let parts = kept
        .iter()
        .filter(|(name, _)| name.ends_with("-5.csv.part"));
    assert_eq!(parts.count(), 1, "{kept:?}");
    let all = read(&setup.data_dir().join("files/all"));
    let texts: Vec<&str> = all.iter().map(|(_, text)| &**text).collect();
    assert_eq!(texts.len(), 2, "a new column begins a new file: {all:?}");
    assert!(
        texts.contains(&"_key,id,n\na,a,0\na,a,1\na,a,2\na,a,3\n"),
        "{all:?}"
    );
    assert!(texts.contains(&"_key,id,n,m\nb,b,,7\n"), "{all:?}");
    // Somebody takes the unfinished one away: what follows is in another.
    let (part, _) = all
        .iter()
        .find(|(name, _)| name.ends_with(".part"))
        .expect("one");
    fs::remove_file(setup.data_dir().join("files/all").join(part)).expect("removed");
    process.processed("orders", BY_ID, r#"[{"id": "c"}]"#);
    let all = read(&setup.data_dir().join("files/all"));
    assert!(
        all.iter().any(|(_, text)| text == "_key,id,n,m\nc,c,,\n"),
        "{all:?}"
    );
}

#[test]
fn a_folder_out_of_reach_and_settings_that_do_not_go_together_are_refused() {
    let setup = Setup::with_streams(&["orders"]);
    let process = setup.spawn();
    let make = |section: &Value| {
        let answer = process.call("POST", "/api/admin/sinks", &section.to_string());
        let (code, message) = refusal(&answer, 400);
        assert_eq!(code, "INVALID_REQUEST");
        message
    };
    let csv = || json!({"form": "csv"});
    let latest = || json!({"mode": "latest"});
    for path in ["../x", "a/../b", "", ".", "a//b", "a/"] {
        let told = make(&writes("file", path, csv(), json!({})));
        assert!(told.contains("folder.path"), "{path}: {told}");
    }
    for (section, words) in [
        (
            writes("file", "/srv/x", csv(), json!({})),
            "plugins.folders",
        ),
        (
            writes("file", "x", json!({"form": "xml"}), json!({})),
            "mode = \"latest\"",
        ),
        (
            writes("file", "x", json!({"form": "csv", "sort": "n"}), json!({})),
            "`sort` needs",
        ),
        (
            writes(
                "file",
                "x",
                json!({"form": "csv", "name": "{id}"}),
                json!({}),
            ),
            "_stream, _date are",
        ),
        (
            writes(
                "file",
                "x",
                json!({"form": "csv", "name": "{_date}"}),
                latest(),
            ),
            "_date",
        ),
        (
            writes(
                "file",
                "x",
                json!({"form": "csv", "keep_files": 1}),
                latest(),
            ),
            "keep_files",
        ),
        (
            writes("file", "x", json!({"form": "csv", "sep": "ab"}), latest()),
            "sep must be one",
        ),
    ] {
        let told = make(&section);
        assert!(told.contains(words), "{words}: {told}");
    }
    let mut without = writes("file", "x", csv(), json!({}));
    without.as_object_mut().expect("an object").remove("folder");
    assert!(
        make(&without).contains("folder = { path"),
        "{}",
        make(&without)
    );
    // A link in the place of the folder: nothing is written behind it.
    let outside = setup.path("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::create_dir_all(setup.data_dir().join("files")).expect("a folder");
    std::os::unix::fs::symlink(&outside, setup.data_dir().join("files/out")).expect("a link");
    process
        .make("/api/admin/sinks", &writes("file", "out", csv(), json!({})))
        .data(201);
    process.accepted("orders", BY_ID, r#"[{"id": "a"}]"#);
    process.sink_becomes("file", "not writing", |sink| {
        sink["retries"] != 0 || sink["dead_letters"] != 0
    });
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
    // A trial writes nothing, and shows what would be.
    let body = json!({"items": [{"id": "b", "n": 1}], "send": true}).to_string();
    let tried = process.call("POST", "/api/admin/sinks/file/try", &body);
    let tried = tried.data(200).to_string();
    assert!(
        tried.contains("append to orders-1.csv.part, at 0: _key,id,n"),
        "{tried}"
    );
}
