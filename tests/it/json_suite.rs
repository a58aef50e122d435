//! JSON as parsers are tested with, sent to `/api/ingest` and to the address of a webhook.
//!
//! The cases are named like those of JSONTestSuite: `y_` is JSON, `n_` is none, `i_` may be either. Some stand in
//! `cases`; `HEADGATE_JSON_SUITE=/folder` takes the files of a folder instead. Each case is sent as it is, and as the
//! value of a field: most are no object, so that only then all of it is read.
//!
//! **Invariant**: what is JSON is never called malformed, what is none is never stored, and nothing is a 5xx.

mod cases; // some of each kind

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::process::{JSON, Process, bearer};
use crate::setup::{Setup, key_of};

const PATHS: [&str; 2] = ["/api/ingest", "/api/webhook/orders/tests"];
/// How a refusal begins that is of a body that is no JSON.
const MALFORMED: [&str; 4] = [
    "malformed JSON at ",
    "the body is not UTF-8",
    "the body begins with the byte order mark of UTF-16",
    "the body is empty",
];
/// How one ends that is of JSON without items.
const NO_ITEMS: &str = "; send an object or an array of objects";

/// What became of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Taken,
    /// JSON, but no object and no array of objects.
    NoItems,
    /// JSON that breaks a rule.
    AgainstRule,
    Malformed,
}

/// The files of a folder that have such names.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("HEADGATE_JSON_SUITE is a folder");
    let files = entries.filter_map(|entry| {
        let path = entry.expect("an entry").path();
        let name = path.file_name()?.to_str()?;
        let is_case = ["y_", "n_", "i_"].iter().any(|kind| name.starts_with(kind));
        let bytes = || std::fs::read(&path).expect("a file");
        (is_case && name.ends_with(".json")).then(|| (name.to_owned(), bytes()))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// Sends a body; what became of it, and what was said. Or the whole answer, if it is one that no body may get.
fn sent(process: &Process, path: &str, body: &[u8]) -> Result<(Fate, String), String> {
    let headers = format!("{}{JSON}", bearer(&key_of("orders")));
    let mut client = process.client();
    let answer = client
        .begin("POST", path, &headers, body.len())
        .and_then(|()| client.send(body))
        .and_then(|()| client.answer());
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status == 202 {
        return Ok((Fate::Taken, String::new()));
    }
    let error = answer.json()["error"].take();
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    if answer.status != 400 || error["code"] != "INVALID_PAYLOAD" {
        return Err(format!("{} {}", answer.status, answer.body));
    }
    let fate = match () {
        () if MALFORMED.iter().any(|begin| message.starts_with(begin)) => Fate::Malformed,
        () if message.ends_with(NO_ITEMS) => Fate::NoItems,
        () => Fate::AgainstRule,
    };
    Ok((fate, message))
}

/// Whether a case of this name may end so, as it is or as the value of a field.
fn allowed(name: &str, as_field: bool, fate: Fate) -> bool {
    match (&name[..2], as_field) {
        ("y_", false) => fate != Fate::Malformed,
        ("y_", true) => matches!(fate, Fate::Taken | Fate::AgainstRule),
        // What is wrong may come after what is no object.
        ("n_", false) => fate != Fate::Taken,
        // So may what breaks a rule.
        ("n_", true) => matches!(fate, Fate::Malformed | Fate::AgainstRule),
        _ => true,
    }
}

#[test]
fn json_is_taken_as_json_and_nothing_else_is() {
    let folder = std::env::var_os("HEADGATE_JSON_SUITE");
    let cases = match &folder {
        Some(folder) => files(Path::new(folder)),
        None => cases::all(),
    };
    let mut process = Setup::with_streams(&["orders"]).spawn();
    let mut counts: BTreeMap<(&str, bool, Fate), u32> = BTreeMap::new();
    let (mut rules, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, body) in &cases {
        let field = [&b"{\"value\": "[..], body, b"}"].concat();
        for (as_field, body) in [(false, body), (true, &field)] {
            for path in PATHS {
                match sent(&process, path, body) {
                    Ok((fate, message)) => {
                        *counts.entry((&name[..2], as_field, fate)).or_default() += 1;
                        if fate == Fate::AgainstRule {
                            rules.insert(format!("{name}: {message}"));
                        }
                        if !allowed(name, as_field, fate) {
                            wrong.push(format!("{path}, {name}: {fate:?} {message}"));
                        }
                    }
                    Err(answer) => wrong.push(format!("{path}, {name}: {answer}")),
                }
            }
        }
    }
    println!("{} cases", cases.len());
    for ((kind, as_field, fate), count) in &counts {
        let how = if *as_field {
            "as a field"
        } else {
            "as they are"
        };
        println!("{kind} {how}: {count} {fate:?}");
    }
    rules.iter().for_each(|rule| println!("{rule}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in ["y_", "n_"] {
        let some = cases.iter().any(|(name, _)| name.starts_with(kind));
        assert!(some, "no case {kind}*.json");
    }
    process.accepted("orders", "", r#"{"good": true}"#);
    assert_eq!(process.metric("headgate_panics_total"), Some(0.0));
    assert!(process.lives());
}
