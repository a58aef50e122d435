//! `send` and `requests` against a running daemon.

use std::process::Command;

use serde_json::Value;

use super::{Done, finish, headgate, run};
use crate::app::TestApp;
use crate::setup::Setup;

pub(super) fn sending(app: &TestApp, args: &[&str]) -> Command {
    let mut command = headgate(app.data_dir().parent().expect("a folder"));
    command.arg("send").args(args);
    command.env("HEADGATE_URL", &app.service);
    command.env("HEADGATE_KEY", app.secret("shop"));
    command
}

pub(super) fn send(app: &TestApp, args: &[&str], input: &str) -> Done {
    finish(&mut sending(app, args), input)
}

pub(super) fn report(done: Done) -> Value {
    serde_json::from_str(&done.ok()).expect("the report is JSON")
}

async fn accepted(app: &TestApp) -> f64 {
    let series = "headgate_requests_total{outcome=\"accepted\"}";
    app.admin().metric(series).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lines_of_json_from_standard_input_arrive_and_a_second_run_doubles_nothing() {
    let app = Setup::shop().start().await;
    let lines: Vec<String> = (0..1_000)
        .map(|n| format!("{{\"id\": {n}, \"n\": {{\"x\": \"é\"}}}}"))
        .collect();
    let input = lines.join("\n");
    let args = [
        "--item-key",
        "id",
        "--batch-items",
        "300",
        "--output",
        "json",
    ];
    let first = report(send(&app, &args, &input));
    assert_eq!(first["items"], 1_000);
    assert_eq!(first["batches"], 4);
    assert_eq!(
        (&first["replayed"], &first["retries"]),
        (&0.into(), &0.into())
    );
    assert_eq!(first["stream"], "orders");
    let items = app.items("orders").await;
    assert_eq!(items.len(), 1_000);
    assert_eq!(items[0].fields, r#"{"id":0,"n.x":"é"}"#);

    let second = report(send(&app, &args, &input));
    assert_eq!(
        (&second["items"], &second["replayed"]),
        (&1_000.into(), &4.into())
    );
    assert_eq!(
        app.items("orders").await,
        items,
        "nothing was processed again"
    );
    assert_eq!(accepted(&app).await, 4.0);

    let other = [&args[..], &["--idempotency-prefix", "again"]].concat();
    assert_eq!(report(send(&app, &other, &input))["replayed"], 0);
    assert_eq!(accepted(&app).await, 8.0);
    assert_eq!(app.fields("orders").await.len(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_file_with_an_array_arrives_in_batches_under_the_limit() {
    let app = Setup::shop().start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orders.json");
    let items: Vec<String> = (0..3_000)
        .map(|n| {
            format!(
                "  {{\"order\": {{\"id\": {n}}}, \"note\": \"{}\"}}",
                "x".repeat(900)
            )
        })
        .collect();
    std::fs::write(&file, format!("[\n{}\n]\n", items.join(",\n"))).expect("a file");
    let key_file = folder.path().join("shop.key");
    std::fs::write(&key_file, format!("{}\n", app.secret("shop"))).expect("a file");
    let file = file.to_str().expect("a path");
    let key_file = key_file.to_str().expect("a path");
    let args = [
        file,
        "--item-key",
        "order.id",
        "--stream",
        "orders",
        "--key-file",
        key_file,
    ];
    let mut command = sending(&app, &args);
    command.env_remove("HEADGATE_KEY");
    let told = finish(&mut command, "").ok();
    assert!(
        told.contains("sent 3000 items to orders in 3 batches"),
        "{told}"
    );
    assert_eq!(app.fields("orders").await.len(), 3_000);
    let log = app.admin().log("shop", "").await;
    assert_eq!(log.len(), 3);
    assert!(log.iter().all(|entry| {
        entry["bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes <= 1_048_576)
    }));

    let told = finish(&mut command, "").ok();
    assert!(told.contains("3 of the batches were duplicates"), "{told}");
    assert_eq!(accepted(&app).await, 3.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sending_waits_as_long_as_the_server_asks() {
    let app = Setup::shop()
        .connector("shop", "requests_per_second = 2\nburst = 1")
        .start()
        .await;
    let input = "{\"id\": 1} {\"id\": 2} {\"id\": 3}";
    let args = ["--item-key", "id", "--batch-items", "1", "--output", "json"];
    let report = report(send(&app, &args, input));
    assert_eq!(
        (&report["items"], &report["batches"]),
        (&3.into(), &3.into())
    );
    assert!(
        report["retries"]
            .as_u64()
            .is_some_and(|retries| retries >= 1),
        "{report}"
    );
    assert_eq!(app.fields("orders").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn sending_stops_at_a_refusal_and_says_why() {
    let app = Setup::shop().start().await;
    let told = send(&app, &["--item-key", "id"], "{\"id\": 1}\n{\"no\": 1}").failed(1);
    assert!(
        told.contains("X-Item-Key") && told.contains("\"id\""),
        "{told}"
    );
    let told = send(&app, &["--stream", "others"], "{}").failed(1);
    assert!(
        told.contains("STREAM_NOT_FOUND") || told.contains("does not belong"),
        "{told}"
    );
    let told = send(&app, &["--key", "ik_live_wrong_0123456789"], "{}").failed(1);
    assert!(told.contains("key"), "{told}");
    assert!(
        !told.contains("wrong_0123456789"),
        "no secret in messages: {told}"
    );
    let told = send(&app, &[], "{\"a\": 1} oops").failed(1);
    assert!(!told.contains(app.secret("shop")), "{told}");
    let told = send(
        &app,
        &["--url", "http://127.0.0.1:1", "--retries", "0"],
        "{}",
    )
    .failed(1);
    assert!(told.contains("127.0.0.1:1"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dry_run_sends_nothing() {
    let app = Setup::shop().start().await;
    let told = send(&app, &["--dry-run"], "[{}, {}]").ok();
    assert!(told.contains("would send 2 items"), "{told}");
    assert_eq!(app.fields("orders").await, []);
    assert_eq!(accepted(&app).await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_shows_the_log_of_all_connectors() {
    let app = Setup::shop().key("rival", "orders").start().await;
    for n in 0..3 {
        app.caller("shop")
            .ingest(format!("{{\"n\": {n}}}"))
            .await
            .receipt();
        app.caller("rival")
            .ingest("oops")
            .await
            .refused(400, "INVALID_PAYLOAD");
    }
    let id = app.caller("shop").ingest("{}").await.receipt().request_id;
    app.drain().await;
    let data_dir = app.data_dir().display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let requests = |more: &[&str]| {
        let args = [
            "requests",
            "--admin-url",
            &app.admin_url,
            "--data-dir",
            &data_dir,
        ];
        run(folder.path(), [&args[..], more].concat()).ok()
    };

    let table = requests(&[]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 8, "{table}");
    assert!(
        lines[0].starts_with("TIME") && lines[0].contains("STATUS"),
        "{table}"
    );
    assert!(
        lines[1].contains(&id) && lines[1].contains("processed"),
        "newest first: {table}"
    );
    assert_eq!(table.matches(" rival ").count(), 3, "{table}");
    assert!(table.contains("malformed JSON"), "{table}");

    let list: Value = serde_json::from_str(&requests(&["--output", "json"])).expect("JSON");
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 7);
    assert_eq!(list[0]["request_id"], *id);
    let times: Vec<_> = list
        .iter()
        .map(|entry| entry["timestamp"].as_str())
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b));

    let lines = requests(&[
        "--connector",
        "rival",
        "--status",
        "rejected,failed",
        "--output",
        "ndjson",
    ]);
    assert_eq!(lines.lines().count(), 3);
    for line in lines.lines() {
        let entry: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            (&entry["connector"], &entry["status"]),
            (&"rival".into(), &"rejected".into())
        );
    }
    assert_eq!(
        requests(&["--limit", "2", "--since", "1h"]).lines().count(),
        3
    );
    let one = requests(&[&id]);
    assert!(
        one.contains(&format!("request_id: {id}")) && one.contains("status: processed"),
        "{one}"
    );

    let args = [
        "requests",
        "--admin-url",
        &app.admin_url,
        "--token",
        "wrong",
    ];
    let told = run(folder.path(), args).failed(1);
    assert!(told.contains("admin token"), "{told}");
}
