//! Concurrent requests; each sender sends its next request after the response.
//!
//! The bench runs one step after another.
//!
//! **Invariant**: every item has one of [`KEYS`] keys and a number that no other request of the process has. So each
//! request changes the data pool, and all items can be removed again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::meter::Used;
use super::times::Times;
use crate::client::{Answer, CallError, Client, Refusal};
use crate::error::CliError;

/// The number of keys, which requests use in turn.
pub(super) const KEYS: u64 = 100;
const PATH: &str = "/api/ingest";
/// Pause after a response other than 202, so that rejections cause no load.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// The number of the next item.
static NUMBER: AtomicU64 = AtomicU64::new(1);

#[derive(Debug, Clone, Copy)]
pub struct BenchLoad {
    pub connections: usize,
    /// About the bytes of an item.
    pub item_bytes: usize,
    /// Items of a request. More than one are an array.
    pub items: usize,
    pub time: Duration,
}

/// The responses of a step.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Times from sending to the response, of the 202 responses.
    pub(super) accepted: Vec<Duration>,
    /// 202 responses to first requests, which may have included connecting: they have no time.
    pub(super) untimed: u64,
    /// The other responses, by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// Requests without a response.
    pub(super) broken: u64,
    /// The message of the first request that was not accepted.
    complaint: Option<String>,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.untimed += other.untimed;
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.broken += other.broken;
        self.complaint = self.complaint.take().or(other.complaint);
    }

    /// Records a response; `false` if it is not a 202.
    fn note(&mut self, answer: Result<Answer, CallError>, took: Duration) -> bool {
        let complaint = match answer {
            Ok(answer) if answer.status == 202 => {
                self.accepted.push(took);
                return true;
            }
            Ok(answer) => {
                *self.refused.entry(answer.status).or_default() += 1;
                Refusal::decode(&answer).to_string()
            }
            Err(error) => {
                self.broken += 1;
                error.to_string()
            }
        };
        self.complaint.get_or_insert(complaint);
        false
    }
}

/// A step, as it is reported.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    pub(super) body_bytes: usize,
    pub(super) connections: usize,
    /// 202 responses per second.
    pub(super) requests_per_second: f64,
    /// Times from sending to the 202.
    pub(super) accepted: Times,
    /// Other responses, by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// Requests without a response.
    pub(super) broken: u64,
    /// Resource use during the step.
    pub(super) used: Used,
}

impl Step {
    /// A step with these responses and this resource use.
    pub(super) fn new(body_bytes: usize, connections: usize, answers: Answers, used: Used) -> Self {
        Self {
            body_bytes,
            connections,
            requests_per_second: answers.accepted.len() as f64 / used.seconds.max(1e-9),
            accepted: Times::of(answers.accepted),
            refused: answers.refused,
            broken: answers.broken,
            used,
        }
    }
}

/// The next item with a body of about `body_bytes`, and its number.
pub(super) fn item(body_bytes: usize) -> (u64, Bytes) {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let head = format!(
        "{{\"id\":\"{}\",\"number\":{number},\"text\":\"",
        number % KEYS
    );
    let rest = body_bytes.saturating_sub(head.len() + 2);
    let text = "x".repeat(rest);
    (number, Bytes::from(format!("{head}{text}\"}}")))
}

pub(super) async fn post(client: &Client, body: Bytes) -> Result<Answer, CallError> {
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    client.call(Method::POST, PATH, headers, body).await
}

/// A body with as many items; one alone is no array.
fn body(load: BenchLoad) -> Bytes {
    if load.items == 1 {
        return item(load.item_bytes).1;
    }
    let mut body = Vec::with_capacity(load.items * (load.item_bytes + 1) + 1);
    for place in 0..load.items {
        body.push(if place == 0 { b'[' } else { b',' });
        body.extend_from_slice(&item(load.item_bytes).1);
    }
    body.push(b']');
    Bytes::from(body)
}

/// Sends bodies of one size, on connections that are spread over the clients.
pub(super) async fn run(clients: &[Arc<Client>], load: BenchLoad) -> Result<Answers, CliError> {
    let until = Instant::now() + load.time;
    let mut senders = JoinSet::new();
    for client in clients.iter().cycle().take(load.connections) {
        senders.spawn(send(Arc::clone(client), load, until));
    }
    let mut all = Answers::default();
    while let Some(answers) = senders.join_next().await {
        let answers =
            answers.map_err(|error| CliError::failed(format!("a sender ended: {error}")))?;
        all.add(answers);
    }
    // A rate limit or a full daemon is a result, not an error.
    let is_limited = [429, 503]
        .iter()
        .any(|status| all.refused.contains_key(status));
    match &all.complaint {
        Some(complaint) if all.accepted.is_empty() && !is_limited => Err(CliError::failed(
            format!("no request of the benchmark was accepted: {complaint}"),
        )),
        _ => Ok(all),
    }
}

async fn send(client: Arc<Client>, load: BenchLoad, until: Instant) -> Answers {
    let mut answers = Answers::default();
    let mut is_first = true;
    // Even on a slow machine, at least one request after the first, or an error.
    let is_empty = |answers: &Answers| answers.accepted.is_empty() && answers.complaint.is_none();
    while Instant::now() < until || is_empty(&answers) {
        let body = body(load);
        let sent = Instant::now();
        let answer = post(&client, body).await;
        if !answers.note(answer, sent.elapsed()) {
            tokio::time::sleep(REFUSED_PAUSE).await;
        } else if std::mem::take(&mut is_first) {
            // The first request may include connecting.
            answers.accepted.pop();
            answers.untimed += 1;
        }
    }
    answers
}

#[cfg(test)]
mod tests;
