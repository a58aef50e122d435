//! A sink that begins with the journal says what it never gets, and what its streams do not promise.

use serde_json::{Value, json};

use super::filled::{filled, folder, forgotten};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};

fn shown(process: &Process, name: &str) -> Value {
    let path = format!("/api/admin/sinks/{name}");
    process.call("GET", &path, "").data(200)
}

#[test]
fn what_the_journal_has_let_go_is_counted_as_long_as_it_is_missing() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = folder();
    let process = folder.spawn();
    process.accepted(
        "orders",
        BY_ID,
        r#"[{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3}]"#,
    );
    process.accepted("merge-orders", BY_ID, r#"{"id": "m", "a": 1}"#);
    process.accepted("other", BY_ID, r#"{"id": "not for it"}"#);
    forgotten(&process, &folder);

    let mut sink = filled(&receiver, "team", 100);
    sink["start"] = json!("journal");
    process.make("/api/admin/sinks", &sink);
    process.says("older items of the data pool do not reach it");
    let missing = |name: &str| shown(&process, name)["missing"].clone();
    assert_eq!(missing("team"), json!({"items": 4}));
    let mut narrow = sink.clone();
    narrow["name"] = json!("narrow");
    narrow["where"] = json!("n>=2");
    process.make("/api/admin/sinks", &narrow);
    assert_eq!(missing("narrow"), json!({"items": 2}));

    // Written again as a whole it is not missing any more; in a stream whose updates merge a part of it still is.
    process.processed("orders", BY_ID, r#"{"id": 2, "n": 2}"#);
    process.processed("merge-orders", BY_ID, r#"{"id": "m", "b": 2}"#);
    process.removed("orders", "3");
    process.drained();
    assert_eq!(missing("team"), json!({"items": 2}));
    let notes = shown(&process, "team")["notes"].to_string();
    for part in [
        "never receives",
        "updates of the stream \\\"merge-orders\\\" are merged",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    process
        .call("POST", "/api/admin/sinks/team/refill", "")
        .data(202);
    process.drained();
    assert_eq!(missing("team"), json!(null), "it was filled");
    assert_eq!(missing("pool"), json!(null));
    process.stop();
}
