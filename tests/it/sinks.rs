//! Sinks that are made, changed, paused and deleted while the daemon runs.

mod connections; // that they hold
mod copy; // a receiver that keeps a copy
mod files; // written by them
mod filled; // with what the data pool has
mod forms; // their forms, of each built-in plugin
mod interrupted; // while they follow the newest state
mod joins; // at random moments
mod kills; // before or after, never between
mod leaves; // told what ceases to match
mod made; // what the routes do
mod missing; // what the journal had let go
mod mqtt; // published, as a broker keeps them
mod newest; // of each item the newest
mod plugins; // added, replaced, taken back and removed meanwhile
mod refused; // what they refuse, and what they never show
mod templates; // requests in the form of the receiver
mod tried; // trials, dry and sent

use serde_json::{Value, json};

use crate::process::{Answer, Process};
use crate::receiver::Receiver;

/// A sink that forwards a stream to a receiver.
fn forwards(receiver: &Receiver, name: &str, stream: &str) -> Value {
    json!({
        "name": name,
        "plugin": "http-forward",
        "streams": [stream],
        "batch": {"linger_ms": 0},
        "config": {"url": receiver.url("/in"), "form": "field-array"},
        "http": {"hosts": [receiver.url("")], "networks": ["127.0.0.0/8"]},
    })
}

/// The fields of all items that a receiver was sent.
fn sent(receiver: &Receiver) -> Vec<Value> {
    let bodies = receiver.seen().into_iter().map(|seen| seen.json());
    let lists = bodies.map(|body| body.as_array().cloned().expect("a list"));
    lists.flatten().collect()
}

pub(crate) fn patch(process: &Process, name: &str, body: &Value) -> Answer {
    let path = format!("/api/admin/sinks/{name}");
    process.call("PATCH", &path, &body.to_string())
}

/// The code of a refusal, and its message.
pub(crate) fn refusal(answer: &Answer, status: u16) -> (String, String) {
    assert_eq!(answer.status, status, "{}", answer.body);
    let error = &answer.json()["error"];
    let text = |name: &str| error[name].as_str().expect("a text").to_owned();
    (text("code"), text("message"))
}
