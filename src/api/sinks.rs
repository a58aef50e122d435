//! The sinks: how they are, and forgetting one.
//!
//! **Invariant**: `lag` is 0 exactly when the sink has everything that was accepted behind it.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use base::clock;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use operate::condition::{Amounts, Condition, SinkCondition};
use wire::{ForgottenData, SinkData, SinkError};

/// Looking at sinks, and forgetting one.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("sinks")
        .oapi_tag("sinks")
        .get(ListSinks(operator.clone()))
        .push(Router::with_path("{name}").delete(ForgetSink(operator.clone())))
}

fn sink_data(of: &SinkCondition, backlog_bytes: Option<u64>) -> SinkData {
    let lane = of.lane.as_ref();
    let sink = lane.map(|lane| lane.sink());
    let list = |names: Option<&Vec<String>>| names.cloned().unwrap_or_default();
    let (reason, paused_until) = of.reason();
    let last_error = lane.and_then(|lane| lane.last_error());
    SinkData {
        name: of.name.to_string(),
        plugin: of.plugin(),
        streams: list(sink.as_ref().map(|sink| &sink.streams)),
        except: list(sink.as_ref().map(|sink| &sink.except)),
        conditions: of.conditions(),
        fields: of.fields(),
        writes: sink.map_or_else(Vec::new, |sink| sink.writes().patterns(&sink.streams)),
        state: of.state().to_owned(),
        reason,
        paused_until: paused_until.map(clock::rfc3339),
        cursor: of.cursor.get(),
        lag: of.lag,
        waiting_since: of.oldest_at.map(clock::rfc3339),
        backlog_bytes,
        retries: of.retries(),
        dead_letters: of.dead_letters(),
        last_error: last_error.map(|(at, reason)| SinkError {
            at: clock::rfc3339(at),
            reason,
        }),
        refused: of.refused(),
    }
}

struct ListSinks(Operator);

/// The sinks.
#[endpoint(operation_id = "list_sinks")]
impl ListSinks {
    async fn handle(&self) -> Listing<SinkData> {
        let condition = self.0.condition().await;
        let amounts = self.0.amounts(&condition).await;
        envelope::list(sinks(&condition, &amounts), None)
    }
}

/// All sinks: those that are configured, then those that were once and are not forgotten.
pub(super) fn sinks(condition: &Condition, amounts: &Amounts) -> Vec<SinkData> {
    let sinks = condition.sinks.iter().zip(&amounts.backlog_bytes);
    sinks.map(|(sink, bytes)| sink_data(sink, *bytes)).collect()
}

struct ForgetSink(Operator);

/// Forget a sink.
///
/// Of a sink that is not in the configuration any more everything is kept: what was accepted since, its retries, dead
/// letters and state. All of that is gone for good then. A sink of this name that is configured later is a new one.
#[endpoint(
    operation_id = "forget_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<ForgottenData>, description = "Nothing is kept for it any more."),
        (status_code = 409, description = "It is in the configuration."),
    ),
)]
impl ForgetSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<ForgottenData>, ApiError> {
        let forgotten = self.0.forget_sink(&param(req, "name"), by(req)).await?;
        Ok(envelope::ok(ForgottenData {
            retries: forgotten.retries,
            dead_letters: forgotten.dead_letters,
        }))
    }
}
