//! Acts of operators: overrides, holds and undo, over HTTP.

mod cases; // every case of `operate-vectors.json`
mod edges; // limits, repeats, roles, operate keys, audit, kills
mod killed; // between the data of a PUT and its act
mod repeated; // with the same key
mod visible; // overview, pages, status, metrics, a restored hold

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Caller, Reply, TestApp};
use crate::setup::Setup;

/// The secrets of the operators of tests.
fn token(name: &str) -> String {
    format!("token-of-the-operator-{name}")
}

/// With operators `anna` and `ben`, and a viewer `guest`.
fn with_operators(setup: Setup) -> Setup {
    let tokens = [
        ("anna", "operator"),
        ("ben", "operator"),
        ("guest", "viewer"),
    ];
    let tokens = tokens.map(|(name, role)| {
        format!(
            "[[admin.tokens]]\nname = \"{name}\"\nrole = \"{role}\"\nsecret = \"{}\"\n",
            token(name)
        )
    });
    setup.toml(&tokens.concat())
}

/// An operator of the admin API.
fn operator(app: &TestApp, name: &str) -> Caller {
    Caller::new(&app.admin_url, Some(&token(name)))
}

/// Somebody acts: `verb` may be `PUT key`.
async fn act(
    who: &Caller,
    base: &str,
    (verb, body): (&str, &str),
    idempotency_key: Option<&str>,
) -> Reply {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(idempotency_key.map(|key| ("idempotency-key", key)));
    match verb.strip_prefix("PUT ") {
        Some(key) => {
            let path = format!("{base}/items/{key}");
            who.call(Method::PUT, &path, &headers, body).await
        }
        None => {
            let path = format!("{base}/{verb}");
            who.call(Method::POST, &path, &headers, body).await
        }
    }
}

/// What an act did.
#[track_caller]
fn done(reply: &Reply) -> Value {
    assert_eq!(reply.status, 202, "{}", reply.text());
    reply.json()["data"].take()
}

/// An act of an operator in the stream `scores`.
async fn acts(app: &TestApp, who: &str, verb: &str, body: Value) -> Reply {
    let base = "/api/admin/streams/scores";
    act(&operator(app, who), base, (verb, &body.to_string()), None).await
}

/// The stream `scores` with a connector of its name, and a screen.
fn one_stream() -> Setup {
    Setup::new()
        .stream("scores")
        .connector("scores", "may_delete = true")
        .key("scores", "scores")
        .read_key("screen", &["scores"], "")
        .unlimited()
}

/// A daemon with the stream `scores`, and one item in it.
async fn scores() -> TestApp {
    let app = with_operators(one_stream()).start().await;
    let m1 = json!([{"id": "m1", "home": {"score": 2}, "name": "A"}]);
    app.caller("scores")
        .ingest_by("id", m1.to_string())
        .await
        .receipt();
    app.drain().await;
    app
}
