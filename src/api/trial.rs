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

/// A section to try: the settings of a section of the configuration, and `items`, at most 100 objects in place of the
/// newest item, and `send`, which sends the requests of the sink once.
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
/// Passes the newest item of its streams, or the items of the body, through the selection and the plugin, without
/// creating the sink. Without `send`, nothing is sent or stored: the response has the requests that would be sent, with
/// secrets masked. With `send`, which requires the role `admin`, exactly one attempt is sent, with an `Idempotency-Key`
/// that no delivery uses. If the plugin rejects the items, the call succeeds and `ok` is false.
#[endpoint(
    operation_id = "try_section",
    request_body(content = SinkTrial, description = "The section, and the items to try.", example = json!({
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
/// Like `try_section`, with the section of an existing sink, and a merge patch of it if the sink was created at run
/// time.
#[endpoint(
    operation_id = "try_sink",
    parameters(("name" = String, Path, description = "Name of the sink.")),
    request_body(content = Option<SinkTrial>, description = "A merge patch of its section, and the items to try. Default: the section as it is, with the newest item.", example = json!({"items": [{"id": 7}]})),
    responses(
        (status_code = 200, body = Success<TriedData>, description = "The result."),
        (status_code = 409, description = "The sink is defined in the configuration, so its section cannot be patched."),
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
