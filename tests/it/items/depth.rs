//! Bodies that nest without end: answered, and no harm to what comes after them.

use crate::app::TestApp;
use crate::setup::Setup;
use crate::wait::eventually_async;

const LEVELS: usize = 100_000;

/// The daemon still takes requests, and the view still shows every item.
async fn still_well(app: &TestApp, items: i64) {
    app.caller("shop")
        .ingest_by("id", r#"{"id": "after", "n": 1}"#)
        .await
        .receipt();
    app.drain().await;
    let pool = app.pool();
    let rows = |sql: &str| pool.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(rows("SELECT count(*) FROM items"), Ok(items + 1));
    let sql = "SELECT count(*) FROM (SELECT *, id || '' FROM stream_orders ORDER BY n, id)";
    // A copy gets the view of a new stream up to a second later.
    let in_view = eventually_async("the view shows them", async || rows(sql).ok()).await;
    assert_eq!(in_view, items + 1);
    let sql = "SELECT n FROM stream_orders WHERE _key = 'after'";
    assert_eq!(rows(sql), Ok(1));
    let problems = &app.admin().get("/api/admin/status").await.data()["problems"];
    assert_eq!(problems, &serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_hundred_thousand_objects_in_each_other_become_one_field() {
    let app = Setup::shop().start().await;
    let body = format!(
        "{{\"id\": 1, \"a\": {}1{}}}",
        "{\"a\":".repeat(LEVELS - 1),
        "}".repeat(LEVELS - 1)
    );
    app.caller("shop").ingest_by("id", body).await.receipt();
    let fields = app.fields("orders").await;
    let path = vec!["a"; LEVELS].join(".");
    assert_eq!(fields[0].1, format!("{{\"id\":1,\"{path}\":1}}"));
    still_well(&app, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn arrays_nest_as_deep_as_sqlite_reads_them_and_deeper_ones_are_refused() {
    let app = Setup::shop().start().await;
    let list = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let mixed = |levels| format!("{}1{}", "[{\"a\":".repeat(levels), "}]".repeat(levels));
    let item = |id: u32, value: &str| format!("{{\"id\":{id},\"n\":{value}}}");
    let shop = app.caller("shop");
    let deepest = [item(1, &list(900)), item(2, &mixed(450))];
    for body in &deepest {
        shop.ingest_by("id", body.clone()).await.receipt();
    }
    for value in [list(901), mixed(451), list(LEVELS), mixed(LEVELS)] {
        let refusal = shop.ingest_by("id", item(3, &value)).await;
        refusal.refused(400, "INVALID_PAYLOAD");
    }
    let fields = app.fields("orders").await;
    let [first, second] = deepest;
    assert_eq!(fields, [("1".to_owned(), first), ("2".to_owned(), second)]);
    still_well(&app, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn depth_that_never_closes_is_refused_cleanly() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for opening in ["{\"a\":", "[", "[{\"a\":[", "{\"a\":["] {
        let body = opening.repeat(LEVELS);
        shop.ingest(body).await.refused(400, "INVALID_PAYLOAD");
    }
    still_well(&app, 0).await;
}
