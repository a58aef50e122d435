//! The built-in sink that writes to PostgreSQL.

use serde_json::json;

use super::nobody_else_suffers;
use crate::command_line::run;
use crate::process::{BY_ID, Process};
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::{Line, PASSWORD, Postgres};

const RETRIES: &str = "retry = { first_ms = 10, max_ms = 100, attempts = 1000 }\n";
const TABLE: &str = "{ table = \"items\", create = true }";

/// A daemon whose stream `hostile` is written to the database.
fn writing(url: &str, config: &str) -> Setup {
    let more =
        format!("{RETRIES}config = {config}\npostgres = {{ url = {url:?}, timeout_ms = 500 }}\n");
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "postgres", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

/// Waits until the sink complains so; no batch waits for another attempt.
fn fails(process: &Process, words: &str) {
    let sink = process.sink_becomes("hostile", &format!("failing with {words:?}"), |sink| {
        sink["last_error"].to_string().contains(words)
    });
    assert_eq!(sink["dead_letters"], 0);
}

#[test]
fn items_become_rows_and_rows_follow_their_items() {
    let Some(postgres) = Postgres::start("items_become_rows") else {
        return;
    };
    let process = writing(&postgres.url(), TABLE).spawn();
    let body = r#"[{"id": "a", "n": 1.50, "o": {"p": "é\"\\"}}, {"id": "b", "l": [1, null]}]"#;
    process.processed("hostile", BY_ID, body);
    let all = "SELECT stream, key, fields, received_at = to_timestamp(floor(extract(epoch FROM received_at) * 1000) / 1000) \
               AND now() - received_at BETWEEN interval '0' AND interval '1 min' FROM items ORDER BY key";
    assert_eq!(
        postgres.query(all),
        "hostile|a|{\"n\": 1.50, \"id\": \"a\", \"o.p\": \"é\\\"\\\\\"}|t\n\
         hostile|b|{\"l\": [1, null], \"id\": \"b\"}|t"
    );
    // An update, and of equal keys in one batch the last one.
    let body =
        r#"[{"id": "a", "n": 2}, {"id": "c", "n": 1}, {"id": "a", "n": 3}, {"id": "c", "n": 2}]"#;
    let one_batch = [r#"{"id": "a", "n": 2}"#, body];
    for body in one_batch {
        process.processed("hostile", BY_ID, body);
    }
    let numbers = "SELECT key, fields->'n' FROM items ORDER BY key";
    assert_eq!(postgres.query(numbers), "a|3\nb|\nc|2");
    let rows = "headgate_plugin_events_total{sink=\"hostile\",name=\"rows\"} 5";
    assert!(process.metrics().contains(rows), "{}", process.metrics());

    // What is newer stays.
    postgres.query("UPDATE items SET received_at = now() + interval '1 h' WHERE key = 'a'");
    process.processed(
        "hostile",
        BY_ID,
        r#"[{"id": "a", "n": 4}, {"id": "b", "n": 4}]"#,
    );
    assert_eq!(postgres.query(numbers), "a|3\nb|4\nc|2");
    nobody_else_suffers(process);
}

#[test]
fn removed_items_take_their_rows_with_them() {
    let Some(postgres) = Postgres::start("removed_items") else {
        return;
    };
    // Of a table of one's own, by the column for keys, whatever its type.
    let own = "{ table = \"own\", create = true, key = [\"number\"], columns = [{ name = \"number\", from = \"key\", type = \"bigint\" }, { name = \"n\" }] }";
    for (config, table, column) in [(TABLE, "items", "key"), (own, "own", "number")] {
        let process = writing(&postgres.url(), config).spawn();
        // Of what was never written, before there is a table.
        process.removed("hostile", "1");
        process.accepted(
            "hostile",
            BY_ID,
            r#"[{"id": "1"}, {"id": "2"}, {"id": "3"}]"#,
        );
        process.removed("hostile", "2");
        process.removed("hostile", "9");
        process.drained();
        let left = format!("SELECT {column} FROM {table} ORDER BY 1");
        assert_eq!(postgres.query(&left), "1\n3");
        assert_eq!(process.sink("hostile")["dead_letters"], 0);
        nobody_else_suffers(process);
    }
}

#[test]
fn an_array_of_updates_and_removals_leaves_what_its_order_leaves() {
    let Some(postgres) = Postgres::start("an_array_of_updates") else {
        return;
    };
    let rule = "delete_when = { field = \"op\", is = [\"del\"] }";
    let folder = writing(&postgres.url(), TABLE).connector("tests", rule);
    let process = folder.spawn();
    for body in [
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "a", "op": "del"}, {"id": "c", "op": "del"}, {"id": "c", "n": 1}]"#,
        r#"[{"id": "c", "op": "del"}, {"id": "a", "n": 2}, {"id": "c", "n": 2}, {"id": "b", "n": 2}, {"id": "b", "op": "del"}]"#,
    ] {
        process.processed("hostile", BY_ID, body);
    }
    let rows = postgres.query("SELECT key, fields->'n' FROM items ORDER BY key");
    assert_eq!(rows, "a|2\nc|2");
    nobody_else_suffers(process);
}

#[test]
fn what_was_committed_without_the_daemons_knowledge_is_not_changed_by_its_repetition() {
    let Some(postgres) = Postgres::start("what_was_committed") else {
        return;
    };
    let line = Line::to(&postgres);
    let folder = writing(&line.url(), TABLE);
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a", "n": 1}"#);
    line.stall_at_commit();
    let second = process.accepted("hostile", BY_ID, r#"[{"id": "a", "n": 2}, {"id": "b"}]"#);
    let rows = "SELECT key, fields->'n', xmin, ctid FROM items ORDER BY key";
    let committed = eventually("it is committed", || {
        Some(postgres.query(rows)).filter(|rows| rows.contains("a|2|") && rows.contains("b|"))
    });
    assert_eq!(process.request(&second)["status"], "accepted");
    process.kill();
    line.go_on();
    let process = folder.spawn();
    process.request_becomes(&second, "processed");
    assert_eq!(postgres.query(rows), committed);
    nobody_else_suffers(process);
}

#[test]
fn single_items_that_the_table_does_not_take_become_dead_letters() {
    let Some(postgres) = Postgres::start("single_items") else {
        return;
    };
    postgres.query(
        r#"CREATE TABLE "Data ""x""" (id bigint PRIMARY KEY, n numeric(6,2) CHECK (n >= 0), "tags' \n" jsonb, ok bool,
           at timestamptz, seen bigint, note text DEFAULT 'ours')"#,
    );
    let config = r#"{ schema = "public", table = 'Data "x"', key = ["id"], columns = [
        { name = "id", type = "bigint" }, { name = "n", field = "o.n", type = "numeric(6, 2)" },
        { name = "tags' \\n", field = "it's\\", type = "jsonb" }, { name = "ok", type = "boolean" },
        { name = "at", type = "timestamp with time zone" }, { name = "seen", from = "received_at", type = "timestamptz" }] }"#;
    // Times do not fit into the column, which is for the operator to mend: nothing is given up.
    let process = writing(&postgres.url(), &config.replace('\n', " ")).spawn();
    let mut items: Vec<_> = (0..1_000)
        .map(|id| json!({"id": id, "o": {"n": 1.5}, "it's\\": "x"}))
        .collect();
    items[617] = json!({"id": 617, "o": {"n": "many"}});
    items[3] = json!({"id": "03", "o": {"n": 2.125}, "it's\\": {}, "ok": false, "at": "2024-02-29T12:00:00+02:00"});
    let id = process.accepted("hostile", BY_ID, &json!(items).to_string());
    fails(&process, "SQLSTATE 42804");
    postgres.query(r#"ALTER TABLE "Data ""x""" ALTER seen TYPE timestamptz USING null"#);
    process.request_becomes(&id, "failed");
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["key"], "617");
    let reason = "invalid input syntax for type numeric: \"many\" (SQLSTATE 22P02)";
    assert_eq!(letter["reason"], reason);
    let count =
        r#"SELECT count(*), count(seen), count(*) FILTER (WHERE note = 'ours') FROM "Data ""x""""#;
    assert_eq!(postgres.query(count), "999|999|999");
    let row = |id| {
        postgres.query(&format!(
            r#"SELECT n, "tags' \n", ok, at AT TIME ZONE 'UTC' FROM "Data ""x""" WHERE id = {id}"#
        ))
    };
    assert_eq!(row(3), "2.13|{}|f|2024-02-29 10:00:00");
    assert_eq!(row(4), "1.50|\"x\"||");
    for rejected in ["rows\"} 999", "rejected\"} 1"] {
        let line = format!("headgate_plugin_events_total{{sink=\"hostile\",name=\"{rejected}");
        assert!(process.metrics().contains(&line), "{}", process.metrics());
    }

    // A constraint, a key that is not there, bytes that PostgreSQL does not know; the good ones between them are taken.
    let body = r#"[{"id": 1, "o": {"n": -1}}, {"id": 2, "o": {"n": 9}}, {"name": "no id"}, {"id": 3, "it's\\": "\u0000"}, {"id": 4, "o": {"n": 9}}]"#;
    process.failed("hostile", "", body);
    let mut reasons: Vec<_> = process.dead_letters("hostile")[..3]
        .iter()
        .map(|letter| (letter["position"].as_u64(), letter["reason"].to_string()))
        .collect();
    reasons.sort();
    for ((position, reason), (expected, words)) in reasons.iter().zip([
        (0, "SQLSTATE 23514"),
        (2, "the field id, which is in the table's key, is absent"),
        (3, "SQLSTATE 22P05"),
    ]) {
        assert_eq!(*position, Some(expected), "{reasons:?}");
        assert!(reason.contains(words), "{reasons:?}");
    }
    assert_eq!(
        [row(1), row(2), row(4)].map(|row| row[..4].to_owned()),
        ["1.50", "9.00", "9.00"]
    );
    nobody_else_suffers(process);
}

#[test]
fn settings_that_fit_no_item_give_nothing_up() {
    let Some(postgres) = Postgres::start("settings_that_fit_no_item") else {
        return;
    };
    let config = r#"{ table = "t", create = true, key = ["id"], columns = [{ name = "id", type = "int" }] }"#;
    let process = writing(&postgres.url(), config).spawn();
    let items: Vec<_> = (0..2_000)
        .map(|id| json!({"id": format!("x{id}")}))
        .collect();
    let id = process.accepted("hostile", BY_ID, &json!(items).to_string());
    fails(
        &process,
        "too many items of one batch are refused, the last ones: invalid input syntax",
    );
    assert_eq!(process.request(&id)["status"], "accepted");
    nobody_else_suffers(process);
}

#[test]
fn a_server_that_is_restarted_gets_everything() {
    let Some(mut postgres) = Postgres::start("a_server_that_is_restarted") else {
        return;
    };
    let process = writing(&postgres.url(), TABLE).spawn();
    let send = |range: std::ops::Range<u32>| {
        for number in range {
            process.accepted("hostile", BY_ID, &format!("{{\"id\": {number}}}"));
        }
    };
    send(0..50);
    let some = "SELECT count(*) FROM items";
    eventually("something arrives", || {
        let tables = postgres.query("SELECT to_regclass('items')");
        (!tables.is_empty() && postgres.query(some) != "0").then_some(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| postgres.crash());
        send(50..150);
    });
    send(150..200);
    fails(&process, "");
    postgres.resume();
    process.drained();
    let all = "SELECT count(*), count(DISTINCT key), max(fields->>'id') FROM items";
    assert_eq!(postgres.query(all), "200|200|99");
    assert_eq!(process.sink("hostile")["dead_letters"], 0);
    nobody_else_suffers(process);
}

#[test]
fn what_the_operator_can_mend_is_waited_for_and_no_password_is_shown() {
    const WRONG: &str = "canary-that-is-wrong";
    let Some(postgres) = Postgres::start("what_the_operator_can_mend") else {
        return;
    };
    postgres.query("CREATE ROLE writer LOGIN PASSWORD 'another'");
    let config = "{ schema = \"shop\", table = \"items\" }";
    let folder = writing(&postgres.url_of("writer", WRONG), config);
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    fails(&process, "SQLSTATE 28P01");
    postgres.query(&format!("ALTER ROLE writer PASSWORD '{WRONG}'"));
    fails(&process, "SQLSTATE 42P01");
    postgres.query("CREATE SCHEMA shop");
    postgres.query(
        "CREATE TABLE shop.items (stream text, key text, fields jsonb, received_at timestamptz)",
    );
    fails(&process, "SQLSTATE 42501");
    postgres.query("GRANT USAGE ON SCHEMA shop TO writer; GRANT ALL ON shop.items TO writer");
    // There is no unique constraint yet.
    fails(&process, "SQLSTATE 42P10");
    postgres.query("ALTER TABLE shop.items ADD PRIMARY KEY (stream, key)");
    process.request_becomes(&id, "processed");
    assert_eq!(postgres.query("SELECT key FROM shop.items"), "a");

    let show = ["config", "show", "--config", "headgate.toml"];
    let shown = run(&folder.path(""), show).out;
    assert!(shown.contains("postgres"), "{shown}");
    let seen = [
        process.log(),
        process.admin("/api/admin/sinks").to_string(),
        process.admin("/api/admin/status").to_string(),
        process.metrics(),
        shown,
    ];
    for seen in seen {
        for secret in [WRONG, PASSWORD] {
            assert!(!seen.contains(secret), "{seen}");
        }
    }
    nobody_else_suffers(process);
}

#[test]
fn a_statement_of_ones_own_runs_once_for_a_batch() {
    let Some(postgres) = Postgres::start("a_statement_of_ones_own") else {
        return;
    };
    postgres.query(
        "CREATE TABLE sums (shop text PRIMARY KEY, total float8, items bigint, last bigint)",
    );
    let config = r#"{ sql = "INSERT INTO sums SELECT shop, sum(n), count(*), max(at) FROM unnest($1, $2, $3) AS i(shop, n, at) GROUP BY shop ON CONFLICT (shop) DO NOTHING", parameters = [{ field = "shop.name" }, { number = "n" }, { from = "received_at" }] }"#;
    let folder = writing(&postgres.url(), config);
    let process = folder.spawn();
    let body = r#"[{"shop": {"name": "x"}, "n": 1.5}, {"shop": {"name": "y"}, "n": 1}, {"shop": {"name": "x"}, "n": "?"}]"#;
    process.processed("hostile", "", body);
    let sums = "SELECT shop, total, items, last > 1700000000000 FROM sums ORDER BY shop";
    assert_eq!(postgres.query(sums), "x|1.5|2|t\ny|1|1|t");
    nobody_else_suffers(process);

    for (config, words) in [
        (
            "{ table = \"t\", key = [\"a\"], columns = [{ name = \"b\" }] }",
            "key: \\\"a\\\" is none of the columns",
        ),
        (
            "{ table = \"t\", key = [\"a\"], columns = [{ name = \"a\" }, { name = \"a\" }] }",
            "is there twice",
        ),
    ] {
        let process = writing(&postgres.url(), config).spawn();
        process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
        process.sink_becomes("hostile", &format!("paused with {words:?}"), |sink| {
            sink["state"] == "paused" && sink["reason"].to_string().contains(words)
        });
        nobody_else_suffers(process);
    }
}
