//! What is kept of a request, and sending it again.
//!
//! The pages show and do the same through [`send_request_again`] and [`content`].
//!
//! **Invariant**: an answer to sending comes after the new request is on disk. What is shown of a request is bounded,
//! and says how much is left out.

use std::time::{Duration, Instant};

use salvo_core::http::header::{HeaderValue, LOCATION};
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::super::Parts;
use super::super::body;
use super::super::envelope::{self, ErrorBody, Success};
use super::super::error::ApiError;
use super::super::ingest::{client, find_report};
use super::super::middleware::request_id;
use super::change::{actor, note};
use super::requests::not_found;
use crate::catalog::{AuditChange, Kind};
use crate::ingest::{AgainError, Kept, Newer};
use crate::item::{Items, field_name, members};

/// The built-in plugin that writes the data pool; how long it may take to catch up, and how often that is looked at.
const POOL: &str = "pool";
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
const CATCH_UP_STEP: Duration = Duration::from_millis(5);
/// Items, and fields of one, that are shown.
const ITEMS_MAX: usize = 50;
const FIELDS_MAX: usize = 200;
/// Characters of a value, and of a body.
const VALUE_CHARS_MAX: usize = 500;
const BODY_CHARS_MAX: usize = 20_000;
/// Bytes of all names and values together.
const SHOWN_BYTES_MAX: usize = 256 << 10;

/// What a request became that was sent again.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct AgainData {
    /// The new request; or the one that was accepted first with the same idempotency key. Null: there is none, because
    /// all items were left.
    pub(in crate::http) request_id: Option<String>,
    /// The request that was sent again.
    pub(in crate::http) sent_again_from: String,
    /// The stream.
    pub(in crate::http) stream: String,
    /// Number of items that were sent.
    pub(in crate::http) items_received: u32,
    /// Number of items that were left as they are in the data pool, because something accepted later changed or removed
    /// them.
    pub(in crate::http) items_left: u32,
    /// Whether its idempotency key had been accepted before, so that nothing was stored again.
    pub(in crate::http) replayed: bool,
}

/// How a request is sent again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::http) struct AgainWish {
    /// Also items that something accepted later changed or removed; otherwise those are left as they are.
    overwrite: bool,
}

/// `POST /api/admin/requests/{request_id}/send-again`
pub(in crate::http) struct SendRequestAgain(pub(in crate::http) Parts);

/// Send a request again.
///
/// Of an accepted request the same items become a new request, as long as the journal keeps them. Items that something
/// accepted later changed or removed are left as they are, unless `overwrite` is true. A refused one runs
/// through the whole pipeline again, by the connector's settings of today, as long as its body is kept. No ingest key
/// is needed, and no rate applies. 202 means that the new request is on disk.
#[endpoint(
    operation_id = "send_request_again",
    tags("requests"),
    parameters(("request_id" = String, Path, description = "UUID.")),
    request_body(content = Option<AgainWish>, description = "May be absent: what is newer stays.", example = json!({"overwrite": true})),
    responses(
        (status_code = 202, body = Success<AgainData>, description = "Stored, as a new request."),
        (status_code = 200, body = Success<AgainData>, description = "Nothing was sent: all its items were left as they are."),
        (status_code = 400, body = ErrorBody, description = "The body of the call cannot be used; or refused again: body or headers of the request cannot be used as the connector is now."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such request in the log."),
        (status_code = 409, body = ErrorBody, description = "It was a repeat, came with a test key, its connector or stream is gone, or the data pool has not caught up, so that nobody can tell what is newer."),
        (status_code = 410, body = ErrorBody, description = "What would be sent is not kept any more."),
        (status_code = 413, body = ErrorBody, description = "Over the limit of today."),
        (status_code = 503, body = ErrorBody, description = "Cannot be stored now."),
    ),
    security(("admin_token" = [])),
)]
impl SendRequestAgain {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let wish = match body::small_json::<AgainWish>(req).await {
            Ok(wish) => wish.unwrap_or_default(),
            Err(message) => return envelope::invalid(req, res, message),
        };
        let sent = send_request_again(&self.0, "admin token", req, wish.overwrite).await;
        let error = match sent {
            Ok(data) => {
                let Some(id) = &data.request_id else {
                    return envelope::ok(res, data);
                };
                if let Ok(location) = HeaderValue::try_from(format!("/api/admin/requests/{id}")) {
                    res.headers_mut().insert(LOCATION, location);
                }
                return envelope::accepted(res, data);
            }
            Err(error) => error,
        };
        ApiError::from(error).answer(req, res);
    }
}

/// Sends the request that the path names again, for somebody who was admitted by `who`.
pub(in crate::http) async fn send_request_again(
    parts: &Parts,
    who: &'static str,
    req: &Request,
    overwrite: bool,
) -> Result<AgainData, AgainError> {
    let from = req.param::<String>("request_id");
    let from = from.and_then(|id| Uuid::try_parse(&id).ok());
    let from = from.ok_or(AgainError::NotFound)?;
    let newer = match overwrite {
        true => Newer::IsOverwritten,
        false => {
            catch_up(parts).await?;
            Newer::Stays(&parts.pool)
        }
    };
    let sent = parts
        .ingest
        .send_again(from, request_id(req), client(req), newer)
        .await?;
    let receipt = sent.accepted.as_ref().map(|accepted| accepted.receipt);
    let stream = sent.accepted.as_ref().map(|accepted| &accepted.stream);
    let data = AgainData {
        request_id: receipt.map(|receipt| receipt.request_id.to_string()),
        sent_again_from: from.to_string(),
        stream: stream.unwrap_or(&sent.from.stream).to_string(),
        items_received: receipt.map_or(0, |receipt| receipt.items),
        items_left: sent.items_left,
        replayed: receipt.is_some_and(|receipt| receipt.replayed),
    };
    if receipt.is_none() {
        return Ok(data);
    }
    let became = json!({ "request_id": data.request_id, "items_left": data.items_left, "overwrite": overwrite });
    let change = AuditChange {
        connector: Some(sent.from.connector.to_string()),
        ..AuditChange::done("send_again", Kind::Request, from.to_string(), became)
    };
    note(parts, &actor(who, req), change).await;
    Ok(data)
}

/// Waits a while until the data pool has what was accepted so far: what is newer can be told then.
async fn catch_up(parts: &Parts) -> Result<(), AgainError> {
    let newest = *parts.journal.newest().borrow();
    let lanes = parts.delivery.lanes();
    let has_all = || {
        let mut pools = lanes.iter().filter(|lane| lane.sink().plugin == POOL);
        pools.all(|lane| lane.cursor() >= newest)
    };
    let until = Instant::now() + CATCH_UP_MAX;
    while !has_all() {
        if Instant::now() >= until {
            return Err(AgainError::Behind);
        }
        tokio::time::sleep(CATCH_UP_STEP).await;
    }
    Ok(())
}

/// What is kept of a request.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(in crate::http) struct ContentData {
    /// `items`, `body` (of a refused request), or null: nothing.
    pub(in crate::http) kept: Option<&'static str>,
    /// Why nothing is kept, and what to do.
    pub(in crate::http) reason: Option<&'static str>,
    /// The first items, flattened, at most 50.
    pub(in crate::http) items: Vec<ItemContent>,
    /// Items that are not shown here.
    pub(in crate::http) items_left_out: usize,
    /// The body as text, at most 20,000 characters; bytes that are no UTF-8 are replaced.
    pub(in crate::http) body: Option<String>,
    /// Bytes of the body that are not shown here.
    pub(in crate::http) body_bytes_left_out: usize,
}

/// An item of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ItemContent {
    /// What identifies it in the stream.
    pub(in crate::http) key: String,
    /// Its first fields, at most 200.
    pub(in crate::http) fields: Vec<FieldContent>,
    /// Fields that are not shown here.
    pub(in crate::http) fields_left_out: usize,
}

/// A field of an item.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct FieldContent {
    /// Its flattened name.
    pub(in crate::http) name: String,
    /// JSON text of its value, at most 500 characters of it.
    pub(in crate::http) value: String,
    /// Bytes of the value that are not shown here.
    pub(in crate::http) bytes_left_out: usize,
}

/// What of it is shown.
pub(in crate::http) fn content(kept: &Kept) -> ContentData {
    match kept {
        Kept::Items(entry) => of_items(&entry.items),
        Kept::Body(body) => {
            let text = String::from_utf8_lossy(&body.body);
            let (shown, left_out) = beginning(&text, BODY_CHARS_MAX);
            ContentData {
                kept: Some("body"),
                body: Some(shown.to_owned()),
                body_bytes_left_out: left_out,
                ..ContentData::default()
            }
        }
        Kept::Nothing(why) => ContentData {
            reason: Some(why),
            ..ContentData::default()
        },
    }
}

fn of_items(items: &Items) -> ContentData {
    let mut room = SHOWN_BYTES_MAX;
    let mut shown = Vec::new();
    for item in items.iter().take(ITEMS_MAX) {
        if room == 0 {
            break;
        }
        let mut fields = Vec::new();
        let mut fields_left_out = 0;
        for (name, value) in members(item.fields) {
            if fields.len() >= FIELDS_MAX || room == 0 {
                fields_left_out += 1;
                continue;
            }
            let name = field_name(name).into_owned();
            let (value, bytes_left_out) = beginning(value, VALUE_CHARS_MAX);
            room = room.saturating_sub(name.len() + value.len());
            fields.push(FieldContent {
                name,
                value: value.to_owned(),
                bytes_left_out,
            });
        }
        shown.push(ItemContent {
            key: item.key.to_owned(),
            fields,
            fields_left_out,
        });
    }
    ContentData {
        kept: Some("items"),
        items_left_out: items.len() - shown.len(),
        items: shown,
        ..ContentData::default()
    }
}

/// The first characters, and how many bytes are left out.
fn beginning(text: &str, chars_max: usize) -> (&str, usize) {
    let end = text.char_indices().nth(chars_max);
    let end = end.map_or(text.len(), |(end, _)| end);
    (&text[..end], text.len() - end)
}

/// `GET /api/admin/requests/{request_id}/content`
pub(in crate::http) struct GetContent(pub(in crate::http) Parts);

/// What is kept of a request.
///
/// The first items of an accepted request as they were flattened, while the journal keeps them; the beginning of the
/// body of a refused webhook request, likewise.
#[endpoint(
    operation_id = "get_request_content",
    tags("requests"),
    parameters(("request_id" = String, Path, description = "UUID.")),
    responses(
        (status_code = 200, body = Success<ContentData>, description = "What is kept."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such request in the log."),
    ),
    security(("admin_token" = [])),
)]
impl GetContent {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let report = match find_report(&self.0, req).await {
            Ok(Some(report)) => report,
            Ok(None) => return not_found(req, res),
            Err(error) => return envelope::internal(req, res, error),
        };
        match self.0.ingest.kept(&report.row).await {
            Ok(kept) => envelope::ok(res, content(&kept)),
            Err(error) => envelope::internal(req, res, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemsWriter;

    #[test]
    fn what_is_shown_is_bounded_and_says_what_is_left_out() {
        let long = format!(r#"{{"text":"{}"}}"#, "ü".repeat(10_000));
        let fields: Vec<String> = (0..300).map(|n| format!(r#""f{n}":{n}"#)).collect();
        let many = format!("{{{}}}", fields.join(","));
        let mut writer = ItemsWriter::new(16 << 20, 0);
        for number in 0..60 {
            let fields = if number == 1 { &many } else { &long };
            writer.push(&number.to_string(), fields).expect("it fits");
        }
        let shown = of_items(&writer.into_items());
        assert_eq!((shown.items.len(), shown.items_left_out), (50, 10));
        let value = &shown.items[0].fields[0];
        assert_eq!(value.value.chars().count(), VALUE_CHARS_MAX);
        assert_eq!(value.value.len() + value.bytes_left_out, 20_002);
        assert_eq!(shown.items[1].fields.len(), FIELDS_MAX);
        assert_eq!(shown.items[1].fields_left_out, 100);
    }

    #[test]
    fn all_of_it_together_is_bounded() {
        let fields: Vec<String> = (0..200)
            .map(|n| format!(r#""f{n}":"{}""#, "x".repeat(1_000)))
            .collect();
        let fields = format!("{{{}}}", fields.join(","));
        let mut writer = ItemsWriter::new(16 << 20, 0);
        for number in 0..50 {
            writer.push(&number.to_string(), &fields).expect("it fits");
        }
        let shown = of_items(&writer.into_items());
        let values = shown.items.iter().flat_map(|item| &item.fields);
        let bytes: usize = values.map(|field| field.value.len()).sum();
        assert!(bytes <= SHOWN_BYTES_MAX + VALUE_CHARS_MAX, "{bytes}");
        assert!(shown.items_left_out > 40, "{}", shown.items_left_out);
    }
}
