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

/// Batches that wait for a retry, longest wait first.
#[endpoint(
    operation_id = "list_retries",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
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

/// End the retries of a batch.
///
/// Its items become dead letters, and the sink continues with the next batch immediately; with strict ordering, with
/// the batch that waited behind it. If an attempt is in progress, its changes to the data pool are discarded, but the
/// receiver may already have the items.
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

/// End the retries of all batches.
///
/// Their items become dead letters, and the sink continues with the batches behind them.
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

/// Retry now.
///
/// Runs all waiting retries of the sink now, and ends a pause. If the sink still fails, it is paused again. This counts
/// as an attempt only for the first batch of a sink with strict ordering.
#[endpoint(
    operation_id = "retry_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<RetriedData>, description = "The waiting batches are being retried."),
        (status_code = 409, description = "The sink crashed; restart the daemon."),
    ),
)]
impl RetrySink {
    async fn handle(&self, req: &mut Request) -> Result<Success<RetriedData>, ApiError> {
        let retries = self.0.retry(&param(req, "name"), by(req)).await?;
        Ok(envelope::ok(RetriedData { retries }))
    }
}
