//! The streams.
//!
//! **Invariant**: a stream that is declared in the configuration is shown and never changed.

use salvo_core::{Request, Response, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::body::{self, Field, nullable, number, optional, rate, required, set, text};
use super::{by, paging, param};
use crate::catalog::{CatalogError, Kind, Stream};
use crate::clock;
use crate::config::{self, OnUpdate};
use crate::http::envelope::{self, Listing, Success};
use crate::http::error::ApiError;
use crate::http::export;
use crate::operate::Operator;

const ON_UPDATE: &[(&str, OnUpdate)] =
    &[("replace", OnUpdate::Replace), ("merge", OnUpdate::Merge)];

/// What can be done with streams.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("streams")
        .oapi_tag("streams")
        .get(ListStreams(p()))
        .post(CreateStream(p()))
        .push(
            Router::with_path("{name}")
                .get(GetStream(p()))
                .patch(ChangeStream(p()))
                .delete(DeleteStream(p()))
                .push(Router::with_path("export.{format}").get(ExportStream(p()))),
        )
}

/// A stream.
#[derive(Debug, Serialize, ToSchema)]
struct StreamData {
    /// Its name.
    name: String,
    /// What it is for; null: nobody said.
    description: Option<String>,
    /// What an update does to the fields that it does not name: `replace` or `merge`.
    on_update: &'static str,
    /// After so long without data, renderers are told that it is stale.
    stale_after_seconds: Option<u64>,
    /// The field that says how new an item is.
    version: Option<String>,
    /// Which items are removals.
    delete_when: Option<serde_json::Value>,
    /// After so long without another update an item is removed from the data pool.
    expire_after_seconds: Option<u32>,
    /// Items that it may have in the data pool: then it takes no new ones; null: any number.
    items_max: Option<u64>,
    /// The same by the bytes of their keys and fields.
    bytes_max: Option<u64>,
    /// Items that it has in the data pool.
    items: u64,
    /// The bytes of their keys and fields.
    bytes: u64,
    /// Whether it stands in a configuration file, and so cannot be changed at run time.
    declared: bool,
    /// When it was made at run time, RFC 3339.
    created_at: Option<String>,
}

impl StreamData {
    fn new(operator: &Operator, stream: &Stream) -> Self {
        let size = operator.pool.sizes().of(&stream.name);
        Self {
            name: stream.name.to_string(),
            description: stream.description.clone(),
            on_update: stream.on_update.as_str(),
            stale_after_seconds: stream.stale_after_seconds,
            version: stream.version.clone(),
            delete_when: stream
                .delete_when
                .as_ref()
                .and_then(|when| serde_json::to_value(when).ok()),
            expire_after_seconds: stream.expire_after_seconds,
            items_max: stream.items_max,
            bytes_max: stream.bytes_max,
            items: size.items,
            bytes: size.bytes,
            declared: stream.created_ms.is_none(),
            created_at: stream.created_ms.map(clock::rfc3339),
        }
    }
}

/// A stream that is to be made.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct NewStream {
    /// 1 to 128 characters, no control characters.
    #[salvo(schema(value_type = String, required = true))]
    name: Field,
    /// What it is for, at most 200 characters; null: none.
    #[salvo(schema(value_type = Option<String>))]
    description: Field,
    /// What an update does to the fields that it does not name: `replace` (default) or `merge`.
    #[salvo(schema(value_type = String, required = false))]
    on_update: Field,
    /// After so long without data, renderers are told that it is stale; null: never.
    #[salvo(schema(value_type = Option<u64>))]
    stale_after_seconds: Field,
    /// The field that says how new an item is, a number or a time: one that is lower than the data pool's changes nothing;
    /// null: the order of acceptance decides.
    #[salvo(schema(value_type = Option<String>))]
    version: Field,
    /// Which items are removals: `{"field": "_event", "is": ["orders/delete"]}`; null: none.
    #[salvo(schema(value_type = Option<serde_json::Value>))]
    delete_when: Field,
    /// After so long without another update an item is removed from the data pool; null: never.
    #[salvo(schema(value_type = Option<u32>))]
    expire_after_seconds: Field,
    /// Items that it may have in the data pool: then it takes no new ones; null: any number.
    #[salvo(schema(value_type = Option<u64>))]
    items_max: Field,
    /// The same by the bytes of their keys and fields.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_max: Field,
}

/// What is to be changed of a stream; what is absent stays.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct StreamPatch {
    /// What it is for, at most 200 characters; null: none.
    #[salvo(schema(value_type = Option<String>))]
    description: Field,
    /// What an update does to the fields that it does not name: `replace` or `merge`.
    #[salvo(schema(value_type = String, required = false))]
    on_update: Field,
    /// After so long without data, renderers are told that it is stale; null: never.
    #[salvo(schema(value_type = Option<u64>))]
    stale_after_seconds: Field,
    /// The field that says how new an item is, a number or a time: one that is lower than the data pool's changes nothing;
    /// null: the order of acceptance decides.
    #[salvo(schema(value_type = Option<String>))]
    version: Field,
    /// Which items are removals: `{"field": "_event", "is": ["orders/delete"]}`; null: none.
    #[salvo(schema(value_type = Option<serde_json::Value>))]
    delete_when: Field,
    /// After so long without another update an item is removed from the data pool; null: never.
    #[salvo(schema(value_type = Option<u32>))]
    expire_after_seconds: Field,
    /// Items that it may have in the data pool: then it takes no new ones; null: any number.
    #[salvo(schema(value_type = Option<u64>))]
    items_max: Field,
    /// The same by the bytes of their keys and fields.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_max: Field,
}

impl StreamPatch {
    fn read(self) -> Result<impl FnOnce(&mut config::Stream) + Send + 'static, ApiError> {
        let description = nullable("description", self.description, text)?;
        let on_update = optional("on_update", self.on_update, body::choice(ON_UPDATE))?;
        let stale = nullable("stale_after_seconds", self.stale_after_seconds, number)?;
        let version = nullable("version", self.version, text)?;
        let delete_when = nullable("delete_when", self.delete_when, body::delete_when)?;
        let expire = nullable("expire_after_seconds", self.expire_after_seconds, rate)?;
        let items_max = nullable("items_max", self.items_max, number)?;
        let bytes_max = nullable("bytes_max", self.bytes_max, number)?;
        Ok(move |stream: &mut config::Stream| {
            set(&mut stream.description, description);
            set(&mut stream.on_update, on_update);
            set(&mut stream.stale_after_seconds, stale);
            set(&mut stream.version, version);
            set(&mut stream.delete_when, delete_when);
            set(&mut stream.expire_after_seconds, expire);
            set(&mut stream.items_max, items_max);
            set(&mut stream.bytes_max, bytes_max);
        })
    }
}

struct ListStreams(Operator);

/// The streams, by name.
#[endpoint(
    operation_id = "list_streams",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
)]
impl ListStreams {
    async fn handle(&self, req: &mut Request) -> Result<Listing<StreamData>, ApiError> {
        let all = self.0.catalog.streams();
        paging::by_name(
            &all,
            |one| &one.name,
            |one| StreamData::new(&self.0, one),
            req,
        )
    }
}

struct ExportStream(Operator);

/// All items of a stream as a table.
///
/// In the order of their keys, however many there are; what changes meanwhile may be in it or not. The query is that of
/// feeds, without sorting and limits.
#[endpoint(
    operation_id = "export_stream",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("format" = String, Path, description = "What it is written as: csv, tsv, json or ndjson."),
        ("fields" = Option<String>, Query, description = "The columns: `home.name,Score:home.score`; all fields if absent."),
        ("names" = Option<String>, Query, description = "`_`: dots in names become `_`; `.`: they stay; `nested`: objects (json, ndjson)."),
        ("where" = Option<String>, Query, description = "`status:live,period:1|2,!team:x`: all must hold."),
        ("safe" = Option<bool>, Query, description = "csv and tsv with `'` before what a spreadsheet would compute."),
    ),
    responses(
        (status_code = 200, description = "The rows."),
        (status_code = 404, description = "No such stream, or no such format."),
    ),
)]
impl ExportStream {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let stream = self.0.catalog.stream(&param(req, "name"));
        let stream = stream.ok_or(CatalogError::NotFound(Kind::Stream))?;
        let format = param(req, "format");
        export::answer(&self.0.pool, &stream.name, &format, req, res).await
    }
}

struct CreateStream(Operator);

/// Create a stream.
#[endpoint(
    operation_id = "create_stream",
    request_body(content = NewStream, description = "The stream.", example = json!({"name": "orders", "on_update": "replace"})),
    responses(
        (status_code = 201, body = Success<StreamData>, description = "It is there."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let body: NewStream = body::read(req).await?;
        let mut stream = config::Stream {
            name: required("name", body.name, text)?,
            ..config::Stream::default()
        };
        let given = StreamPatch {
            description: body.description,
            on_update: body.on_update,
            stale_after_seconds: body.stale_after_seconds,
            version: body.version,
            delete_when: body.delete_when,
            expire_after_seconds: body.expire_after_seconds,
            items_max: body.items_max,
            bytes_max: body.bytes_max,
        };
        given.read()?(&mut stream);
        let created = self.0.change(by(req), move |catalog, by| {
            catalog.create_stream(stream, by)
        });
        Ok(envelope::created(StreamData::new(
            &self.0,
            &*created.await?,
        )))
    }
}

struct GetStream(Operator);

/// One stream.
#[endpoint(
    operation_id = "get_stream",
    parameters(("name" = String, Path, description = "Name of the stream.")),
    responses((status_code = 200, body = Success<StreamData>, description = "The stream.")),
)]
impl GetStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let stream = self.0.catalog.stream(&param(req, "name"));
        let stream = stream.ok_or(CatalogError::NotFound(Kind::Stream))?;
        Ok(envelope::ok(StreamData::new(&self.0, &stream)))
    }
}

struct ChangeStream(Operator);

/// Change a stream.
///
/// It counts for what is delivered from now on, and for renderers that are connected.
#[endpoint(
    operation_id = "change_stream",
    parameters(("name" = String, Path, description = "Name of the stream.")),
    request_body(content = Option<StreamPatch>, description = "What is to be another than it is; absent: nothing.", example = json!({"stale_after_seconds": 60})),
    responses((status_code = 200, body = Success<StreamData>, description = "As it is now.")),
)]
impl ChangeStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let body: StreamPatch = body::read(req).await?;
        let (name, change) = (param(req, "name"), body.read()?);
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_stream(&name, change, by)
        });
        Ok(envelope::ok(StreamData::new(&self.0, &*changed.await?)))
    }
}

struct DeleteStream(Operator);

/// Delete a stream.
///
/// Its items stay in the data pool; what was accepted is delivered. While keys that can be used name it, it is
/// refused. With `force` they stay, and what they submit or ask for is answered 404.
#[endpoint(
    operation_id = "delete_stream",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("force" = Option<bool>, Query, description = "`true`: also when keys name it."),
    ),
    responses(
        (status_code = 200, body = Success<StreamData>, description = "It is gone."),
        (status_code = 409, description = "Keys name it, or it is declared in the configuration."),
    ),
)]
impl DeleteStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let force = envelope::flag(req, "force", false)?;
        let name = param(req, "name");
        let deleted = self.0.change(by(req), move |catalog, by| {
            catalog.delete_stream(&name, force, by)
        });
        Ok(envelope::ok(StreamData::new(&self.0, &*deleted.await?)))
    }
}

#[cfg(test)]
pub(super) fn old_change(
    body: serde_json::Map<String, serde_json::Value>,
) -> Result<config::Stream, ApiError> {
    let body: StreamPatch = body::parse(body)?;
    let mut stream = config::Stream {
        name: "x".to_owned(),
        ..Default::default()
    };
    body.read()?(&mut stream);
    Ok(stream)
}

#[cfg(test)]
pub(super) fn old_new(
    body: serde_json::Map<String, serde_json::Value>,
) -> Result<config::Stream, ApiError> {
    let body: NewStream = body::parse(body)?;
    let mut stream = config::Stream {
        name: required("name", body.name, text)?,
        ..Default::default()
    };
    let given = StreamPatch {
        description: body.description,
        on_update: body.on_update,
        stale_after_seconds: body.stale_after_seconds,
        version: body.version,
        delete_when: body.delete_when,
        expire_after_seconds: body.expire_after_seconds,
        items_max: body.items_max,
        bytes_max: body.bytes_max,
    };
    given.read()?(&mut stream);
    Ok(stream)
}
