//! Requests, as many at once as are wanted, each sender with its next one when the answer is there.
//!
//! The bench asks for one step after the other.
//!
//! **Invariant**: every item has one of [`KEYS`] keys and a number that no other request of the process has, so that
//! each request changes the data pool, and all of it can be removed again.

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

/// Items that requests name in turn.
pub(super) const KEYS: u64 = 100;
const PATH: &str = "/api/ingest";
/// After an answer that is no 202, so that refusals are no load of their own.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// The number of the next item.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What was answered in one step.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// From sending to the answer, of the 202s.
    pub(super) accepted: Vec<Duration>,
    /// The other answers, by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// Requests without an answer.
    pub(super) broken: u64,
    /// What the first of those said that were not accepted.
    complaint: Option<String>,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.broken += other.broken;
        self.complaint = self.complaint.take().or(other.complaint);
    }

    /// False if it was no 202.
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

/// One step, as it is reported.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    /// Bytes of a body.
    pub(super) body_bytes: usize,
    /// Requests that were on their way at once.
    pub(super) connections: usize,
    /// 202s in a second.
    pub(super) requests_per_second: f64,
    /// From sending to the 202.
    pub(super) accepted: Times,
    /// Other answers, by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// Requests without an answer.
    pub(super) broken: u64,
    /// What was busy meanwhile.
    pub(super) used: Used,
}

impl Step {
    /// What was answered, and what was used for it.
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

/// The next item with a body of about so many bytes, and its number.
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

/// Sends one body.
pub(super) async fn post(client: &Client, body: Bytes) -> Result<Answer, CallError> {
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    client.call(Method::POST, PATH, headers, body).await
}

/// Sends bodies of one size for so long, so many at once.
pub(super) async fn run(
    client: &Arc<Client>,
    body_bytes: usize,
    connections: usize,
    time: Duration,
) -> Result<Answers, CliError> {
    let until = Instant::now() + time;
    let mut senders = JoinSet::new();
    for _ in 0..connections {
        senders.spawn(send(Arc::clone(client), body_bytes, until));
    }
    let mut all = Answers::default();
    while let Some(answers) = senders.join_next().await {
        let answers =
            answers.map_err(|error| CliError::failed(format!("a sender ended: {error}")))?;
        all.add(answers);
    }
    // Too many, or too much at once, is a finding.
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

async fn send(client: Arc<Client>, body_bytes: usize, until: Instant) -> Answers {
    let mut answers = Answers::default();
    let mut is_first = true;
    // However slow the machine is: a request that is not the first, or a complaint.
    let is_empty = |answers: &Answers| answers.accepted.is_empty() && answers.complaint.is_none();
    while Instant::now() < until || is_empty(&answers) {
        let (_, body) = item(body_bytes);
        let sent = Instant::now();
        let answer = post(&client, body).await;
        if !answers.note(answer, sent.elapsed()) {
            tokio::time::sleep(REFUSED_PAUSE).await;
        } else if std::mem::take(&mut is_first) {
            // It may have connected first.
            answers.accepted.pop();
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_their_size_and_numbers_of_their_own() {
        let mut before = 0;
        for bytes in [200, 2_048, 1 << 20] {
            let (number, body) = item(bytes);
            assert_eq!(body.len(), bytes);
            let item: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(item["number"], number);
            assert_eq!(item["id"], (number % KEYS).to_string());
            assert!(number > before);
            before = number;
        }
    }

    #[test]
    fn answers_are_counted_by_what_they_are() {
        let answer = |status| {
            Ok(Answer {
                status,
                headers: HeaderMap::new(),
                body: br#"{"error": {"message": "slow down"}}"#.to_vec(),
            })
        };
        let mut all = Answers::default();
        for (status, accepted) in [(202, true), (429, false), (429, false), (503, false)] {
            let mut one = Answers::default();
            assert_eq!(one.note(answer(status), Duration::from_millis(1)), accepted);
            all.add(one);
        }
        assert_eq!(all.accepted.len(), 1);
        assert_eq!(all.refused, BTreeMap::from([(429, 2), (503, 1)]));
        assert!(all.complaint.is_some_and(|text| text.contains("slow down")));
    }
}
