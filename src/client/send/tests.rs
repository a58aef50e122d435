//! Tests of `send` with a server that fails, rejects and closes connections.
//!
//! Run by `cargo test`. **Invariant**: pauses are milliseconds here; nothing waits for a real second.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::client::stand_in::{Received, Reply, StandIn};
use crate::error::FAILED;
use wire::ReceiptData;

mod options;

const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(2),
    max: Duration::from_millis(4),
    asked_max: Duration::from_secs(60),
    absent_max: None,
    second: Duration::from_millis(10),
};

/// The result of a run.
struct Run {
    done: Result<(), CliError>,
    report: Report,
    notes: Vec<String>,
}

async fn run_with(server: &StandIn, input: &str, options: UploadOptions, items_max: u64) -> Run {
    run_until(
        server,
        input,
        options,
        items_max,
        PAUSES,
        &CancellationToken::new(),
    )
    .await
}

async fn run_until(
    server: &StandIn,
    input: &str,
    options: UploadOptions,
    items_max: u64,
    pauses: Pauses,
    stop: &CancellationToken,
) -> Run {
    let client = Client::new(&server.url(), "ik_test_key-of-the-tests").expect("an address");
    let upload = Upload::new(&client, &options, pauses, stop).expect("good options");
    let input = Box::new(io::Cursor::new(input.to_owned()));
    let feed = read_batches(
        input,
        BatchLimits {
            bytes_max: 1_000_000,
            items_max,
        },
    )
    .expect("a thread");
    let (mut report, notes) = (Report::default(), RefCell::default());
    let delivery = Delivery {
        upload: Some(&upload),
        positional: options.item_key.is_none(),
        stop,
        note: &|text| RefCell::<Vec<String>>::borrow_mut(&notes).push(text.to_owned()),
        progress: &|_| {},
        report: &mut report,
    };
    let done = delivery.run(feed).await;
    Run {
        done,
        report,
        notes: notes.into_inner(),
    }
}

fn options() -> UploadOptions {
    UploadOptions {
        item_key: Some("id".to_owned()),
        retries_max: 5,
        ..UploadOptions::default()
    }
}

/// A 202 that counts the items of the request.
fn receipt(request: &Received) -> Reply {
    accepted(request, "")
}

fn accepted(request: &Received, headers: &str) -> Reply {
    let items = match serde_json::from_str(&request.body).expect("JSON") {
        Value::Array(items) => items.len(),
        _ => 1,
    };
    let data = json!({"stream": "orders", "items_received": items, "request_id": "0192"});
    let body = json!({"success": true, "data": data}).to_string();
    Reply::Answer(202, headers.to_owned(), body)
}

fn refusal(status: u16, headers: &str) -> Reply {
    let error = json!({"code": "SOME_CODE", "message": "what to do next", "request_id": "0192"});
    let body = json!({"success": false, "error": error}).to_string();
    Reply::Answer(status, headers.to_owned(), body)
}

fn accepting() -> StandIn {
    StandIn::start(|request, _| receipt(request))
}

fn lines(count: usize) -> String {
    (0..count)
        .map(|id| format!("{{\"id\": {id}, \"n\": 1.10}}\n"))
        .collect()
}

fn keys(received: &[Received]) -> Vec<String> {
    let key = |request: &Received| request.header("idempotency-key").expect("a key").to_owned();
    received.iter().map(key).collect()
}

#[tokio::test]
async fn items_arrive_in_order_and_byte_for_byte() {
    let server = accepting();
    let run = run_with(&server, &lines(5), options(), 2).await;
    assert_eq!(run.done, Ok(()));
    let received = server.received();
    let bodies: Vec<_> = received
        .iter()
        .map(|request| request.body.as_str())
        .collect();
    assert_eq!(
        bodies,
        [
            r#"[{"id": 0, "n": 1.10},{"id": 1, "n": 1.10}]"#,
            r#"[{"id": 2, "n": 1.10},{"id": 3, "n": 1.10}]"#,
            r#"{"id": 4, "n": 1.10}"#,
        ]
    );
    for request in &received {
        assert_eq!(request.target, "POST /api/ingest");
        assert_eq!(
            request.header("authorization"),
            Some("Bearer ik_test_key-of-the-tests")
        );
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("x-item-key"), Some("id"));
    }
    let bytes = bodies.iter().map(|body| body.len() as u64).sum();
    let expected = Report {
        stream: Some("orders".to_owned()),
        items: 5,
        batches: 3,
        bytes,
        ..Report::default()
    };
    assert_eq!(run.report, expected);
    assert!(run.notes.is_empty(), "{:?}", run.notes);
}

#[tokio::test]
async fn the_stream_is_asserted_in_the_query() {
    let server = accepting();
    let options = UploadOptions {
        stream: Some("or ders/1".to_owned()),
        ..options()
    };
    assert_eq!(run_with(&server, "{}", options, 1).await.done, Ok(()));
    assert_eq!(
        server.received()[0].target,
        "POST /api/ingest?stream=or%20ders%2F1"
    );
}

#[tokio::test]
async fn passing_failures_are_tried_again_with_the_same_key_and_body() {
    let server = StandIn::start(|request, before| match before {
        0 => refusal(503, ""),
        1 => Reply::HangUp,
        2 => refusal(429, "retry-after: 2\r\n"),
        3 => Reply::Answer(502, String::new(), "<html>".to_owned()),
        _ => receipt(request),
    });
    let run = run_with(&server, &lines(3), options(), 2).await;
    assert_eq!(run.done, Ok(()));
    assert_eq!(
        (run.report.items, run.report.batches, run.report.retries),
        (3, 2, 4)
    );
    let received = server.received();
    assert_eq!(received.len(), 6);
    let keys = keys(&received);
    assert!(keys[..5].iter().all(|key| *key == keys[0]));
    assert!(
        received[..5]
            .iter()
            .all(|request| request.body == received[0].body)
    );
    assert_ne!(keys[5], keys[0]);
    assert!(
        run.notes[2].contains("429 SOME_CODE: what to do next"),
        "{}",
        run.notes[2]
    );
    // Two seconds of ten milliseconds each: the server's pause, not that of the command.
    assert!(
        run.notes[2].ends_with("retry 3 of 5 in 0.0 s"),
        "{}",
        run.notes[2]
    );
}

#[tokio::test]
async fn the_server_s_pause_is_waited_out() {
    let server = StandIn::start(|request, before| match before {
        0 => refusal(429, "retry-after: 15\r\n"),
        _ => receipt(request),
    });
    let started = Instant::now();
    assert_eq!(run_with(&server, "{}", options(), 1).await.done, Ok(()));
    assert!(started.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn patience_ends_after_the_retries_allowed() {
    let server = StandIn::start(|_, _| refusal(503, ""));
    let run = run_with(
        &server,
        &lines(2),
        UploadOptions {
            retries_max: 2,
            ..options()
        },
        1,
    )
    .await;
    let error = run.done.expect_err("it never worked");
    assert_eq!(
        error.message,
        "503 SOME_CODE: what to do next (request 0192)"
    );
    assert_eq!(server.received().len(), 3);
    assert_eq!((run.report.batches, run.report.retries), (0, 2));
}

#[tokio::test]
async fn a_refusal_stops_at_once_with_the_server_s_words() {
    for status in [400, 401, 404, 405, 413] {
        let server = StandIn::start(move |request, before| match before {
            0 => receipt(request),
            _ => refusal(status, ""),
        });
        let run = run_with(&server, &lines(9), options(), 3).await;
        let error = run.done.expect_err("it was refused");
        assert_eq!(error.code, FAILED);
        let expected = format!("{status} SOME_CODE: what to do next (request 0192)");
        assert!(error.message.starts_with(&expected), "{error}");
        assert_eq!(error.message.contains("--batch-bytes"), status == 413);
        assert_eq!(server.received().len(), 2);
        assert_eq!((run.report.items, run.report.retries), (3, 0));
    }
}

#[tokio::test]
async fn what_is_not_a_receipt_is_not_taken_for_one() {
    let data = |items: u32| {
        let receipt = ReceiptData {
            stream: "orders".to_owned(),
            items_received: items,
            ..ReceiptData::default()
        };
        json!({"data": receipt}).to_string()
    };
    for (status, body, reason) in [
        (200, data(1), "status 200 in place of 202"),
        (202, "<html>".to_owned(), "expected value"),
        (202, data(2), "it counts 2 items where 1 were sent"),
    ] {
        let server = StandIn::start(move |_, _| Reply::Answer(status, String::new(), body.clone()));
        let run = run_with(&server, "{}", options(), 1).await;
        let error = run.done.expect_err("no receipt");
        assert!(error.message.contains(reason), "{error}");
        assert_eq!(server.received().len(), 1);
        assert_eq!(run.report.batches, 0);
    }
}

#[tokio::test]
async fn the_same_command_again_repeats_its_keys_and_tells_of_it() {
    let server = StandIn::start(|request, before| match before {
        0..3 => receipt(request),
        _ => accepted(request, "idempotent-replayed: true\r\n"),
    });
    assert_eq!(
        run_with(&server, &lines(6), options(), 2)
            .await
            .report
            .replayed,
        0
    );
    let again = run_with(&server, &lines(6), options(), 2).await;
    assert_eq!((again.done, again.report.replayed), (Ok(()), 3));
    let other = UploadOptions {
        prefix: Some("2".to_owned()),
        ..options()
    };
    run_with(&server, &lines(6), other, 2).await;
    let keys = keys(&server.received());
    assert_eq!(keys[..3], keys[3..6]);
    assert_eq!(keys[6], format!("2-{}", keys[0]));
}

#[tokio::test]
async fn an_item_too_large_is_left_out_and_named_and_the_rest_is_sent() {
    let server = accepting();
    let large = "x".repeat(ITEM_BYTES_MAX);
    let input = format!("{{\"id\":1}}\n{{\"id\":\"{large}\"}}\n{{\"id\":3}}\n");
    let run = run_with(&server, &input, options(), 9).await;
    assert_eq!(run.done.expect_err("one is missing").code, FAILED);
    assert_eq!(server.received()[0].body, r#"[{"id":1},{"id":3}]"#);
    assert_eq!((run.report.items, run.report.too_large), (2, 1));
    assert_eq!(
        run.notes,
        ["line 2, column 1: omitted an item of 1048585 bytes; the limit of a request is 1048576"]
    );
}

#[tokio::test]
async fn of_a_small_input_with_a_fault_nothing_is_sent() {
    let server = accepting();
    let run = run_with(&server, "{\"id\":1}\n{\"id\":}\n", options(), 9).await;
    let error = run.done.expect_err("the input is wrong");
    assert_eq!(
        error.message,
        "line 2, column 7: expected value; nothing was sent"
    );
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn several_batches_without_an_item_key_are_warned_of_once() {
    let server = accepting();
    let positional = UploadOptions {
        item_key: None,
        ..options()
    };
    let run = run_with(&server, &lines(2), positional.clone(), 2).await;
    assert!(run.notes.is_empty());
    let run = run_with(&server, &lines(6), positional, 2).await;
    assert_eq!((run.done, run.notes.len()), (Ok(()), 1));
    assert!(run.notes[0].contains("no --item-key"));
    assert_eq!(server.received()[0].header("x-item-key"), None);
}

#[tokio::test]
async fn the_wish_to_stop_ends_a_pause_and_comes_before_the_next_batch() {
    // A pause of a minute: this test ends only if the stop ends the pause.
    let pauses = Pauses {
        second: Duration::from_secs(1),
        ..PAUSES
    };
    let stop = CancellationToken::new();
    let server = StandIn::start({
        let stop = stop.clone();
        move |request, before| match before {
            0 => receipt(request),
            _ => {
                stop.cancel();
                refusal(503, "retry-after: 60\r\n")
            }
        }
    });
    let run = run_until(&server, &lines(9), options(), 3, pauses, &stop).await;
    assert!(
        run.done
            .expect_err("it was stopped")
            .message
            .starts_with("stopped")
    );
    assert_eq!((server.received().len(), run.report.items), (2, 3));

    let stop = CancellationToken::new();
    let server = StandIn::start({
        let stop = stop.clone();
        move |request, _| {
            stop.cancel();
            receipt(request)
        }
    });
    let run = run_until(&server, &lines(9), options(), 3, pauses, &stop).await;
    assert!(run.done.is_err());
    // The current batch was finished and counted, and the next one was not started.
    assert_eq!((server.received().len(), run.report.items), (1, 3));
}
