//! The sinks: how they are, and forgetting one.
//!
//! **Invariant**: `lag` is 0 exactly when the sink has everything that was accepted behind it.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Serialize;

use super::{by, param};
use base::clock;
use base::order::Seq;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use operate::condition::{Amounts, Condition, SinkCondition};

/// Looking at sinks, and forgetting one.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("sinks")
        .oapi_tag("sinks")
        .get(ListSinks(operator.clone()))
        .push(Router::with_path("{name}").delete(ForgetSink(operator.clone())))
}

/// A sink and how it is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SinkData {
    /// Its name.
    name: String,
    /// The built-in plugin's name, or the path of the component; empty if the sink is not configured.
    plugin: String,
    /// The streams that it wants; `*` stands for any text.
    streams: Vec<String>,
    /// Those of them that it leaves to others.
    except: Vec<String>,
    /// The streams that it may write in the data pool, if its plugin does.
    writes: Vec<String>,
    /// `starting`, `running`, `paused`, `crashed`; `failing`: it runs, and does what it should not; or `unconfigured`: what
    /// it has not taken is kept until it is back in the configuration, or forgotten.
    state: &'static str,
    /// Why it does not run, or what it does.
    reason: Option<String>,
    /// When a paused sink is tried again, RFC 3339.
    paused_until: Option<String>,
    /// Everything up to this sequence number is behind it.
    #[salvo(schema(value_type = u64))]
    cursor: Seq,
    /// By how many sequence numbers it is behind; an upper bound of the requests that wait.
    lag: u64,
    /// When the oldest request arrived that waits for it, RFC 3339.
    waiting_since: Option<String>,
    /// About how many bytes of payloads wait for it; null where that is not looked at.
    backlog_bytes: Option<u64>,
    /// Batches that wait for another attempt; null: the data pool cannot be read.
    retries: Option<u64>,
    /// Items given up; null: the data pool cannot be read.
    dead_letters: Option<u64>,
    /// The last failure.
    last_error: Option<SinkError>,
    /// Why newer settings, or a newer file of its plugin, are not in use.
    refused: Option<String>,
}

/// A failure of a sink.
#[derive(Debug, Serialize, ToSchema)]
struct SinkError {
    /// When, RFC 3339.
    at: String,
    /// In the plugin's words.
    reason: String,
}

impl SinkData {
    fn new(of: &SinkCondition, backlog_bytes: Option<u64>) -> Self {
        let lane = of.lane.as_ref();
        let sink = lane.map(|lane| lane.sink());
        let list = |names: Option<&Vec<String>>| names.cloned().unwrap_or_default();
        let (reason, paused_until) = of.reason();
        let last_error = lane.and_then(|lane| lane.last_error());
        Self {
            name: of.name.to_string(),
            plugin: of.plugin(),
            streams: list(sink.as_ref().map(|sink| &sink.streams)),
            except: list(sink.as_ref().map(|sink| &sink.except)),
            writes: sink.map_or_else(Vec::new, |sink| sink.writes().patterns(&sink.streams)),
            state: of.state(),
            reason,
            paused_until: paused_until.map(clock::rfc3339),
            cursor: of.cursor,
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
    sinks
        .map(|(sink, bytes)| SinkData::new(sink, *bytes))
        .collect()
}

/// What was forgotten of a sink.
#[derive(Debug, Serialize, ToSchema)]
struct ForgottenData {
    /// Batches that waited for another attempt.
    retries: u64,
    /// Dead letters.
    dead_letters: u64,
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
