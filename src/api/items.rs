//! One item of the data pool.
//!
//! **Invariant**: a removal is a request like a caller's, and is in the audit log.

use salvo_core::http::StatusCode;
use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use catalog::{CatalogError, ResourceKind};
use http::acts;
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::Operator;
use pool::Item;
use wire::{RemovedData, StoredItem};

/// What can be done with an item.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("streams/{name}/items/{key}")
        .oapi_tag("streams")
        .get(ReadItem(operator.clone()))
        .delete(RemoveItem(operator.clone()))
}

/// The item that the path names, with the name of its stream.
async fn find(operator: &Operator, req: &Request) -> Result<(String, Item), ApiError> {
    let stream = operator.catalog.stream(&param(req, "name"));
    let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
    let item = operator.pool.item(&stream.name, &param(req, "key")).await?;
    let item = item.ok_or_else(|| {
        let message = "the stream has no item with this key; check the key, percent-encoded as one part of the path";
        ApiError::not_found("ITEM_NOT_FOUND", message)
    })?;
    Ok((stream.name.to_string(), item))
}

struct ReadItem(Operator);

/// One item.
///
/// As it is shown, with the request that wrote it, its overrides and the hold that covers it.
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

struct RemoveItem(Operator);

/// Remove an item.
///
/// The removal is a request like that of a sender: 202 means that it is on disk, and every sink is told. If the source
/// sends the item again, it is there again.
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
