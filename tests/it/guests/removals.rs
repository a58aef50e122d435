//! What sinks hear of removals: the built-in ones, and components that were built before there were any.

use serde_json::json;

use super::http::{LOOPBACK, ONCE};
use super::{keys, nobody_else_suffers};
use crate::process::BY_ID;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

/// A component of `headgate:sink@1.0.0`.
const OLD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/components/pool-of-1.0.0.wasm"
);

#[test]
fn a_receiver_is_sent_removals_and_a_refused_one_is_sent_again_as_a_removal() {
    let receiver = Receiver::start(|_, before| match before {
        1 => answer(400, "", "not yet"),
        _ => answer(200, "", ""),
    });
    let url = receiver.url("/in");
    let (host, _) = url.rsplit_once('/').expect("a path");
    let more = format!(
        "{ONCE}config = {{ url = {url:?} }}\nhttp = {{ hosts = [{host:?}], {LOOPBACK} }}\n"
    );
    let process = Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "http-forward", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
        .spawn();
    process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    process.drained();
    let id = process.removed("hostile", "a");
    process.drained();
    let request = process.request(&id);
    assert_eq!(request["status"], "removed");
    assert_eq!(request["sinks"][0]["state"], "failed");
    let letter = process.dead_letter("hostile");
    assert_eq!(
        (&letter["action"], &letter["key"]),
        (&json!("remove"), &json!("a"))
    );
    let path = "/api/admin/sinks/hostile/dead-letters/retry";
    let again = process.call("POST", path, "");
    assert_eq!(again.status, 200, "{}", again.body);
    process.sink_becomes("hostile", "without dead letters", |sink| {
        sink["dead_letters"] == 0 && sink["retries"] == 0
    });
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0].json()[0]["fields"], json!({"id": "a"}));
    for seen in &seen[1..] {
        let item = &seen.json()[0];
        assert_eq!(item["key"], "a");
        assert_eq!(
            (&item["removed"], &item["request_id"]),
            (&json!(true), &json!(id))
        );
        assert!(item.get("fields").is_none(), "{item}");
    }
    assert_eq!(process.request(&id)["sinks"][0]["state"], "done");
    nobody_else_suffers(process);
}

#[test]
fn a_component_of_an_older_world_runs_and_its_items_are_removed_for_it() {
    let folder = Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", OLD, "hostile", ONCE)
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    process.accepted("hostile", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    let id = process.removed("hostile", "a");
    process.accepted("hostile", BY_ID, r#"{"id": "c"}"#);
    process.drained();
    assert_eq!(keys(&folder, "hostile"), ["b", "c"]);
    let request = process.request(&id);
    assert_eq!(
        (&request["status"], &request["sinks"][0]["state"]),
        (&json!("removed"), &json!("done"))
    );
    let sink = process.sink("hostile");
    assert_eq!(
        (&sink["lag"], &sink["last_error"]),
        (&json!(0), &json!(null))
    );
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_begins_with_older_requests_does_not_bring_removed_items_back() {
    let mut folder = Setup::with_streams(&["hostile", "innocent"])
        .set("storage.payload_retention_minutes", 60)
        .sink("pool", "pool", "*", "");
    let process = folder.spawn();
    process.accepted("hostile", BY_ID, r#"[{"id": "a"}, {"id": "b"}]"#);
    process.removed("hostile", "a");
    process.drained();
    process.stop();
    // As if more had been removed since than is remembered.
    folder.tamper("pool.db", "DELETE FROM removed");
    folder = folder.sink(
        "hostile",
        OLD,
        "hostile",
        &format!("{ONCE}start = \"oldest\"\n"),
    );
    let process = folder.spawn();
    process.drained();
    assert_eq!(process.sink("hostile")["lag"], 0);
    assert_eq!(keys(&folder, "hostile"), ["b"]);
    process.stop();
}

#[test]
fn a_removal_goes_wherever_a_rule_may_have_put_the_item() {
    let config = r#"{ rules = [
        { streams = ["hostile"], when = [{ field = "big", equals = true }], stream = "moved" },
        { streams = ["other"], stream = "elsewhere" },
    ] }"#
        .replace('\n', " ");
    let folder = Setup::with_streams(&["hostile", "innocent"])
        .sink(
            "hostile",
            "filter-map",
            "hostile",
            &format!("{ONCE}config = {config}\n"),
        )
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    let body = r#"[{"id": "a"}, {"id": "b", "big": true}, {"id": "c"}, {"id": "d", "big": true}]"#;
    process.accepted("hostile", BY_ID, body);
    for key in ["a", "b"] {
        process.removed("hostile", key);
    }
    process.drained();
    assert_eq!(keys(&folder, "hostile"), ["c"]);
    assert_eq!(keys(&folder, "moved"), ["d"]);
    nobody_else_suffers(process);
}

#[test]
fn removals_alone_keep_the_write_ahead_log_of_the_pool_small() {
    let folder = Setup::with_streams(&["innocent"]).sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    let mut client = process.client();
    let secret = crate::setup::key_of("innocent");
    for number in 0..3_000 {
        let path = format!("/api/streams/innocent/items/{number}");
        let answer = client.call("DELETE", &path, &secret, "");
        assert_eq!(answer.expect("an answer").status, 202);
    }
    process.drained();
    let log = folder.data_dir().join("pool.db-wal");
    let bytes = std::fs::metadata(log).expect("a file").len();
    assert!(bytes < 64 << 20, "{bytes}");
    nobody_else_suffers(process);
}
