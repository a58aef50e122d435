//! The read keys.
//!
//! **Invariant**: a key's text is in the answer that makes it and in no other. Renderers of a key that is changed,
//! revoked or deleted are sent away.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};

use super::{body, by, paging, param};
use base::clock;
use catalog::{CatalogError, ReadKey, ResourceKind};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use settings::Patch;
use wire::{MadeReadKey, ReadKeyData};

/// What can be done with read keys.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("read-keys")
        .oapi_tag("read keys")
        .get(ListReadKeys(p()))
        .post(CreateReadKey(p()))
        .push(
            Router::with_path("{name}")
                .get(GetReadKey(p()))
                .patch(ChangeReadKey(p()))
                .delete(DeleteReadKey(p()))
                .push(Router::with_path("revoke").post(RevokeReadKey(p()))),
        )
}

fn show(key: &ReadKey) -> ReadKeyData {
    let mut settings = body::shown(settings::ReadKey::FIELDS, &*key.settings);
    // A file may have written it in another form.
    let expires_at = key.expires_at.map(clock::rfc3339);
    settings
        .0
        .insert("expires_at".to_owned(), expires_at.into());
    ReadKeyData {
        settings,
        prefix: key.prefix.as_deref().unwrap_or_default().to_owned(),
        state: key.state().as_str().to_owned(),
        revoked_at: key.revoked_at.map(clock::rfc3339),
        declared: key.created_at.is_none(),
        created_at: key.created_at.map(clock::rfc3339),
    }
}

/// A new read key.
#[derive(ToSchema)]
struct NewReadKey {}

/// The changes of a read key; absent members stay unchanged.
#[derive(ToSchema)]
struct ReadKeyPatch {}

struct ListReadKeys(Operator);

/// The read keys, by name.
#[endpoint(
    operation_id = "list_read_keys",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListReadKeys {
    async fn handle(&self, req: &mut Request) -> Result<Listing<ReadKeyData>, ApiError> {
        let all = self.0.catalog.read_keys();
        paging::by_name(&all, |one| &one.name, show, req)
    }
}

struct CreateReadKey(Operator);

/// Create a read key.
///
/// Only this response has the key itself.
#[endpoint(
    operation_id = "create_read_key",
    request_body(content = NewReadKey, description = "The key.", example = json!({"name": "lobby-screen", "streams": ["orders"]})),
    responses(
        (status_code = 201, body = Success<MadeReadKey>, description = "Created; the key is valid."),
        (status_code = 400, description = "The body is invalid, or the stream does not exist."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateReadKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<MadeReadKey>, ApiError> {
        let body = body::object(req).await?;
        let patch = Patch::of_new(settings::ReadKey::FIELDS, &[], body)?;
        let wanted = settings::ReadKey::of(&patch)?;
        let created = self.0.change(by(req), move |catalog, by| {
            catalog.create_read_key(wanted, by)
        });
        let (secret, key) = created.await?;
        Ok(envelope::created(MadeReadKey {
            secret: secret.expose().to_owned(),
            key: show(&key),
        }))
    }
}

struct GetReadKey(Operator);

/// One read key.
#[endpoint(
    operation_id = "get_read_key",
    parameters(("name" = String, Path, description = "Name of the key.")),
    responses((status_code = 200, body = Success<ReadKeyData>, description = "The key, without its secret.")),
)]
impl GetReadKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<ReadKeyData>, ApiError> {
        let key = self.0.catalog.read_key(&param(req, "name"));
        let key = key.ok_or(CatalogError::NotFound(ResourceKind::ReadKey))?;
        Ok(envelope::ok(show(&key)))
    }
}

struct ChangeReadKey(Operator);

/// Change a read key.
///
/// Its connections are closed; clients that reconnect can read what the key allows now.
#[endpoint(
    operation_id = "change_read_key",
    parameters(("name" = String, Path, description = "Name of the key.")),
    request_body(content = Option<ReadKeyPatch>, description = "The members to change; absent members stay unchanged.", example = json!({"streams": ["orders"]})),
    responses(
        (status_code = 200, body = Success<ReadKeyData>, description = "The changed read key."),
        (status_code = 400, description = "The body is invalid, or the stream does not exist."),
        (status_code = 409, description = "The key is revoked, or defined in the configuration."),
    ),
)]
impl ChangeReadKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<ReadKeyData>, ApiError> {
        let body = body::object(req).await?;
        let patch = Patch::of_change(settings::ReadKey::FIELDS, body)?;
        let name = param(req, "name");
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_read_key(&name, &patch, by)
        });
        Ok(envelope::ok(show(&*changed.await?)))
    }
}

struct DeleteReadKey(Operator);

/// Delete a read key.
///
/// Requests with it are rejected from now on, its connections are closed, and it is no longer listed.
#[endpoint(
    operation_id = "delete_read_key",
    parameters(("name" = String, Path, description = "Name of the key.")),
    responses((status_code = 200, body = Success<ReadKeyData>, description = "Deleted.")),
)]
impl DeleteReadKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<ReadKeyData>, ApiError> {
        let name = param(req, "name");
        let deleted = self.0.change(by(req), move |catalog, by| {
            catalog.delete_read_key(&name, by)
        });
        Ok(envelope::ok(show(&*deleted.await?)))
    }
}

struct RevokeReadKey(Operator);

/// Revoke a read key.
///
/// Requests with it are rejected from now on, and its connections are closed. It stays in the list.
#[endpoint(
    operation_id = "revoke_read_key",
    parameters(("name" = String, Path, description = "Name of the key.")),
    responses((status_code = 200, body = Success<ReadKeyData>, description = "The key is revoked.")),
)]
impl RevokeReadKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<ReadKeyData>, ApiError> {
        let name = param(req, "name");
        let revoked = self.0.change(by(req), move |catalog, by| {
            catalog.revoke_read_key(&name, by)
        });
        Ok(envelope::ok(show(&*revoked.await?)))
    }
}
