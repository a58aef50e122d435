//! Batches that wait for another attempt: which they are, retrying them now, and ending their retries.
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
use wire::{EndedRetriesData, RetriedData, RetryData};

/// What can be done with the batches of a sink that wait.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks/{name}")
        .oapi_tag("sinks")
        .push(Router::with_path("retry").post(RetrySink(p())))
        .push(
            Router::with_path("retries")
                .get(ListRetries(p()))
                .push(Router::with_path("end").post(EndRetries(p())))
                // The path of version 0.1, which the OpenAPI document has as deprecated.
                .push(Router::with_path("give-up").post(EndRetries(p())))
                .push(Router::with_path("{id}").delete(EndRetry(p()))),
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

fn ended_data(ended: GivenUp) -> EndedRetriesData {
    EndedRetriesData {
        ended: ended.retries,
        old_ended: ended.retries,
        dead_letters: ended.items,
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

struct EndRetry(Operator);

/// End the retries of a batch.
///
/// Its items become dead letters, and the sink continues with the next batch immediately; with strict ordering, with
/// the batch that waited behind it. If an attempt is in progress, its changes to the data pool are discarded, but the
/// receiver may already have the items.
#[endpoint(
    operation_id = "end_retry",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("id" = u64, Path, description = "Its id."),
    ),
    responses(
        (status_code = 200, body = Success<EndedRetriesData>, description = "Its items are dead letters."),
        (status_code = 404, description = "No such sink, or no such batch: it may have been delivered."),
    ),
)]
impl EndRetry {
    async fn handle(&self, req: &mut Request) -> Result<Success<EndedRetriesData>, ApiError> {
        // What is no number is the id of no batch.
        let id = param(req, "id").parse().unwrap_or(0);
        let ended = self
            .0
            .give_up(&param(req, "name"), Some(id), by(req))
            .await?;
        Ok(envelope::ok(ended_data(ended)))
    }
}

struct EndRetries(Operator);

/// End the retries of all batches.
///
/// Their items become dead letters, and the sink continues with the batches behind them.
#[endpoint(
    operation_id = "end_retries",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses((status_code = 200, body = Success<EndedRetriesData>, description = "Their items are dead letters.")),
)]
impl EndRetries {
    async fn handle(&self, req: &mut Request) -> Result<Success<EndedRetriesData>, ApiError> {
        let ended = self.0.give_up(&param(req, "name"), None, by(req)).await?;
        Ok(envelope::ok(ended_data(ended)))
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
