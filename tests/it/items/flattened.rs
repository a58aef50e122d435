//! What becomes of the fields of an item, from the body to the pool.

use crate::setup::Setup;
use crate::wait::eventually_async;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn objects_are_flattened_and_everything_else_stays_as_it_was_written() {
    let app = Setup::shop().start().await;
    let body = r#"
        {
            "id" : "x",
            "a" : { "b" : { "c" : 1 }, "d" : [ { "e" : { "f" : 2 } }, [ ] , 3 ] },
            "none" : null, "yes" : true, "no" : false,
            "empty" : { }, "deep" : { "empty" : { } },
            "text" : "gr\u00f6\u00dfe \ud83d\ude00 \"\\\/ ☃",
            "n\u0061me" : "",
            "" : { "" : "nameless" },
            "dots.in.names" : { "." : 0 }
        }"#;
    app.caller("shop").ingest(body).await.receipt();
    let expected = concat!(
        r#"{"id":"x","a.b.c":1,"a.d":[{"e":{"f":2}},[],3],"none":null,"yes":true,"no":false,"#,
        r#""empty":{},"deep.empty":{},"text":"gr\u00f6\u00dfe \ud83d\ude00 \"\\\/ ☃","#,
        r#""name":"",".":"nameless","dots.in.names..":0}"#
    );
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), expected.to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn numbers_keep_their_text() {
    let app = Setup::shop().start().await;
    let numbers = [
        "12345678901234567890",
        "1.10",
        "1e400",
        "-0",
        "-0.0",
        "1E+2",
        "0.30000000000000004",
        "9007199254740993",
        "123456789012345678901234567890.000000000000000000000000000001",
    ];
    let members: Vec<String> = (numbers.iter().enumerate())
        .map(|(index, number)| format!(r#""n{index}":{number},"list{index}":[{number}]"#))
        .collect();
    let body = format!("{{{}}}", members.join(","));
    app.caller("shop").ingest(body.clone()).await.receipt();
    assert_eq!(app.fields("orders").await, [("0".to_owned(), body)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn places_that_flatten_to_one_field_are_refused_by_name() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for (body, item, field) in [
        (r#"{"a.b": 1, "a": {"b": 2}}"#, 0, "a.b"),
        (r#"[{}, {"a": {"b": 1}, "a.b": 2}]"#, 1, "a.b"),
        (r#"{"a": {"b.c": 1}, "a.b": {"c": 2}}"#, 0, "a.b.c"),
        (r#"{"x": 1, "x": 1}"#, 0, "x"),
        (r#"{"x": 1, "\u0078": 2}"#, 0, "x"),
        (r#"{"a": {"x": 1, "x": 2}}"#, 0, "a.x"),
        (r#"{"a": {"x": 1}, "a": {"y": 2}}"#, 0, "a"),
    ] {
        let told = shop.ingest(body).await.refused(400, "INVALID_PAYLOAD");
        assert!(
            told.message.contains(&format!("\"{field}\"")),
            "{body}: {}",
            told.message
        );
        let places = &told.details;
        assert!(
            places
                .iter()
                .any(|at| at["item"] == item && at["field"] == field),
            "{body}: {places:?}"
        );
    }
    assert_eq!(app.fields("orders").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_small_body_cannot_become_a_large_one() {
    let app = Setup::shop().start().await;
    // Each of the fields repeats a path of 40,000 bytes: 600 of them would be 24 MB, and 8 times the body and 64 KiB is
    // the most.
    let fields: Vec<String> = (0..600).map(|n| format!("\"f{n}\":0")).collect();
    let body = format!("{{\"{}\":{{{}}}}}", "p".repeat(40_000), fields.join(","));
    assert!(body.len() < 50_000);
    let bytes_max = body.len() * 8 + (64 << 10);
    let told = app
        .caller("shop")
        .ingest(body)
        .await
        .refused(400, "INVALID_PAYLOAD");
    assert!(
        told.message.contains(&format!("{bytes_max} bytes")),
        "{}",
        told.message
    );
    app.caller("shop").ingest("{}").await.receipt();
}

/// The bodies that the README and the demo use, in the shapes that programs really send.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_example_payloads_arrive() {
    let names = ["pushes", "payments", "orders", "sensors", "scores"];
    let mut setup = Setup::new();
    for name in names {
        setup = setup.stream(name).key(name, name);
    }
    let app = setup.start().await;
    let lines = include_str!("../../../examples/payloads/sensor-readings.ndjson");
    let lines: Vec<&str> = lines.lines().collect();
    let readings = format!("[{}]", lines.join(","));
    let payloads = [
        (
            include_str!("../../../examples/payloads/github-push.json"),
            "after",
            1,
            1,
        ),
        (
            include_str!("../../../examples/payloads/stripe-event.json"),
            "data.object.id",
            1,
            1,
        ),
        (
            include_str!("../../../examples/payloads/shopify-order.json"),
            "id",
            1,
            1,
        ),
        (&readings, "sensor_id", 20, 5),
        (
            include_str!("../../../examples/payloads/scoreboard.json"),
            "match_id",
            3,
            3,
        ),
    ];
    for (name, (body, item_key, sent, stored)) in names.iter().zip(payloads) {
        let receipt = app.caller(name).ingest_by(item_key, body).await.receipt();
        assert_eq!(receipt.items, sent, "{name}");
        assert_eq!(app.fields(name).await.len(), stored, "{name}");
    }
    let pool = app.pool();
    // A copy gets the view of a new stream up to a second later.
    let order: (i64, String) = eventually_async("the order is in its view", async || {
        let sql =
            "SELECT id, \"customer.email\" FROM stream_orders WHERE _key = '820982911946154508'";
        let row = pool.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        row.ok()
    })
    .await;
    assert_eq!(
        order.0, 820_982_911_946_154_508,
        "an id beyond 2^53 is exact"
    );
}
