//! Problems as items of a stream: told once, with their ends, to whatever takes that stream by name.

use serde_json::{Value, json};

use crate::command_line::operate;
use crate::process::Process;
use crate::receiver::{Receiver, answer};
use crate::setup::{Setup, is_in_a_cluster};
use crate::stored::one;
use crate::wait::eventually;

const TOLD: &str = "SELECT sum(items) FROM requests WHERE connector = 'headgate' AND endpoint = 4";

/// Forwards the fields of items to a receiver, one a request.
fn forwarding(receiver: &Receiver, more: &str) -> String {
    format!(
        "{more}batch = {{ linger_ms = 0 }}\n\
         config = {{ url = {:?}, form = \"field-lines\", max_items = 1 }}\n\
         http = {{ hosts = [{:?}], networks = [\"127.0.0.0/8\"] }}\n",
        receiver.url("/"),
        receiver.url("")
    )
}

fn folder() -> Setup {
    Setup::with_streams(&["orders"])
        .set("problems.stream", "_problems")
        .sink("pool", "pool", "*", "")
}

fn texts(receiver: &Receiver) -> Vec<String> {
    let seen = receiver.seen().into_iter();
    seen.map(|seen| seen.json()["text"].as_str().expect("a text").to_owned())
        .collect()
}

fn pause(process: &Process, sink: &str, act: &str) {
    let path = format!("/api/admin/sinks/{sink}/{act}");
    process.call("POST", &path, "").data(200);
}

/// The key of a problem, without the name of the node that a cluster has behind it.
fn without_node(key: &str) -> &str {
    match key.rsplit_once('@') {
        Some((key, _)) if is_in_a_cluster() => key,
        _ => key,
    }
}

/// The fields of a problem in the pool.
fn told(folder: &Setup, key: &str) -> Option<Value> {
    let items = folder.items("_problems").into_iter();
    let mut own = items.filter(|(own, ..)| without_node(own) == key);
    own.next().map(|(_, fields, _)| fields)
}

#[test]
fn a_problem_is_told_once_and_so_is_its_end_whatever_ends_the_daemon_between() {
    let chat = Receiver::start(|_, _| answer(200, "", ""));
    let all_of_it = Receiver::start(|_, _| answer(200, "", ""));
    let chosen = "where = \"severity:warning\"\nfields = \"text:message\"\n";
    let folder = folder()
        .sink(
            "chat",
            "http-forward",
            "_problems",
            &forwarding(&chat, chosen),
        )
        .sink("team", "http-forward", "*", &forwarding(&all_of_it, ""))
        .given_read_key("desk", &["_problems"], "rk_live_of_the_desk_12345678", "");
    let process = folder.spawn();
    pause(&process, "team", "pause");
    let opened = eventually("it is told", || texts(&chat).pop());
    assert!(opened.starts_with("sink team waits"), "{opened}");
    // What was answered and not settled when the daemon is killed is sent again.
    process.sink_becomes("chat", "settled", |sink| sink["lag"] == 0);
    process.kill();

    let process = folder.spawn();
    let listed = eventually("the next daemon knows it", || {
        process.list("/api/admin/problems").pop()
    });
    let item = eventually("the pool has it", || told(&folder, "sink_paused:team"));
    assert_eq!(
        (&item["kind"], &item["subject"], &item["state"]),
        (&json!("sink_paused"), &json!("team"), &json!("open"))
    );
    assert_eq!(
        (&item["page"], &item["resolved_at"]),
        (&json!("/sinks/team"), &Value::Null)
    );
    let key = listed["key"].as_str().expect("a key");
    assert_eq!(without_node(key), "sink_paused:team");
    assert_eq!(key.contains('@'), is_in_a_cluster());
    assert_eq!(listed["since"], item["since"], "it is the same problem");
    let shown = operate(&process, ["problems"]).ok();
    assert!(shown.contains("sink_paused  team     warning"), "{shown}");

    pause(&process, "team", "resume");
    let resolved = eventually("its end is told", || {
        let texts = texts(&chat);
        (texts.len() > 1).then(|| texts[1].clone())
    });
    assert!(
        resolved.starts_with("resolved: sink team waits"),
        "{resolved}"
    );
    process.drained();
    let feed = process.ask(
        "GET",
        "/feed/_problems.json",
        "rk_live_of_the_desk_12345678",
        "",
        "",
    );
    let feed = feed.json();
    assert_eq!(
        (&feed[0]["state"], &feed[0]["since"]),
        (&json!("resolved"), &item["since"])
    );
    assert!(feed[0]["resolved_at"].is_string());
    assert_eq!(texts(&chat).len(), 2);
    assert_eq!(all_of_it.seen().len(), 0, "`*` does not mean it");
    process.stop();
    assert_eq!(one::<i64>(&folder.journal(), TOLD), 2);

    // After a day it leaves the stream.
    let day = "UPDATE items SET expires_ms = 0
               WHERE stream = '_problems' AND expires_ms - unixepoch() * 1000 BETWEEN 86000000 AND 86400000";
    assert_eq!(folder.tamper("pool.db", day), 1);
    let process = folder.spawn();
    eventually("it is gone", || {
        told(&folder, "sink_paused:team").is_none().then_some(())
    });
    process.stop();
}

#[test]
fn a_sink_is_not_told_its_own_problems() {
    let chat = Receiver::start(|seen, _| match seen.body.contains("number") {
        true => answer(500, "", "no"),
        false => answer(200, "", ""),
    });
    let folder = folder()
        .sink("other", "http-forward", "orders", &forwarding(&chat, "enabled = false\n"))
        .toml(&format!(
            "[[sinks]]\nname = \"chat\"\nplugin = \"http-forward\"\nstreams = [\"orders\", \"_problems\"]\n\
             retry = {{ first_ms = 100, max_ms = 100, attempts = 1000000 }}\n{}",
            forwarding(&chat, "")
        ));
    let process = folder.spawn();
    process.accepted("orders", "", r#"{"number": 1}"#);
    for key in ["sink_retries:chat", "sink_paused:other"] {
        eventually(key, || told(&folder, key));
    }
    let heard = |part: &str| {
        let seen = chat.seen().into_iter();
        seen.filter(|seen| seen.body.contains(part)).count()
    };
    eventually("others' problems are handed on", || {
        (heard("sink_paused") > 0).then_some(())
    });
    eventually("the sink is behind the rest", || {
        process.sink("chat")["lag"].as_u64().filter(|lag| *lag <= 1)
    });
    assert_eq!(heard("\"subject\":\"chat\""), 0);
    process.stop();
}

#[test]
fn names_that_begin_with_an_underscore_are_the_daemons() {
    let folder = folder();
    let process = folder.spawn();
    let refused = process.call("POST", "/api/admin/streams", r#"{"name": "_mine"}"#);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(
        refused.body.contains("reserved for the daemon"),
        "{}",
        refused.body
    );
    let connector = json!({"name": "shop", "kind": "ingest"});
    process.make("/api/admin/connectors", &connector);
    let key = json!({"name": "main", "stream": "_problems"});
    let path = "/api/admin/connectors/shop/keys";
    let refused = process.call("POST", path, &key.to_string());
    assert_eq!(refused.status, 400, "{}", refused.body);
    let key = json!({"name": "desk", "streams": ["_problems"]});
    process.make("/api/admin/read-keys", &key);
    process.stop();
    let logged: Option<i64> = one(&folder.journal(), TOLD);
    assert_eq!(logged, None, "there was no problem");

    let mine = folder.clone().stream("_mine");
    let ended = mine.try_spawn().expect_err("it does not start");
    assert!(
        ended.log.contains("begin with \"_\" are reserved"),
        "{}",
        ended.log
    );
    // It was used before names were the daemon's.
    let sql = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position)
               SELECT '_mine', key, fields, seq, created_at, updated_at, request_id, accepted_seq, position FROM items LIMIT 1";
    let process = folder.spawn();
    process.processed("orders", "", "{}");
    process.stop();
    assert_eq!(folder.tamper("pool.db", sql), 1);
    mine.spawn().stop();
}
