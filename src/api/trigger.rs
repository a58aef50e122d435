//! A delivery as a connector's tool would send it.
//!
//! **Invariant**: an answer to sending comes after the request is on disk.

use salvo_core::http::StatusCode;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::body::{self, Field, optional, text};
use super::{by, param};
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::Operator;
use wire::TriggeredData;

/// What can be sent for a connector's tool.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("connectors/{id}/trigger")
        .oapi_tag("connectors")
        .post(Trigger(operator.clone()))
}

/// The sample to send.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct TriggerBody {
    /// The event, as the provider names it; absent: its most common one.
    #[salvo(schema(value_type = String, required = false))]
    event: Field,
    /// The expected preset of the connector; with another one the call is rejected.
    #[salvo(schema(value_type = String, required = false))]
    preset: Field,
}

struct Trigger(Operator);

/// Send a sample event of a connector's provider.
///
/// The daemon signs the sample with the connector's own secret, and processes it like a request of the provider.
#[endpoint(
    operation_id = "trigger",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = Option<TriggerBody>, description = "Optional. Default: the most common event.", example = json!({"event": "orders/create"})),
    responses(
        (status_code = 202, body = Success<TriggeredData>, description = "Stored."),
        (status_code = 400, description = "The preset has no sample of the event, or the sample was rejected."),
        (status_code = 409, description = "The daemon cannot sign for this connector."),
    ),
)]
impl Trigger {
    async fn handle(&self, req: &mut Request) -> Result<Success<TriggeredData>, ApiError> {
        let body: TriggerBody = body::read(req).await?;
        let event = optional("event", body.event, text)?;
        let preset = optional("preset", body.preset, text)?;
        let sent = self
            .0
            .trigger(
                &param(req, "id"),
                preset.as_deref(),
                event.as_deref(),
                by(req),
            )
            .await?;
        let accepted = sent.accepted.as_ref();
        Ok(envelope::ok(TriggeredData {
            request_id: accepted.map(|one| one.receipt.request_id.to_string()),
            event: sent.event.to_owned(),
            stream: accepted.map(|one| one.stream.to_string()),
            items_received: accepted.map_or(0, |one| one.receipt.items),
        })
        .with_status(StatusCode::ACCEPTED))
    }
}
