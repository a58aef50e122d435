//! What a sink gave up: which items, sending them again, discarding them.
//!
//! **Invariant**: an answer comes after the change is in the pool and in the audit log, and says how much was
//! changed.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::body::whole;
use super::paging::{cursor, limit, next_after};
use super::{by, param};
use base::clock;
use http::body;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::{LettersSent, Operator};
use pool::{DeadLetter, Selection};
use wire::{DeadLetterData, DiscardedData, SentAgainData};

/// Ids in one call, at most.
const IDS_MAX: usize = 1_000;

/// What can be done with the dead letters of a sink.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks/{name}/dead-letters")
        .oapi_tag("sinks")
        .get(ListDeadLetters(p()))
        .delete(DiscardLetters(p()))
        .push(Router::with_path("retry").post(SendAgain(p())))
        .push(Router::with_path("{id}").delete(DiscardLetter(p())))
}

fn letter_data(letter: DeadLetter) -> DeadLetterData {
    DeadLetterData {
        id: letter.id.to_string(),
        request_id: letter.request_id,
        stream: letter.stream.to_string(),
        position: letter.position.get(),
        key: letter.key,
        action: letter.action.as_str().to_owned(),
        fields: RawValue::from_string(letter.fields).ok(),
        reason: letter.reason,
        attempts: letter.attempts,
        at: clock::rfc3339(letter.at),
    }
}

struct ListDeadLetters(Operator);

/// The dead letters of a sink, newest first.
#[endpoint(
    operation_id = "list_dead_letters",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListDeadLetters {
    async fn handle(&self, req: &mut Request) -> Result<Listing<DeadLetterData>, ApiError> {
        let sink = param(req, "name");
        self.0.require_sink(&sink).await?;
        let (limit, before) = (limit(req)?, cursor(req)?);
        let letters = self.0.pool.dead_letters(&sink, before, limit).await?;
        let next = next_after(&letters, limit, |last| last.id.to_string());
        let letters = letters.into_iter().map(letter_data).collect();
        Ok(envelope::list(letters, next))
    }
}

/// The dead letters, by id or by request; default: all. And whether to overwrite newer items.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct AgainSelection {
    /// Dead letters with these ids, at most 1,000.
    #[salvo(schema(value_type = Option<Vec<u64>>))]
    ids: Option<Vec<Value>>,
    /// Dead letters of this request.
    request_id: Option<String>,
    /// Also send items that a later request changed or removed. For a sink that writes to the data pool, they become
    /// new requests without versions, which every sink receives.
    overwrite: bool,
}

struct SendAgain(Operator);

/// Send dead letters again.
///
/// The items go to the sink as they were accepted, with new attempts; items that fail again become dead letters again.
/// If a later request changed or removed an item in the data pool, it stays a dead letter, unless `overwrite` is true.
#[endpoint(
    operation_id = "retry_dead_letters",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<AgainSelection>, description = "Optional. Default: all dead letters.", example = json!({"request_id": "01920000-0000-7000-8000-000000000000"})),
    responses(
        (status_code = 200, body = Success<SentAgainData>, description = "The items are waiting for the sink."),
        (status_code = 404, description = "The sink or a dead letter does not exist; nothing was changed."),
        (status_code = 409, description = "The data pool is behind, so newer values cannot be detected."),
    ),
)]
impl SendAgain {
    async fn handle(&self, req: &mut Request) -> Result<Success<SentAgainData>, ApiError> {
        let sink = param(req, "name");
        // Before the body: what is wrong with it does not matter if there is no such sink.
        self.0.require_sink(&sink).await?;
        let body: Option<AgainSelection> = body::small_json(req).await?;
        let body = body.unwrap_or_default();
        let selection = match (body.ids, body.request_id) {
            (None, None) => Selection::All,
            (Some(ids), None) => Selection::Ids(ids_of(ids.iter().map(id_of))?),
            (None, Some(id)) => request(&id)?,
            (Some(_), Some(_)) => return Err(one_of("ids and request_id")),
        };
        let overwrite = body.overwrite;
        let sent = (self.0).send_letters_again(&sink, selection, overwrite, by(req));
        let LettersSent {
            sent,
            skipped,
            left,
        } = sent.await?;
        Ok(envelope::ok(SentAgainData {
            sent_again: sent,
            skipped,
            items_left: left,
        }))
    }
}

struct DiscardLetters(Operator);

/// Discard dead letters.
///
/// This cannot be undone.
#[endpoint(
    operation_id = "discard_dead_letters",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = Option<Vec<u64>>, Query, description = "Dead letters with these ids, at most 1,000; repeat the parameter."),
        ("request_id" = Option<String>, Query, description = "Dead letters of this request."),
        ("all" = Option<bool>, Query, description = "`true`: all dead letters."),
    ),
    responses(
        (status_code = 200, body = Success<DiscardedData>, description = "The dead letters were deleted."),
        (status_code = 400, description = "Not exactly one parameter, or an invalid one."),
        (status_code = 404, description = "The sink or a dead letter does not exist; nothing was changed."),
    ),
)]
impl DiscardLetters {
    async fn handle(&self, req: &mut Request) -> Result<Success<DiscardedData>, ApiError> {
        let sink = param(req, "name");
        self.0.require_sink(&sink).await?;
        let discarded = self.0.discard_letters(&sink, query(req)?, by(req)).await?;
        Ok(envelope::ok(DiscardedData { discarded }))
    }
}

struct DiscardLetter(Operator);

/// Discard one dead letter.
///
/// This cannot be undone.
#[endpoint(
    operation_id = "discard_dead_letter",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = u64, Path, description = "Its id."),
    ),
    responses(
        (status_code = 200, body = Success<DiscardedData>, description = "Deleted."),
        (status_code = 404, description = "No such sink, or no such dead letter."),
    ),
)]
impl DiscardLetter {
    async fn handle(&self, req: &mut Request) -> Result<Success<DiscardedData>, ApiError> {
        let sink = param(req, "name");
        let id = param(req, "id").parse().ok();
        let selection = Selection::Ids(id.into_iter().collect());
        let discarded = self.0.discard_letters(&sink, selection, by(req));
        let discarded = discarded.await?;
        Ok(envelope::ok(DiscardedData { discarded }))
    }
}

fn query(req: &Request) -> Result<Selection, ApiError> {
    let queries = req.queries();
    let ids = queries.get_vec("id");
    let request_id = queries.get("request_id");
    let all = match queries.get("all").map(String::as_str) {
        None => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::invalid("all must be true")),
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

fn one_of(names: &str) -> ApiError {
    ApiError::invalid(format!("give one of {names}"))
}

/// Ids are texts in answers, so both are taken.
fn id_of(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => whole(value)?.try_into().ok(),
    }
}

fn ids_of(ids: impl Iterator<Item = Option<i64>>) -> Result<Vec<i64>, ApiError> {
    let ids: Option<Vec<i64>> = ids.collect();
    let mut ids = ids.unwrap_or_default();
    ids.sort_unstable();
    ids.dedup();
    match ids.len() {
        1..=IDS_MAX => Ok(ids),
        _ => Err(ApiError::invalid(format!(
            "expected 1 to {IDS_MAX} ids, whole numbers"
        ))),
    }
}

fn request(id: &str) -> Result<Selection, ApiError> {
    match Uuid::try_parse(id) {
        Ok(id) => Ok(Selection::Request(id.to_string())),
        Err(_) => Err(ApiError::invalid("request_id must be a UUID")),
    }
}
