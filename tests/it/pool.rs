//! The pool as people query it: the table, the views, other programs reading beside the daemon.

use rusqlite::types::Value;

use crate::app::{TestApp, in_background};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// The columns of a table or view, in order.
fn columns(pool: &rusqlite::Connection, name: &str) -> Vec<String> {
    let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
    let mut statement = pool.prepare(sql).expect("a pragma");
    let names = statement
        .query_map([name], |row| row.get(0))
        .expect("columns");
    names.collect::<Result<_, _>>().expect("columns")
}

/// The one row of a query.
fn row(pool: &rusqlite::Connection, sql: &str) -> Vec<Value> {
    let mut statement = pool
        .prepare(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let count = statement.column_count();
    let values = statement.query_row([], |row| (0..count).map(|at| row.get(at)).collect());
    values.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

const OWN: [&str; 4] = ["_key", "_seq", "_created_at", "_updated_at"];

fn with_own(fields: &[&str]) -> Vec<String> {
    OWN.iter()
        .chain(fields)
        .map(|name| (*name).to_owned())
        .collect()
}

async fn send(app: &TestApp, body: &str) {
    app.caller("shop").ingest_by("id", body).await.receipt();
    app.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_table_items_has_the_promised_columns() {
    let app = Setup::shop().start().await;
    send(&app, r#"{"id": 1, "customer": {"name": "Ada"}}"#).await;
    let pool = app.pool();
    let names = [
        "stream",
        "key",
        "fields",
        "seq",
        "created_at",
        "updated_at",
        "request_id",
    ];
    // Columns are only ever added, behind these.
    assert_eq!(columns(&pool, "items")[..names.len()], names);
    let mode: String = pool
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .expect("a mode");
    assert_eq!(mode, "wal");
    let values = row(
        &pool,
        "SELECT stream, key, fields, typeof(seq), created_at FROM items",
    );
    assert_eq!(
        values[..3],
        [
            text("orders"),
            text("1"),
            text(r#"{"id":1,"customer.name":"Ada"}"#)
        ]
    );
    assert_eq!(values[3], text("integer"));
    let Value::Text(created) = &values[4] else {
        panic!("a text")
    };
    assert!(base::clock::parse_rfc3339(created).is_some(), "{created}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_daemon_makes_views_by_itself() {
    let app = Setup::shop().start().await;
    let pool = app.pool();
    for (body, fields) in [
        (r#"{"id": 1}"#, with_own(&["id"])),
        (r#"{"id": 1, "n": 2}"#, with_own(&["id", "n"])),
    ] {
        app.caller("shop").ingest_by("id", body).await.receipt();
        eventually_async("the view has its columns", async || {
            (columns(&pool, "stream_orders") == fields).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_view_gets_a_column_for_each_field() {
    let app = Setup::shop().start().await;
    let pool = app.pool();
    send(&app, r#"{"id": 1, "a": {"b": "x"}}"#).await;
    assert_eq!(columns(&pool, "stream_orders"), with_own(&["id", "a.b"]));
    send(
        &app,
        r#"[{"id": 2, "total": 1.5}, {"id": 3, "zip": "0815", "a": {"c": 1}}]"#,
    )
    .await;
    let fields = with_own(&["id", "a.b", "total", "zip", "a.c"]);
    assert_eq!(columns(&pool, "stream_orders"), fields);
    // Fields that no item has any more keep their column.
    send(&app, r#"{"id": 1}"#).await;
    assert_eq!(columns(&pool, "stream_orders"), fields);
    let sql = "SELECT _key, \"a.b\", total FROM stream_orders ORDER BY _key";
    assert_eq!(row(&pool, sql), [text("1"), Value::Null, Value::Null]);
    drop(pool);

    let app = app.restart().await;
    let pool = app.pool();
    assert_eq!(columns(&pool, "stream_orders"), fields);
    send(&app, r#"{"id": 4, "zip": "1", "late": true}"#).await;
    let mut fields = fields;
    fields.push("late".to_owned());
    assert_eq!(columns(&pool, "stream_orders"), fields);
    assert_eq!(
        row(&pool, "SELECT late, zip FROM stream_orders WHERE id = 4"),
        [Value::Integer(1), text("1")]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn values_have_the_types_that_a_query_expects() {
    let app = Setup::shop().start().await;
    let body = r#"{"id": 1, "whole": 42, "big": 9223372036854775807, "more": 12345678901234567890,
        "real": 1.10, "yes": true, "no": false, "none": null, "text": "7", "uni": "gr\u00f6\u00dfe",
        "list": [1, {"a": "b"}, 1.10], "empty": {}, "obj": {"in": -5}}"#;
    send(&app, body).await;
    let pool = app.pool();
    let sql = "SELECT whole, big, more, real, yes, no, none, text, uni, list, empty, \"obj.in\" FROM stream_orders";
    let expected = [
        Value::Integer(42),
        Value::Integer(i64::MAX),
        // Beyond SQLite's integers; `fields` has every digit.
        Value::Real(12345678901234567890.0),
        Value::Real(1.1),
        Value::Integer(1),
        Value::Integer(0),
        Value::Null,
        text("7"),
        text("größe"),
        text(r#"[1,{"a":"b"},1.10]"#),
        text("{}"),
        Value::Integer(-5),
    ];
    assert_eq!(row(&pool, sql), expected);
    let sql = "SELECT json_extract(list, '$[1].a'), sum(whole + real) FROM stream_orders";
    assert_eq!(row(&pool, sql), [text("b"), Value::Real(43.1)]);
    let sql = "SELECT fields ->> '$.more', instr(fields, '12345678901234567890') > 0 FROM items";
    assert_eq!(row(&pool, sql)[1], Value::Integer(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn odd_field_names_become_columns() {
    let app = Setup::shop().start().await;
    let names = [
        "plain",
        "select",
        "a.b",
        "with space",
        "it's",
        "we\"ird",
        "\"",
        "'",
        "back\\slash",
        "größe",
        "日本",
        "😀",
        "e\u{301}",
        "é",
        "$",
        "$.x",
        "[0]",
        "a[0]",
        "#",
        "*",
        "?1",
        ":p",
        "--",
        ";",
        "/*",
        "",
        " ",
        "rowid",
        "_rowid_",
        "stream",
        "key",
        "fields",
        "_KEY",
        "_seq",
        "a:2",
        "percent%",
        "null",
        "tab\there",
        "line\nbreak",
        "bell\u{7}",
        "nul\u{0}byte",
        "\u{7f}",
        "\u{200f}",
    ];
    let cased = ["Case", "case", "CASE", "case:2"];
    let mut object = serde_json::Map::new();
    for (index, name) in names.iter().chain(&cased).enumerate() {
        object.insert((*name).to_owned(), index.into());
    }
    let body = serde_json::to_string(&object).expect("JSON");
    app.caller("shop").ingest(body).await.receipt();
    app.drain().await;
    let pool = app.pool();
    let found = columns(&pool, "stream_orders");
    let values = row(&pool, "SELECT * FROM stream_orders");
    assert_eq!(found.len(), OWN.len() + names.len() + cased.len());
    // Columns stand in the order of the fields, so each has its own value.
    for (index, name) in names.iter().chain(&cased).enumerate() {
        let column = &found[OWN.len() + index];
        let value = Value::Integer(index.try_into().expect("small"));
        assert_eq!(values[OWN.len() + index], value, "{name:?} as {column:?}");
        let sql = format!(
            "SELECT \"{}\" FROM stream_orders",
            column.replace('"', "\"\"")
        );
        assert_eq!(row(&pool, &sql), [value], "{name:?} as {column:?}");
        if !name.contains(|c: char| c.is_control())
            && !cased.contains(name)
            && !OWN.contains(&&*name.to_lowercase())
        {
            assert_eq!(column, name);
        }
    }
    let mut lowered: Vec<String> = found.iter().map(|name| name.to_ascii_lowercase()).collect();
    lowered.sort();
    lowered.dedup();
    assert_eq!(
        lowered.len(),
        found.len(),
        "no two columns that SQLite takes for one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn odd_stream_names_become_views() {
    let names = [
        "it's \"odd\"",
        "a b",
        "größe 日本",
        "x'; DROP TABLE items; --",
        "select",
        "items",
        "a.b/c",
        "percent%_",
        "\\",
        "Orders",
        "orders",
        "ORDERS",
    ];
    let mut setup = Setup::new();
    for (index, name) in names.iter().enumerate() {
        setup = setup.stream(name).key(&format!("c{index}"), name);
    }
    let app = setup.start().await;
    for (index, _) in names.iter().enumerate() {
        let body = format!("{{\"n\": {index}}}");
        app.caller(&format!("c{index}"))
            .ingest(body)
            .await
            .receipt();
        app.drain().await;
    }
    let pool = app.pool();
    for (index, name) in names.iter().enumerate() {
        // Names that differ only in case get a number, in the order in which they came.
        let number = match *name {
            "orders" => ":2",
            "ORDERS" => ":3",
            _ => "",
        };
        let view = format!("stream_{name}{number}").replace('"', "\"\"");
        let value = Value::Integer(index.try_into().expect("small"));
        assert_eq!(
            row(&pool, &format!("SELECT n FROM \"{view}\"")),
            [value],
            "{name}"
        );
    }
    let count = row(
        &pool,
        "SELECT count(*) FROM sqlite_schema WHERE type = 'view'",
    );
    // One of what sources said, and one of what is shown.
    let views = 2 * names.len();
    assert_eq!(count, [Value::Integer(views.try_into().expect("small"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn very_many_fields_stay_in_the_item_and_the_view_stays_readable() {
    let app = Setup::shop().start().await;
    let members: Vec<String> = (0..2_500).map(|n| format!("\"f{n}\":{n}")).collect();
    let body = format!("{{{}}}", members.join(","));
    app.caller("shop").ingest(body.clone()).await.receipt();
    assert_eq!(app.fields("orders").await[0].1, body);
    let pool = app.pool();
    let found = columns(&pool, "stream_orders").len();
    assert!((1_000..2_000).contains(&found), "{found}");
    let sql = "SELECT f0 + f999, _key FROM stream_orders";
    assert_eq!(row(&pool, sql), [Value::Integer(999), text("0")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_read_while_the_daemon_writes() {
    let app = Setup::shop().start().await;
    send(&app, r#"{"id": 0}"#).await;
    let shop = app.caller("shop");
    let writing = in_background(async move {
        for n in 1..=200 {
            let body = format!("[{{\"id\": {n}, \"f{n}\": 1}}, {{\"id\": 0, \"n\": {n}}}]");
            shop.ingest_by("id", body).await.receipt();
        }
    });
    // A plain reader, without a timeout: it must never find the file locked.
    let reader = app.pool();
    reader
        .busy_timeout(std::time::Duration::ZERO)
        .expect("a timeout");
    let mut seen = 0;
    while !writing.is_finished() {
        // One transaction sees one state, however long it lasts.
        reader.execute_batch("BEGIN").expect("a transaction");
        let once = row(&reader, "SELECT count(*), max(seq) FROM items");
        tokio::task::yield_now().await;
        let again = row(&reader, "SELECT count(*), max(_seq) FROM stream_orders");
        assert_eq!(once, again);
        reader.execute_batch("COMMIT").expect("an end");
        let Value::Integer(count) = once[0] else {
            panic!("a count")
        };
        assert!(count >= seen, "items do not go away");
        seen = count;
    }
    writing.await.expect("the writer does not panic");
    app.drain().await;
    assert_eq!(
        row(&reader, "SELECT count(*) FROM stream_orders"),
        [Value::Integer(201)]
    );
    assert_eq!(
        row(&reader, "SELECT n FROM stream_orders WHERE id = 0"),
        [Value::Integer(200)]
    );
}
