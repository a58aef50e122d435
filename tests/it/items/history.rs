//! The values that fields had: what the API, the command line and the page of an item say of them, and for how long.

use serde_json::{Value, json};

use crate::command_line::operate;
use crate::pages::signed_in;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use crate::wait::eventually;

const ITEM: &str = "/api/admin/streams/scores/items/m1";
const HISTORY: &str = "/api/admin/streams/scores/items/m1/history";

fn recording(values: u32) -> Setup {
    Setup::with_streams(&["scores"]).of_stream("scores", &format!("history = {values}"))
}

/// A request with the item m1; its id.
fn write(process: &Process, fields: &str) -> String {
    let body = format!(r#"[{{"id": "m1", {fields}}}]"#);
    process.processed("scores", BY_ID, &body)
}

/// Field, kind, value and request of each.
fn told(process: &Process, query: &str) -> Vec<(String, String, Value, String)> {
    let of = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let list = process.list(&format!("{HISTORY}{query}"));
    let told = list.iter().map(|one| {
        let (field, kind) = (of(one, "field"), of(one, "kind"));
        (field, kind, one["value"].clone(), of(one, "request_id"))
    });
    told.collect()
}

fn line(field: &str, kind: &str, value: Value, request: &str) -> (String, String, Value, String) {
    (field.to_owned(), kind.to_owned(), value, request.to_owned())
}

#[test]
fn the_api_lists_the_last_values_of_each_field_with_their_requests() {
    let process = recording(2).spawn();
    let requests: Vec<String> = ["1", "2", "3"]
        .map(|n| {
            write(
                &process,
                &format!(r#""home": {{"score": {n}}}, "name": "A""#),
            )
        })
        .into();
    let score = |value: i32, request: &str| line("home.score", "value", json!(value), request);
    let of_score = [score(3, &requests[2]), score(2, &requests[1])];
    assert_eq!(told(&process, "?field=home.score"), of_score);
    let rest = ["id", "name"].map(|field| {
        let value = if field == "id" { "m1" } else { "A" };
        line(field, "value", json!(value), &requests[0])
    });
    assert_eq!(told(&process, ""), [&of_score[..], &rest].concat());

    // A page at a time.
    let mut cursor = String::new();
    let mut fields = Vec::new();
    loop {
        let answer = process.call("GET", &format!("{HISTORY}?limit=1{cursor}"), "");
        let page = answer.json();
        fields.extend(page["data"].as_array().expect("a list").clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        cursor = format!("&cursor={}", crate::app::encoded(next));
    }
    assert_eq!(fields.len(), 4, "{fields:?}");
    assert_eq!(fields[0]["seq"], process.admin(ITEM)["seq"]);

    for (path, status, code) in [
        (format!("{HISTORY}?cursor=x"), 400, "INVALID_REQUEST"),
        (HISTORY.replace("m1", "m2"), 404, "ITEM_NOT_FOUND"),
        (HISTORY.replace("scores", "none"), 404, "STREAM_NOT_FOUND"),
    ] {
        let answer = process.call("GET", &path, "");
        let found = (answer.status, answer.json()["error"]["code"].clone());
        assert_eq!(found, (status, json!(code)), "{path}");
    }
    assert_eq!(told(&process, "?field=none"), []);
}

#[test]
fn a_removed_item_keeps_its_history_and_a_kill_takes_nothing() {
    let process = recording(20).spawn();
    let first = write(&process, r#""n": 1"#);
    let removal = process.removed("scores", "m1");
    eventually("it is removed", || {
        (process.call("GET", ITEM, "").status == 404).then_some(())
    });
    let gone = [
        line("n", "removed", Value::Null, &removal),
        line("n", "value", json!(1), &first),
    ];
    assert_eq!(told(&process, "?field=n"), gone);
    let site = signed_in(&process);
    let page = site.page("/streams/scores/item?key=m1");
    assert!(
        page.contains("no longer has an item with this key"),
        "{page}"
    );
    assert!(page.contains("item removed"), "{page}");

    let setup = process.setup.clone();
    process.kill();
    let process = setup.spawn();
    assert_eq!(told(&process, "?field=n"), gone);
    let back = write(&process, r#""n": 1"#);
    let all = [&[line("n", "value", json!(1), &back)], &gone[..]].concat();
    assert_eq!(told(&process, "?field=n"), all);
}

#[test]
fn what_operators_show_instead_stands_beside_it_on_the_page_and_in_the_terminal() {
    let process = recording(20).spawn();
    let first = write(&process, r#""n": 1, "note": "old""#);
    let put = |verb: &str, body: Value| {
        let path = format!("/api/admin/streams/scores/{verb}");
        let acted = process.call("POST", &path, &body.to_string());
        acted.data(202)["request_id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let act = put("override", json!({"key": "m1", "fields": {"n": 7}}));
    let second = write(&process, r#""n": 2"#);
    let release = put("release", json!({"key": "m1"}));
    let of_n = [
        line("n", "release", Value::Null, &release),
        line("n", "value", json!(2), &second),
        line("n", "override", json!(7), &act),
        line("n", "value", json!(1), &first),
    ];
    assert_eq!(told(&process, "?field=n"), of_n);
    assert!(process.list(HISTORY)[0]["by"].is_string());
    let set = process.call("PUT", ITEM, r#"{"n": 5}"#);
    let put = set.data(202)["request_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let newest = line("n", "value", json!(5), &put);
    eventually("it is in the pool", || {
        (told(&process, "?field=n")[0] == newest).then_some(())
    });

    let table = operate(&process, ["item", "history", "scores", "m1", "--utc"]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("AT"), "{table}");
    assert!(
        table.contains("7 (override)") && table.contains("(released)"),
        "{table}"
    );
    assert!(
        table.contains("(field removed)") && table.contains(&first),
        "{table}"
    );
    let args = [
        "item", "history", "scores", "m1", "--field", "n", "--limit", "2", "--output", "json",
    ];
    let json = operate(&process, args).ok();
    let json: Vec<Value> = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.len(), 2);
    assert_eq!(json[0]["value"], 5);

    let page = signed_in(&process).page("/streams/scores/item?key=m1");
    assert!(page.contains("n</bdi>: 5 values"), "{page}");
    assert!(page.contains("badge warn\">override</span> by"), "{page}");
    assert!(page.contains(&format!("/requests/{second}")), "{page}");
    assert!(
        page.contains("<span class=\"quiet\"> (removed)</span>"),
        "{page}"
    );
}

#[test]
fn it_is_a_setting_at_run_time_and_a_stream_made_again_begins_without() {
    let process = Setup::with_streams(&["scores"]).spawn();
    let wrong = json!({"name": "news", "history": 101}).to_string();
    let wrong = process.call("POST", "/api/admin/streams", &wrong);
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    let made = |args: &[&str]| operate(&process, args).ok();
    made(&["stream", "create", "news", "--history", "5"]);
    assert_eq!(process.admin("/api/admin/streams/news")["history"], 5);
    let page = signed_in(&process).page("/streams/news/change");
    assert!(
        page.contains("name=\"history\"") && page.contains("value=\"5\""),
        "{page}"
    );

    let put = |n: u32| {
        let fields = format!("n={n}");
        made(&["item", "set", "news", "m1", &fields]);
    };
    let values = || {
        let out = made(&["item", "history", "news", "m1", "--output", "json"]);
        let list: Vec<Value> = serde_json::from_str(&out).expect("JSON");
        list.iter()
            .map(|one| one["value"].to_string())
            .collect::<Vec<_>>()
    };
    // The answer to a PUT does not wait for the pool without end.
    let becomes = |expected: &[&str]| {
        eventually("the values are there", || {
            (values() == expected).then_some(())
        });
    };
    (1..=3).for_each(put);
    becomes(&["3", "2", "1"]);
    made(&["stream", "change", "news", "--history", "2"]);
    assert_eq!(values(), ["3", "2"]);
    made(&["stream", "change", "news", "--history", "0"]);
    let none = operate(&process, ["item", "history", "news", "m1"]);
    assert!(
        none.err.contains("`history` of the stream news"),
        "{none:?}"
    );
    made(&["stream", "change", "news", "--history", "9"]);
    assert_eq!(values(), [""; 0]);
    put(4);
    becomes(&["4"]);
    made(&["stream", "delete", "news", "--items"]);
    made(&["stream", "create", "news", "--history", "5"]);
    let gone = process.call("GET", "/api/admin/streams/news/items/m1/history", "");
    assert_eq!(gone.status, 404, "{}", gone.body);
    put(5);
    becomes(&["5"]);
    // What does not count any more goes.
    let rows = || {
        let pool = rusqlite::Connection::open(process.setup.data_dir().join("pool.db"));
        let sql = "SELECT count(*) FROM past_values";
        let rows = pool
            .expect("it opens")
            .query_row(sql, [], |row| row.get::<_, u32>(0));
        rows.expect("it reads")
    };
    eventually("only what counts is left", || (rows() == 1).then_some(()));
}

#[test]
fn the_setting_of_a_declared_stream_counts_from_the_next_start() {
    let mut folder = Setup::with_streams(&["scores"]).of_stream("scores", "history = 0");
    let process = folder.spawn();
    write(&process, r#""n": 1"#);
    assert_eq!(told(&process, ""), []);
    let mut restart = |process: Process, from: u32, to: u32| {
        process.kill();
        folder.change(&format!("history = {from}"), &format!("history = {to}"));
        folder.spawn()
    };
    // A node may learn of the setting in the second after its start.
    let becomes = |process: &Process, expected: &[(String, String, Value, String)]| {
        eventually("these values are listed", || {
            (told(process, "") == expected).then_some(())
        });
    };
    let process = restart(process, 0, 20);
    let second = write(&process, r#""n": 2"#);
    becomes(&process, &[line("n", "value", json!(2), &second)]);
    let process = restart(process, 20, 0);
    becomes(&process, &[]);
    let process = restart(process, 0, 20);
    becomes(&process, &[]);
}
