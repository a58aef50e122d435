//! Batches that wait for another attempt: which they are, trying them now, and giving them up.
//!
//! **Invariant**: an answer comes after the change is in the pool and in the audit log, and says how much was changed.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::paging::{cursor, limit, next_after};
use super::{by, param};
use base::clock;
use delivery::{GivenUp, Waiting};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use wire::{GivenUpData, RetriedData, RetryData};

/// What can be done with the batches of a sink that wait.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks/{name}")
        .oapi_tag("sinks")
        .push(Router::with_path("retry").post(RetrySink(p())))
        .push(
            Router::with_path("retries")
                .get(ListRetries(p()))
                .push(Router::with_path("give-up").post(GiveUpRetries(p())))
                .push(Router::with_path("{id}").delete(GiveUpRetry(p()))),
        )
}

fn retry_data(waiting: Waiting) -> RetryData {
    let Waiting {
        retry,
        due_at,
        items,
        first,
    } = waiting;
    let (first_request_id, first_stream) = first.unzip();
    RetryData {
        id: retry.id.to_string(),
        attempts: retry.attempts,
        due_at: clock::rfc3339(due_at),
        sent_again: retry.is_sent_again(),
        reason: retry.reason,
        first_request_id,
        first_stream: first_stream.map(|stream| stream.to_string()),
        items,
    }
}

fn given_up_data(given_up: GivenUp) -> GivenUpData {
    GivenUpData {
        given_up: given_up.retries,
        dead_letters: given_up.items,
    }
}

struct ListRetries(Operator);

/// Batches that wait for another attempt, those that have waited longest first.
#[endpoint(
    operation_id = "list_retries",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
)]
impl ListRetries {
    async fn handle(&self, req: &mut Request) -> Result<Listing<RetryData>, ApiError> {
        let sink = param(req, "name");
        self.0.require_sink(&sink).await?;
        let (limit, after) = (limit(req)?, cursor(req)?);
        let waiting = self.0.delivery.waiting(&sink, after.unwrap_or(0), limit);
        let retries: Vec<RetryData> = waiting.await?.into_iter().map(retry_data).collect();
        let next = next_after(&retries, limit, |last| last.id.clone());
        Ok(envelope::list(retries, next))
    }
}

struct GiveUpRetry(Operator);

/// Give up a batch that waits.
///
/// Its items become dead letters, and the sink goes on with the next batch at once; in strict order that is what waited
/// behind it. If the sink is called with the batch at this moment, what it then does to the data pool does not count, but
/// a receiver may have got the items.
#[endpoint(
    operation_id = "give_up_retry",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = u64, Path, description = "Its id."),
    ),
    responses(
        (status_code = 200, body = Success<GivenUpData>, description = "Its items are dead letters."),
        (status_code = 404, description = "No such sink, or no such batch: it may have been delivered."),
    ),
)]
impl GiveUpRetry {
    async fn handle(&self, req: &mut Request) -> Result<Success<GivenUpData>, ApiError> {
        // What is no number is the id of no batch.
        let id = param(req, "id").parse().unwrap_or(0);
        let given_up = self
            .0
            .give_up(&param(req, "name"), Some(id), by(req))
            .await?;
        Ok(envelope::ok(given_up_data(given_up)))
    }
}

struct GiveUpRetries(Operator);

/// Give up all batches that wait.
///
/// Their items become dead letters, and the sink goes on with what waits behind them.
#[endpoint(
    operation_id = "give_up_retries",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses((status_code = 200, body = Success<GivenUpData>, description = "Their items are dead letters.")),
)]
impl GiveUpRetries {
    async fn handle(&self, req: &mut Request) -> Result<Success<GivenUpData>, ApiError> {
        let given_up = self.0.give_up(&param(req, "name"), None, by(req)).await?;
        Ok(envelope::ok(given_up_data(given_up)))
    }
}

struct RetrySink(Operator);

/// Try again now.
///
/// All waiting retries of the sink are due now, and a pause ends. A sink that still does not work is paused
/// again; that costs no attempt of what waits, in strict order one of the first batch.
#[endpoint(
    operation_id = "retry_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<RetriedData>, description = "It tries."),
        (status_code = 409, description = "The lane crashed; the daemon must be restarted."),
    ),
)]
impl RetrySink {
    async fn handle(&self, req: &mut Request) -> Result<Success<RetriedData>, ApiError> {
        let retries = self.0.retry(&param(req, "name"), by(req)).await?;
        Ok(envelope::ok(RetriedData { retries }))
    }
}
