//! What operators do about a sink: try again now, send dead letters again, discard them.
//!
//! **Invariant**: an answer comes after the change is in the pool and in the audit trail, and tells how much was
//! changed. What fails while a call works is not touched by it.

use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::Parts;
use super::super::body;
use super::super::envelope::{self, ErrorBody, Success};
use super::change::{actor, note};
use super::in_background;
use super::sinks::CRASHED;
use crate::catalog::{Actor, AuditChange, Kind};
use crate::delivery::{Delivery, LaneState, LaneStatus, ReadError};
use crate::pool::{Found, PoolError, Selection};

/// By what callers of these are admitted.
pub(super) const TOKEN: &str = "admin token";
/// Ids in one call, at most.
const IDS_MAX: usize = 1_000;

/// What became of the retries of a sink.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RetriedData {
    /// Batches that are tried again now.
    retries: u64,
}

/// What became of a selection of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SentAgainData {
    /// Items that wait for the sink again.
    sent_again: u64,
    /// Items that are still dead letters: their payloads could not be read, so there is nothing to send.
    skipped: u64,
}

/// What became of a selection of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DiscardedData {
    /// Items that are gone.
    discarded: u64,
}

/// Which dead letters; neither: all of them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::http) struct LetterSelection {
    /// Those with these ids, at most 1,000.
    #[salvo(schema(value_type = Option<Vec<u64>>))]
    ids: Option<Vec<Value>>,
    /// Those of this request.
    request_id: Option<String>,
}

/// Why a call did nothing.
#[derive(Debug)]
pub(in crate::http) enum Refused {
    Invalid(String),
    NoSink,
    NoLetter(&'static str),
    NoRetry,
    Configured,
    Crashed,
    Storage(ReadError),
}

impl<E: Into<ReadError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Storage(error.into())
    }
}

impl Refused {
    pub(super) fn answer(self, req: &Request, res: &mut Response) {
        match self.told() {
            Ok((status, code, message)) => envelope::fail(req, res, status, code, message),
            Err(error) => envelope::internal(req, res, error),
        }
    }

    /// Status, code and sentence; the error where the caller is told none.
    pub(in crate::http) fn told(self) -> Result<(StatusCode, &'static str, String), ReadError> {
        let (status, code, message) = match self {
            Self::Invalid(message) => {
                return Ok((StatusCode::BAD_REQUEST, "INVALID_REQUEST", message));
            }
            Self::Storage(error) => return Err(error),
            Self::NoSink => (StatusCode::NOT_FOUND, "SINK_NOT_FOUND", super::NO_SUCH_SINK),
            Self::NoLetter(message) => (StatusCode::NOT_FOUND, "DEAD_LETTER_NOT_FOUND", message),
            Self::NoRetry => (
                StatusCode::NOT_FOUND,
                "RETRY_NOT_FOUND",
                "no batch with this id waits for the sink; it may have been delivered or given up; GET …/retries lists those that wait",
            ),
            Self::Configured => (
                StatusCode::CONFLICT,
                "SINK_CONFIGURED",
                "the sink is in the configuration; take it out first, then it can be forgotten",
            ),
            Self::Crashed => (StatusCode::CONFLICT, "SINK_CRASHED", CRASHED),
        };
        Ok((status, code, message.to_owned()))
    }
}

pub(super) fn answer<T: Serialize + ToSchema + 'static>(
    result: Result<T, Refused>,
    req: &Request,
    res: &mut Response,
) {
    match result {
        Ok(data) => envelope::ok(res, data),
        Err(refused) => refused.answer(req, res),
    }
}

/// `POST /api/admin/sinks/{name}/retry`
pub(in crate::http) struct RetrySink(pub(in crate::http) Parts);

/// Try again now.
///
/// All waiting retries of the sink are due now, and a pause ends. A sink that still does not work is paused
/// again; that costs no attempt of what waits, in strict order one of the first batch.
#[endpoint(
    operation_id = "retry_sink",
    tags("sinks"),
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<RetriedData>, description = "It tries."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink."),
        (status_code = 409, body = ErrorBody, description = "The lane crashed; the daemon must be restarted."),
    ),
    security(("admin_token" = [])),
)]
impl RetrySink {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let retried = retry(&self.0, &name(req), &actor(TOKEN, req)).await;
        answer(retried.map(|retries| RetriedData { retries }), req, res);
    }
}

/// Makes the waiting retries of a sink due; how many.
pub(in crate::http) async fn retry(
    parts: &Parts,
    sink: &str,
    actor: &Actor,
) -> Result<u64, Refused> {
    let lane = lane(parts, sink)?;
    if lane.state() == LaneState::Crashed {
        return Err(Refused::Crashed);
    }
    let delivery = Arc::clone(&parts.delivery);
    let retries = in_background(move || delivery.retry_now(&lane)).await?;
    let change = AuditChange::done("retry", Kind::Sink, sink, json!({ "retries": retries }));
    note(parts, actor, change).await;
    Ok(retries)
}

/// `POST /api/admin/sinks/{name}/dead-letters/retry`
pub(in crate::http) struct SendAgain(pub(in crate::http) Parts);

/// Send dead letters again.
///
/// The items go to the sink as they were accepted, with new attempts; what fails again is a dead letter again.
/// An item that was accepted later still wins in the data pool.
#[endpoint(
    operation_id = "retry_dead_letters",
    tags("sinks"),
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<LetterSelection>, description = "May be absent: all of them.", example = json!({"request_id": "01920000-0000-7000-8000-000000000000"})),
    responses(
        (status_code = 200, body = Success<SentAgainData>, description = "They wait for the sink."),
        (status_code = 400, body = ErrorBody, description = "The body cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink, or no such dead letter; nothing was done."),
    ),
    security(("admin_token" = [])),
)]
impl SendAgain {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let sent = self.send(req).await;
        answer(sent, req, res);
    }
}

impl SendAgain {
    async fn send(&self, req: &mut Request) -> Result<SentAgainData, Refused> {
        // Before the body: what is wrong with it does not matter if there is no such sink.
        lane(&self.0, &name(req))?;
        // First as an object: an empty array would do for a structure, and mean all.
        let body = body::small_json::<Map<String, Value>>(req).await;
        let body = body.map_err(Refused::Invalid)?.unwrap_or_default();
        let body = LetterSelection::deserialize(Value::Object(body)).map_err(|error| {
            Refused::Invalid(format!("the body is not the JSON that is wanted: {error}"))
        })?;
        let selection = match (body.ids, body.request_id) {
            (None, None) => Selection::All,
            (Some(ids), None) => Selection::Ids(ids_of(ids.iter().map(id_of))?),
            (None, Some(id)) => request(&id)?,
            (Some(_), Some(_)) => return Err(one_of("ids and request_id")),
        };
        let by = actor(TOKEN, req);
        let (sent_again, skipped) = send_again(&self.0, &name(req), selection, &by).await?;
        Ok(SentAgainData {
            sent_again,
            skipped,
        })
    }
}

/// Sends dead letters of a sink again; how many, and how many have nothing to send.
pub(in crate::http) async fn send_again(
    parts: &Parts,
    sink: &str,
    selection: Selection,
    actor: &Actor,
) -> Result<(u64, u64), Refused> {
    let lane = lane(parts, sink)?;
    let found = found(parts, &lane, &selection).await?;
    let send = ("send_again", Delivery::send_again as Change);
    let sent = in_chunks(parts, lane, selection, found.newest, send, actor).await?;
    Ok((sent, found.unreadable))
}

/// `DELETE /api/admin/sinks/{name}/dead-letters`
pub(in crate::http) struct DiscardLetters(pub(in crate::http) Parts);

/// Discard dead letters.
///
/// They are gone for good.
#[endpoint(
    operation_id = "discard_dead_letters",
    tags("sinks"),
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = Option<Vec<u64>>, Query, description = "Those with these ids, at most 1,000; repeat the parameter."),
        ("request_id" = Option<String>, Query, description = "Those of this request."),
        ("all" = Option<bool>, Query, description = "`true`: all of them."),
    ),
    responses(
        (status_code = 200, body = Success<DiscardedData>, description = "They are gone."),
        (status_code = 400, body = ErrorBody, description = "Not exactly one of the parameters, or one that cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink, or no such dead letter; nothing was done."),
    ),
    security(("admin_token" = [])),
)]
impl DiscardLetters {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let sink = name(req);
        let discarded = match lane(&self.0, &sink).and_then(|_| query(req)) {
            Ok(selection) => discard(&self.0, &sink, selection, &actor(TOKEN, req)).await,
            Err(refused) => Err(refused),
        };
        let discarded = discarded.map(|discarded| DiscardedData { discarded });
        answer(discarded, req, res);
    }
}

/// `DELETE /api/admin/sinks/{name}/dead-letters/{id}`
pub(in crate::http) struct DiscardLetter(pub(in crate::http) Parts);

/// Discard one dead letter.
///
/// It is gone for good.
#[endpoint(
    operation_id = "discard_dead_letter",
    tags("sinks"),
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = u64, Path, description = "Its id."),
    ),
    responses(
        (status_code = 200, body = Success<DiscardedData>, description = "It is gone."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink, or no such dead letter."),
    ),
    security(("admin_token" = [])),
)]
impl DiscardLetter {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let id = req.param::<String>("id").and_then(|id| id.parse().ok());
        let selection = Selection::Ids(id.into_iter().collect());
        let discarded = discard(&self.0, &name(req), selection, &actor(TOKEN, req)).await;
        let discarded = discarded.map(|discarded| DiscardedData { discarded });
        answer(discarded, req, res);
    }
}

/// Discards dead letters of a sink; how many.
pub(in crate::http) async fn discard(
    parts: &Parts,
    sink: &str,
    selection: Selection,
    actor: &Actor,
) -> Result<u64, Refused> {
    let lane = lane(parts, sink)?;
    let found = found(parts, &lane, &selection).await?;
    let discard = ("discard", Delivery::discard as Change);
    Ok(in_chunks(parts, lane, selection, found.newest, discard, actor).await?)
}

pub(super) fn name(req: &Request) -> String {
    req.param::<String>("name").unwrap_or_default()
}

fn lane(parts: &Parts, sink: &str) -> Result<Arc<LaneStatus>, Refused> {
    parts.delivery.lane(sink).ok_or(Refused::NoSink)
}

fn query(req: &Request) -> Result<Selection, Refused> {
    let queries = req.queries();
    let ids = queries.get_vec("id");
    let request_id = queries.get("request_id");
    let all = match queries.get("all").map(String::as_str) {
        None => false,
        Some("true") => true,
        Some(_) => return Err(Refused::Invalid("all must be true".to_owned())),
    };
    match (ids, request_id, all) {
        (Some(ids), None, false) => {
            let ids = ids.iter().map(|id| id.parse().ok());
            Ok(Selection::Ids(ids_of(ids)?))
        }
        (None, Some(id), false) => request(id),
        (None, None, true) => Ok(Selection::All),
        _ => Err(one_of("id (may be repeated), request_id and all=true")),
    }
}

fn one_of(names: &str) -> Refused {
    Refused::Invalid(format!("give one of {names}"))
}

/// Ids are texts in answers, so both are taken.
fn id_of(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    }
}

fn ids_of(ids: impl Iterator<Item = Option<i64>>) -> Result<Vec<i64>, Refused> {
    let ids: Option<Vec<i64>> = ids.collect();
    let mut ids = ids.unwrap_or_default();
    ids.sort_unstable();
    ids.dedup();
    match ids.len() {
        1..=IDS_MAX => Ok(ids),
        _ => Err(Refused::Invalid(format!(
            "give 1 to {IDS_MAX} ids, whole numbers"
        ))),
    }
}

fn request(id: &str) -> Result<Selection, Refused> {
    match Uuid::try_parse(id) {
        Ok(id) => Ok(Selection::Request(id.to_string())),
        Err(_) => Err(Refused::Invalid("request_id must be a UUID".to_owned())),
    }
}

/// What a selection comes to. What is named must be there.
async fn found(parts: &Parts, lane: &LaneStatus, selection: &Selection) -> Result<Found, Refused> {
    let found = parts.pool.find_letters(lane.name(), selection).await?;
    match selection {
        Selection::Ids(ids) if found.letters < ids.len().max(1) as u64 => Err(Refused::NoLetter(
            "the sink has no dead letter with this id, or not with each of these ids; GET …/dead-letters lists them",
        )),
        Selection::Request(_) if found.letters == 0 => Err(Refused::NoLetter(
            "the sink has no dead letters of this request; GET …/dead-letters lists them",
        )),
        _ => Ok(found),
    }
}

type Change = fn(&Delivery, &LaneStatus, &Selection, i64) -> Result<u64, PoolError>;

/// Changes chunk after chunk until there is no more; lanes and other calls come in between. What was done stands in the
/// audit trail under the change's name, also if it did not come to its end.
async fn in_chunks(
    parts: &Parts,
    lane: Arc<LaneStatus>,
    selection: Selection,
    newest: i64,
    (action, change): (&'static str, Change),
    actor: &Actor,
) -> Result<u64, PoolError> {
    let selection = Arc::new(selection);
    let mut changed = 0;
    let ended = loop {
        let delivery = Arc::clone(&parts.delivery);
        let (lane, selection) = (Arc::clone(&lane), Arc::clone(&selection));
        match in_background(move || change(&delivery, &lane, &selection, newest)).await {
            Ok(0) => break Ok(()),
            Ok(chunk) => changed += chunk,
            Err(error) => break Err(error),
        }
    };
    let which = match &*selection {
        Selection::All => json!("all"),
        Selection::Ids(ids) => json!({ "ids": ids }),
        Selection::Request(id) => json!({ "request_id": id }),
    };
    let done = json!({ "dead_letters": changed, "which": which });
    let change = AuditChange::done(action, Kind::Sink, &**lane.name(), done);
    note(parts, actor, change).await;
    ended.map(|()| changed)
}
