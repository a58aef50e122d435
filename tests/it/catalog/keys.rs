//! When keys end: after a rotation's grace, at their date, and when they are revoked, whatever is under way.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{Client, JSON, Process, SetOnDrop, bearer};
use crate::setup::Setup;
use crate::wait::eventually_async;
use base::clock::Unix;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_grace_of_a_rotation_ends() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    let keys = "/api/admin/connectors/shop/keys";
    let made = admin
        .make(keys, json!({"name": "web", "stream": "orders"}))
        .await;
    let text = |made: &Value| made["secret"].as_str().expect("a secret").to_owned();
    let first = text(&made);
    // A day, if nothing is said.
    let made = admin
        .send(Method::POST, &format!("{keys}/web/rotate"), &json!({}))
        .await;
    let made = made.json()["data"].take();
    let ends = |made: &Value| {
        let ends = made["previous"]["expires_at"].as_str().expect("an end");
        base::clock::parse_rfc3339(ends).expect("a time")
    };
    let left = ends(&made) - Unix::now();
    assert!((86_300..=86_400).contains(&left.as_secs()), "{left:?}");
    let second = text(&made);
    app.caller_with(&first).ingest("{}").await.receipt();
    app.caller_with(&second).ingest("{}").await.receipt();
    // A second: the key is good until then and not after it.
    let made = admin
        .make(&format!("{keys}/web/rotate"), json!({"grace_seconds": 1}))
        .await;
    let (third, ends_ms) = (text(&made), ends(&made));
    let refused_ms = eventually_async("the grace ends", async || {
        let begun_ms = Unix::now();
        let status = app.caller_with(&second).ingest("{}").await.status;
        let ended_ms = Unix::now();
        match status {
            202 => assert!(begun_ms < ends_ms, "accepted after its end"),
            401 => assert!(ended_ms >= ends_ms, "refused before its end"),
            other => panic!("{other}"),
        }
        (status == 401).then_some(ended_ms)
    })
    .await;
    assert!(refused_ms >= ends_ms);
    app.caller_with(&third).ingest("{}").await.receipt();
    app.caller_with(&first).ingest("{}").await.receipt();
    let states: Vec<Value> = admin.get(keys).await.list();
    let states: Vec<_> = states
        .iter()
        .map(|key| key["state"].as_str().expect("a state"))
        .collect();
    assert_eq!(
        states.iter().filter(|state| **state == "expired").count(),
        1,
        "{states:?}"
    );
    // None: at once.
    let made = admin
        .make(&format!("{keys}/web/rotate"), json!({"grace_seconds": 0}))
        .await;
    assert_eq!(made["previous"]["state"], "revoked");
    app.caller_with(&third)
        .ingest("{}")
        .await
        .refused(401, "UNAUTHORIZED");
    app.caller_with(&text(&made)).ingest("{}").await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_end_of_a_key_can_be_moved_both_ways() {
    let app = Setup::shop().start().await;
    let admin = app.admin();
    let keys = "/api/admin/connectors/shop/keys";
    let key = json!({"name": "web", "stream": "orders", "test": true, "expires_at": "2999-01-31T00:00:00Z"});
    let made = admin.make(keys, key).await;
    let secret = made["secret"].as_str().expect("a secret");
    assert!(secret.starts_with("ik_test_"));
    let caller = app.caller_with(secret);
    caller.ingest("{}").await.receipt();
    let one = format!("{keys}/web");
    let passed = json!({"expires_at": "2001-01-01T00:00:00Z"});
    let changed = admin.send(Method::PATCH, &one, &passed).await.data();
    assert_eq!(changed["state"], "expired");
    caller.ingest("{}").await.refused(401, "UNAUTHORIZED");
    let reply = admin
        .send(Method::POST, &format!("{one}/rotate"), &json!({}))
        .await;
    let told = reply.refused(400, "INVALID_REQUEST").message;
    assert!(told.contains("expires_at"), "{told}");
    let never = json!({"expires_at": null});
    admin.send(Method::PATCH, &one, &never).await.data();
    caller.ingest("{}").await.receipt();
    let made = admin.make(&format!("{one}/rotate"), json!({})).await;
    let secret = made["secret"].as_str().expect("a secret");
    assert!(secret.starts_with("ik_test_"), "a test key stays one");
    app.drain().await;
    assert_eq!(admin.log("shop", "status=test").await.len(), 2);
    assert_eq!(app.fields_now("orders"), []);
}

/// A key of the connector `tests`.
fn make(process: &Process, name: &str) -> String {
    let key = json!({"name": name, "stream": "orders"});
    let made = process.make("/api/admin/connectors/tests/keys", &key);
    made.secret()
}

fn revoke(process: &Process, name: &str) {
    let path = format!("/api/admin/connectors/tests/keys/{name}/revoke");
    process.call("POST", &path, "").data(200);
}

#[test]
fn no_request_that_begins_after_a_revocation_is_accepted() {
    const ROUNDS: usize = 20;
    const THREADS: usize = 8;
    const EACH_AFTER: usize = 10;
    let setup = Setup::with_streams(&["orders"]);
    // All of them come from one address.
    let process = setup.set("limits.unauthorized_per_second", 0).spawn();
    let service = process.service;
    let mut before = 0;
    for round in 0..ROUNDS {
        let name = format!("k{round}");
        let secret = make(&process, &name);
        let revoked = AtomicBool::new(false);
        let accepted_late = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = Client::connect(service).expect("it listens");
                        let (mut early, mut late, mut asked) = (0, 0, 0);
                        while asked < EACH_AFTER {
                            let begun_after = revoked.load(Ordering::SeqCst);
                            let answer = client.call("POST", "/api/ingest", &secret, "{}");
                            let status = answer.expect("an answer").status;
                            assert!(matches!(status, 202 | 401), "{status}");
                            let accepted = usize::from(status == 202);
                            if begun_after {
                                asked += 1;
                                late += accepted;
                            } else {
                                early += accepted;
                            }
                        }
                        (early, late)
                    })
                })
                .collect();
            let revoking = SetOnDrop(&revoked);
            // So that it falls into the traffic.
            let mut client = process.client();
            for _ in 0..=round {
                let answer = client.call("POST", "/api/ingest", &secret, "{}");
                assert_eq!(answer.expect("an answer").status, 202);
            }
            revoke(&process, &name);
            drop(revoking);
            let counts = senders
                .into_iter()
                .map(|sender| sender.join().expect("no panic"));
            let (early, late) = counts.fold((0, 0), |(a, b), (early, late)| (a + early, b + late));
            before += early;
            late
        });
        assert_eq!(accepted_late, 0, "round {round}");
    }
    assert!(before > ROUNDS, "there was traffic: {before}");
    process.stop();
}

#[test]
fn a_body_that_still_arrives_when_its_key_is_revoked_is_refused() {
    let process = Setup::with_streams(&["orders"]).spawn();
    let secret = make(&process, "slow");
    let mut client = process.client();
    let headers = format!("{}{JSON}Expect: 100-continue\r\n", bearer(&secret));
    let begun = client.begin("POST", "/api/ingest", &headers, 8);
    begun.expect("it listens");
    // The head was found good: the daemon asks for the body.
    let interim = client.interim().expect("an answer");
    assert!(interim.starts_with("HTTP/1.1 100"), "{interim}");
    client.send("{\"a\"").expect("it listens");
    revoke(&process, "slow");
    client.send(": 1}").expect("it listens");
    let answer = client.answer().expect("an answer");
    assert_eq!(answer.status, 401, "{}", answer.body);
    process.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connector_of_an_old_name_has_nothing_of_the_old_one() {
    let app = Setup::new().stream("orders").start().await;
    let admin = app.admin();
    let tenant = "/api/admin/connectors/tenant";
    let moves_in = async || {
        let named = json!({"name": "tenant"});
        admin.make("/api/admin/connectors", named).await;
        let key = json!({"name": "main", "stream": "orders"});
        let made = admin.make(&format!("{tenant}/keys"), key).await;
        app.caller_with(made["secret"].as_str().expect("a secret"))
    };
    let old = moves_in().await;
    let first = old.ingest_once("order-1", r#"{"of": "old"}"#).await;
    let first = first.receipt();
    let path = format!("/api/requests/{}", first.request_id);
    assert_eq!(old.get(&path).await.status, 200);
    assert_eq!(admin.call(Method::DELETE, tenant).await.status, 200);

    let new = moves_in().await;
    new.get(&path).await.refused(404, "REQUEST_NOT_FOUND");
    let reply = new.ingest_once("order-1", r#"{"of": "new"}"#).await;
    assert_eq!(reply.header("idempotent-replayed"), None);
    let own = reply.receipt();
    assert_ne!(own.request_id, first.request_id);
    app.drain().await;
    assert_eq!(app.fields("orders").await[0].1, r#"{"of":"new"}"#);
    let again = new.ingest_once("order-1", r#"{"of": "new"}"#).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}
