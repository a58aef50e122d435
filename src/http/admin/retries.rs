//! Batches that wait for another attempt: which they are, and giving them up.
//!
//! **Invariant**: an answer comes after the change is in the pool and in the audit trail, and tells how much was changed.

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::json;

use super::super::Parts;
use super::super::envelope::{self, ErrorBody, Listing, Success};
use super::change::{actor, note};
use super::letters::{Refused, TOKEN, answer, name};
use super::{cursor, limit, sinks};
use crate::catalog::{Actor, AuditChange, Kind};
use crate::clock;
use crate::delivery::{GivenUp, Waiting};

/// A batch that waits for another attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RetryData {
    /// Its id. What is left of the batch after another attempt keeps it; no other batch ever has it.
    pub(in crate::http) id: String,
    /// How often it was tried. Halves of a batch have the attempts of the whole one.
    pub(in crate::http) attempts: u32,
    /// When it is tried next, RFC 3339; later if the sink is paused then.
    pub(in crate::http) due_at: String,
    /// Why the last attempt failed.
    pub(in crate::http) reason: String,
    /// The request that its first item came with; null if the log does not know it any more.
    pub(in crate::http) first_request_id: Option<String>,
    /// The stream of its first item, likewise.
    pub(in crate::http) first_stream: Option<String>,
    /// Number of its items; null if the list of them is damaged.
    pub(in crate::http) items: Option<u64>,
    /// Whether its items were dead letters that somebody sent again.
    pub(in crate::http) sent_again: bool,
}

impl From<Waiting> for RetryData {
    fn from(waiting: Waiting) -> Self {
        let Waiting {
            retry,
            due_unix_ms,
            items,
            first,
        } = waiting;
        let (first_request_id, first_stream) = first.unzip();
        Self {
            id: retry.id.to_string(),
            attempts: retry.attempts,
            due_at: clock::rfc3339(due_unix_ms),
            reason: retry.reason,
            first_request_id,
            first_stream: first_stream.map(|stream| stream.to_string()),
            items,
            sent_again: retry.resent,
        }
    }
}

/// What was given up.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct GivenUpData {
    /// Batches that do not wait any more.
    given_up: u64,
    /// Dead letters that they became.
    dead_letters: u64,
}

impl From<GivenUp> for GivenUpData {
    fn from(given_up: GivenUp) -> Self {
        Self {
            given_up: given_up.retries,
            dead_letters: given_up.items,
        }
    }
}

/// `GET /api/admin/sinks/{name}/retries`
pub(in crate::http) struct ListRetries(pub(in crate::http) Parts);

/// Batches that wait for another attempt, those that have waited longest first.
#[endpoint(
    operation_id = "list_retries",
    tags("sinks"),
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
    responses(
        (status_code = 200, body = Listing<RetryData>, description = "A page."),
        (status_code = 400, body = ErrorBody, description = "A parameter cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink."),
    ),
    security(("admin_token" = [])),
)]
impl ListRetries {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let sink = name(req);
        if let Err(refused) = known(&self.0, &sink).await {
            return refused.answer(req, res);
        }
        let (limit, after) = match limit(req).and_then(|limit| Ok((limit, cursor(req)?))) {
            Ok(query) => query,
            Err(message) => return envelope::invalid(req, res, message),
        };
        match retries(&self.0, &sink, after.unwrap_or(0), limit).await {
            Ok(retries) => {
                let full = retries.len() >= limit as usize;
                let next = retries.last().filter(|_| full).map(|last| last.id.clone());
                envelope::list(res, retries, next);
            }
            Err(refused) => refused.answer(req, res),
        }
    }
}

/// Batches of a sink that wait, with ids above `after`.
pub(in crate::http) async fn retries(
    parts: &Parts,
    sink: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<RetryData>, Refused> {
    let waiting = parts.delivery.waiting(sink, after, limit).await?;
    Ok(waiting.into_iter().map(RetryData::from).collect())
}

/// `DELETE /api/admin/sinks/{name}/retries/{id}`
pub(in crate::http) struct GiveUpRetry(pub(in crate::http) Parts);

/// Give up a batch that waits.
///
/// Its items become dead letters, and the sink goes on with the next batch at once; in strict order that is what waited
/// behind it. If the sink is called with the batch at this moment, what it then does to the data pool does not count, but
/// a receiver may have got the items.
#[endpoint(
    operation_id = "give_up_retry",
    tags("sinks"),
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = u64, Path, description = "Its id."),
    ),
    responses(
        (status_code = 200, body = Success<GivenUpData>, description = "Its items are dead letters."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink, or no such batch: it may have been delivered."),
    ),
    security(("admin_token" = [])),
)]
impl GiveUpRetry {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        // What is no number is the id of no batch.
        let id = req.param::<String>("id").and_then(|id| id.parse().ok());
        let by = actor(TOKEN, req);
        let given_up = give_up(&self.0, &name(req), Some(id.unwrap_or(0)), &by).await;
        answer(given_up.map(GivenUpData::from), req, res);
    }
}

/// `POST /api/admin/sinks/{name}/retries/give-up`
pub(in crate::http) struct GiveUpRetries(pub(in crate::http) Parts);

/// Give up all batches that wait.
///
/// Their items become dead letters, and the sink goes on with what waits behind them.
#[endpoint(
    operation_id = "give_up_retries",
    tags("sinks"),
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<GivenUpData>, description = "Their items are dead letters."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink."),
    ),
    security(("admin_token" = [])),
)]
impl GiveUpRetries {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let given_up = give_up(&self.0, &name(req), None, &actor(TOKEN, req)).await;
        answer(given_up.map(GivenUpData::from), req, res);
    }
}

/// Gives up one batch of a sink that waits, or all of them.
pub(in crate::http) async fn give_up(
    parts: &Parts,
    sink: &str,
    id: Option<i64>,
    actor: &Actor,
) -> Result<GivenUp, Refused> {
    known(parts, sink).await?;
    let given_up = parts.delivery.give_up(sink, id).await?;
    if id.is_some() && given_up.retries == 0 {
        return Err(Refused::NoRetry);
    }
    let done = json!({ "id": id, "retries": given_up.retries, "dead_letters": given_up.items });
    let change = AuditChange::done("give_up", Kind::Sink, sink, done);
    note(parts, actor, change).await;
    Ok(given_up)
}

/// Whether anything is known of a sink, configured or not.
pub(super) async fn known(parts: &Parts, sink: &str) -> Result<(), Refused> {
    match sinks::is_known(parts, sink).await? {
        true => Ok(()),
        false => Err(Refused::NoSink),
    }
}
