//! Acts of operators: overrides, holds, undo, and items that are put.
//!
//! **Invariant**: an act is on disk when it is answered, and names who made it in the audit log.

use std::sync::Arc;

use salvo_core::{Request, Response, Router};
use salvo_oapi::{RouterExt, endpoint};
use serde_json::Value;

use super::{by, param};
use catalog::{CatalogError, ResourceKind};
use http::access::token_of;
use http::acts::{self, LISTED_MAX};
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::Operator;
use wire::{ActData, StreamActsData};

/// What can be done with what streams show.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("streams/{name}")
        .oapi_tag("acts")
        .push(Router::with_path("acts").get(GetActs(p())))
        .push(Router::with_path("items/{key}").put(PutItem(p())))
        .push(Router::with_path("override").post(OverrideItem(p())))
        .push(Router::with_path("add").post(AddToItem(p())))
        .push(Router::with_path("release").post(ReleaseOverrides(p())))
        .push(Router::with_path("hold").post(HoldStream(p())))
        .push(Router::with_path("take").post(TakeStream(p())))
        .push(Router::with_path("resume").post(ResumeStream(p())))
        .push(Router::with_path("undo").post(UndoAct(p())))
}

/// The stream of the path.
fn stream(operator: &Operator, req: &Request) -> Result<Arc<str>, ApiError> {
    let stream = operator.catalog.stream(&param(req, "name"));
    let stream = stream.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
    Ok(Arc::clone(&stream.name))
}

async fn act(
    operator: &Operator,
    verb: &str,
    req: &mut Request,
    res: &mut Response,
) -> Result<(), ApiError> {
    let stream = stream(operator, req)?;
    let body = acts::body(req).await?;
    let acting = acts::acting(req, Arc::clone(&token_of(req)?.name), false, by(req))?;
    let acted = operator.act(&stream, verb, &body, &acting).await?;
    acts::answer(acted, res);
    Ok(())
}

struct GetActs(Operator);

/// The holds and overrides of a stream.
#[endpoint(
    operation_id = "get_acts",
    parameters(("name" = String, Path, description = "Name of the stream.")),
    responses((status_code = 200, body = Success<StreamActsData>, description = "Holds and overrides.")),
)]
impl GetActs {
    async fn handle(&self, req: &mut Request) -> Result<Success<StreamActsData>, ApiError> {
        let stream = stream(&self.0, req)?;
        let asked = Arc::clone(&stream);
        let acts = self
            .0
            .in_pool(move |pool| pool.stream_acts(&asked, LISTED_MAX));
        Ok(envelope::ok(acts::stream_data(&stream, acts.await?)))
    }
}

struct PutItem(Operator);

/// Put an item as data.
///
/// The object replaces the whole item, also in streams whose updates merge. The request belongs to the connector
/// `operator`, and every sink receives it. Overrides stay in effect. The response waits up to a second for the data
/// pool.
#[endpoint(
    operation_id = "put_item",
    parameters(
        ("name" = String, Path, description = "Name of the stream."),
        ("key" = String, Path, description = "Key of the item."),
        ("Idempotency-Key" = Option<String>, Header, description = "A request with the same key within 24 hours gets the same response and changes nothing."),
    ),
    request_body(content = Value, description = "The fields.", example = json!({"home": {"score": 3}})),
    responses(
        (status_code = 202, body = Success<ActData>, description = "Stored."),
        (status_code = 400, description = "The body or the key is invalid."),
        (status_code = 404, description = "No such stream."),
        (status_code = 409, description = "The Idempotency-Key was used for another act."),
        (status_code = 413, description = "The body is larger than 1 MiB."),
        (status_code = 503, description = "The request could not be stored; retry later."),
    ),
)]
impl PutItem {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let stream = stream(&self.0, req)?;
        let key = param(req, "key");
        let body = acts::body(req).await?;
        let acting = acts::acting(req, Arc::clone(&token_of(req)?.name), false, by(req))?;
        acts::answer(self.0.put_item(&stream, &key, &body, &acting).await?, res);
        Ok(())
    }
}

/// A route for each verb.
macro_rules! verbs {
    ($( $(#[doc = $about:literal])+ $Verb:ident, $id:literal, $verb:literal, $example:expr; )*) => { $(
        struct $Verb(Operator);

        $(#[doc = $about])+
        #[endpoint(
            operation_id = $id,
            parameters(
                ("name" = String, Path, description = "Name of the stream."),
                ("Idempotency-Key" = Option<String>, Header, description = "A request with the same key within 24 hours gets the same response and changes nothing."),
            ),
            request_body(content = Option<Value>, description = "The item.", example = $example),
            responses(
                (status_code = 202, body = Success<ActData>, description = "Done and on disk; also if there was nothing to change."),
                (status_code = 400, description = "The body is invalid, or the field is not a number."),
                (status_code = 404, description = "No such stream, or no such item or field is shown."),
                (status_code = 409, description = "Not possible in the current state: a limit is reached, there is nothing to undo, or a later act depends on it."),
                (status_code = 413, description = "The body is larger than 1 MiB."),
            ),
        )]
        impl $Verb {
            async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
                act(&self.0, $verb, req, res).await
            }
        }
    )* };
}

verbs! {
    /// Show values instead of the source's.
    ///
    /// They stay until they are released, `until` is over, or the source removes the item. `create` also shows an item or a
    /// field that is not there.
    OverrideItem, "override_item", "override", json!({"key": "m1", "fields": {"home.score": 3}, "until": null, "create": false});
    /// Add a number to the shown value of a field.
    ///
    /// The sum is exact, and it is an override: what the source adds afterwards is not added to it.
    AddToItem, "add_to_item", "add", json!({"key": "m1", "field": "home.score", "by": 1});
    /// End overrides: of some fields, of an item, or with `{}` of the stream.
    ReleaseOverrides, "release_overrides", "release", json!({"key": "m1", "fields": ["home.score"]});
    /// Hold what is shown, of the stream or of some keys.
    ///
    /// What the source sends waits, the newest of each key.
    HoldStream, "hold_stream", "hold", json!({"keys": ["m1"], "until": 60});
    /// Show what waits, and stay held.
    TakeStream, "take_stream", "take", json!({"keys": ["m1"]});
    /// End a hold: what waited is shown.
    ResumeStream, "resume_stream", "resume", json!({"keys": ["m1"]});
    /// Undo your newest act in the stream, as if it had not been made.
    ///
    /// `skip` takes it off the list and leaves everything as it is.
    UndoAct, "undo_act", "undo", json!({"skip": false});
}
