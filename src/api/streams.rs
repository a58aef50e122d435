//! The streams.
//!
//! **Invariant**: a stream that is defined in the configuration is shown and never changed.

use salvo_core::{Request, Response, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde_json::Value;

use super::body;
use super::{by, paging, param};
use base::clock;
use catalog::{CatalogError, ResourceKind, Stream};
use feed::export;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use settings::Patch;
use wire::StreamData;

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

fn stream_data(operator: &Operator, stream: &Stream) -> StreamData {
    let size = operator.pool.sizes().of(&stream.name);
    StreamData {
        settings: body::shown(settings::Stream::FIELDS, &stream.settings),
        items: size.items,
        bytes: size.bytes,
        declared: stream.created_at.is_none(),
        created_at: stream.created_at.map(clock::rfc3339),
    }
}

/// A new stream.
#[derive(ToSchema)]
struct NewStream {}

/// The changes of a stream; absent members stay unchanged. An object is replaced as a whole.
#[derive(ToSchema)]
struct StreamPatch {}

struct ListStreams(Operator);

/// The streams, by name.
#[endpoint(
    operation_id = "list_streams",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListStreams {
    async fn handle(&self, req: &mut Request) -> Result<Listing<StreamData>, ApiError> {
        let all = self.0.catalog.streams();
        paging::by_name(&all, |one| &one.name, |one| stream_data(&self.0, one), req)
    }
}

struct ExportStream(Operator);

/// All items of a stream as a table.
///
/// All items, in the order of their keys. Changes during the export may be missing. The query is that of feeds, without
/// sorting and limits.
#[endpoint(
    operation_id = "export_stream",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("format" = String, Path, description = "The format: csv, tsv, json or ndjson."),
        ("fields" = Option<String>, Query, description = "The columns: `home.name,Score:home.score`; all fields if absent."),
        ("names" = Option<String>, Query, description = "`_`: dots in names become `_`; `.`: dots stay; `nested`: objects (json, ndjson)."),
        ("where" = Option<String>, Query, description = "`status:live,period:1|2,!team:x`: all must hold."),
        ("safe" = Option<bool>, Query, description = "csv and tsv with `'` before values that a spreadsheet would treat as formulas."),
    ),
    responses(
        (status_code = 200, description = "The rows."),
        (status_code = 404, description = "No such stream, or no such format."),
    ),
)]
impl ExportStream {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let stream = self.0.catalog.stream(&param(req, "name"));
        let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
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
        (status_code = 201, body = Success<StreamData>, description = "Created."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let body = body::object(req).await?;
        let stream = Patch::of_new(settings::Stream::FIELDS, &[], body)?;
        if let Some(name) = stream.get("name").and_then(Value::as_str) {
            self.0.clear_former(name, by(req).client).await?;
        }
        let created = self.0.change(by(req), move |catalog, by| {
            catalog.create_stream(&stream, by)
        });
        Ok(envelope::created(stream_data(&self.0, &*created.await?)))
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
        let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
        Ok(envelope::ok(stream_data(&self.0, &stream)))
    }
}

struct ChangeStream(Operator);

/// Change a stream.
///
/// The change applies to items that are delivered from now on, and to connected renderers.
#[endpoint(
    operation_id = "change_stream",
    parameters(("name" = String, Path, description = "Name of the stream.")),
    request_body(content = Option<StreamPatch>, description = "The members to change; absent members stay unchanged.", example = json!({"stale_after_seconds": 60})),
    responses((status_code = 200, body = Success<StreamData>, description = "The changed stream.")),
)]
impl ChangeStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let body = body::object(req).await?;
        let patch = Patch::of_change(settings::Stream::FIELDS, body)?;
        let name = param(req, "name");
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_stream(&name, &patch, by)
        });
        Ok(envelope::ok(stream_data(&self.0, &*changed.await?)))
    }
}

struct DeleteStream(Operator);

/// Delete a stream.
///
/// Its items stay in the data pool, unless `items` is set; accepted requests are still delivered. The call is rejected
/// while valid keys name the stream. With `force` these keys stay, and their requests are answered 404. If a stream
/// with this name is created later, it starts without items, and these keys are revoked.
#[endpoint(
    operation_id = "delete_stream",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("force" = Option<bool>, Query, description = "`true`: delete it even if keys name it."),
        ("items" = Option<bool>, Query, description = "`true`: remove its items too; every sink receives the removals."),
    ),
    responses(
        (status_code = 200, body = Success<StreamData>, description = "Deleted."),
        (status_code = 409, description = "Keys name it, it is defined in the configuration, or the data pool has not caught up."),
    ),
)]
impl DeleteStream {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamData>, ApiError> {
        let force = envelope::flag(req, "force", false)?;
        let items = envelope::flag(req, "items", false)?;
        let deleted = (self.0).delete_stream(param(req, "name"), (force, items), by(req));
        Ok(envelope::ok(stream_data(&self.0, &*deleted.await?)))
    }
}
