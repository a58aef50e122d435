//! The latency from an accepted request to a renderer.
//!
//! The bench measures it when the data pool has received all earlier requests.
//!
//! **Invariant**: requests are sent at a fixed rate below the default flush rate of renderers, each with a unique
//! number, so that each is observed separately.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};

use super::load::{item, post};
use super::times::Times;
use crate::client::{Client, EventStream};
use crate::error::CliError;
use crate::tail::sse::{Event, Parser};

/// Time between two requests; renderers are flushed 60 times per second by default.
const EVERY: Duration = Duration::from_millis(25);
const BODY_BYTES: usize = 200;
const EVENT_STREAM: &str = "text/event-stream";
/// Maximum time for the snapshot, and for the last change.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Push {
    /// From sending the request to its 202.
    pub(super) accepted: Times,
    /// From the 202 to the renderer; 0 if the renderer was first.
    pub(super) after_202: Times,
    /// From sending the request to the renderer.
    pub(super) after_request: Times,
    /// Changes that the renderer did not receive.
    pub(super) missing: usize,
}

struct Sent {
    number: u64,
    at: Instant,
    accepted_at: Instant,
}

/// A renderer, which records when it received each number.
pub(super) struct Renderer<'a> {
    stream: EventStream<'a>,
    parser: Parser,
    seen: &'a Seen,
}

/// When each number was received first.
pub(super) type Seen = RefCell<HashMap<u64, Instant>>;

/// Follows the stream with one client, and sends to it with the other for `time`: one request after the other.
pub(super) async fn run(
    reader: &Client,
    sender: &Client,
    stream: &str,
    time: Duration,
) -> Result<Push, CliError> {
    let seen = Seen::default();
    let mut renderer = Renderer::open(reader, stream, &seen).await?;
    let sent = tokio::select! {
        sent = send(sender, time) => sent?,
        ended = renderer.until(|_| false) => return Err(ended.err().unwrap_or_else(cut)),
    };
    let all_seen = || {
        let seen = seen.borrow();
        sent.iter().all(|sent| seen.contains_key(&sent.number))
    };
    if !all_seen() {
        let rest = renderer.until(|_| all_seen());
        if let Ok(Err(error)) = tokio::time::timeout(SEEN_WITHIN, rest).await {
            return Err(error);
        }
    }
    Ok(push(&sent, &seen.borrow()))
}

/// Sends at the fixed rate.
async fn send(sender: &Client, time: Duration) -> Result<Vec<Sent>, CliError> {
    let until = Instant::now() + time;
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut all = Vec::new();
    while Instant::now() < until {
        due.tick().await;
        let (number, body) = item(BODY_BYTES);
        let at = Instant::now();
        let answer = post(sender, body).await?;
        // A rejected request never reaches the renderer: its rate exceeds the limit of the key, or the daemon is full.
        if answer.status == 202 {
            all.push(Sent {
                number,
                at,
                accepted_at: Instant::now(),
            });
        }
    }
    Ok(all)
}

fn push(sent: &[Sent], seen: &HashMap<u64, Instant>) -> Push {
    let shown = || {
        sent.iter()
            .filter_map(|sent| Some((sent, *seen.get(&sent.number)?)))
    };
    let after_202 =
        Times::of(shown().map(|(sent, at)| at.saturating_duration_since(sent.accepted_at)));
    Push {
        accepted: Times::of(sent.iter().map(|sent| sent.accepted_at - sent.at)),
        missing: sent.len() - after_202.count,
        after_202,
        after_request: Times::of(shown().map(|(sent, at)| at.saturating_duration_since(sent.at))),
    }
}

impl<'a> Renderer<'a> {
    /// Connects, and waits for the snapshot.
    pub(super) async fn open(
        reader: &'a Client,
        stream: &str,
        seen: &'a Seen,
    ) -> Result<Self, CliError> {
        let path = format!("/api/live?streams={stream}");
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(EVENT_STREAM))]);
        let mut renderer = Self {
            stream: reader.open(&path, headers, EVENT_STREAM).await?,
            parser: Parser::default(),
            seen,
        };
        let ready = renderer.until(|event| is_complete(&event.data));
        let ready = tokio::time::timeout(SEEN_WITHIN, ready).await;
        ready.map_err(|_| {
            CliError::failed(
                "the renderer received no snapshot: see `problems` of the daemon's status",
            )
        })??;
        Ok(renderer)
    }

    /// Reads until it has received this number.
    pub(super) async fn until_seen(&mut self, number: u64) -> Result<(), CliError> {
        let seen = self.seen;
        self.until(|_| seen.borrow().contains_key(&number)).await
    }

    /// Reads until an event satisfies `enough`; an error if the connection ends first.
    async fn until(&mut self, mut enough: impl FnMut(&Event) -> bool) -> Result<(), CliError> {
        loop {
            let chunk = self.stream.chunk().await?;
            let Some(chunk) = chunk else {
                return Err(cut());
            };
            let at = Instant::now();
            let (seen, mut is_enough) = (self.seen, false);
            let parsed = self.parser.push(&chunk, |event| {
                for number in numbers(&event) {
                    seen.borrow_mut().entry(number).or_insert(at);
                }
                is_enough |= enough(&event);
            });
            parsed.map_err(|error| CliError::failed(error.to_string()))?;
            if is_enough {
                return Ok(());
            }
        }
    }
}

fn cut() -> CliError {
    CliError::failed("the daemon closed the connection of the benchmark's renderer: see its log")
}

/// The numbers of the items in an update.
fn numbers(event: &Event) -> Vec<u64> {
    if event.kind != "update" {
        return Vec::new();
    }
    let message: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let items = message["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["fields"]["number"].as_u64())
        .collect()
}

/// Whether a message is the last of a snapshot.
fn is_complete(data: &str) -> bool {
    let message: Value = serde_json::from_str(data).unwrap_or_default();
    message["type"] == "snapshot" && message["complete"] == true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_from_its_202_and_one_that_is_not_seen_is_missing() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let sent = |number, at, accepted| Sent {
            number,
            at: after(at),
            accepted_at: after(accepted),
        };
        // The renderer receives the second before its response, and the third never.
        let all = [sent(1, 0, 2), sent(2, 25, 29), sent(3, 50, 51)];
        let seen = HashMap::from([(1, after(5)), (2, after(28)), (9, after(60))]);
        let push = push(&all, &seen);
        assert_eq!(push.missing, 1);
        assert_eq!((push.accepted.count, push.accepted.max_ms), (3, 4.0));
        assert_eq!((push.after_202.count, push.after_202.max_ms), (2, 3.0));
        assert_eq!(
            (push.after_202.p50_ms, push.after_request.max_ms),
            (0.0, 5.0)
        );
    }

    #[test]
    fn only_updates_have_numbers() {
        let event = |kind: &str| {
            Event {
            kind: kind.to_owned(),
            data: r#"{"type":"x","complete":true,"items":[{"key":"1","fields":{"number":7}},{"fields":{}}]}"#.to_owned(),
            id: String::new(),
        }
        };
        assert_eq!(numbers(&event("update")), [7]);
        assert!(numbers(&event("snapshot")).is_empty());
        assert!(is_complete(r#"{"type":"snapshot","complete":true}"#));
        assert!(!is_complete(r#"{"type":"snapshot","items":[]}"#));
        assert!(!is_complete(&event("update").data));
    }
}
