//! What the log and the pages say of requests that failed is true, and stays so: reasons, discarded, audit, last hour.

use serde_json::{Value, json};

use crate::guests::guest;
use crate::pages::signed_in;
use crate::process::{BY_ID, Process};
use crate::setup::{Setup, key_of};
use crate::wait::eventually;

const REASON: &str = "bad: not for this sink after 1 attempt";

/// A pool, and a sink that refuses everything.
fn folder() -> Setup {
    Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .sink("bad", &guest("rejects"), "*", "")
}

/// Actions and kinds of the audit log, newest first.
fn trail(process: &Process) -> Vec<(String, String, String)> {
    let trail = process.list("/api/admin/audit");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |one: &Value| (text(&one["action"]), text(&one["kind"]), text(&one["name"]));
    let done = trail.iter().filter(|one| one["kind"] != "session");
    done.map(entry).collect()
}

fn entry(action: &str, kind: &str, name: &str) -> (String, String, String) {
    (action.to_owned(), kind.to_owned(), name.to_owned())
}

#[test]
fn a_failed_request_says_why_and_a_discarded_one_is_never_done() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let process = folder.spawn();
    let site = signed_in(&process);
    assert!(site.page("/").contains("Everything works"));
    let id = process.accepted("orders", BY_ID, r#"[{"id": "1"}, {"id": "2"}]"#);
    let request = process.request_becomes(&id, "failed");
    assert_eq!(request["errors"], json!([REASON]));
    assert_eq!(request["processed_at"], Value::Null);
    let log = process.admin("/api/admin/connectors/tests/requests?status=failed");
    assert_eq!(log[0]["errors"], json!([REASON]));
    let path = format!("/api/requests/{id}");
    let own = process.ask("GET", &path, &key_of("orders"), "", "");
    assert_eq!(own.json()["data"]["errors"], json!([REASON]));
    let page = site.page(&format!("/requests/{id}"));
    assert!(page.contains("not for this sink after 1 attempt"), "{page}");
    assert!(!page.contains("Delivered to all sinks"), "{page}");
    assert!(site.page("/connectors/tests").contains("after 1 attempt"));

    let told = process.problems();
    assert!(
        told.contains("sink bad could not deliver 2 items"),
        "{told}"
    );
    let overview = site.page("/");
    assert!(
        overview.contains("could not deliver 2 items") && !overview.contains("Everything works"),
        "{overview}"
    );
    process.drained();
    let text = process.metrics();
    for line in [
        "headgate_sink_dead_letters{sink=\"bad\"} 2",
        "headgate_sink_dead_letters{sink=\"pool\"} 0",
        "headgate_sink_lag{sink=\"bad\"} 0",
        "headgate_sink_retries{sink=\"bad\"} 0",
        "headgate_sink_backlog_bytes{sink=\"pool\"} 0",
        "headgate_quarantined_payloads 0",
        "headgate_file_bytes{file=\"journal.db-wal\"}",
        "headgate_file_bytes{file=\"pool.db\"}",
        "headgate_log_bytes ",
        "headgate_payload_bytes ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }

    let letters = "/api/admin/sinks/bad/dead-letters";
    assert_eq!(
        process.call("POST", &format!("{letters}/retry"), "").status,
        200
    );
    eventually("they fail again", || {
        (process.dead_letters("bad").len() == 2).then_some(())
    });
    assert_eq!(
        process
            .call("POST", "/api/admin/sinks/bad/retry", "")
            .status,
        200
    );
    assert_eq!(
        process
            .call("DELETE", &format!("{letters}?all=true"), "")
            .status,
        200
    );
    let request = process.request_becomes(&id, "discarded");
    assert_eq!(request["processed_at"], Value::Null);
    let states = request["sinks"].as_array().expect("a list");
    let state = |name: &str| states.iter().find(|sink| sink["name"] == name);
    assert_eq!(state("bad").expect("the sink")["state"], "discarded");
    assert_eq!(state("pool").expect("the sink")["state"], "done");
    let by_status = |status: &str| {
        let path = format!("/api/admin/connectors/tests/requests?status={status}");
        process.admin(&path).as_array().map_or(0, Vec::len)
    };
    let found = ["failed", "processed", "discarded", "discarded,failed"].map(by_status);
    assert_eq!(found, [0, 0, 1, 1]);
    let page = site.page(&format!("/requests/{id}"));
    assert!(
        page.contains("discarded") && !page.contains("Delivered to all sinks"),
        "{page}"
    );
    // It has taken nothing since, whether or not what it gave up is kept.
    assert_eq!(
        process.problems(),
        r#"["sink bad takes nothing: its last batch became dead letters: not for this sink"]"#
    );

    // All of it is in the audit log.
    let ticket = process.call("POST", "/api/admin/tickets", "");
    assert_eq!(ticket.status, 201, "{}", ticket.body);
    assert_eq!(site.submit("/streams/orders/remove", "key=1").status, 303);
    let dir = folder.path("copy").display().to_string();
    let copied = process.call(
        "POST",
        "/api/admin/backups",
        &json!({"dir": dir}).to_string(),
    );
    assert_eq!(copied.status, 201, "{}", copied.body);
    assert_eq!(
        trail(&process),
        [
            entry("create", "backup", &dir),
            entry("remove", "item", "1"),
            entry("create", "ticket", "admin"),
            entry("discard", "sink", "bad"),
            entry("retry", "sink", "bad"),
            entry("resend", "sink", "bad"),
        ]
    );
    let newest = &process.admin("/api/admin/audit")[3];
    assert_eq!(newest["after"], json!({"dead_letters": 2, "which": "all"}));
    assert_eq!(newest["who"], "admin token");
}

/// What the page of the connector says of the last hour; in a cluster, that of the node.
pub(crate) fn last_hour(process: &Process) -> String {
    let page = signed_in(process).page("/connectors/tests");
    let (_, rest) = page.split_once("Last hour").expect("the last hour");
    let (_, rest) = rest.split_once(": ").expect("figures");
    let (line, _) = rest.split_once("rejected").expect("a share");
    line.replace("<strong>", "").replace("</strong>", "")
}

#[test]
fn the_last_hour_and_the_last_use_of_a_key_go_over_a_restart() {
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "*", "");
    let process = folder.spawn();
    for _ in 0..3 {
        process.accepted("orders", BY_ID, r#"[{"id": "1"}, {"id": "2"}]"#);
    }
    assert_eq!(process.post("orders", "", "{").status, 400);
    let used = |process: &Process| {
        let key = "/api/admin/connectors/tests/keys/orders";
        process.admin(key)["last_used_at"].clone()
    };
    let hour = last_hour;
    let (before, last) = (hour(&process), used(&process));
    assert_eq!(before, "4 requests, 6 items, 25.0 % ");
    assert!(last.is_string(), "{last}");
    process.drained();
    process.stop();
    let process = folder.spawn();
    assert_eq!(used(&process), last, "known at once");
    eventually("the last hour is counted", || {
        (hour(&process) == before).then_some(())
    });
    process.accepted("orders", BY_ID, r#"{"id": "3"}"#);
    assert_eq!(hour(&process), "5 requests, 7 items, 20.0 % ");
    // After a crash what was not written comes from the log.
    process.kill();
    let process = folder.spawn();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    eventually("the last use is found", || {
        (text(&used(&process)) > text(&last)).then_some(())
    });
}

#[test]
fn many_refused_requests_and_an_unreadable_pool_are_problems() {
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "*", "");
    let process = folder.spawn();
    for _ in 0..30 {
        process.accepted("orders", BY_ID, r#"{"id": "1"}"#);
    }
    for _ in 0..9 {
        assert_eq!(process.post("orders", "", "{").status, 400);
    }
    assert_eq!(process.problems(), "[]", "a few are nothing");
    for _ in 0..6 {
        assert_eq!(process.post("orders", "", "{").status, 400);
    }
    let told = process.problems();
    assert!(
        told.contains("33% of requests to connector tests were rejected"),
        "{told}"
    );
    process.drained();
    let site = signed_in(&process);
    // Soon after this was met, the daemon starts again.
    folder.tamper("pool.db", "ALTER TABLE dead_letters RENAME TO gone");
    let told = process.problems();
    assert!(told.contains("the data pool cannot be read"), "{told}");
    let sinks = process.admin("/api/admin/sinks");
    assert_eq!(sinks[0]["dead_letters"], Value::Null);
    let overview = site.page("/");
    assert!(overview.contains("cannot be read"), "{overview}");
    assert!(!overview.contains("Everything works"), "{overview}");
    folder.tamper("pool.db", "ALTER TABLE gone RENAME TO dead_letters");
}

#[test]
fn the_keys_of_a_connector_follow_on_its_page() {
    let process = Setup::with_streams(&["orders"])
        .sink("pool", "pool", "*", "")
        .spawn();
    let site = signed_in(&process);
    let path = "/connectors/tests?tab=keys";
    let page = site.page(path);
    assert!(page.contains("no use recorded"), "{page}");
    process.accepted("orders", BY_ID, r#"{"id": "1"}"#);
    let polled = site.send("GET", path, &[("HX-Request", "true")], "");
    assert_eq!(polled.status, 200, "{}", polled.body);
    let keys = polled.body;
    assert!(keys.contains("Begins with"), "{keys}");
    assert!(!keys.contains("no use recorded"), "{keys}");
}
