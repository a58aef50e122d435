//! What is kept of a request, and sending it again.
//!
//! **Invariant**: an answer to sending comes after the new request is on disk.

use salvo_core::http::StatusCode;
use salvo_core::http::header::LOCATION;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::by;
use super::requests::{find, id};
use http::body;
use http::envelope::{self, Success};
use http::error::ApiError;
use ingest::SentAgain;
use operate::Operator;
use operate::content::{self, Content};

/// What can be done with what is kept of a request.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("requests/{request_id}")
        .oapi_tag("requests")
        .push(Router::with_path("content").get(GetContent(operator.clone())))
        .push(Router::with_path("send-again").post(SendRequestAgain(operator.clone())))
}

/// What a request became that was sent again.
#[derive(Debug, Serialize, ToSchema)]
struct AgainData {
    /// The new request; or the one that was accepted first with the same idempotency key. Null: there is none, because
    /// all items were left.
    request_id: Option<String>,
    /// The request that was sent again.
    sent_again_from: String,
    /// The stream.
    stream: String,
    /// Number of items that were sent.
    items_received: u32,
    /// Number of items that were left as they are in the data pool, because something accepted later changed or removed
    /// them.
    items_left: u32,
    /// Whether its idempotency key had been accepted before, so that nothing was stored again.
    replayed: bool,
}

/// How a request is sent again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct AgainWish {
    /// Also items that something accepted later changed or removed; otherwise those are left as they are.
    overwrite: bool,
}

struct SendRequestAgain(Operator);

/// Send a request again.
///
/// Of an accepted request the same items become a new request, as long as the journal keeps them. Items that something
/// accepted later changed or removed are left as they are, unless `overwrite` is true. A refused one runs
/// through the whole pipeline again, by the connector's settings of today, as long as its body is kept. No ingest key
/// is needed, and no rate applies. 202 means that the new request is on disk.
#[endpoint(
    operation_id = "send_request_again",
    parameters(("request_id" = String, Path, description = "UUID.")),
    request_body(content = Option<AgainWish>, description = "May be absent: what is newer stays.", example = json!({"overwrite": true})),
    responses(
        (status_code = 202, body = Success<AgainData>, description = "Stored, as a new request."),
        (status_code = 200, body = Success<AgainData>, description = "Nothing was sent: all its items were left as they are."),
        (status_code = 400, description = "The body of the call cannot be used; or refused again: body or headers of the request cannot be used as the connector is now."),
        (status_code = 409, description = "It was a repeat, came with a test key, its connector or stream is gone, or the data pool has not caught up, so that nobody can tell what is newer."),
        (status_code = 410, description = "What would be sent is not kept any more."),
        (status_code = 413, description = "Over the limit of today."),
        (status_code = 503, description = "Cannot be stored now."),
    ),
)]
impl SendRequestAgain {
    async fn handle(&self, req: &mut Request) -> Result<Success<AgainData>, ApiError> {
        let options: Option<AgainWish> = body::small_json(req).await?;
        let options = options.unwrap_or_default();
        let from = id(req)?;
        let data = AgainData::from(&self.0.resend(from, options.overwrite, by(req)).await?);
        let Some(id) = &data.request_id else {
            return Ok(envelope::ok(data));
        };
        let location = format!("/api/admin/requests/{id}");
        Ok(envelope::ok(data)
            .with_status(StatusCode::ACCEPTED)
            .with_header(LOCATION, &location))
    }
}

impl From<&SentAgain> for AgainData {
    fn from(sent: &SentAgain) -> Self {
        let accepted = sent.accepted.as_ref();
        let receipt = accepted.map(|accepted| &accepted.receipt);
        let stream = accepted.map(|accepted| &*accepted.stream);
        Self {
            request_id: receipt.map(|receipt| receipt.request_id.to_string()),
            sent_again_from: sent.from.request_id.to_string(),
            stream: stream.unwrap_or(&sent.from.stream).to_owned(),
            items_received: receipt.map_or(0, |receipt| receipt.items),
            items_left: sent.items_left,
            replayed: receipt.is_some_and(|receipt| receipt.replayed),
        }
    }
}

/// What is kept of a request.
#[derive(Debug, Default, Serialize, ToSchema)]
struct ContentData {
    /// `items`, `body` (of a refused request), or null: nothing.
    kept: Option<&'static str>,
    /// Why nothing is kept, and what to do.
    reason: Option<&'static str>,
    /// The first items, flattened, at most 50.
    items: Vec<ItemContent>,
    /// Items that are not shown here.
    items_left_out: usize,
    /// The body as text, at most 20,000 characters; bytes that are no UTF-8 are replaced.
    body: Option<String>,
    /// Bytes of the body that are not shown here.
    body_bytes_left_out: usize,
}

/// An item of a request.
#[derive(Debug, Serialize, ToSchema)]
struct ItemContent {
    /// What identifies it in the stream.
    key: String,
    /// Its first fields, at most 200.
    fields: Vec<FieldContent>,
    /// Fields that are not shown here.
    fields_left_out: usize,
}

/// A field of an item.
#[derive(Debug, Serialize, ToSchema)]
struct FieldContent {
    /// Its flattened name.
    name: String,
    /// JSON text of its value, at most 500 characters of it.
    value: String,
    /// Bytes of the value that are not shown here.
    bytes_left_out: usize,
}

impl From<Content> for ContentData {
    fn from(content: Content) -> Self {
        match content {
            Content::Items { items, left_out } => Self {
                kept: Some("items"),
                items: items.into_iter().map(ItemContent::from).collect(),
                items_left_out: left_out,
                ..Self::default()
            },
            Content::Body { text, left_out } => Self {
                kept: Some("body"),
                body: Some(text),
                body_bytes_left_out: left_out,
                ..Self::default()
            },
            Content::Nothing(why) => Self {
                reason: Some(why),
                ..Self::default()
            },
        }
    }
}

impl From<content::ItemContent> for ItemContent {
    fn from(item: content::ItemContent) -> Self {
        let field = |field: content::FieldContent| FieldContent {
            name: field.name,
            value: field.value,
            bytes_left_out: field.bytes_left_out,
        };
        Self {
            key: item.key,
            fields: item.fields.into_iter().map(field).collect(),
            fields_left_out: item.fields_left_out,
        }
    }
}

struct GetContent(Operator);

/// What is kept of a request.
///
/// The first items of an accepted request as they were flattened, while the journal keeps them; the beginning of the
/// body of a refused webhook request, likewise.
#[endpoint(
    operation_id = "get_request_content",
    parameters(("request_id" = String, Path, description = "UUID.")),
    responses((status_code = 200, body = Success<ContentData>, description = "What is kept.")),
)]
impl GetContent {
    async fn handle(&self, req: &mut Request) -> Result<Success<ContentData>, ApiError> {
        let report = find(&self.0, req).await?;
        let kept = self.0.ingest.kept(&report.row).await?;
        Ok(envelope::ok(Content::from(&kept).into()))
    }
}
