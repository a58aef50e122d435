//! No listing hands a terminal what it would obey.

use std::process::Stdio;

use super::{admin_args, headgate, operate};
use crate::hostile::{STREAM, daemon, is_raw, texts};
use crate::program::Lines;
use crate::setup::Setup;

/// Fails if a reader's terminal would obey any of this.
#[track_caller]
fn check(what: &str, printed: &str) {
    let raw = printed
        .char_indices()
        .find(|(_, character)| *character != '\n' && is_raw(*character));
    if let Some((place, character)) = raw {
        let line = printed[..place].matches('\n').count();
        let line = printed.lines().nth(line).unwrap_or_default();
        panic!("{what} prints {character:?} in {line:?}");
    }
}

#[test]
fn no_listing_prints_what_a_terminal_obeys() {
    let process = daemon();
    let command = |args: &[&str]| operate(&process, args);
    let request = process.admin("/api/admin/connectors/tests/requests?status=rejected&limit=1");
    let request = request[0]["request_id"].as_str().expect("an id").to_owned();
    for (args, forms) in [
        (
            &["requests", "--limit", "1000"][..],
            &["table", "json", "ndjson"][..],
        ),
        (&["requests", &request], &["table", "json"]),
        (&["connector", "list"], &["table", "json"]),
        (&["stream", "list"], &["table", "json"]),
        (&["key", "list", "tests"], &["table", "json"]),
        (&["read-key", "list"], &["table", "json"]),
        (&["sink", "list"], &["table", "json"]),
        (
            &["sink", "dead-letters", "back", "--limit", "1000"],
            &["table", "json"],
        ),
    ] {
        for form in forms {
            let told = command(&[args, &["--output", form]].concat());
            let out = told.ok();
            assert!(!out.trim().is_empty(), "{args:?}");
            check(&format!("{args:?} as {form}"), &out);
            assert!(form != &"json" || serde_json::from_str::<serde_json::Value>(&out).is_ok());
        }
    }
    // What failures repeat.
    for text in texts() {
        let text: String = text
            .chars()
            .filter(|character| *character != '\0')
            .take(500)
            .collect();
        let unmatched = format!("x{text}");
        for args in [
            &["requests", &unmatched][..],
            &["requests", "--connector", &unmatched],
            &["stream", "create", &unmatched, "--on-update", &unmatched],
            &["stream", "delete", &unmatched, "--yes"],
            &["connector", "create", &unmatched],
            &["key", "list", &unmatched],
            &["key", "create", "tests", &unmatched, "--stream", &unmatched],
            &["read-key", "create", &unmatched, "--streams", &unmatched],
            &["sink", "dead-letters", &unmatched],
            &["sink", "retry", &unmatched],
            &["backup", &unmatched],
        ] {
            let told = command(args);
            check(&format!("{args:?}"), &(told.out + &told.err));
        }
    }
}

/// The first lines that a command prints which does not end by itself.
fn first_lines(folder: &Setup, args: &[String], lines: usize) -> String {
    let mut command = headgate(&folder.path(""));
    let mut child = command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let printed = Lines::of(child.stdout.take().expect("piped"));
    let read: Vec<String> = printed.take(lines).collect();
    child.kill().expect("a child");
    child.wait().expect("a child");
    assert_eq!(read.len(), lines, "{args:?} prints {read:?}");
    read.join("\n")
}

#[test]
fn following_prints_nothing_that_a_terminal_obeys() {
    let process = daemon();
    let admin = admin_args(&process);
    let url = format!("http://{}", process.service);
    // As JSON into a pipe, changes are printed as they came, for programs.
    let tail = ["tail", "orders", STREAM, "--url", &url, "--output", "table"];
    let log = |form| ["tail", "--log", "--output", form];
    for (args, lines) in [
        (&tail[..], texts().len()),
        (&log("table"), 10),
        (&log("json"), 10),
    ] {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let printed = first_lines(&process.setup, &[&args[..], &admin].concat(), lines);
        check(&format!("{args:?}"), &printed);
        assert!(printed.contains("window.broken"), "{printed}");
    }
}
