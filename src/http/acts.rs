//! Acts of operators over HTTP: the common part of both listeners, and the operate API.
//!
//! **Invariant**: the whole body of an act is read before the act is made, and the response follows after the act is on
//! disk.

use std::sync::Arc;

use salvo_core::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use salvo_core::http::{ParseError, StatusCode};
use salvo_core::{Request, Response, Router};
use salvo_oapi::{RouterExt, endpoint};
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope::{self, Success};
use super::error::ApiError;
use super::middleware::{client, request_id};
use super::reader::{self, Readers};
use ::ingest::headers;
use base::clock;
use catalog::Reader;
use operate::acts::{ACT_BYTES_MAX, ActError, Acting};
use operate::{By, Operator};
use pool::Item;
use pool::acts::{Acted, HeldSince, ItemActs, StreamActs};
use wire::{ActData, HoldData, OverrideData, StoredItem, StreamActsData};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Maximum held keys and overridden items in a response.
pub const LISTED_MAX: u32 = 500;

impl From<ActError> for ApiError {
    fn from(error: ActError) -> Self {
        let message = error.to_string();
        match error {
            ActError::Invalid(_) => Self::new(StatusCode::BAD_REQUEST, "INVALID_PAYLOAD", message),
            ActError::Refused(refused) => {
                let code = refused.code();
                let status = match code {
                    "ITEM_NOT_FOUND" | "FIELD_NOT_FOUND" => StatusCode::NOT_FOUND,
                    "NOT_A_NUMBER" => StatusCode::BAD_REQUEST,
                    _ => StatusCode::CONFLICT,
                };
                let names = refused.details().iter().map(String::as_str);
                Self::new(status, code, message).with_names(code, names)
            }
            ActError::NotAccepted(error) => error.into(),
            ActError::Pool(error) => error.into(),
        }
    }
}

/// The operator of this request.
///
/// # Errors
/// Its `Idempotency-Key` is invalid.
pub fn acting(req: &Request, name: Arc<str>, by_key: bool, by: By) -> Result<Acting, ApiError> {
    let key = req.headers().get(IDEMPOTENCY_KEY);
    let key = headers::idempotency_key(key.map(HeaderValue::as_bytes))?;
    Ok(Acting {
        name,
        by_key,
        by,
        idempotency_key: key.map(|key| key.as_ref().to_owned()),
    })
}

/// Reads the body of an act.
///
/// # Errors
/// It is too large, its media type is not JSON, or it cannot be read.
pub async fn body(req: &mut Request) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message =
            format!("an act has at most {ACT_BYTES_MAX} bytes; split it into several acts");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    };
    let kind = req
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    let reading = req.payload_with_max_size(ACT_BYTES_MAX);
    let body = match tokio::time::timeout(std::time::Duration::from_secs(10), reading).await {
        Ok(Ok(body)) => body.to_vec(),
        Ok(Err(ParseError::PayloadTooLarge)) => return Err(too_large()),
        Ok(Err(error)) => {
            return Err(ActError::Invalid(format!("the body cannot be read: {error}")).into());
        }
        Err(_) => {
            return Err(ActError::Invalid("the body took more than 10 seconds".to_owned()).into());
        }
    };
    match is_json || body.is_empty() {
        true => Ok(body),
        false => Err(ActError::Invalid(
            "send the body with the header `Content-Type: application/json`".to_owned(),
        )
        .into()),
    }
}

/// Answers with the result of an act.
pub fn answer(acted: Acted, res: &mut Response) {
    if acted.replayed {
        res.headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let outcome = acted.outcome;
    let (mut undone, mut covered_by, mut exact) = (None, None, None);
    let mut changed = outcome.changed_holds.map(Value::from);
    if let Some(undo) = outcome.undo {
        changed = Some(Value::from(undo.changed));
        (undone, covered_by, exact) = (Some(undo.undone), Some(undo.covered_by), Some(undo.exact));
    }
    envelope::accepted(ActData {
        request_id: acted.request_id.to_string(),
        seq: acted.seq.get(),
        value: outcome.value,
        released: outcome.released,
        changed,
        taken: outcome.taken,
        still_held: outcome.still_held,
        overridden: outcome.overridden,
        undone,
        covered_by,
        exact,
    })
    .answer(res);
}

/// An item as it is shown, with its overrides and its hold.
///
/// # Errors
/// The item does not exist, or is hidden.
pub fn item_data(item: Option<Item>, acts: ItemActs) -> Result<StoredItem, ApiError> {
    let item = item.ok_or_else(|| {
        let message = "the stream has no item with this key; check the key, percent-encoded as one part of the path";
        ApiError::not_found("ITEM_NOT_FOUND", message)
    })?;
    let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
    let overrides = acts.overrides.into_iter().map(|own| {
        let data = OverrideData {
            value: raw(Some(own.value)),
            source: raw(own.source),
            kept: raw(own.kept),
            by: own.by,
            at: clock::rfc3339(own.at),
            until: own.until.map(clock::rfc3339),
        };
        (own.field, data)
    });
    Ok(StoredItem {
        key: item.key,
        fields: RawValue::from_string(item.fields)?,
        overridden: serde_json::from_str(&item.overridden).unwrap_or_default(),
        updated_at: item.updated_at,
        seq: item.seq.get(),
        request_id: item.request_id,
        overrides: overrides.collect(),
        held: acts.held.map(hold_data),
        waits: acts.waits,
    })
}

pub fn hold_data(held: HeldSince) -> HoldData {
    HoldData {
        key: Some(held.key).filter(|key| !key.is_empty()),
        since: clock::rfc3339(held.since),
        by: held.by,
        until: held.until.map(clock::rfc3339),
    }
}

/// The holds and overrides of a stream.
pub fn stream_data(stream: &str, acts: StreamActs) -> StreamActsData {
    StreamActsData {
        stream: stream.to_owned(),
        held: acts.held.map(hold_data),
        held_keys: acts.held_keys.into_iter().map(hold_data).collect(),
        waiting: acts.waiting,
        overridden: acts.overridden.into_iter().collect(),
    }
}

/// State of the operate API.
#[derive(Clone)]
pub struct Operating {
    pub readers: Readers,
    pub operator: Operator,
}

/// Routes of the operate API, on the service listener.
pub fn routes(operating: &Operating) -> Router {
    let p = || operating.clone();
    Router::with_path("api/operate/{stream}")
        .oapi_tag("operate")
        .get(GetOperated(p()))
        .push(
            Router::with_path("items/{key}")
                .get(GetOperatedItem(p()))
                .put(PutOperatedItem(p())),
        )
        .push(Router::with_path("{verb}").post(Operate(p())))
}

/// The reader and the stream of a request; the reader must be able to operate.
fn operated(operating: &Operating, req: &mut Request) -> Result<(Arc<Reader>, String), ApiError> {
    let reader = operating.readers.with_key_or_token(req)?;
    let stream = req.param::<String>("stream").unwrap_or_default();
    reader.stream(&stream).ok_or_else(reader::no_stream)?;
    if !reader.settings.operate || reader.limits().is_some() {
        let message = "this key may not act: it needs `operate = true` and no limits (`where`, `fields`); use an operate key, ok_…";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message));
    }
    Ok((reader, stream))
}

fn by_key(req: &Request, reader: &Reader) -> Result<Acting, ApiError> {
    let name: Arc<str> = (&*reader.name).into();
    let by = By {
        who: format!("operate key {name}").into(),
        client: client(req),
        request_id: request_id(req),
    };
    acting(req, name, true, by)
}

struct Operate(Operating);

/// Change what a stream shows.
///
/// Requires an operate key of the stream. `verb` is `override`, `add`, `release`, `hold`, `take`, `resume` or `undo`;
/// the bodies are those of the admin API.
#[endpoint(
    operation_id = "operate",
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("verb" = String, Path, description = "The verb."),
        ("Idempotency-Key" = Option<String>, Header, description = "A request with the same key within 24 hours gets the same response and changes nothing."),
    ),
    request_body(content = Option<Value>, description = "The body of the verb.", example = json!({"key": "m1", "field": "home.score", "by": 1})),
    responses(
        (status_code = 202, body = Success<ActData>, description = "Done and on disk."),
        (status_code = 400, description = "The body is invalid, or the field is not a number."),
        (status_code = 403, description = "The key is not an operate key."),
        (status_code = 404, description = "The key does not act on such a stream, or no such verb, item or field is shown."),
        (status_code = 409, description = "Not possible in the current state: a limit is reached, there is nothing to undo, or a later act depends on it."),
        (status_code = 413, description = "The body is larger than 1 MiB."),
    ),
)]
impl Operate {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let (reader, stream) = operated(&self.0, req)?;
        let verb = known_verb(req)?;
        let body = body(req).await?;
        let acting = by_key(req, &reader)?;
        let acted = self.0.operator.act(&stream, &verb, &body, &acting).await?;
        answer(acted, res);
        Ok(())
    }
}

/// The verb of the path.
///
/// # Errors
/// The verb is unknown.
pub fn known_verb(req: &Request) -> Result<String, ApiError> {
    const VERBS: [&str; 7] = [
        "add", "hold", "override", "release", "resume", "take", "undo",
    ];
    let verb = req.param::<String>("verb").unwrap_or_default();
    match VERBS.contains(&&*verb) {
        true => Ok(verb),
        false => {
            let message = format!("there is no such act; the acts are {}", VERBS.join(", "));
            Err(ApiError::not_found("NOT_FOUND", message))
        }
    }
}

struct GetOperated(Operating);

/// The holds and overrides of a stream.
#[endpoint(
    operation_id = "get_operated",
    parameters(("stream" = String, Path, description = "Name of the stream.")),
    responses(
        (status_code = 200, body = Success<StreamActsData>, description = "Holds and overrides."),
        (status_code = 403, description = "The key is not an operate key."),
        (status_code = 404, description = "The key does not act on such a stream."),
    ),
)]
impl GetOperated {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamActsData>, ApiError> {
        let (_, stream) = operated(&self.0, req)?;
        let asked = stream.clone();
        let acts = self
            .0
            .operator
            .in_pool(move |pool| pool.stream_acts(&asked, LISTED_MAX));
        Ok(envelope::ok(stream_data(&stream, acts.await?)))
    }
}

struct GetOperatedItem(Operating);

/// One item, with its overrides and its hold.
#[endpoint(
    operation_id = "get_operated_item",
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
    ),
    responses(
        (status_code = 200, body = Success<StoredItem>, description = "The item."),
        (status_code = 403, description = "The key is not an operate key."),
        (status_code = 404, description = "No such item, or the key does not act on such a stream."),
    ),
)]
impl GetOperatedItem {
    async fn handle(&self, req: &mut Request) -> Result<Success<StoredItem>, ApiError> {
        let (_, stream) = operated(&self.0, req)?;
        let key = req.param::<String>("key").unwrap_or_default();
        let (item, acts) = self.0.operator.item_with_acts(&stream, &key).await?;
        Ok(envelope::ok(item_data(item, acts)?))
    }
}

struct PutOperatedItem(Operating);

/// Put an item as data.
///
/// The object replaces the whole item, also in streams whose updates merge. Overrides stay in effect.
#[endpoint(
    operation_id = "put_operated_item",
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("Idempotency-Key" = Option<String>, Header, description = "A request with the same key within 24 hours gets the same response and changes nothing."),
    ),
    request_body(content = Value, description = "The fields.", example = json!({"home": {"score": 3}})),
    responses(
        (status_code = 202, body = Success<ActData>, description = "Stored."),
        (status_code = 400, description = "The body or the key is invalid."),
        (status_code = 403, description = "The key is not an operate key."),
        (status_code = 404, description = "The key does not act on such a stream."),
        (status_code = 413, description = "The body is larger than 1 MiB."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl PutOperatedItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let (reader, stream) = operated(&self.0, req)?;
        let key = req.param::<String>("key").unwrap_or_default();
        let body = body(req).await?;
        let acting = by_key(req, &reader)?;
        answer(
            self.0
                .operator
                .put_item(&stream, &key, &body, &acting)
                .await?,
            res,
        );
        Ok(())
    }
}
