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
    let sink = of.lane.as_ref().map(|lane| lane.reach().0);
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
        makes: list(sink.as_ref().map(|sink| &sink.makes)),
        state: of.state().to_owned(),
        node: of.node.clone(),
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
        last_error: last_error(of),
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

fn last_error(of: &SinkCondition) -> Option<SinkError> {
    let (at, reason) = of.lane.as_ref()?.last_error()?;
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

/// A new sink: the settings of a section of the configuration, with secrets as texts.
#[derive(ToSchema)]
struct NewSink {}

/// The changes of a sink, as a JSON merge patch of its section. Null removes a setting, absent members stay unchanged,
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
/// The body is checked like a section of the configuration, and the plugin is started once. The sink receives
/// everything that is accepted after the response. Its secrets are stored in `catalog.db`, so backups contain them;
/// responses never do.
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
/// Before the change, the settings are checked, and the plugin is started with them once. They apply after the current
/// batch.
#[endpoint(
    operation_id = "change_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<SinkPatch>, description = "The members to change; absent members stay unchanged.", example = json!({"where": "total>=100"})),
    responses(
        (status_code = 200, body = Success<SinkData>, description = "The changed sink."),
        (status_code = 409, description = "The resource is defined in the configuration."),
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
/// The sink stops after the current batch, until it is resumed, also across restarts. Requests that are accepted
/// meanwhile are kept for it. Sinks that are defined in the configuration can be paused too.
#[endpoint(
    operation_id = "pause_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses((status_code = 200, body = Success<SinkData>, description = "The sink is paused.")),
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
/// The sink continues at its cursor.
#[endpoint(
    operation_id = "resume_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<SinkData>, description = "The sink continues."),
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
/// After the current batch, the sink receives all items of the data pool, then later requests. No waiting request is
/// skipped, so removals arrive; dead letters stay. A receiver gets existing items again, with other idempotency keys.
#[endpoint(
    operation_id = "refill_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 202, body = Success<RefilledData>, description = "The refill has started."),
        (status_code = 409, description = "The sink is already being filled, writes to the data pool, or receives items that the data pool does not have."),
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
/// Deletes a sink that was created at run time and has nothing left to deliver. With `discard`, its backlog, retries
/// and dead letters are deleted too, which cannot be undone. The data of a sink that is no longer in the configuration
/// is kept until it is deleted here. A sink that is created later with the same name starts empty. To delete a sink
/// that is defined in the configuration, remove it from its file.
#[endpoint(
    operation_id = "delete_sink",
    parameters(
        ("name" = String, Path, description = "Name of the sink."),
        ("discard" = Option<bool>, Query, description = "`true`: also delete its backlog, retries and dead letters."),
    ),
    responses(
        (status_code = 200, body = Success<DeletedSinkData>, description = "The data of the sink was deleted."),
        (status_code = 409, description = "The sink has a backlog, retries or dead letters, or is defined in the configuration."),
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
