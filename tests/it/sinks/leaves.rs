//! Sinks that are told what ceases to match: `leaves = "remove"`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::copy::{Copy, Table};
use super::filled::{filled, folder, forgotten};
use super::{patch, refusal};
use crate::command_line::{finish, headgate, operate};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// A sink that has the paid orders, and no others.
fn paid(receiver: &Receiver, start: &str) -> Value {
    let mut sink = filled(receiver, "team", 3);
    sink["streams"] = json!(["orders"]);
    sink["start"] = json!(start);
    sink["where"] = json!("status:paid");
    sink["leaves"] = json!("remove");
    sink
}

fn order(process: &Process, id: &str, status: &str) {
    let body = json!({"id": id, "status": status}).to_string();
    process.accepted("orders", BY_ID, &body);
}

/// What a receiver should have: these orders, which are paid.
fn of(ids: &[&str]) -> Table {
    let row = |id: &&str| {
        let fields = json!({"id": id, "status": "paid"});
        (("orders".to_owned(), (*id).to_owned()), fields)
    };
    ids.iter().map(row).collect()
}

#[test]
fn an_item_that_ceases_to_match_is_removed_and_comes_back_with_its_next_match() {
    let folder = folder();
    let process = folder.spawn();
    for (id, status) in [("a", "paid"), ("b", "open"), ("c", "paid"), ("d", "open")] {
        order(&process, id, status);
    }
    forgotten(&process, &folder);
    let (receiver, copy) = Copy::content();
    let made = process
        .make("/api/admin/sinks", &paid(&receiver, "state"))
        .data(201);
    assert_eq!(made["leaves"], "remove");
    process.drained();
    assert_eq!(copy.table(), of(&["a", "c"]));
    let removals = || -> usize {
        let bodies = receiver.seen().into_iter().map(|seen| seen.json());
        let items = bodies.flat_map(|body| body.as_array().cloned().expect("items"));
        items.filter(|item| item["removed"] == true).count()
    };
    assert_eq!(removals(), 0, "it began with nothing to remove");

    order(&process, "a", "open");
    order(&process, "b", "paid");
    // Both in one request, and in this order.
    let both = json!([{"id": "e", "status": "paid"}, {"id": "e", "status": "open"}]);
    process.accepted("orders", BY_ID, &both.to_string());
    process.drained();
    assert_eq!(copy.table(), of(&["b", "c"]));
    order(&process, "a", "paid");
    process.removed("orders", "c");
    process.drained();
    assert_eq!(copy.table(), of(&["a", "b"]));

    // Another selection fills it anew: what does not match any more is removed, what was never there too.
    let mut more = of(&["a", "b"]);
    let changed = json!({"where": "status:paid,_key^a"});
    patch(&process, "team", &changed).data(200);
    process.sink_becomes("team", "filled", |sink| {
        sink["state"] == "running" && sink["lag"] == 0
    });
    process.drained();
    // A condition on the key says that the sink never had the others, so they stay.
    assert_eq!(copy.table(), more);
    patch(&process, "team", &json!({"where": "status:open"})).data(200);
    eventually("it has the open ones", || {
        let table = copy.table();
        let open = |row: &Value| row["status"] == "open";
        (table.len() == 2 && table.values().all(open)).then_some(())
    });
    more.clear();
    process.drained();
    let keys: Vec<String> = copy.table().into_keys().map(|(_, key)| key).collect();
    assert_eq!(keys, ["d", "e"]);
    process.stop();
}

/// A retry is what was selected, whatever is selected by then, also behind a kill.
#[test]
fn what_waits_stays_an_update_or_a_removal_through_changes_and_kills() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let (receiver, copy) = Copy::answering(move |_, _| match up.load(Ordering::SeqCst) {
        true => None,
        false => Some(answer(503, "", "later")),
    });
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let mut sink = paid(&receiver, "now");
    sink["retry"] = json!({"first_ms": 20, "max_ms": 20, "attempts": 100_000});
    process.make("/api/admin/sinks", &sink).data(201);
    let waits = |retries: u64| {
        process.sink_becomes("team", "behind", |sink| sink["retries"] == retries);
    };
    order(&process, "a", "paid");
    waits(1);
    let both = json!([{"id": "b", "status": "open"}, {"id": "c", "status": "paid"}]);
    process.accepted("orders", BY_ID, &both.to_string());
    waits(2);
    order(&process, "a", "open");
    waits(3);
    // The other way round, for what is selected from now on.
    patch(&process, "team", &json!({"where": "status:open"})).data(200);
    process.kill();
    let process = folder.spawn();
    order(&process, "d", "open");
    is_up.store(true, Ordering::SeqCst);
    process.drained();
    let mut expected = of(&["c"]);
    let row = json!({"id": "d", "status": "open"});
    expected.insert(("orders".to_owned(), "d".to_owned()), row);
    assert_eq!(copy.table(), expected);
    let updates: Vec<String> = copy.updates().into_iter().map(|(key, _)| key).collect();
    assert!(
        updates.contains(&"a".to_owned()),
        "it was there before: {updates:?}"
    );
    process.stop();
}

#[test]
fn where_it_would_be_wrong_it_is_refused_and_said() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = folder();
    let process = folder.spawn();
    let mut sink = paid(&receiver, "now");
    sink["streams"] = json!(["merge-orders"]);
    let refused = |sink: &Value| {
        let answer = process.call("POST", "/api/admin/sinks", &sink.to_string());
        refusal(&answer, 400)
    };
    let (code, message) = refused(&sink);
    assert_eq!(code, "INVALID_REQUEST");
    assert!(
        message.contains("leaves") && message.contains("merge-orders"),
        "{message}"
    );
    assert!(message.contains("mode = \"latest\""), "{message}");
    // Its key is the same for all parts of an item.
    sink["where"] = json!("_key^a");
    process.make("/api/admin/sinks", &sink).data(201);

    let mut points = paid(&receiver, "now");
    points["name"] = json!("points");
    points["plugin"] = json!("influx");
    points["config"] = json!({"url": receiver.url(""), "db": "d"});
    let (_, message) = refused(&points);
    assert!(message.contains("does not hear of removals"), "{message}");

    let mut latest = paid(&receiver, "now");
    latest["name"] = json!("newest");
    latest["mode"] = json!("latest");
    latest.as_object_mut().expect("an object").remove("start");
    let (_, message) = refused(&latest);
    assert!(message.contains("remove leaves"), "{message}");

    // The stream is merged later: nobody could know.
    let late = paid(&receiver, "now");
    process
        .make("/api/admin/streams", &json!({"name": "late"}))
        .data(201);
    let late = json!({
        "name": "late", "plugin": "http-forward", "streams": ["late"], "where": "status:paid", "leaves": "remove",
        "config": late["config"], "http": late["http"],
    });
    process.make("/api/admin/sinks", &late).data(201);
    let merged = json!({"on_update": "merge"}).to_string();
    process
        .call("PATCH", "/api/admin/streams/late", &merged)
        .data(200);
    let notes = process.sink("late")["notes"].to_string();
    assert!(notes.contains("would remove items that match"), "{notes}");
    process.stop();
}

#[test]
fn the_command_line_says_it_and_a_file_with_the_section_is_the_same_sink() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let host = receiver.url("");
    let config = json!({"url": receiver.url("/in")}).to_string();
    let made = [
        "sink",
        "create",
        "team",
        "--plugin",
        "http-forward",
        "--streams",
        "orders",
        "--where",
        "status:paid",
        "--leaves",
        "remove",
        "--config",
        &config,
        "--host",
        &host,
        "--network",
        "127.0.0.0/8",
    ];
    operate(&process, made).ok();
    assert_eq!(process.sink("team")["leaves"], "remove");
    let shown = operate(&process, ["sink", "show", "team"]).ok();
    assert!(shown.contains("remove"), "{shown}");
    let section = operate(&process, ["sink", "show", "team", "--output", "toml"]).ok();
    assert!(section.contains("leaves = \"remove\""), "{section}");
    operate(&process, ["sink", "change", "team", "--leaves", "skip"]).ok();
    assert_eq!(process.sink("team")["leaves"], "skip");
    process.stop();

    let check = |setup: Setup| {
        setup.write();
        let mut command = headgate(&setup.path(""));
        command.args(["check", "--config", "headgate.toml"]);
        finish(&mut command, "")
    };
    check(Setup::with_streams(&["orders"]).toml(&section)).ok();
    let merging = Setup::with_streams(&["orders"]).merging("orders");
    let told = check(merging.toml(&section)).failed(2);
    assert!(
        told.contains("leaves") && told.contains("would remove items that match"),
        "{told}"
    );
}
