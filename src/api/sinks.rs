//! The sinks: how they are; making, changing, pausing and deleting one.
//!
//! **Invariant**: `lag` is 0 exactly when the sink has everything that was accepted behind it.

use salvo_core::http::StatusCode;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde_json::Value;

use super::body;
use super::{by, param};
use base::clock;
use delivery::LaneStatus;
use http::access::require_role;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use operate::condition::{Amounts, Condition, SinkCondition};
use settings::Role;
use wire::{
    DeletedSinkData, FillingData, LatestData, MissingData, RefilledData, SinkData, SinkError,
};

/// Looking at sinks, and pausing one.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks")
        .oapi_tag("sinks")
        .get(ListSinks(p()))
        .push(
            Router::with_path("{name}")
                .get(GetSink(p()))
                .delete(DeleteSink(p()))
                .push(Router::with_path("pause").post(PauseSink(p())))
                .push(Router::with_path("resume").post(ResumeSink(p())))
                .push(Router::with_path("refill").post(RefillSink(p()))),
        )
}

/// Making, changing and deleting sinks: these decide what leaves the machine.
pub(super) fn made(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks")
        .oapi_tag("sinks")
        .post(CreateSink(p()))
        .push(Router::with_path("{name}").patch(ChangeSink(p())))
}

/// What answers have of a sink. What is in use counts; `section` is what was said.
fn sink_data(operator: &Operator, of: &SinkCondition, backlog_bytes: Option<u64>) -> SinkData {
    let lane = of.lane.as_ref();
    let sink = lane.map(|lane| lane.reach().0);
    let wanted = operator.catalog.sink(&of.name);
    let pause = wanted.as_ref().and_then(|wanted| wanted.pause.as_ref());
    let mut shown = sink.as_ref().map(|sink| sink.shown()).unwrap_or_default();
    let mut table = |name: &str| shown.shift_remove(name).filter(|value| !value.is_null());
    let list = |names: Option<&Vec<String>>| names.cloned().unwrap_or_default();
    let word = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let (reason, paused_until) = of.reason();
    SinkData {
        name: of.name.to_string(),
        plugin: (sink.as_ref()).map_or_else(String::new, |sink| sink.plugin.clone()),
        streams: list(sink.as_ref().map(|sink| &sink.streams)),
        except: list(sink.as_ref().map(|sink| &sink.except)),
        conditions: word(table("where")),
        fields: word(table("fields")),
        writes: (sink.as_ref()).map_or_else(Vec::new, |sink| sink.writes().patterns(&sink.streams)),
        state: of.state().to_owned(),
        reason,
        paused_until: paused_until.map(clock::rfc3339),
        cursor: of.cursor.get(),
        lag: of.lag,
        waiting_since: of.oldest_at.map(clock::rfc3339),
        behind_since: of.behind_since.map(clock::rfc3339),
        filling: filling_data(of),
        missing: None,
        notes: (sink.as_ref()).map_or_else(Vec::new, |sink| operator.sink_notes(sink)),
        backlog_bytes,
        retries: of.retries(),
        dead_letters: of.dead_letters(),
        last_error: lane.and_then(|lane| last_error(lane)),
        refused: of.refused(),
        declared: wanted.as_ref().is_some_and(|wanted| wanted.is_declared()),
        created_at: (wanted.as_ref())
            .and_then(|wanted| wanted.created_at)
            .map(clock::rfc3339),
        enabled: wanted.is_some() && pause.is_none(),
        paused_by: pause.map(|pause| pause.by.to_string()),
        paused_at: pause.and_then(|pause| pause.at).map(clock::rfc3339),
        mode: word(table("mode")),
        latest: latest_data(of),
        start: word(table("start")),
        leaves: word(table("leaves")),
        ordering: word(table("ordering")),
        in_flight: table("in_flight").and_then(|value| value.as_u64()),
        retry: table("retry"),
        batch: table("batch"),
        limits: table("limits"),
        http: table("http"),
        postgres: table("postgres"),
        folder: table("folder"),
        wire: table("wire"),
        config: table("config"),
        secrets: table("secrets"),
        grants: sink.as_ref().map_or_else(Vec::new, |sink| sink.grants()),
        section: wanted.map(|wanted| Value::Object(wanted.shown_section())),
    }
}

/// How a sink follows the newest state; none: it does not.
fn latest_data(of: &SinkCondition) -> Option<LatestData> {
    let lane = of.lane.as_ref()?;
    let sink = lane.sink();
    let (rejected, last_rejected) = lane.rejected();
    let refilled = lane.refilled();
    sink.is_latest().then(|| LatestData {
        shown: sink.shown,
        max_rate: sink.max_rate,
        rejected,
        last_rejected,
        refilled_at: (refilled.as_ref()).map(|(at, _)| clock::rfc3339(*at)),
        refilled_because: refilled.map(|(_, why)| why),
    })
}

fn last_error(lane: &LaneStatus) -> Option<SinkError> {
    let (at, reason) = lane.last_error()?;
    let at = clock::rfc3339(at);
    Some(SinkError { at, reason })
}

/// How far a sink is filled; none: it is not being filled.
fn filling_data(of: &SinkCondition) -> Option<FillingData> {
    let (filling, left) = of.filling.as_ref()?;
    (!filling.is_over).then(|| FillingData {
        done: filling.read.saturating_sub(left.waiting),
        left: left.rows + left.waiting,
        began_at: clock::rfc3339(filling.began_at),
    })
}

/// One sink as it is now.
async fn one(operator: &Operator, name: &str) -> Result<SinkData, ApiError> {
    let condition = operator.condition_of(name).await?;
    let backlog_bytes = operator.backlog_bytes(&condition).await;
    let missing = operator.missing(&condition).await?;
    Ok(SinkData {
        missing: missing.map(|items| MissingData { items }),
        ..sink_data(operator, &condition, backlog_bytes)
    })
}

/// A sink that is to be made: the keys of a section of the configuration, secrets as texts.
#[derive(ToSchema)]
struct NewSink {}

/// What is to be changed of a sink, a JSON merge patch of its section: null takes away what was said, what is absent stays,
/// and so does a secret that is sent as it was shown, `{"set": true}`.
#[derive(ToSchema)]
struct SinkPatch {}

struct ListSinks(Operator);

/// The sinks.
#[endpoint(operation_id = "list_sinks")]
impl ListSinks {
    async fn handle(&self) -> Listing<SinkData> {
        let condition = self.0.condition().await;
        let amounts = self.0.amounts(&condition).await;
        envelope::list(sinks(&self.0, &condition, &amounts), None)
    }
}

/// All sinks: those that are configured, then those that were once and are not forgotten.
pub(super) fn sinks(
    operator: &Operator,
    condition: &Condition,
    amounts: &Amounts,
) -> Vec<SinkData> {
    let sinks = condition.sinks.iter().zip(&amounts.backlog_bytes);
    let data = |(sink, bytes): (&SinkCondition, &Option<u64>)| sink_data(operator, sink, *bytes);
    sinks.map(data).collect()
}

struct GetSink(Operator);

/// One sink.
#[endpoint(
    operation_id = "get_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses((status_code = 200, body = Success<SinkData>, description = "The sink.")),
)]
impl GetSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinkData>, ApiError> {
        Ok(envelope::ok(one(&self.0, &param(req, "name")).await?))
    }
}

struct CreateSink(Operator);

/// Create a sink.
///
/// It is checked as a section of the configuration is, and its plugin is started once. When it is answered, everything that
/// is accepted from then on is for the sink. Its secrets are stored in `catalog.db`, so backups have them; no answer has.
#[endpoint(
    operation_id = "create_sink",
    request_body(content = NewSink, description = "The sink.", example = json!({
        "name": "team", "plugin": "http-forward", "streams": ["orders"],
        "config": {"url": "https://api.example.com/orders"}, "http": {"hosts": ["api.example.com"]},
    })),
    responses(
        (status_code = 201, body = Success<SinkData>, description = "Created."),
        (status_code = 409, description = "The name is taken, or defined in the configuration."),
    ),
)]
impl CreateSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinkData>, ApiError> {
        let body = body::object(req).await?;
        let made = self.0.create_sink(body, by(req)).await?;
        Ok(envelope::created(one(&self.0, made.name()).await?))
    }
}

struct ChangeSink(Operator);

/// Change a sink.
///
/// The settings are checked, and the plugin is started with them once, before anything is changed. The sink goes on with
/// them after the batch that it is at.
#[endpoint(
    operation_id = "change_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<SinkPatch>, description = "The members to change; absent: none.", example = json!({"where": "total>=100"})),
    responses(
        (status_code = 200, body = Success<SinkData>, description = "As it is now."),
        (status_code = 409, description = "It is defined in the configuration."),
    ),
)]
impl ChangeSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinkData>, ApiError> {
        let patch = body::object(req).await?;
        let name = param(req, "name");
        self.0.change_sink(&name, patch, by(req)).await?;
        Ok(envelope::ok(one(&self.0, &name).await?))
    }
}

struct PauseSink(Operator);

/// Pause a sink.
///
/// It ends at the edge of a batch, and does nothing until it is resumed, after a restart too. What is accepted meanwhile is
/// kept for it. Declared sinks can be paused as well.
#[endpoint(
    operation_id = "pause_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses((status_code = 200, body = Success<SinkData>, description = "It is paused.")),
)]
impl PauseSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinkData>, ApiError> {
        let name = param(req, "name");
        self.0.pause_sink(&name, true, by(req)).await?;
        Ok(envelope::ok(one(&self.0, &name).await?))
    }
}

struct ResumeSink(Operator);

/// Resume a sink.
///
/// It goes on where it was.
#[endpoint(
    operation_id = "resume_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<SinkData>, description = "It continues."),
        (status_code = 409, description = "The configuration says `enabled = false`."),
    ),
)]
impl ResumeSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinkData>, ApiError> {
        let name = param(req, "name");
        self.0.pause_sink(&name, false, by(req)).await?;
        Ok(envelope::ok(one(&self.0, &name).await?))
    }
}

struct RefillSink(Operator);

/// Fill a sink.
///
/// At the edge of a batch it begins anew with the items that the data pool has, then comes what was accepted after that.
/// Nothing that it has not taken is skipped, so removals arrive; its dead letters stay. A receiver is sent again what it
/// has, under other idempotency keys.
#[endpoint(
    operation_id = "refill_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 202, body = Success<RefilledData>, description = "The fill begins."),
        (status_code = 409, description = "It is being filled, it writes the data pool, or the data pool does not have what it receives."),
    ),
)]
impl RefillSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<RefilledData>, ApiError> {
        let refilled = self.0.refill_sink(&param(req, "name"), by(req)).await?;
        Ok(envelope::ok(RefilledData {
            fill: refilled.number,
            items: refilled.items,
        })
        .with_status(StatusCode::ACCEPTED))
    }
}

struct DeleteSink(Operator);

/// Delete a sink.
///
/// One that was made at run time, and has everything that was accepted for it. With `discard` also what it has not taken,
/// its retries and its dead letters are gone for good. Of a sink that is not in the configuration any more everything is
/// kept until it is deleted here. A sink with the same name that is created later is a new one. A declared sink is taken out of its
/// file.
#[endpoint(
    operation_id = "delete_sink",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("discard" = Option<bool>, Query, description = "`true`: also what waits for it."),
    ),
    responses(
        (status_code = 200, body = Success<DeletedSinkData>, description = "Nothing is kept for it any more."),
        (status_code = 409, description = "Something waits for it, or it is defined in the configuration."),
    ),
)]
impl DeleteSink {
    async fn handle(&self, req: &mut Request) -> Result<Success<DeletedSinkData>, ApiError> {
        let discard = envelope::flag(req, "discard", false)?;
        let name = param(req, "name");
        // What is not configured any more operators forget; what is made decides what leaves the machine.
        if self.0.catalog.sink(&name).is_some() {
            require_role(&self.0, Role::Admin, req).await?;
        }
        let gone = self.0.delete_sink(&name, discard, by(req)).await?;
        Ok(envelope::ok(DeletedSinkData {
            lag: gone.lag,
            retries: gone.retries,
            dead_letters: gone.dead_letters,
        }))
    }
}
