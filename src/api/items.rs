//! One item of the data pool.
//!
//! **Invariant**: a removal is a request like a caller's, and is in the audit log.

use salvo_core::http::StatusCode;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::paging::{cursor, limit, next_after};
use super::{by, param};
use base::clock;
use catalog::{CatalogError, ResourceKind};
use http::acts;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::{HistoryPage, Operator};
use pool::{Item, PastKind, PastValue};
use serde_json::value::RawValue;
use wire::{PastValueData, RemovedData, StoredItem};

/// What can be done with an item.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("streams/{name}/items/{key}")
        .oapi_tag("streams")
        .get(ReadItem(operator.clone()))
        .delete(RemoveItem(operator.clone()))
        .push(Router::with_path("history").get(ListItemHistory(operator.clone())))
}

/// The item that the path names, with the name of its stream.
async fn find(operator: &Operator, req: &Request) -> Result<(String, Item), ApiError> {
    let stream = operator.catalog.stream(&param(req, "name"));
    let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
    let item = operator.pool.item(&stream.name, &param(req, "key")).await?;
    let item = item.ok_or_else(no_item)?;
    Ok((stream.name.to_string(), item))
}

fn no_item() -> ApiError {
    let message = "the stream has no item with this key; check the key, percent-encoded as one part of the path";
    ApiError::not_found("ITEM_NOT_FOUND", message)
}

struct ReadItem(Operator);

/// One item.
///
/// The item as shown, with the request that wrote it, its overrides and its hold.
#[endpoint(
    operation_id = "read_item",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
    ),
    responses(
        (status_code = 200, body = Success<StoredItem>, description = "The item."),
        (status_code = 404, description = "No such stream, or it has no item with this key."),
    ),
)]
impl ReadItem {
    async fn handle(&self, req: &mut Request) -> Result<Success<StoredItem>, ApiError> {
        let stream = self.0.catalog.stream(&param(req, "name"));
        let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
        let (item, acts) = self
            .0
            .item_with_acts(&stream.name, &param(req, "key"))
            .await?;
        Ok(envelope::ok(acts::item_data(item, acts)?))
    }
}

struct ListItemHistory(Operator);

/// The history of an item, newest first.
///
/// The last values of each field that the source wrote, up to `history` of the stream, each with its request, and the
/// stored overrides of operators. The history of a removed item is available while the removal is remembered.
#[endpoint(
    operation_id = "list_item_history",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("field" = Option<String>, Query, description = "Only this field."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
    responses(
        (status_code = 404, description = "No such stream, or it has no item with this key and no history of one."),
    ),
)]
impl ListItemHistory {
    async fn handle(&self, req: &mut Request) -> Result<Listing<PastValueData>, ApiError> {
        let stream = self.0.catalog.stream(&param(req, "name"));
        let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
        let page = HistoryPage {
            field: req.query("field"),
            after: cursor(req)?,
            limit: limit(req)?,
        };
        let key = param(req, "key");
        let past = self.0.item_history(&stream.name, &key, &page).await?;
        let past = past.ok_or_else(no_item)?;
        let next = next_after(&past, page.limit, |last| last.place.to_string());
        Ok(envelope::list(
            past.into_iter().map(past_data).collect(),
            next,
        ))
    }
}

fn past_data(past: PastValue) -> PastValueData {
    let kind = past.kind.as_str().to_owned();
    let (by, until) = match past.kind {
        PastKind::Act { by, until, .. } => (Some(by), until.map(clock::rfc3339)),
        _ => (None, None),
    };
    PastValueData {
        field: past.field,
        kind,
        value: past
            .value
            .and_then(|value| RawValue::from_string(value).ok()),
        at: clock::rfc3339(past.at),
        seq: past.place.seq.get(),
        request_id: past.request_id,
        by,
        until,
    }
}

struct RemoveItem(Operator);

/// Remove an item.
///
/// The removal is a request like that of a sender: 202 means that it is on disk, and every sink receives it. If the
/// source sends the item again, it is stored again.
#[endpoint(
    operation_id = "remove_item",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
    ),
    responses(
        (status_code = 202, body = Success<RemovedData>, description = "Stored."),
        (status_code = 404, description = "No such stream, or it has no item with this key."),
    ),
)]
impl RemoveItem {
    async fn handle(&self, req: &mut Request) -> Result<Success<RemovedData>, ApiError> {
        let (stream, item) = find(&self.0, req).await?;
        let by = by(req);
        let request_id = by.request_id.to_string();
        let removed = self.0.remove_item(&stream, &item.key, by).await?;
        let data = RemovedData {
            request_id,
            removed,
        };
        Ok(envelope::ok(data).with_status(StatusCode::ACCEPTED))
    }
}
