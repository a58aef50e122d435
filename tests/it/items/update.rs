//! What an update leaves: replacing, merging, and which of two submissions counts.

use crate::app::in_background;
use crate::setup::Setup;

fn one(key: &str, fields: &str) -> Vec<(String, String)> {
    vec![(key.to_owned(), fields.to_owned())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_later_submission_updates_the_item_and_makes_no_new_one() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let first = shop
        .ingest_by("id", r#"{"id": 7, "state": "new", "note": "x"}"#)
        .await;
    let first = first.receipt();
    let before = app.items("orders").await;
    assert_eq!(before[0].request_id, first.request_id);
    assert_eq!(before[0].created_at, before[0].updated_at);

    let second = shop
        .ingest_by("id", r#"{"id": "7", "state": "paid"}"#)
        .await
        .receipt();
    let after = app.items("orders").await;
    assert_eq!(after.len(), 1);
    assert_eq!(
        after[0].fields, r#"{"id":"7","state":"paid"}"#,
        "an update replaces"
    );
    assert_eq!(after[0].request_id, second.request_id);
    assert_eq!(after[0].created_at, before[0].created_at);
    assert!(after[0].updated_at >= before[0].updated_at);
    assert!(after[0].seq > before[0].seq);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn several_items_of_one_request_are_upserted_in_order() {
    let app = Setup::shop().start().await;
    let body = r#"[{"id": 1, "n": "a"}, {"id": 2, "n": "b"}, {"id": "1", "n": "c"}]"#;
    let receipt = app.caller("shop").ingest_by("id", body).await.receipt();
    assert_eq!(receipt.items, 3);
    let fields = app.fields("orders").await;
    let expected = [
        one("1", r#"{"id":"1","n":"c"}"#),
        one("2", r#"{"id":2,"n":"b"}"#),
    ];
    assert_eq!(fields, expected.concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_merging_stream_keeps_the_fields_that_an_update_does_not_name() {
    let app = Setup::new()
        .stream("orders")
        .merging("orders")
        .key("shop", "orders")
        .start()
        .await;
    let shop = app.caller("shop");
    let body = r#"{"id": 1, "a": {"x": 1, "y": 2}, "list": [1, 2], "gone": "no"}"#;
    shop.ingest_by("id", body).await.receipt();
    app.drain().await;
    shop.ingest_by("id", r#"{"id": 1, "a": {"y": 3}, "list": [], "new": null}"#)
        .await
        .receipt();
    let merged = r#"{"id":1,"a.x":1,"a.y":3,"list":[],"gone":"no","new":null}"#;
    assert_eq!(app.fields("orders").await, one("1", merged));

    // Updates within one request are merged in their order, too.
    let body = r#"[{"id": 2, "a": 1, "b": 1}, {"id": 2, "b": 2}, {"id": 2, "c": 3}]"#;
    shop.ingest_by("id", body).await.receipt();
    let fields = app.fields("orders").await;
    assert_eq!(fields[1].1, r#"{"id":2,"a":1,"b":2,"c":3}"#);

    // And after a restart with what was there before.
    let app = app.restart().await;
    app.caller("shop")
        .ingest_by("id", r#"{"id": 1, "gone": "yes"}"#)
        .await
        .receipt();
    let merged = r#"{"id":1,"a.x":1,"a.y":3,"list":[],"gone":"yes","new":null}"#;
    assert_eq!(app.fields("orders").await[0].1, merged);
}

/// Many callers update one item at once: what stays is what the journal accepted last, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_updates_at_once_the_one_accepted_last_stays() {
    let app = Setup::shop().unlimited().start().await;
    let callers = (0..8).map(|caller| {
        let shop = app.caller("shop");
        in_background(async move {
            for n in 0..25 {
                let body = format!("{{\"id\": 1, \"caller\": {caller}, \"n\": {n}}}");
                shop.ingest_by("id", body).await.receipt();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("a caller does not panic");
    }
    let items = app.items("orders").await;
    assert_eq!(items.len(), 1);
    let log = app.admin().log("shop", "limit=1").await;
    assert_eq!(log[0]["request_id"], *items[0].request_id);
    assert_eq!(app.admin().metric("headgate_items_total").await, 200.0);
    app.admin().counts("headgate_sink_items_total", 200.0).await;
}
