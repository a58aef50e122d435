//! The sinks: how they are, and what they gave up.
//!
//! **Invariant**: `lag` is 0 exactly when the sink has everything that was accepted behind it.

use salvo_core::http::StatusCode;
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::Parts;
use super::super::envelope::{self, ErrorBody, Listing};
use super::{NO_SUCH_SINK, cursor, limit};
use crate::clock;
use crate::delivery::{LaneState, LaneStatus};
use crate::pool::{DeadLetter, Undelivered};

/// What to do about a crashed lane.
pub(super) const CRASHED: &str = "the lane crashed; restart the daemon, its data waits";

/// A sink and how it is.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SinkData {
    /// Its name.
    pub(in crate::http) name: String,
    /// The built-in plugin's name, or the path of the component.
    pub(in crate::http) plugin: String,
    /// The streams that it wants; `*` stands for any text.
    pub(in crate::http) streams: Vec<String>,
    /// `starting`, `running`, `paused` or `crashed`.
    pub(in crate::http) state: &'static str,
    /// Why it is paused.
    pub(in crate::http) reason: Option<String>,
    /// When a paused sink is tried again, RFC 3339.
    pub(in crate::http) paused_until: Option<String>,
    /// Everything up to this sequence number is behind it.
    pub(in crate::http) cursor: u64,
    /// By how many sequence numbers it is behind; an upper bound of the requests that wait.
    pub(in crate::http) lag: u64,
    /// Batches that wait for another attempt.
    pub(in crate::http) retries: u64,
    /// Items given up.
    pub(in crate::http) dead_letters: u64,
    /// The last failure.
    pub(in crate::http) last_error: Option<SinkError>,
    /// Why newer settings, or a newer file of its plugin, are not in use.
    pub(in crate::http) refused: Option<String>,
}

/// A failure of a sink.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SinkError {
    /// When, RFC 3339.
    pub(in crate::http) at: String,
    /// In the plugin's words.
    pub(in crate::http) reason: String,
}

impl SinkData {
    fn new(lane: &LaneStatus, lag: u64, cursor: u64, undelivered: Undelivered) -> Self {
        let sink = lane.sink();
        let (state, reason, paused_until) = match lane.state() {
            LaneState::Starting => ("starting", None, None),
            LaneState::Running => ("running", None, None),
            LaneState::Crashed => ("crashed", Some(CRASHED.to_owned()), None),
            LaneState::Paused { reason, until_ms } => {
                ("paused", Some(reason), Some(clock::rfc3339(until_ms)))
            }
        };
        Self {
            name: sink.name.clone(),
            plugin: sink.plugin.clone(),
            streams: sink.streams.clone(),
            state,
            reason,
            paused_until,
            cursor,
            lag,
            retries: undelivered.retries,
            dead_letters: undelivered.dead_letters,
            last_error: lane.last_error().map(|(at_ms, reason)| SinkError {
                at: clock::rfc3339(at_ms),
                reason,
            }),
            refused: lane.refused(),
        }
    }
}

/// `GET /api/admin/sinks`
pub(in crate::http) struct ListSinks(pub(in crate::http) Parts);

/// The sinks.
#[endpoint(
    operation_id = "list_sinks",
    tags("sinks"),
    responses(
        (status_code = 200, body = Listing<SinkData>, description = "All of them."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
    ),
    security(("admin_token" = [])),
)]
impl ListSinks {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        match sinks(&self.0).await {
            Ok(sinks) => envelope::list(res, sinks, None),
            Err(error) => envelope::internal(req, res, &error),
        }
    }
}

/// All sinks.
pub(in crate::http) async fn sinks(parts: &Parts) -> Result<Vec<SinkData>, crate::pool::PoolError> {
    let mut sinks = Vec::new();
    for lane in parts.delivery.lanes() {
        // In this order: what the cursor has passed is then seen among retries and dead letters.
        let cursor = lane.cursor();
        let lag = parts.journal.lag(cursor);
        let undelivered = parts.pool.undelivered(lane.name()).await?;
        sinks.push(SinkData::new(&lane, lag, cursor, undelivered));
    }
    Ok(sinks)
}

/// An item that a sink gave up.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeadLetterData {
    /// Its id; newer ones are higher.
    id: String,
    /// The request that it came with.
    request_id: String,
    /// Its stream.
    stream: String,
    /// Its position in the request, from 0.
    position: u32,
    /// Its key.
    key: String,
    /// Its fields; null if the payload could not be read.
    #[salvo(schema(value_type = serde_json::Value))]
    fields: Option<Box<RawValue>>,
    /// Why it was given up.
    reason: String,
    /// How often it was tried.
    attempts: u32,
    /// When it was given up, RFC 3339.
    at: String,
}

impl From<DeadLetter> for DeadLetterData {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: letter.id.to_string(),
            request_id: letter.request_id,
            stream: letter.stream.to_string(),
            position: letter.position,
            key: letter.key,
            fields: RawValue::from_string(letter.fields).ok(),
            reason: letter.reason,
            attempts: letter.attempts,
            at: clock::rfc3339(letter.at_ms),
        }
    }
}

/// `GET /api/admin/sinks/{name}/dead-letters`
pub(in crate::http) struct ListDeadLetters(pub(in crate::http) Parts);

/// What a sink gave up, newest first.
#[endpoint(
    operation_id = "list_dead_letters",
    tags("sinks"),
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
    responses(
        (status_code = 200, body = Listing<DeadLetterData>, description = "A page."),
        (status_code = 400, body = ErrorBody, description = "A parameter cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink."),
    ),
    security(("admin_token" = [])),
)]
impl ListDeadLetters {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let name = req.param::<String>("name").unwrap_or_default();
        if self.0.delivery.lane(&name).is_none() {
            return envelope::fail(
                req,
                res,
                StatusCode::NOT_FOUND,
                "SINK_NOT_FOUND",
                NO_SUCH_SINK,
            );
        }
        let (limit, before) = match limit(req).and_then(|limit| Ok((limit, cursor(req)?))) {
            Ok(query) => query,
            Err(message) => return envelope::invalid(req, res, message),
        };
        match self.0.pool.dead_letters(&name, before, limit).await {
            Ok(letters) => {
                let full = letters.len() >= limit as usize;
                let next = letters
                    .last()
                    .filter(|_| full)
                    .map(|last| last.id.to_string());
                let letters = letters.into_iter().map(DeadLetterData::from).collect();
                envelope::list(res, letters, next);
            }
            Err(error) => envelope::internal(req, res, &error),
        }
    }
}
