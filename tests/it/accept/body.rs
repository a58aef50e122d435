//! What a body may be and how it may come: JSON, sizes, slow ones, broken ones.

use std::time::Instant;

use crate::app::{Raw, TestApp};
use crate::setup::Setup;

const LIMIT: usize = 1_048_576;

/// A valid body of exactly this many bytes.
fn body_of(bytes: usize) -> Vec<u8> {
    let mut body = br#"{"a":""}"#.to_vec();
    let middle = body.len() - 2;
    let padding = vec![b'x'; bytes - body.len()];
    body.splice(middle..middle, padding);
    assert_eq!(body.len(), bytes);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for path in ["/api/ingest", "/api/webhook/orders"] {
        shop.post(path, &[], body_of(LIMIT)).await.receipt();
        let reply = shop.post(path, &[], body_of(LIMIT + 1)).await;
        let told = reply.refused(413, "PAYLOAD_TOO_LARGE").message;
        assert!(told.contains("1048576"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_limit_holds_for_bodies_that_do_not_declare_their_size() {
    let app = Setup::shop().start().await;
    for (bytes, status) in [(LIMIT, 202), (LIMIT + 1, 413), (3 * LIMIT, 413)] {
        let mut raw = Raw::connect(&app.service).await;
        raw.post_head(app.secret("shop"), "Transfer-Encoding: chunked\r\n")
            .await;
        for chunk in body_of(bytes).chunks(100_000) {
            raw.send(format!("{:x}\r\n", chunk.len())).await;
            raw.send(chunk).await;
            raw.send("\r\n").await;
        }
        raw.send("0\r\n\r\n").await;
        let reply = raw.reply().await;
        if status == 202 {
            reply.receipt();
        } else {
            reply.refused(status, "PAYLOAD_TOO_LARGE");
        }
    }
    let fields = app.fields("orders").await;
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0].1.len(), LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_limit_can_be_set() {
    let app = Setup::shop()
        .set("limits.max_body_bytes", 100)
        .start()
        .await;
    let shop = app.caller("shop");
    shop.ingest(body_of(100)).await.receipt();
    let told = shop
        .ingest(body_of(101))
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");
    assert!(told.message.contains("100 bytes"), "{}", told.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_that_asks_first_hears_of_a_refusal_without_sending_its_body() {
    let app = Setup::shop().start().await;
    let mut raw = Raw::connect(&app.service).await;
    let lines = "Content-Length: 1048577\r\nExpect: 100-continue\r\n";
    raw.post_head(app.secret("shop"), lines).await;
    raw.reply().await.refused(413, "PAYLOAD_TOO_LARGE");

    let mut raw = Raw::connect(&app.service).await;
    let lines = "Content-Length: 2\r\nExpect: 100-continue\r\n";
    raw.post_head(app.secret("shop"), lines).await;
    assert_eq!(raw.reply().await.status, 100);
    raw.send("{}").await;
    raw.reply().await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_that_does_not_come_in_time_is_refused() {
    let app = Setup::shop()
        .set("limits.body_timeout_seconds", 1)
        .start()
        .await;
    for lines in ["Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut raw = Raw::connect(&app.service).await;
        let started = Instant::now();
        raw.post_head(app.secret("shop"), lines).await;
        let told = raw.reply().await.refused(400, "INVALID_PAYLOAD").message;
        assert!(told.contains("within 1 s"), "{told}");
        let millis = started.elapsed().as_millis();
        // Without the setting it is half a minute.
        assert!((1_000..25_000).contains(&millis), "after {millis} ms");
        assert_eq!(
            raw.rest().await,
            b"",
            "the connection is of no use any more"
        );
    }
    assert_eq!(app.fields("orders").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_in_many_small_parts_is_put_together() {
    let app = Setup::shop().start().await;
    let mut raw = Raw::connect(&app.service).await;
    raw.post_head(app.secret("shop"), "Transfer-Encoding: chunked\r\n")
        .await;
    for byte in br#"[{"a":1},{"a":2}]"# {
        raw.send(format!("1\r\n{}\r\n", char::from(*byte))).await;
    }
    raw.send("0\r\n\r\n").await;
    assert_eq!(raw.reply().await.receipt().items, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_that_breaks_off_stores_nothing() {
    let app = Setup::shop().start().await;
    for (lines, part) in [
        ("Content-Length: 100\r\n", "{}"),
        ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n"),
        ("Transfer-Encoding: chunked\r\n", "no chunk\r\n"),
    ] {
        let mut raw = Raw::connect(&app.service).await;
        raw.post_head(app.secret("shop"), lines).await;
        raw.send(part).await;
        raw.hang_up().await;
    }
    app.caller("shop")
        .ingest(r#"{"whole": true}"#)
        .await
        .receipt();
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), r#"{"whole":true}"#.to_owned())]);
}

/// A request is on its way to the disk when its caller hangs up: a transaction of the test's own on
/// the journal holds the commit up until the caller is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_that_hangs_up_does_not_cancel_the_commit() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let app = Setup::shop().start().await;
    let journal = rusqlite::Connection::open(app.data_dir().join("journal.db"));
    let journal = journal.expect("the journal is a file");
    journal.execute_batch("BEGIN IMMEDIATE").expect("a lock");

    let mut raw = Raw::connect(&app.service).await;
    raw.post_head(app.secret("shop"), "Content-Length: 12\r\n")
        .await;
    raw.send(r#"{"sent":"1"}"#).await;
    // Everything runs on one worker in turn: what is answered after it was begun after it.
    for _ in 0..3 {
        assert_eq!(app.anonymous().get("/healthz").await.status, 200);
    }
    drop(raw);
    for _ in 0..3 {
        assert_eq!(app.anonymous().get("/healthz").await.status, 200);
    }
    assert_eq!(app.fields_now("orders"), []);

    journal.execute_batch("ROLLBACK").expect("no lock any more");
    arrives(&app, r#"{"sent":"1"}"#).await;
}

async fn arrives(app: &TestApp, fields: &str) {
    crate::wait::eventually_async("the item is in the pool", async || {
        app.fields_now("orders")
            .iter()
            .any(|(_, found)| found == fields)
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn malformed_json_is_told_by_line_and_column() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for (body, line, column) in [
        ("{", 1, 2),
        ("{\"a\": 1,}", 1, 9),
        ("{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3),
        ("{\"ä\": nope}", 1, 7),
        ("[{\"a\": 1},\n {\"a\": 01}]", 2, 9),
        ("{\"a\": \"\n\"}", 1, 8),
        ("{} {}", 1, 4),
        ("{\"a\": \"\\ud800\"}", 1, 8),
        ("{'a': 1}", 1, 2),
        ("<xml/>", 1, 1),
    ] {
        let told = shop.ingest(body).await.refused(400, "INVALID_PAYLOAD");
        let place = format!("line {line}, column {column}");
        assert!(told.message.contains(&place), "{body:?}: {}", told.message);
        let places = &told.details;
        assert!(
            places
                .iter()
                .any(|at| at["line"] == line && at["column"] == column),
            "{body:?}: {places:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_objects_and_arrays_of_objects_are_taken() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    for (body, items) in [
        ("{}", 1),
        ("[]", 0),
        (" [ ] \n", 0),
        ("[{}, {}]", 2),
        ("\u{feff}{\"a\": 1}", 1),
    ] {
        assert_eq!(shop.ingest(body).await.receipt().items, items, "{body}");
    }
    for (body, says) in [
        ("", "empty"),
        ("   ", "empty"),
        ("7", "number"),
        ("\"text\"", "string"),
        ("null", "null"),
        ("true", "boolean"),
        ("[1]", "item 0"),
        ("[{}, [], {}]", "item 1"),
        ("[{}, {}, null]", "item 2"),
    ] {
        let told = shop.ingest(body).await.refused(400, "INVALID_PAYLOAD");
        assert!(told.message.contains(says), "{body}: {}", told.message);
    }
    let told = shop.ingest(&b"{\"a\": \"\xff\"}"[..]).await;
    let told = told.refused(400, "INVALID_PAYLOAD").message;
    assert!(told.contains("UTF-8"), "{told}");
}
