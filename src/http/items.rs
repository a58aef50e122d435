//! Reading the pool over HTTP, and removing from it.
//!
//! **Invariant**: an entity tag is made before the items are read, so what a client keeps under it is
//! never older than the tag says.

use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope::{self, ErrorBody, Listing, Success};
use super::outer::request_id;
use super::reader::{self, Refused};
use super::{Parts, ingest};
use crate::catalog::Caller;
use crate::error::AcceptError;
use crate::item;
use crate::pool::{Item, PageLimit, Position};

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// About how much a page holds.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Longest key of an item (the same as on the way in).
const KEY_BYTES_MAX: usize = 512;

/// An item of the pool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemData {
    /// Identifies it in its stream.
    key: String,
    /// Its fields; nested objects flattened with dots unless `flat=false`.
    #[salvo(schema(value_type = serde_json::Value))]
    fields: Box<RawValue>,
    /// When the data arrived, RFC 3339.
    updated_at: String,
    /// Number of its last change in the one sequence over all streams.
    seq: u64,
}

impl ItemData {
    fn new(item: Item, flat: bool) -> Result<Self, serde_json::Error> {
        let fields = if flat {
            item.fields
        } else {
            item::nest(&item.fields)
        };
        Ok(Self {
            key: item.key,
            fields: RawValue::from_string(fields)?,
            updated_at: item.updated_at,
            seq: item.seq,
        })
    }
}

/// `GET /api/streams/{stream}/items`
pub(super) struct ListItems(pub(super) Parts);

/// The items of a stream.
///
/// In the order of their keys.
#[endpoint(
    operation_id = "list_items",
    tags("read"),
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("limit" = Option<u32>, Query, description = "Items on a page, 1 to 1000; 100 if absent. A page of large items may hold fewer."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
        ("flat" = Option<bool>, Query, description = "`false` gives nested objects back."),
        ("token" = Option<String>, Query, description = "A read key that is marked `allow_in_url`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status_code = 200, body = Listing<ItemData>, description = "A page."),
        (status_code = 304, description = "The stream has not changed."),
        (status_code = 400, body = ErrorBody, description = "A parameter cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid read key."),
        (status_code = 403, body = ErrorBody, description = "The page's origin is not allowed."),
        (status_code = 404, body = ErrorBody, description = "The key does not read such a stream."),
    ),
    security(("read_key" = [])),
)]
impl ListItems {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let stream = match readable_stream(&self.0, req) {
            Ok(stream) => stream,
            Err(refused) => return refused.answer(req, res),
        };
        let (limit, flat) = match (envelope::limit(req, LIMIT_DEFAULT, LIMIT_MAX), flat(req)) {
            (Ok(limit), Ok(flat)) => (limit, flat),
            (Err(message), _) | (_, Err(message)) => return envelope::invalid(req, res, message),
        };
        let after = req.query::<String>("cursor");
        let pool = &self.0.pool;
        let seq = match pool.last_change(&stream).await {
            Ok(seq) => seq,
            Err(error) => return envelope::internal(req, res, &error),
        };
        if is_known(&self.0, seq, req, res) {
            return;
        }
        // One more than is shown tells whether there is a next page.
        let page = PageLimit {
            rows: limit + 1,
            bytes: PAGE_BYTES_MAX,
        };
        let mut items = match pool.items(&stream, after.as_deref(), page).await {
            Ok(items) => items,
            Err(error) => return envelope::internal(req, res, &error),
        };
        let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
        let more = items.len() > limit as usize || bytes >= PAGE_BYTES_MAX;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|item| item.key.clone());
        let items: Result<Vec<ItemData>, _> = items
            .into_iter()
            .map(|item| ItemData::new(item, flat))
            .collect();
        match items {
            Ok(items) => envelope::list(res, items, next),
            Err(error) => envelope::internal(req, res, &error),
        }
    }
}

/// `GET /api/streams/{stream}/items/{key}`
pub(super) struct GetItem(pub(super) Parts);

/// One item.
#[endpoint(
    operation_id = "get_item",
    tags("read"),
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("flat" = Option<bool>, Query, description = "`false` gives nested objects back."),
        ("token" = Option<String>, Query, description = "A read key that is marked `allow_in_url`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status_code = 200, body = Success<ItemData>, description = "The item."),
        (status_code = 304, description = "It has not changed."),
        (status_code = 400, body = ErrorBody, description = "A parameter cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid read key."),
        (status_code = 403, body = ErrorBody, description = "The page's origin is not allowed."),
        (status_code = 404, body = ErrorBody, description = "No such item, or the key does not read such a stream."),
    ),
    security(("read_key" = [])),
)]
impl GetItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let stream = match readable_stream(&self.0, req) {
            Ok(stream) => stream,
            Err(refused) => return refused.answer(req, res),
        };
        let flat = match flat(req) {
            Ok(flat) => flat,
            Err(message) => return envelope::invalid(req, res, message),
        };
        let key = req.param::<String>("key").unwrap_or_default();
        let item = match self.0.pool.item(&stream, &key).await {
            Ok(Some(item)) => item,
            Ok(None) => return no_such_item(req, res),
            Err(error) => return envelope::internal(req, res, &error),
        };
        if is_known(&self.0, item.seq, req, res) {
            return;
        }
        match ItemData::new(item, flat) {
            Ok(item) => envelope::ok(res, item),
            Err(error) => envelope::internal(req, res, &error),
        }
    }
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RemovedData {
    /// The stream.
    stream: String,
    /// Key of the item.
    key: String,
    /// Position of the change, as in the messages of `GET /api/live`; null for a test key.
    id: Option<String>,
}

/// `DELETE /api/streams/{stream}/items/{key}`
pub(super) struct DeleteItem(pub(super) Parts);

/// Remove an item.
///
/// With an ingest key of the stream. Renderers are told at once; requests that were accepted before do not bring
/// the item back.
#[endpoint(
    operation_id = "delete_item",
    tags("submit"),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("key" = String, Path, description = "Key of the item."),
    ),
    responses(
        (status_code = 200, body = Success<RemovedData>, description = "Removed, and on disk."),
        (status_code = 400, body = ErrorBody, description = "No item can have such a key."),
        (status_code = 401, body = ErrorBody, description = "No valid ingest key."),
        (status_code = 404, body = ErrorBody, description = "No such item, or the stream is not the key's."),
        (status_code = 429, body = ErrorBody, description = "Over the key's rate."),
        (status_code = 503, body = ErrorBody, description = "Cannot be stored now."),
    ),
    security(("ingest_key" = [])),
)]
impl DeleteItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let caller = match ingest::known_caller(&self.0, req, res) {
            Ok(caller) => caller,
            Err(error) => return envelope::refuse(req, res, &error),
        };
        match self.remove(&caller, req).await {
            Ok(Some(removed)) => envelope::ok(res, removed),
            Ok(None) => no_such_item(req, res),
            Err(error) => envelope::refuse(req, res, &error),
        }
    }
}

impl DeleteItem {
    async fn remove(
        &self,
        caller: &Caller,
        req: &Request,
    ) -> Result<Option<RemovedData>, AcceptError> {
        let stream = &caller.key.stream;
        if req.param::<String>("stream").as_deref() != Some(&**stream) {
            return Err(AcceptError::StreamNotFound);
        }
        let key = req.param::<String>("key").unwrap_or_default();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(AcceptError::invalid(format!(
                "the key of an item has 1 to {KEY_BYTES_MAX} bytes; check the end of the path"
            )));
        }
        let id = if caller.test {
            None
        } else {
            match remove_from_pool(&self.0, stream, &key).await? {
                Some(id) => Some(id.to_string()),
                None => return Ok(None),
            }
        };
        let client = ingest::client(req);
        self.0.ingest.log_removal(request_id(req), caller, client);
        Ok(Some(RemovedData {
            stream: stream.to_string(),
            key,
            id,
        }))
    }
}

/// Removes an item, once that is in the pool; none if there is no such item.
pub(super) async fn remove_from_pool(
    parts: &Parts,
    stream: &Arc<str>,
    key: &str,
) -> Result<Option<Position>, AcceptError> {
    let accepted = *parts.journal.newest().borrow();
    // What was accepted and is not in the pool yet may hold the item.
    let expected = parts.delivery.passed() < accepted;
    let pool = Arc::clone(&parts.pool);
    let (stream, key) = (Arc::clone(stream), key.to_owned());
    let removing =
        tokio::task::spawn_blocking(move || pool.remove(&stream, &key, accepted, expected));
    let removed = removing.await.unwrap_or_else(|error| {
        tracing::error!(%error, "removing an item ended early");
        Ok(None)
    });
    match removed {
        Ok(seq) => Ok(seq.map(|seq| Position {
            seq,
            ..parts.pool.position()
        })),
        Err(error) => {
            tracing::error!(%error, "an item cannot be removed");
            Err(AcceptError::Unavailable {
                reason: "the data pool cannot be written",
                retry_after_seconds: 30,
            })
        }
    }
}

/// The stream that the path names, if the request's read key reads it.
fn readable_stream(parts: &Parts, req: &mut Request) -> Result<String, Refused> {
    let reader = reader::with_key_or_token(parts, req)?;
    let name = req.param::<String>("stream").unwrap_or_default();
    reader.stream(&name).ok_or(Refused::Stream)?;
    Ok(name)
}

/// Sets the entity tag; true if the client has it, which is answered then.
fn is_known(parts: &Parts, seq: u64, req: &Request, res: &mut Response) -> bool {
    let position = Position {
        seq,
        ..parts.pool.position()
    };
    let tag = format!("\"{position}\"");
    let known = req
        .headers()
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|one| one.trim().trim_start_matches("W/"))
        .any(|one| one == tag || one == "*");
    if let Ok(value) = HeaderValue::from_str(&tag) {
        res.headers_mut().insert(ETAG, value);
    }
    if known {
        res.status_code(StatusCode::NOT_MODIFIED);
    }
    known
}

fn no_such_item(req: &Request, res: &mut Response) {
    envelope::fail(
        req,
        res,
        StatusCode::NOT_FOUND,
        "ITEM_NOT_FOUND",
        "the stream has no item with this key; check the key, percent-encoded as one part of the path",
    );
}

fn flat(req: &mut Request) -> Result<bool, String> {
    match req.query::<String>("flat").as_deref() {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err("flat must be true or false".to_owned()),
    }
}
