//! A tool that makes its secret itself: Notion sends it once, before it signs.

use reqwest::Method;
use serde_json::{Value, json};

use super::{address, hex, mac};
use crate::app::{Caller, Reply, TestApp};
use crate::command_line::operate;
use crate::process::JSON;
use crate::setup::Setup;

const TOKEN: &str = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";
const LATER: &str = "secret_another_one_that_was_asked_for_afterwards";
const TAKE: &str = "/api/admin/connectors/wiki/keys/main/take-secret";
const KEY: &str = "/api/admin/connectors/wiki/keys/main";

async fn made() -> TestApp {
    let app = Setup::new().unlimited().stream("wiki").start().await;
    let body = json!({"name": "wiki", "kind": "webhook", "stream": "wiki", "verify": {"scheme": "notion"}});
    let made = app.admin().make("/api/admin/connectors", body).await;
    assert_eq!(made["secret"], Value::Null);
    let key = &made["keys"][0];
    assert_eq!(key["prefix"], "notion_pending");
    assert_eq!(key["verify"]["secret"], Value::Null);
    assert_eq!(key["path"], address("wiki"));
    app
}

async fn token(to: &Caller, token: &str) -> Reply {
    let body = json!({"verification_token": token}).to_string();
    to.post(&address("wiki"), &[], body).await
}

async fn page(to: &Caller, secret: &str, id: &str) -> Reply {
    let body = json!({"id": id, "type": "page.created", "entity": {"id": "p-1"}}).to_string();
    let signature = format!("sha256={}", hex(&mac(secret, body.as_bytes())));
    let headers = [("X-Notion-Signature", &*signature)];
    to.post(&address("wiki"), &headers, body).await
}

async fn nowhere(app: &TestApp, secret: &str) {
    app.admin().logged().await;
    for path in [
        "/api/admin/connectors",
        "/api/admin/connectors/wiki/keys",
        KEY,
        "/api/admin/audit",
        "/api/admin/connectors/wiki/requests",
        "/api/admin/status",
        "/metrics",
    ] {
        let text = app.admin().get(path).await.text();
        assert!(!text.contains(secret), "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_secret_is_awaited_caught_taken_once_and_then_verifies() {
    let app = made().await;
    let (admin, anyone) = (app.admin(), app.anonymous());
    let take = async || admin.send(Method::POST, TAKE, &json!({})).await;
    let log = async || admin.log("wiki", "").await;

    // Nothing is verified, and there is nothing to take.
    page(&anyone, "", "e-0").await.refused(401, "UNAUTHORIZED");
    let reason = log().await[0]["errors"][0].to_string();
    assert!(reason.contains("the key has no secret yet"), "{reason}");
    let none = take().await.refused(409, "NO_SECRET_SENT").message;
    assert!(none.contains("has not sent its secret"), "{none}");

    // The newest counts, and neither is seen before it is taken.
    for secret in [LATER, TOKEN] {
        let caught = token(&anyone, secret).await;
        assert_eq!((caught.status, caught.body.len()), (200, 0));
        nowhere(&app, secret).await;
    }
    assert_eq!(log().await[0]["status"], "handshake");
    let sent_at = &admin.get(KEY).await.data()["secret_sent_at"];
    assert!(sent_at.is_string(), "{sent_at}");
    page(&anyone, TOKEN, "e-1")
        .await
        .refused(401, "UNAUTHORIZED");

    let taken = take().await;
    assert_eq!(taken.status, 201, "{}", taken.text());
    assert_eq!(taken.header("cache-control"), Some("no-store"));
    let taken = &taken.json()["data"];
    assert_eq!(taken["secret"], TOKEN);
    assert_eq!(taken["key"]["secret_sent_at"], Value::Null);
    let again = take().await.refused(409, "NO_SECRET_SENT").message;
    assert!(again.contains("does not wait for a secret"), "{again}");
    page(&anyone, TOKEN, "e-2").await.receipt();
    page(&anyone, LATER, "e-3")
        .await
        .refused(401, "UNAUTHORIZED");
    // It has a secret now, so that one without a signature is nobody's.
    token(&anyone, LATER).await.refused(401, "UNAUTHORIZED");
    take().await.refused(409, "NO_SECRET_SENT");
    nowhere(&app, TOKEN).await;
    nowhere(&app, LATER).await;
    let entries = admin.get("/api/admin/audit").await.list();
    assert_eq!(entries[0]["action"], "take-secret");

    let app = app.restart().await;
    page(&app.anonymous(), TOKEN, "e-4").await.receipt();
    app.drain().await;
    let stored = app.fields("wiki").await;
    assert_eq!(stored.len(), 1, "{stored:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_awaited_secret_is_in_memory_only_and_strangers_are_not_heard_forever() {
    let app = made().await;
    assert_eq!(token(&app.anonymous(), TOKEN).await.status, 200);
    let app = app.restart().await;
    let take = app.admin().send(Method::POST, TAKE, &json!({})).await;
    take.refused(409, "NO_SECRET_SENT");
    let mut refused = 0;
    for _ in 0..100 {
        let reply = token(&app.anonymous(), LATER).await;
        refused += usize::from(reply.status == 429);
    }
    assert!(refused > 0);
    // One that is known already can be set.
    let rotate = format!("{KEY}/rotate");
    let body = json!({"secret": TOKEN});
    let rotated = app.admin().send(Method::POST, &rotate, &body).await;
    assert_eq!(rotated.json()["data"]["previous"]["state"], "revoked");
    assert_ne!(token(&app.anonymous(), LATER).await.status, 200);
    page(&app.anonymous(), TOKEN, "e-1").await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_keys_of_a_stream_may_await_their_secrets() {
    let app = made().await;
    let body = json!({"name": "docs", "kind": "webhook", "stream": "wiki", "verify": {"scheme": "notion"}});
    app.admin().make("/api/admin/connectors", body).await;
    assert_eq!(token(&app.anonymous(), TOKEN).await.status, 200);
    let other = "/api/admin/connectors/docs/keys/main";
    let other = app.admin().get(other).await.data();
    assert_eq!(other["secret_sent_at"], Value::Null);
}

#[test]
fn a_declared_key_hands_the_secret_out_for_its_configuration() {
    let verify = "verify = { scheme = \"notion\" }";
    let setup = Setup::with_streams(&["wiki"]).signing_key("wiki", "main", "wiki", verify);
    let process = setup.spawn();
    let run = |line: &str| operate(&process, line.split(' '));
    let told = run("key take-secret wiki main").failed(1);
    assert!(told.contains("has not sent its secret"), "{told}");
    let send = || {
        let body = json!({"verification_token": TOKEN}).to_string();
        let mut client = process.client();
        let answer = client.request("POST", &address("wiki"), JSON, &body);
        answer.expect("an answer").status
    };
    assert_eq!(send(), 200);
    let taken = run("key take-secret wiki main");
    assert!(taken.err.contains("in the configuration"), "{taken:?}");
    assert_eq!(taken.ok(), format!("{TOKEN}\n"));
    run("key take-secret wiki main").failed(1);
    // It verifies nothing until it is declared.
    assert_eq!(process.admin(KEY)["data"]["verify"]["secret"], Value::Null);
    assert_eq!(send(), 200);
    assert!(!process.log().contains(TOKEN), "{}", process.log());
}

#[test]
fn notion_is_connected_from_the_command_line() {
    let process = Setup::with_streams(&["wiki"]).spawn();
    let run = |line: &str| operate(&process, line.split(' '));
    let told = run("connector create wiki --from notion --stream wiki");
    assert!(told.err.contains("headgate key take-secret"), "{told:?}");
    told.ok();
    let told = run("trigger notion --connector wiki").failed(1);
    assert!(told.contains("has no secret yet"), "{told}");
    let body = json!({"verification_token": TOKEN}).to_string();
    let mut client = process.client();
    let sent = client.request("POST", &address("wiki"), JSON, &body);
    assert_eq!(sent.expect("an answer").status, 200);
    let taken = run("key take-secret wiki main").ok();
    assert_eq!(taken, format!("{TOKEN}\n"));
    run("trigger notion --connector wiki").ok();
    assert!(!process.log().contains(TOKEN), "{}", process.log());
}
