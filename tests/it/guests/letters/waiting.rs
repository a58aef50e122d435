//! Retries that wait, and lanes that are paused, until an operator says so.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{guest, keys, nobody_else_suffers};
use super::{BY_ID, RETRY, SEND_AGAIN, done, door, letter_keys, refused, rows, with_a_door};
use crate::setup::Setup;
use base::clock::Unix;

#[test]
fn waiting_retries_are_tried_when_an_operator_says_so() {
    let folder = with_a_door("");
    let process = folder.spawn();
    door(&process, "close");
    let id = process.accepted("hostile", BY_ID, r#"{"id": "retry-a"}"#);
    process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
    door(&process, "open");
    assert_eq!(
        process.request(&id)["status"],
        "accepted",
        "it waits for an hour"
    );
    assert_eq!(done(&process, "POST", RETRY, ""), json!({"retries": 1}));
    process.request_becomes(&id, "processed");
    assert_eq!(done(&process, "POST", RETRY, ""), json!({"retries": 0}));
    assert!(keys(&folder, "hostile").contains(&"retry-a".to_owned()));
    nobody_else_suffers(process);
}

#[test]
fn a_pause_ends_when_an_operator_says_so_and_costs_no_attempts() {
    // It may have to be compiled first, which no pause is as long as.
    let mended = guest("stages_twice");
    let folder = Setup::with_streams(&["hostile", "innocent"]);
    let plugin = folder.path("mended.wasm");
    std::fs::write(&plugin, "no component").expect("a file");
    let folder = folder
        .sink("hostile", &plugin.display().to_string(), "hostile", "")
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    let left = |sink: &Value| {
        let until = sink["paused_until"].as_str()?;
        let until = base::clock::parse_rfc3339(until)?;
        Some(until - Unix::now()).filter(|left| !left.is_zero())
    };
    let paused_for = |time: Duration| {
        process.sink_becomes("hostile", "paused for long", |sink| {
            left(sink).is_some_and(|left| left > time)
        });
    };
    paused_for(Duration::from_secs(7));
    // It tries at once, and pauses again, not for as long as before.
    let error = process.sink("hostile")["last_error"]["at"].take();
    done(&process, "POST", RETRY, "");
    let again = |sink: &Value| sink["state"] == "paused" && sink["last_error"]["at"] != error;
    let sink = process.sink_becomes("hostile", "paused again", again);
    assert!(
        left(&sink).is_none_or(|left| left <= Duration::from_secs(2)),
        "{sink}"
    );

    // Longer than a busy machine needs to be asked.
    paused_for(Duration::from_secs(11));
    std::fs::copy(&mended, &plugin).expect("a file");
    let before = Unix::now();
    let left = left(&process.sink("hostile")).expect("it is paused");
    done(&process, "POST", RETRY, "");
    // Until the plugin is compiled takes longer.
    process.sink_becomes("hostile", "at work", |sink| sink["state"] == "running");
    let took = Unix::now() - before;
    assert!(took < left, "{took:?} of {left:?}");
    process.request_becomes(&id, "processed");
    assert_eq!(process.sink("hostile")["state"], "running");
    nobody_else_suffers(process);
}

const RETRIES: &str = "/api/admin/sinks/hostile/retries";

#[test]
fn what_waits_is_given_up_and_strict_order_goes_on_at_once() {
    let folder = with_a_door("ordering = \"strict\"\n");
    let process = folder.spawn();
    door(&process, "close");
    let first = process.accepted("hostile", BY_ID, r#"{"id": "retry-a"}"#);
    // Not before, or both are one batch.
    process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
    let behind = process.accepted("hostile", BY_ID, r#"{"id": "b"}"#);
    assert_eq!(process.request(&behind)["status"], "accepted", "it waits");
    let waiting = process.admin(RETRIES);
    let retry = &waiting[0];
    assert_eq!(
        (&retry["attempts"], &retry["items"], &retry["reason"]),
        (&json!(1), &json!(1), &json!("the door is closed"))
    );
    assert_eq!(retry["first_request_id"], *first);
    let due = base::clock::parse_rfc3339(retry["due_at"].as_str().expect("a time"));
    assert!(
        due > Some(Unix::now() + Duration::from_secs(3_000)),
        "{retry}"
    );
    let none = format!("{RETRIES}/999");
    let unknown = (404, "RETRY_NOT_FOUND".to_owned());
    assert_eq!(refused(&process, "DELETE", &none, ""), unknown);
    let nobody = none.replace("hostile", "nobody");
    assert_eq!(refused(&process, "DELETE", &nobody, "").1, "SINK_NOT_FOUND");

    let one = format!("{RETRIES}/{}", retry["id"].as_str().expect("an id"));
    let given_up = json!({"ended": 1, "given_up": 1, "dead_letters": 1});
    assert_eq!(done(&process, "DELETE", &one, ""), given_up);
    process.request_becomes(&behind, "processed");
    process.request_becomes(&first, "failed");
    assert_eq!(refused(&process, "DELETE", &one, ""), unknown);
    let letters = process.dead_letters("hostile");
    let reason = letters[0]["reason"].as_str().expect("text");
    assert!(
        reason.starts_with("an operator ended the retry") && reason.ends_with("the door is closed"),
        "{reason}"
    );
    assert_eq!(letters[0]["fields"], json!({"id": "retry-a"}));

    // What was sent again is kept in the pool alone.
    let all = format!("{RETRIES}/end");
    assert_eq!(done(&process, "POST", SEND_AGAIN, "")["sent_again"], 1);
    assert_eq!(done(&process, "POST", &all, ""), given_up);
    assert_eq!(letter_keys(&process), ["retry-a"]);
    // The path of version 0.1.
    let old = format!("{RETRIES}/give-up");
    assert_eq!(done(&process, "POST", &old, "")["ended"], 0);
    let trail = process.admin("/api/admin/audit").to_string();
    assert_eq!(trail.matches("\"end_retries\"").count(), 3, "{trail}");
    door(&process, "open");
    assert_eq!(done(&process, "POST", SEND_AGAIN, "")["sent_again"], 1);
    process.request_becomes(&first, "processed");
    assert_eq!((rows(&folder, "resends"), rows(&folder, "retries")), (0, 0));
    nobody_else_suffers(process);
}

#[test]
fn a_damaged_list_of_items_becomes_a_dead_letter_that_says_so() {
    for ordering in ["any", "strict"] {
        let folder = with_a_door(&format!("ordering = \"{ordering}\"\n"));
        let process = folder.spawn();
        door(&process, "close");
        let id = process.accepted("hostile", BY_ID, r#"{"id": "retry-a"}"#);
        process.sink_becomes("hostile", "retrying", |sink| sink["retries"] == 1);
        process.stop();
        let changed = folder.tamper("pool.db", "UPDATE retries SET parts = '[[2,0'");
        assert_eq!(changed, 1);
        let process = folder.spawn();
        done(&process, "POST", RETRY, "");
        process.request_becomes(&id, "failed");
        let letter = process.dead_letter("hostile");
        assert!(letter["fields"].is_null());
        let reason = letter["reason"].as_str().expect("text");
        assert!(reason.contains("damaged"), "{reason}");
        assert_eq!(process.sink("hostile")["retries"], 0);
        nobody_else_suffers(process);
    }
}
