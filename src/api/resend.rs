//! What is kept of a request, and resending it.
//!
//! **Invariant**: an answer to resending comes after the new request is on disk.

use salvo_core::http::StatusCode;
use salvo_core::http::header::LOCATION;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Deserialize;

use super::by;
use super::requests::{find, id};
use http::body;
use http::envelope::{self, Success};
use http::error::ApiError;
use ingest::SentAgain;
use operate::Operator;
use operate::content::{self, Content};
use wire::{ContentData, FieldContent, ItemContent, ResentData};

/// What can be done with what is kept of a request.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("requests/{request_id}")
        .oapi_tag("requests")
        .push(Router::with_path("content").get(GetContent(operator.clone())))
        .push(Router::with_path("resend").post(ResendRequest(operator.clone())))
        // The path of version 0.1, which the OpenAPI document has as deprecated.
        .push(Router::with_path("send-again").post(ResendRequest(operator.clone())))
}

/// Options of a resend.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct ResendOptions {
    /// Also send items that a later request changed or removed; by default they stay unchanged.
    overwrite: bool,
}

struct ResendRequest(Operator);

/// Resend a request.
///
/// The items of an accepted request become a new request, while the journal keeps them. Items that a later request
/// changed or removed stay unchanged, unless `overwrite` is true. A rejected request is processed again with the
/// connector's current settings, while its body is kept. This needs no ingest key, and no rate limit applies. 202 means
/// that the new request is on disk.
#[endpoint(
    operation_id = "resend_request",
    parameters(("request_id" = String, Path, description = "UUID.")),
    request_body(content = Option<ResendOptions>, description = "Optional. By default, newer items stay unchanged.", example = json!({"overwrite": true})),
    responses(
        (status_code = 202, body = Success<ResentData>, description = "Stored, as a new request."),
        (status_code = 200, body = Success<ResentData>, description = "Nothing was sent: later requests changed or removed all its items."),
        (status_code = 400, description = "The body of this call is invalid; or the request is rejected again, because its body or headers do not fit the connector's current settings."),
        (status_code = 409, description = "The request was a duplicate or came with a test key, its connector or stream is deleted, or the data pool is behind, so newer values cannot be detected."),
        (status_code = 410, description = "The items or the body are no longer stored."),
        (status_code = 413, description = "The body exceeds the current limit."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl ResendRequest {
    async fn handle(&self, req: &mut Request) -> Result<Success<ResentData>, ApiError> {
        let options: Option<ResendOptions> = body::small_json(req).await?;
        let options = options.unwrap_or_default();
        let from = id(req)?;
        let data = resent_data(&self.0.resend(from, options.overwrite, by(req)).await?);
        let Some(id) = &data.request_id else {
            return Ok(envelope::ok(data));
        };
        let location = format!("/api/admin/requests/{id}");
        Ok(envelope::ok(data)
            .with_status(StatusCode::ACCEPTED)
            .with_header(LOCATION, &location))
    }
}

fn resent_data(sent: &SentAgain) -> ResentData {
    let accepted = sent.accepted.as_ref();
    let receipt = accepted.map(|accepted| &accepted.receipt);
    let stream = accepted.map(|accepted| &*accepted.stream);
    ResentData {
        request_id: receipt.map(|receipt| receipt.request_id.to_string()),
        sent_again_from: sent.from.request_id.to_string(),
        stream: stream.unwrap_or(&sent.from.stream).to_owned(),
        items_received: receipt.map_or(0, |receipt| receipt.items),
        items_left: sent.items_left,
        replayed: receipt.is_some_and(|receipt| receipt.replayed),
    }
}

fn content_data(content: Content) -> ContentData {
    match content {
        Content::Items { items, left_out } => ContentData {
            kept: Some("items".to_owned()),
            items: items.into_iter().map(item_content).collect(),
            items_left_out: left_out,
            ..ContentData::default()
        },
        Content::Body { text, left_out } => ContentData {
            kept: Some("body".to_owned()),
            body: Some(text),
            body_bytes_left_out: left_out,
            ..ContentData::default()
        },
        Content::Nothing(why) => ContentData {
            reason: Some(why.to_owned()),
            ..ContentData::default()
        },
    }
}

fn item_content(item: content::ItemContent) -> ItemContent {
    let field = |field: content::FieldContent| FieldContent {
        name: field.name,
        value: field.value,
        bytes_left_out: field.bytes_left_out,
    };
    ItemContent {
        key: item.key,
        fields: item.fields.into_iter().map(field).collect(),
        fields_left_out: item.fields_left_out,
    }
}

struct GetContent(Operator);

/// The stored content of a request.
///
/// The first flattened items of an accepted request, while the journal keeps them; or the beginning of the stored body
/// of a rejected webhook request.
#[endpoint(
    operation_id = "get_request_content",
    parameters(("request_id" = String, Path, description = "UUID.")),
    responses((status_code = 200, body = Success<ContentData>, description = "The stored body.")),
)]
impl GetContent {
    async fn handle(&self, req: &mut Request) -> Result<Success<ContentData>, ApiError> {
        let report = find(&self.0, req).await?;
        let kept = self.0.ingest.kept(&report.row).await?;
        Ok(envelope::ok(content_data(Content::from(&kept))))
    }
}
