//! Items that a sink makes: in the streams that its section lists, once with each call, the later ones over the earlier.

use serde_json::json;

use super::{beside_a_good_sink_within, keys, nobody_else_suffers};
use crate::process::{Answer, BY_ID, Process};
use crate::setup::Setup;
use crate::sinks::{patch, refusal};

const PATIENT: &str = "retry = { first_ms = 10, max_ms = 40, attempts = 100 }\n";

/// A daemon with a sink of the stream `hostile` that makes what items say.
fn making(makes: &str) -> Setup {
    let more = format!("writes = []\n{makes}{PATIENT}");
    beside_a_good_sink_within("", "makes", &more)
}

/// An item whose field `lines` has these.
fn item(id: &str, lines: &[serde_json::Value]) -> serde_json::Value {
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    json!({"id": id, "lines": lines.join("\n")})
}

fn value_of(process: &Process, key: &str) -> serde_json::Value {
    let items = process.setup.items("totals").into_iter();
    let mut found = items.filter(|(own, ..)| own == key);
    found
        .next()
        .map_or(json!(null), |(_, fields, _)| fields["n"].clone())
}

#[test]
fn a_sink_makes_items_of_its_own_streams_and_of_no_other() {
    let process = making("makes = [\"totals\"]\n").spawn();
    let lines = [
        json!({"key": "a", "fields": {"n": 1, "of": {"x": "y"}}}),
        json!({"key": "b", "fields": {"n": 2}}),
    ];
    let id = process.processed("hostile", BY_ID, &item("1", &lines).to_string());
    let made = process.setup.items("totals");
    assert_eq!(made[0], ("a".to_owned(), json!({"n": 1, "of.x": "y"}), id));
    assert_eq!(made.len(), 2);

    let gone = [json!({"key": "a", "removed": true})];
    process.processed("hostile", BY_ID, &item("2", &gone).to_string());
    assert_eq!(keys(&process.setup, "totals"), ["b"]);
    process.processed("hostile", BY_ID, &item("3", &lines).to_string());
    assert_eq!(keys(&process.setup, "totals"), ["a", "b"]);

    let mut other = item("4", &lines);
    other["of"] = json!("innocent");
    let wrong = item("6", &[lines[0].clone(), json!({"key": "c"})]);
    for (item, words) in [
        (
            other,
            "may not make items of the stream \"innocent\": `makes` of its section does not list it",
        ),
        (wrong, "line 2: it has either `fields` or `removed`"),
    ] {
        process.failed("hostile", BY_ID, &item.to_string());
        let letters = process.dead_letters("hostile");
        let reason = letters[0]["reason"].as_str().expect("text");
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(process.sink("hostile")["makes"], json!(["totals"]));
    nobody_else_suffers(process);
}

#[test]
fn what_is_made_later_counts_whatever_it_was_made_of() {
    let process = making("makes = [\"totals\"]\n").spawn();
    let line = |n: u32| [json!({"key": "a", "fields": {"n": n}})];
    process.processed("hostile", BY_ID, &item("0", &line(0)).to_string());
    let mut late = item("1", &line(1));
    late["late"] = json!("yes");
    let late = process.accepted("hostile", BY_ID, &late.to_string());
    process.sink_becomes("hostile", "waiting with one retry", |sink| {
        sink["retries"] == 1
    });
    // An item of another key does not wait for it.
    let mut go = item("2", &line(2));
    go["go"] = json!("yes");
    process.processed("hostile", BY_ID, &go.to_string());
    process.request_becomes(&late, "processed");
    assert_eq!(value_of(&process, "a"), json!(1));
    process.processed("hostile", BY_ID, &item("3", &line(3)).to_string());
    assert_eq!(value_of(&process, "a"), json!(3));
    nobody_else_suffers(process);
}

#[test]
fn a_sink_has_the_streams_that_it_makes_for_itself() {
    let process = making("").spawn();
    process.accepted("hostile", BY_ID, &item("1", &[]).to_string());
    let words = "its section has no `makes`; to allow it, add makes = [\"totals\"]";
    process.sink_becomes("hostile", "paused", |sink| {
        let reason = sink["reason"].as_str().unwrap_or_default();
        sink["state"] == "paused" && reason.ends_with(words)
    });
    nobody_else_suffers(process);

    for (makes, other, words) in [
        (
            "hostile",
            "",
            "names the stream \"hostile\", which the sink receives",
        ),
        (
            "innocent",
            "[[sinks]]\nname = \"second\"\nplugin = \"pool\"\nstreams = [\"orders\"]\nwrites = [\"innocent\"]\n",
            "names the stream \"innocent\", which the sink \"second\" writes",
        ),
    ] {
        let setup = making(&format!("makes = [{makes:?}]\n")).toml(other);
        let ended = setup.try_spawn().expect_err("it does not start");
        let told = ended.log;
        assert!(told.contains(words), "{told}");
        assert!(told.contains("makes"), "{told}");
    }
}

/// Sinks that are made while it runs are held to what a file is: who makes a stream has it alone, whichever came first.
#[test]
fn a_sink_of_run_time_has_the_streams_that_it_makes_for_itself_too() {
    let setup = making("makes = [\"totals\"]\n");
    let process = setup.spawn();
    let body = |name: &str, more: serde_json::Value| {
        let mut body = json!({"name": name, "plugin": "pool", "streams": ["elsewhere"]});
        for (setting, value) in more.as_object().expect("an object") {
            body[setting] = value.clone();
        }
        body
    };
    let refused = |answer: &Answer, words: &str| {
        let (code, message) = refusal(answer, 400);
        assert_eq!(code, "INVALID_REQUEST");
        assert!(message.contains(words), "{message}");
    };
    for (more, words) in [
        (
            json!({"writes": ["totals"]}),
            "writes names the stream \"totals\", which the sink \"hostile\" makes, and what a sink makes is its own; name another stream",
        ),
        (
            json!({"plugin": "filter-map", "config": {"rules": [{"stream": "totals"}]}}),
            "config names the stream \"totals\", which the sink \"hostile\" makes",
        ),
        (
            json!({"makes": ["totals"]}),
            "makes names the stream \"totals\", which the sink \"hostile\" writes",
        ),
        (
            json!({"makes": ["elsewhere"]}),
            "makes names the stream \"elsewhere\", which the sink receives",
        ),
    ] {
        let body = body("second", more);
        for path in ["/api/admin/sinks", "/api/admin/sinks/try"] {
            refused(&process.call("POST", path, &body.to_string()), words);
        }
    }
    assert_eq!(process.list("/api/admin/sinks").len(), 2, "nothing is made");

    // A change is as good as what is new; and what is its own stands in its way no more.
    let maker = body("maker", json!({"writes": [], "makes": ["sums"]}));
    process.make("/api/admin/sinks", &maker).data(201);
    patch(&process, "maker", &json!({"makes": ["sums", "more"]})).data(200);
    process
        .make("/api/admin/sinks", &body("second", json!({})))
        .data(201);
    refused(
        &patch(&process, "second", &json!({"writes": ["sums"]})),
        "writes names the stream \"sums\", which the sink \"maker\" makes",
    );
    refused(
        &patch(&process, "maker", &json!({"makes": ["totals"]})),
        "makes names the stream \"totals\", which the sink \"hostile\" writes",
    );
    assert_eq!(process.sink("maker")["makes"], json!(["sums", "more"]));
    process.stop();

    // A file may say so later. Both run, and the log says what is wrong.
    let later = "[[sinks]]\nname = \"third\"\nplugin = \"pool\"\nstreams = [\"orders\"]\nwrites = [\"sums\"]\n";
    let process = setup.toml(later).spawn();
    let told = "created at run time: makes names the stream";
    assert!(process.log().contains(told), "{}", process.log());
    nobody_else_suffers(process);
}
