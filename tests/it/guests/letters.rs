//! Retries and dead letters in the hands of an operator: tried now, sent again, discarded.

mod kill;
mod waiting;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{QUICK_RETRIES, beside_a_good_sink, keys, nobody_else_suffers};
use crate::process::{BY_ID, Process};
use crate::setup::{Setup, key_of};
use crate::stored::one;
use crate::wait::eventually;

const LETTERS: &str = "/api/admin/sinks/hostile/dead-letters";
const SEND_AGAIN: &str = "/api/admin/sinks/hostile/dead-letters/retry";
const RETRY: &str = "/api/admin/sinks/hostile/retry";

/// A daemon whose stream `hostile` has a door.
fn with_a_door(more: &str) -> Setup {
    beside_a_good_sink("doorkeeper", &format!("{QUICK_RETRIES}{more}"))
}

/// Moves the door: `open` or `close`.
fn door(process: &Process, moved: &str) {
    process.processed("hostile", BY_ID, &format!("{{\"id\": \"{moved}\"}}"));
}

/// What a call did, which must have succeeded.
#[track_caller]
fn done(process: &Process, method: &str, path: &str, body: &str) -> Value {
    process.call(method, path, body).data(200)
}

#[track_caller]
fn refused(process: &Process, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = process.call(method, path, body);
    let code = answer.json()["error"]["code"].as_str().map(str::to_owned);
    (answer.status, code.expect("an error"))
}

fn letter_keys(process: &Process) -> Vec<String> {
    let mut keys: Vec<_> = (process.dead_letters("hostile").iter())
        .map(|letter| letter["key"].as_str().expect("a key").to_owned())
        .collect();
    keys.sort();
    keys
}

/// How often the sink took an item, the doors included.
pub(super) fn taken(folder: &Setup) -> u64 {
    let sql = "SELECT value FROM sink_state WHERE sink = 'hostile' AND key = 'taken'";
    let bytes: Vec<u8> = one(&folder.pool(), sql);
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn rows(folder: &Setup, table: &str) -> i64 {
    one(&folder.pool(), &format!("SELECT count(*) FROM {table}"))
}

#[test]
fn dead_letters_are_sent_again_without_the_journal_and_the_request_is_processed() {
    if crate::setup::file_only("the database keeps payloads for some hours") {
        return;
    }
    let folder = with_a_door("");
    let process = folder.spawn();
    door(&process, "close");
    let body = r#"[{"id": "a"}, {"id": "reject-b", "n": 1.50}, {"id": "reject-c"}, {"id": "d"}, {"id": "reject-e"}]"#;
    let id = process.failed("hostile", BY_ID, body);
    door(&process, "open");
    assert_eq!(letter_keys(&process), ["reject-b", "reject-c", "reject-e"]);
    process.stop();
    // Everything is behind every sink: the journal lets all payloads go.
    let process = folder.spawn();
    eventually("the payloads are gone", || {
        let left: i64 = one(&folder.journal(), "SELECT count(*) FROM payloads");
        (left == 0).then_some(())
    });

    let sent = done(&process, "POST", SEND_AGAIN, "");
    assert_eq!(
        sent,
        json!({"sent_again": 3, "skipped": 0, "items_left": 0})
    );
    let request = process.request_becomes(&id, "processed");
    assert_eq!(request["sinks"][0]["state"], "done");
    assert!(request["processed_at"].is_string());
    let delivered = folder.items("hostile");
    let b = delivered.iter().find(|item| item.0 == "reject-b");
    let (_, fields, request_id) = b.expect("it is there");
    assert_eq!(
        (fields, request_id),
        (&json!({"id": "reject-b", "n": 1.5}), &id)
    );
    assert_eq!(delivered.len(), 7);
    assert_eq!(taken(&folder), 7);
    let pool = folder.pool();
    let sql = "SELECT key, position, updated_at FROM items WHERE request_id = ?1 ORDER BY position";
    let mut statement = pool.prepare(sql).expect("the table");
    let places: Vec<(String, u32, String)> = statement
        .query_map([&id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    let positions: Vec<u32> = places.iter().map(|place| place.1).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4]);
    assert!(
        places.iter().all(|place| place.2 == places[0].2),
        "{places:?}"
    );
    drop(statement);
    drop(pool);
    // It is the first attempt again, under an id that is not the whole request's.
    let log = process.log();
    let tried = log
        .lines()
        .find(|line| line.contains("items 3"))
        .expect("a call");
    assert!(
        tried.contains(&format!("{id}.1-")) && tried.contains(" attempt 1 "),
        "{tried}"
    );
    assert_eq!(done(&process, "POST", SEND_AGAIN, "")["sent_again"], 0);
    assert_eq!((rows(&folder, "resends"), rows(&folder, "retries")), (0, 0));
    nobody_else_suffers(process);
}

#[test]
fn what_was_accepted_later_wins_whenever_it_is_sent_again() {
    let folder = with_a_door("");
    let process = folder.spawn();
    let send = |n: u32| {
        let body = format!(
            "[{{\"id\": \"reject-a\", \"n\": {n}}}, {{\"id\": \"reject-gone\", \"n\": {n}}}]"
        );
        process.accepted("hostile", BY_ID, &body)
    };
    let n = || {
        let items = folder.items("hostile");
        let item = items.into_iter().find(|item| item.0 == "reject-a");
        item.map(|item| item.1["n"].as_u64().expect("a number"))
    };
    let older = send(1);
    process.request_becomes(&older, "processed");
    door(&process, "close");
    let middle = send(2);
    process.request_becomes(&middle, "failed");
    door(&process, "open");
    // A dead letter that is newer than what is there replaces it …
    assert_eq!(n(), Some(1));
    done(
        &process,
        "POST",
        SEND_AGAIN,
        &json!({"request_id": middle}).to_string(),
    );
    process.request_becomes(&middle, "processed");
    assert_eq!(n(), Some(2));
    // … an older one does not, and brings nothing back that was removed after it.
    door(&process, "close");
    let late = send(3);
    process.request_becomes(&late, "failed");
    door(&process, "open");
    let newest = send(4);
    process.request_becomes(&newest, "processed");
    let key = key_of("hostile");
    let path = "/api/streams/hostile/items/reject-gone";
    let answer = process.ask("DELETE", path, &key, "", "");
    assert_eq!(answer.status, 202, "{}", answer.body);
    process.drained();
    let left = done(&process, "POST", SEND_AGAIN, "{}");
    assert_eq!(
        left,
        json!({"sent_again": 0, "skipped": 0, "items_left": 2})
    );
    assert_eq!(letter_keys(&process), ["reject-a", "reject-gone"]);
    let taken_before = taken(&folder);
    let all = done(&process, "POST", SEND_AGAIN, r#"{"overwrite": true}"#);
    assert_eq!(all, json!({"sent_again": 2, "skipped": 0, "items_left": 0}));
    // What overwrites is a request of its own, behind everything.
    process.drained();
    assert_eq!(process.request(&late)["status"], "processed");
    assert_eq!(taken(&folder), taken_before + 2);
    assert_eq!(n(), Some(3));
    assert!(keys(&folder, "hostile").contains(&"reject-gone".to_owned()));
    assert_eq!(process.dead_letters("hostile"), Vec::<Value>::new());
    nobody_else_suffers(process);
}

#[test]
fn what_fails_again_is_a_dead_letter_again_with_new_attempts() {
    let folder = with_a_door("batch = { items_max = 2 }\n");
    let process = folder.spawn();
    door(&process, "close");
    let body =
        r#"[{"id": "trap-a"}, {"id": "b"}, {"id": "reject-c"}, {"id": "trap-d"}, {"id": "e"}]"#;
    let id = process.accepted("hostile", BY_ID, body);
    process.drained();
    assert_eq!(process.request(&id)["status"], "failed");
    assert_eq!(letter_keys(&process), ["reject-c", "trap-a", "trap-d"]);
    let before = process.dead_letters("hostile");

    let sent = done(&process, "POST", SEND_AGAIN, "");
    assert_eq!(
        sent,
        json!({"sent_again": 3, "skipped": 0, "items_left": 0})
    );
    process.drained();
    assert_eq!(letter_keys(&process), ["reject-c", "trap-a", "trap-d"]);
    let after = process.dead_letters("hostile");
    let number = |letter: &Value| -> u64 {
        let id = letter["id"].as_str().expect("an id");
        id.parse().expect("a number")
    };
    let highest = before.iter().map(number).max().expect("letters");
    for letter in &after {
        assert!(number(letter) > highest, "no id is given twice: {after:?}");
        let position = match letter["key"].as_str() {
            Some("trap-a") => 0,
            Some("reject-c") => 2,
            _ => 3,
        };
        assert_eq!(letter["position"], position);
        assert_eq!(letter["request_id"], *id);
        assert_eq!(letter["fields"], json!({"id": letter["key"]}));
    }
    let attempts = |letters: &[Value], key: &str| {
        let letter = letters.iter().find(|letter| letter["key"] == key);
        letter.expect("a letter")["attempts"]
            .as_u64()
            .expect("a number")
    };
    // As a pair, then alone: no attempt of before counts.
    assert!((3..=4).contains(&attempts(&after, "trap-a")), "{after:?}");
    assert_eq!(process.request(&id)["status"], "failed");
    assert_eq!(process.sink("hostile")["state"], "failing");
    assert_eq!(rows(&folder, "resends"), 0);

    door(&process, "open");
    done(&process, "POST", SEND_AGAIN, "");
    process.request_becomes(&id, "processed");
    assert_eq!(taken(&folder), 7);
    nobody_else_suffers(process);
}

#[test]
fn single_letters_and_requests_can_be_chosen_sent_again_and_discarded() {
    let folder = with_a_door("");
    let process = folder.spawn();
    door(&process, "close");
    let send = |prefix: &str| {
        let item = |n| format!("{{\"id\": \"reject-{prefix}{n}\"}}");
        let body = format!("[{}]", (0..4).map(item).collect::<Vec<_>>().join(","));
        process.accepted("hostile", BY_ID, &body)
    };
    let (a, b) = (send("a"), send("b"));
    for id in [&a, &b] {
        process.request_becomes(id, "failed");
    }
    door(&process, "open");
    let letters = process.dead_letters("hostile");
    let id = |key: &str| {
        let letter = letters.iter().find(|letter| letter["key"] == key);
        letter.expect("a letter")["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let (a0, a1, b0) = (id("reject-a0"), id("reject-a1"), id("reject-b0"));

    // Nothing happens if something that is named does not exist.
    let nobody = "00000000-0000-7000-8000-000000000000";
    for (method, path, body) in [
        ("POST", SEND_AGAIN, format!("{{\"ids\": [{a0}, 999]}}")),
        (
            "POST",
            SEND_AGAIN,
            format!("{{\"request_id\": \"{nobody}\"}}"),
        ),
        (
            "DELETE",
            &format!("{LETTERS}?id={a0}&id=999"),
            String::new(),
        ),
        (
            "DELETE",
            &format!("{LETTERS}?request_id={nobody}"),
            String::new(),
        ),
        ("DELETE", &format!("{LETTERS}/999"), String::new()),
        ("DELETE", &format!("{LETTERS}/x"), String::new()),
        (
            "DELETE",
            &format!("/api/admin/sinks/pool/dead-letters/{a0}"),
            String::new(),
        ),
    ] {
        let told = refused(&process, method, path, &body);
        assert_eq!(
            told,
            (404, "DEAD_LETTER_NOT_FOUND".to_owned()),
            "{method} {path} {body}"
        );
    }
    for (method, path, body) in [
        ("DELETE", LETTERS, ""),
        ("DELETE", &format!("{LETTERS}?all=false"), ""),
        ("DELETE", &format!("{LETTERS}?all=true&id={a0}"), ""),
        ("DELETE", &format!("{LETTERS}?id=x"), ""),
        ("DELETE", &format!("{LETTERS}?request_id=x"), ""),
        ("POST", SEND_AGAIN, "{\"ids\": []}"),
        ("POST", SEND_AGAIN, "{\"ids\": [1.5]}"),
        ("POST", SEND_AGAIN, "{\"id\": 1}"),
        ("POST", SEND_AGAIN, "[]"),
        (
            "POST",
            SEND_AGAIN,
            &format!("{{\"ids\": [1], \"request_id\": \"{nobody}\"}}"),
        ),
    ] {
        let told = refused(&process, method, path, body);
        assert_eq!(
            told,
            (400, "INVALID_REQUEST".to_owned()),
            "{method} {path} {body}"
        );
    }
    for (method, path) in [
        ("POST", "/api/admin/sinks/nobody/retry"),
        ("POST", "/api/admin/sinks/nobody/dead-letters/retry"),
        ("DELETE", "/api/admin/sinks/nobody/dead-letters?all=true"),
        ("DELETE", "/api/admin/sinks/nobody/dead-letters/1"),
    ] {
        let told = refused(&process, method, path, "");
        assert_eq!(told, (404, "SINK_NOT_FOUND".to_owned()), "{method} {path}");
    }
    assert_eq!(letter_keys(&process).len(), 8);

    let sent = done(
        &process,
        "POST",
        SEND_AGAIN,
        &format!("{{\"ids\": [{a0}, \"{b0}\", {a0}]}}"),
    );
    assert_eq!(sent["sent_again"], 2);
    process.drained();
    let delivered = || -> BTreeSet<String> { keys(&folder, "hostile").into_iter().collect() };
    let set =
        |keys: &[&str]| -> BTreeSet<String> { keys.iter().map(ToString::to_string).collect() };
    assert_eq!(
        delivered(),
        set(&["open", "close", "reject-a0", "reject-b0"])
    );
    assert_eq!(
        process.request(&a)["status"],
        "failed",
        "others of it are left"
    );

    let gone = done(&process, "DELETE", &format!("{LETTERS}/{a1}"), "");
    assert_eq!(gone, json!({"discarded": 1}));
    let gone = done(&process, "DELETE", &format!("{LETTERS}?request_id={b}"), "");
    assert_eq!(gone, json!({"discarded": 3}));
    assert_eq!(letter_keys(&process), ["reject-a2", "reject-a3"]);
    done(
        &process,
        "POST",
        SEND_AGAIN,
        &format!("{{\"request_id\": \"{a}\"}}"),
    );
    let request = process.request_becomes(&a, "discarded");
    assert_eq!(request["sinks"][0]["state"], "discarded", "not all of it");
    assert_eq!(
        delivered(),
        set(&[
            "open",
            "close",
            "reject-a0",
            "reject-a2",
            "reject-a3",
            "reject-b0"
        ])
    );
    assert_eq!(
        done(&process, "DELETE", &format!("{LETTERS}?all=true"), "")["discarded"],
        0
    );
    nobody_else_suffers(process);
}

#[test]
fn a_payload_that_nobody_can_read_is_skipped_and_can_be_discarded() {
    let folder = with_a_door("");
    let process = folder.spawn();
    door(&process, "close");
    let id = process.failed(
        "hostile",
        BY_ID,
        r#"[{"id": "reject-a"}, {"id": "reject-b"}]"#,
    );
    process.stop();
    let sql = "UPDATE dead_letters SET key = '', fields = '' WHERE key = 'reject-b'";
    assert_eq!(folder.tamper("pool.db", sql), 1);
    let process = folder.spawn();
    door(&process, "open");
    let sent = done(&process, "POST", SEND_AGAIN, "");
    assert_eq!(
        sent,
        json!({"sent_again": 1, "skipped": 1, "items_left": 0})
    );
    process.drained();
    assert_eq!(process.request(&id)["status"], "failed");
    let letters = process.dead_letters("hostile");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["fields"], Value::Null);
    let only = format!(
        "{{\"ids\": [{}]}}",
        letters[0]["id"].as_str().expect("an id")
    );
    let sent = done(&process, "POST", SEND_AGAIN, &only);
    assert_eq!(
        sent,
        json!({"sent_again": 0, "skipped": 1, "items_left": 0})
    );
    assert_eq!(
        done(&process, "DELETE", &format!("{LETTERS}?all=true"), "")["discarded"],
        1
    );
    process.request_becomes(&id, "discarded");
    nobody_else_suffers(process);
}
