//! The sinks: how they are, and what they gave up.
//!
//! **Invariant**: `lag` is 0 exactly when the sink has everything that was accepted behind it.

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::Parts;
use super::super::condition::{Amounts, Condition, SinkCondition};
use super::super::envelope::{self, ErrorBody, Listing};
use super::retries::known;
use super::{cursor, limit};
use crate::clock;
use crate::delivery::LaneState;
use crate::pool::DeadLetter;

/// What to do about a crashed lane.
pub(super) const CRASHED: &str = "the lane crashed; restart the daemon, its data waits";

/// The state of a sink that is not configured.
pub(in crate::http) const UNCONFIGURED: &str = "unconfigured";

/// A sink and how it is.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SinkData {
    /// Its name.
    pub(in crate::http) name: String,
    /// The built-in plugin's name, or the path of the component; empty if the sink is not configured.
    pub(in crate::http) plugin: String,
    /// The streams that it wants; `*` stands for any text.
    pub(in crate::http) streams: Vec<String>,
    /// Those of them that it leaves to others.
    pub(in crate::http) except: Vec<String>,
    /// `starting`, `running`, `paused`, `crashed`; or `unconfigured`: what it has not taken is kept until it is back in the
    /// configuration, or forgotten.
    pub(in crate::http) state: &'static str,
    /// Why it does not run.
    pub(in crate::http) reason: Option<String>,
    /// When a paused sink is tried again, RFC 3339.
    pub(in crate::http) paused_until: Option<String>,
    /// Everything up to this sequence number is behind it.
    pub(in crate::http) cursor: u64,
    /// By how many sequence numbers it is behind; an upper bound of the requests that wait.
    pub(in crate::http) lag: u64,
    /// When the oldest request arrived that waits for it, RFC 3339.
    pub(in crate::http) waiting_since: Option<String>,
    /// About how many bytes of payloads wait for it; null where that is not looked at.
    pub(in crate::http) backlog_bytes: Option<u64>,
    /// Batches that wait for another attempt; null: the data pool cannot be read.
    pub(in crate::http) retries: Option<u64>,
    /// Items given up; null: the data pool cannot be read.
    pub(in crate::http) dead_letters: Option<u64>,
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
    /// The streams as people read them.
    pub(in crate::http) fn streams_in_words(&self) -> String {
        let streams = self.streams.join(", ");
        match self.except.as_slice() {
            [] => streams,
            except => format!("{streams} except {}", except.join(", ")),
        }
    }

    pub(super) fn new(of: &SinkCondition, backlog_bytes: Option<u64>) -> Self {
        let Some(lane) = &of.lane else {
            return Self::unconfigured(of, backlog_bytes);
        };
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
            except: sink.except.clone(),
            state,
            reason,
            paused_until,
            cursor: of.cursor,
            lag: of.lag,
            waiting_since: of.oldest_ms.map(clock::rfc3339),
            backlog_bytes,
            retries: of.undelivered.map(|undelivered| undelivered.retries),
            dead_letters: of.undelivered.map(|undelivered| undelivered.dead_letters),
            last_error: lane.last_error().map(|(at_ms, reason)| SinkError {
                at: clock::rfc3339(at_ms),
                reason,
            }),
            refused: lane.refused(),
        }
    }

    /// What a sink that is not configured says of itself.
    fn unconfigured(of: &SinkCondition, backlog_bytes: Option<u64>) -> Self {
        let known = |number: Option<u64>| number.map_or("?".to_owned(), |one| one.to_string());
        let retries = of.undelivered.map(|undelivered| undelivered.retries);
        let dead_letters = of.undelivered.map(|undelivered| undelivered.dead_letters);
        Self {
            reason: Some(format!(
                "it is not in the configuration; what was accepted since is kept for it ({} entries at most), with {} retries and {} dead letters: add it back, or `headgate sink forget {}`",
                of.lag,
                known(retries),
                known(dead_letters),
                of.name
            )),
            name: of.name.to_string(),
            plugin: String::new(),
            streams: Vec::new(),
            except: Vec::new(),
            state: UNCONFIGURED,
            paused_until: None,
            cursor: of.cursor,
            lag: of.lag,
            waiting_since: of.oldest_ms.map(clock::rfc3339),
            backlog_bytes,
            retries,
            dead_letters,
            last_error: None,
            refused: None,
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
    async fn handle(&self, res: &mut Response) {
        let condition = Condition::of(&self.0).await;
        let amounts = condition.amounts(&self.0).await;
        envelope::list(res, sinks(&condition, Some(&amounts)), None);
    }
}

/// All sinks: those that are configured, then those that were once and are not forgotten.
pub(in crate::http) fn sinks(condition: &Condition, amounts: Option<&Amounts>) -> Vec<SinkData> {
    let sinks = condition.sinks.iter().enumerate();
    let data = |(at, sink)| {
        let bytes = amounts.and_then(|amounts| amounts.backlog_bytes.get(at).copied().flatten());
        SinkData::new(sink, bytes)
    };
    sinks.map(data).collect()
}

/// Whether there is a sink of this name, configured or not.
pub(super) async fn is_known(parts: &Parts, name: &str) -> Result<bool, crate::pool::PoolError> {
    if parts.delivery.lane(name).is_some() {
        return Ok(true);
    }
    let known = parts.pool.known_sinks().await?;
    Ok(known.iter().any(|known| known.name == name))
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
    /// `upsert`, or `remove` of an item that was to be removed.
    action: &'static str,
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
            action: letter.action.as_str(),
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
        if let Err(refused) = known(&self.0, &name).await {
            return refused.answer(req, res);
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
            Err(error) => envelope::internal(req, res, error),
        }
    }
}
