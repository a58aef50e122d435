//! Reading items from the pool over HTTP, and removing items.
//!
//! **Invariant**: the entity tag is determined before the items are read, so a cached response is never older than its
//! tag.

mod page;
pub mod sending;

use std::sync::Arc;

use salvo_core::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope::{self, Listing, Success};
use super::error::ApiError;
use super::filter;
use super::ingest;
use super::reader::{self, Readers};
use super::tag;
use ::ingest::Ingest;
use base::order::ChangeSeq;
use catalog::Reader;
use pool::{Item, Position};
use select::ItemFilter;
use wire::ReceiptData;

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// Maximum bytes of a page; the last item can exceed it.
const PAGE_BYTES_MAX: usize = 4 << 20;

const PARAMETERS: [&str; 7] = ["limit", "cursor", "key", "where", "fields", "flat", "token"];

/// An item of the data pool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemData {
    /// Identifies the item in its stream.
    key: String,
    /// Its fields; nested objects flattened with dots unless `flat=false`.
    #[salvo(schema(value_type = serde_json::Value))]
    fields: Box<RawValue>,
    /// Names of the fields that operators have overridden; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[salvo(schema(value_type = Option<Vec<String>>))]
    overridden: Option<Box<RawValue>>,
    /// When the data arrived, RFC 3339.
    updated_at: String,
    /// Number of its last change; all streams share one sequence.
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
            overridden: match item.overridden.is_empty() {
                true => None,
                false => Some(RawValue::from_string(item.overridden)?),
            },
            updated_at: item.updated_at,
            seq: item.seq.get(),
        })
    }
}

/// `GET /api/streams/{stream}/items`
pub struct ListItems(pub Readers);

/// The items of a stream.
///
/// In the order of their keys.
#[endpoint(
    operation_id = "list_items",
    tags("read"),
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("limit" = Option<u32>, Query, description = "Items on a page, 1 to 1000; 100 if absent. A page of large items may hold fewer."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
        ("key" = Option<String>, Query, description = "Keys separated by commas: only these items."),
        ("where" = Option<String>, Query, description = "Conditions that an item must meet, such as `status:live,score>2`. A page may hold fewer items than `limit`, and there may be more."),
        ("fields" = Option<String>, Query, description = "Fields in their order, such as `id,home.*` or `-note`; all if absent."),
        ("flat" = Option<bool>, Query, description = "`false`: nested objects instead of flattened names."),
        ("token" = Option<String>, Query, description = "A read key that is marked `allow_in_url`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status_code = 200, body = Listing<ItemData>, description = "A page."),
        (status_code = 304, description = "The stream has not changed."),
        (status_code = 400, description = "A parameter is unknown or invalid."),
        (status_code = 403, description = "The page's origin is not allowed."),
        (status_code = 404, description = "The key does not read such a stream."),
        (status_code = 503, description = "The limit of responses in progress is reached. On a node of a cluster also: its copy does not have the state that `If-None-Match` names."),
    ),
)]
impl ListItems {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let (reader, stream) = readable_stream(&self.0, req)?;
        filter::only(req, &PARAMETERS)?;
        let filter = filter::filter(req)?.within(reader.limits());
        let limit = envelope::limit(req, LIMIT_DEFAULT, LIMIT_MAX)?;
        let flat = envelope::flag(req, "flat", true)?;
        let after = req.query::<String>("cursor");
        wait_for_known(&self.0, &reader, req).await?;
        let pool = &self.0.pool;
        let seq = pool.last_change(&stream).await?;
        if is_known(&self.0, &reader, seq, req, res) {
            return Ok(());
        }
        let room = sending::room(&self.0.live, &reader, PAGE_BYTES_MAX).await?;
        let (items, next) = page::read(pool, &stream, &filter, after, limit as usize).await?;
        let items = items.into_iter().map(|item| ItemData::new(item, flat));
        let items = items.collect::<Result<Vec<ItemData>, _>>()?;
        envelope::list(items, next).answer(res);
        declare_charset(res);
        sending::in_pieces(res, room);
        Ok(())
    }
}

/// `GET /api/streams/{stream}/items/{key}`
pub struct GetItem(pub Readers);

/// One item.
#[endpoint(
    operation_id = "get_item",
    tags("read"),
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("flat" = Option<bool>, Query, description = "`false`: nested objects instead of flattened names."),
        ("token" = Option<String>, Query, description = "A read key that is marked `allow_in_url`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status_code = 200, body = Success<ItemData>, description = "The item."),
        (status_code = 304, description = "The item has not changed."),
        (status_code = 403, description = "The page's origin is not allowed."),
        (status_code = 404, description = "No such item, or the key does not read such a stream."),
        (status_code = 503, description = "The limit of responses in progress is reached. On a node of a cluster also: its copy does not have the state that `If-None-Match` names."),
    ),
)]
impl GetItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let (reader, stream) = readable_stream(&self.0, req)?;
        let flat = envelope::flag(req, "flat", true)?;
        let key = req.param::<String>("key").unwrap_or_default();
        wait_for_known(&self.0, &reader, req).await?;
        let item = self.0.pool.item(&stream, &key).await?;
        let filter = ItemFilter::default().within(reader.limits());
        let item = item.and_then(|item| item.seen(&stream, &filter));
        let item = item.ok_or_else(|| {
            let message = "the stream has no item with this key; check the key, percent-encoded as one part of the path";
            ApiError::not_found("ITEM_NOT_FOUND", message)
        })?;
        if !is_known(&self.0, &reader, item.seq, req, res) {
            let room = sending::room(&self.0.live, &reader, item.fields.len()).await?;
            envelope::ok(ItemData::new(item, flat)?).answer(res);
            declare_charset(res);
            sending::in_pieces(res, room);
        }
        Ok(())
    }
}

/// `DELETE /api/streams/{stream}/items/{key}`
pub struct DeleteItem(pub Arc<Ingest>);

/// Remove an item.
///
/// Requires an ingest key of the stream, whose connector can remove items (`may_delete`). A removal is a request like
/// those that submit items: 202 means that it is on disk, whether or not the item exists. It applies after all requests
/// that were accepted before it, and before all later ones. Every sink receives it, and
/// `GET /api/requests/{request_id}` returns its status. No request that was accepted earlier restores the item.
#[endpoint(
    operation_id = "delete_item",
    tags("submit"),
    parameters(
        ("stream" = String, Path, description = "Name of the key's stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 bytes, spaces and UTF-8 included, compared byte by byte; a request with the same key within 24 hours gets the same response and is not processed again."),
    ),
    responses(
        (status_code = 202, body = Success<ReceiptData>, description = "Stored."),
        (status_code = 400, description = "The key or a header is invalid."),
        (status_code = 403, description = "The key's connector cannot remove items."),
        (status_code = 404, description = "The key is for another stream."),
        (status_code = 429, description = "The key exceeded its rate limit."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl DeleteItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        ingest::remove(&self.0, req, res).await;
    }
}

/// The reader, and the stream in the path, if the key reads it.
fn readable_stream(
    readers: &Readers,
    req: &mut Request,
) -> Result<(Arc<Reader>, String), ApiError> {
    let reader = readers.with_key_or_token(req)?;
    let name = req.param::<String>("stream").unwrap_or_default();
    reader.stream(&name).ok_or_else(reader::no_stream)?;
    Ok((reader, name))
}

/// Waits until this node has the state of the client's tags.
async fn wait_for_known(readers: &Readers, reader: &Reader, req: &Request) -> Result<(), ApiError> {
    match readers.newest_known(reader, req.headers()) {
        // On the heap: the others are not to be as large.
        Some(seq) => Box::pin(readers.reach(seq)).await,
        None => Ok(()),
    }
}

/// Sets the entity tag, and requires revalidation. Answers 304 if the client has the current version; returns whether
/// it did.
fn is_known(
    readers: &Readers,
    reader: &Reader,
    seq: ChangeSeq,
    req: &Request,
    res: &mut Response,
) -> bool {
    let position = Position {
        seq,
        epoch: reader.epoch(readers.pool.epoch()),
    };
    let headers = res.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    tag::is_known(&format!("\"{position}\""), req, res)
}

/// Names the charset for programs that would guess it.
fn declare_charset(res: &mut Response) {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    res.headers_mut().insert(CONTENT_TYPE, json);
}
