//! Trying a sink out, before it is made or while it runs.
//!
//! **Invariant**: who may not make sinks can send nothing with one.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde_json::{Map, Value};

use super::{body, by, param};
use delivery::Tried;
use http::access::require_role;
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::{Operator, TRIAL_ITEMS_MAX, TrialRequest};
use settings::Role;
use wire::{TrialRequestData, TrialWriteData, TriedData};

/// Trying sections and sinks.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("sinks")
        .oapi_tag("sinks")
        .push(Router::with_path("try").post(TrySection(p())))
        .push(Router::with_path("{name}/try").post(TrySink(p())))
}

/// A section that is to be tried, the keys of a section of the configuration; beside it `items`, at most 100 objects in
/// place of the newest item, and `send`: what the sink sends goes out, once.
#[derive(ToSchema)]
struct SinkTrial {}

fn tried_data(tried: Tried) -> TriedData {
    let writes = tried.changes.into_iter().map(|change| TrialWriteData {
        action: change.action.to_owned(),
        stream: Some(change.stream),
        key: Some(change.key),
        fields: (change.fields).and_then(|fields| serde_json::from_str(&fields).ok()),
        statement: None,
    });
    let statements = tried.seen.statements.into_iter();
    let statements = statements.map(|statement| TrialWriteData {
        action: "statement".to_owned(),
        statement: Some(statement),
        ..TrialWriteData::default()
    });
    let requests = tried
        .seen
        .requests
        .into_iter()
        .map(|request| TrialRequestData {
            method: request.method,
            url: request.url,
            headers: request.headers.into_iter().collect(),
            body: request.body,
        });
    let mut log = tried.seen.log;
    if tried.seen.is_cut {
        log.push("more was done than is shown".to_owned());
    }
    TriedData {
        ok: tried.error.is_none(),
        items: tried.items,
        requests: requests.collect(),
        writes: writes.take(TRIAL_ITEMS_MAX).chain(statements).collect(),
        log,
        error: tried.error,
    }
}

/// Takes what is beside the section out of a body; sending needs the role that making needs.
async fn request(
    operator: &Operator,
    body: &mut Map<String, Value>,
    req: &mut Request,
) -> Result<TrialRequest, ApiError> {
    let items = match body.shift_remove("items") {
        None | Some(Value::Null) => None,
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => Some(items),
        Some(_) => return Err(ApiError::invalid("items must be a list of objects")),
    };
    let send = match body.shift_remove("send") {
        None | Some(Value::Null) => false,
        Some(value) => body::flag("send", value)?,
    };
    if send {
        require_role(operator, Role::Admin, req).await?;
    }
    Ok(TrialRequest { items, send })
}

struct TrySection(Operator);

/// Try a section.
///
/// The newest item of its streams, or the items given, go through the selection and the plugin of a sink that is not made.
/// Without `send` nothing leaves and nothing is stored: the answer has the requests that would go, with secrets masked.
/// With `send`, for which the role `admin` is needed, exactly one attempt goes out, under an `Idempotency-Key` that no
/// delivery has. That the plugin refuses the items is no error: `ok` is false then.
#[endpoint(
    operation_id = "try_section",
    request_body(content = SinkTrial, description = "The section, and what to try it with.", example = json!({
        "plugin": "http-forward", "streams": ["orders"],
        "config": {"url": "https://api.example.com/orders"}, "http": {"hosts": ["api.example.com"]},
        "items": [{"id": 7}],
    })),
    responses((status_code = 200, body = Success<TriedData>, description = "The result.")),
)]
impl TrySection {
    async fn handle(&self, req: &mut Request) -> Result<Success<TriedData>, ApiError> {
        let mut body = body::object(req).await?;
        let request = request(&self.0, &mut body, req).await?;
        let tried = self.0.try_section(body, request, by(req)).await?;
        Ok(envelope::ok(tried_data(tried)))
    }
}

struct TrySink(Operator);

/// Try a sink.
///
/// As `try_section`, with the section of a sink that there is, and a merge patch of it if it was made at run time.
#[endpoint(
    operation_id = "try_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<SinkTrial>, description = "A merge patch of its section, and what to try it with; absent: as it is, with the newest item.", example = json!({"items": [{"id": 7}]})),
    responses(
        (status_code = 200, body = Success<TriedData>, description = "The result."),
        (status_code = 409, description = "It is defined in the configuration, so there is no patch of it."),
    ),
)]
impl TrySink {
    async fn handle(&self, req: &mut Request) -> Result<Success<TriedData>, ApiError> {
        let mut body = body::object(req).await?;
        let request = request(&self.0, &mut body, req).await?;
        let name = param(req, "name");
        let tried = self.0.try_named(&name, body, request, by(req)).await?;
        Ok(envelope::ok(tried_data(tried)))
    }
}
