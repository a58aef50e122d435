//! The ingest keys of a connector.
//!
//! **Invariant**: a key's text is in the answer that makes it and in no other. A revocation is answered when it
//! counts.

use std::sync::Arc;

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::body::{self, Field, flag, nullable, number, optional, text, time};
use super::{by, paging, param};
use base::clock;
use catalog::{CatalogError, Connector, IngestKey, ResourceKind, Rotation};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use settings::{ConnectorKind, Patch, Secret};
use wire::{KeyData, MadeKey, TakenSecret};

const GRACE_SECONDS_DEFAULT: u64 = 86_400;

/// What can be done with the keys of a connector.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("connectors/{id}/keys")
        .oapi_tag("keys")
        .get(ListKeys(p()))
        .post(CreateKey(p()))
        .push(
            Router::with_path("{name}")
                .get(GetKey(p()))
                .patch(ChangeKey(p()))
                .delete(DeleteKey(p()))
                .push(Router::with_path("rotate").post(RotateKey(p())))
                .push(Router::with_path("take-secret").post(TakeSecret(p())))
                .push(Router::with_path("revoke").post(RevokeKey(p()))),
        )
}

pub(super) fn key_data(key: &IngestKey, kind: ConnectorKind, public_url: Option<&str>) -> KeyData {
    let path = match kind {
        ConnectorKind::Ingest => "/api/ingest".to_owned(),
        ConnectorKind::Webhook => key.path(),
    };
    KeyData {
        settings: body::shown(settings::Key::FIELDS, &key.own_settings()),
        url: public_url.map(|before| format!("{before}{path}")),
        path,
        prefix: key.prefix().to_string(),
        state: key.state().as_str().to_owned(),
        revoked_at: key.revoked_at.map(clock::rfc3339),
        declared: key.created_at.is_none(),
        created_at: key.created_at.map(clock::rfc3339),
        last_used_at: key.used_at().map(clock::rfc3339),
        last_refused_at: key.refused_at().map(clock::rfc3339),
        secret_sent_at: key.sent_secret_at().map(clock::rfc3339),
    }
}

/// An ingest key that is to be made.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "the document has the rows of the record beside this"
)]
struct NewKey {
    /// Whether the key is a test key: its requests are checked and logged, and reach no sink.
    #[salvo(schema(required = false))]
    test: bool,
}

/// The changes of a key; absent members stay unchanged.
#[derive(ToSchema)]
struct KeyPatch {}

/// The rotation of a key.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct RotateKeyBody {
    /// Grace period of the old key in seconds. Default: one day; 0: it expires now.
    #[salvo(schema(value_type = u64, required = false))]
    grace_seconds: Field,
    /// Expiry of the new key, RFC 3339; null: never. Default: the expiry of the old key.
    #[salvo(schema(value_type = Option<String>))]
    expires_at: Field,
    /// The provider's new signing secret, for keys that verify signatures, and only for those.
    #[salvo(schema(value_type = String, required = false))]
    secret: Field,
}

struct ListKeys(Operator);

/// The keys of a connector, by name.
#[endpoint(
    operation_id = "list_keys",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListKeys {
    async fn handle(&self, req: &mut Request) -> Result<Listing<KeyData>, ApiError> {
        let connector = find(&self.0, req)?;
        let show = |key: &IngestKey| key_data(key, connector.kind, self.0.catalog.public_url());
        paging::by_name(&connector.keys, |one| &one.name, show, req)
    }
}

struct CreateKey(Operator);

/// Create a key.
///
/// Only this response has the key itself. A connector that is defined in the configuration can have keys that are
/// created at run time.
#[endpoint(
    operation_id = "create_key",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = NewKey, description = "The key.", example = json!({"name": "main", "stream": "orders"})),
    responses(
        (status_code = 201, body = Success<MadeKey>, description = "Created; the key is valid."),
        (status_code = 400, description = "The body is invalid, or the stream does not exist."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<MadeKey>, ApiError> {
        let mut body = body::object(req).await?;
        let test = body.shift_remove("test").map(|test| flag("test", test));
        let patch = Patch::of_new(settings::Key::FIELDS, &[], body)?;
        let wanted = catalog::NewKey {
            connector: param(req, "id"),
            settings: settings::Key::of(&patch)?,
            test: test.transpose()?.unwrap_or(false),
        };
        let created = self
            .0
            .change(by(req), move |catalog, by| catalog.create_key(wanted, by));
        let (secret, key) = created.await?;
        Ok(envelope::created(MadeKey {
            secret: secret.map(|secret| secret.expose().to_owned()),
            key: show(&self.0, &key),
            previous: None,
        }))
    }
}

struct GetKey(Operator);

/// One key.
#[endpoint(
    operation_id = "get_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses((status_code = 200, body = Success<KeyData>, description = "The key, without its secret.")),
)]
impl GetKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<KeyData>, ApiError> {
        let connector = find(&self.0, req)?;
        let key = connector.key(&param(req, "name"));
        let key = key.ok_or(CatalogError::NotFound(ResourceKind::Key))?;
        Ok(envelope::ok(key_data(
            key,
            connector.kind,
            self.0.catalog.public_url(),
        )))
    }
}

struct ChangeKey(Operator);

/// Change the expiry or the description of a key.
#[endpoint(
    operation_id = "change_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    request_body(content = Option<KeyPatch>, description = "The members to change; absent members stay unchanged.", example = json!({"expires_at": "2030-01-31T00:00:00Z"})),
    responses(
        (status_code = 200, body = Success<KeyData>, description = "The changed key."),
        (status_code = 409, description = "The key is revoked, or defined in the configuration."),
    ),
)]
impl ChangeKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<KeyData>, ApiError> {
        let body = body::object(req).await?;
        let patch = Patch::of_change(settings::Key::FIELDS, body)?;
        let (id, name) = (param(req, "id"), param(req, "name"));
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_key(&id, &name, &patch, by)
        });
        Ok(envelope::ok(show(&self.0, &*changed.await?)))
    }
}

struct DeleteKey(Operator);

/// Delete a key.
///
/// Requests with it are rejected from now on, and it is no longer listed.
#[endpoint(
    operation_id = "delete_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses((status_code = 200, body = Success<KeyData>, description = "Deleted.")),
)]
impl DeleteKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<KeyData>, ApiError> {
        let (id, name) = (param(req, "id"), param(req, "name"));
        let deleted = self.0.change(by(req), move |catalog, by| {
            catalog.delete_key(&id, &name, by)
        });
        Ok(envelope::ok(show(&self.0, &*deleted.await?)))
    }
}

struct RotateKey(Operator);

/// Rotate a key.
///
/// A new key gets the name. The old key is listed as `<name>.<its public id>` and expires after the grace period. Only
/// this response has the new key itself.
#[endpoint(
    operation_id = "rotate_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    request_body(content = Option<RotateKeyBody>, description = "Optional. Default: a grace period of one day.", example = json!({"grace_seconds": 3600})),
    responses(
        (status_code = 201, body = Success<MadeKey>, description = "The new key is valid."),
        (status_code = 409, description = "The key is revoked, or defined in the configuration."),
    ),
)]
impl RotateKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<MadeKey>, ApiError> {
        let body: RotateKeyBody = body::read(req).await?;
        let grace = optional("grace_seconds", body.grace_seconds, number)?;
        let rotation = Rotation {
            grace_seconds: grace.unwrap_or(GRACE_SECONDS_DEFAULT),
            expires_at: nullable("expires_at", body.expires_at, time)?,
            secret: optional("secret", body.secret, text)?.map(Secret::new),
        };
        let (id, name) = (param(req, "id"), param(req, "name"));
        let rotated = self.0.change(by(req), move |catalog, by| {
            catalog.rotate_key(&id, &name, rotation, by)
        });
        let (secret, key, previous) = rotated.await?;
        Ok(envelope::created(MadeKey {
            secret: secret.map(|secret| secret.expose().to_owned()),
            key: show(&self.0, &key),
            previous: Some(show(&self.0, &previous)),
        }))
    }
}

struct TakeSecret(Operator);

/// Accept the signing secret that the provider has sent.
///
/// For providers such as Notion that create the secret and send it before they sign. From now on the key uses it, and
/// only this response has it. If the key is defined in the configuration, set the secret there.
#[endpoint(
    operation_id = "take_key_secret",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses(
        (status_code = 200, body = Success<TakenSecret>, description = "The secret, to be set in the configuration."),
        (status_code = 201, body = Success<TakenSecret>, description = "The key uses the secret from now on."),
        (status_code = 409, description = "The provider has not sent a secret, the key already has one, or it is revoked."),
    ),
)]
impl TakeSecret {
    async fn handle(&self, req: &mut Request) -> Result<Success<TakenSecret>, ApiError> {
        let (id, name) = (param(req, "id"), param(req, "name"));
        let taken = self.0.change(by(req), move |catalog, by| {
            catalog.take_secret(&id, &name, by)
        });
        let (secret, key) = taken.await?;
        let taken = TakenSecret {
            secret: secret.expose().to_owned(),
            key: show(&self.0, &key),
        };
        Ok(match key.created_at {
            Some(_) => envelope::created(taken),
            None => envelope::ok(taken),
        })
    }
}

struct RevokeKey(Operator);

/// Revoke a key.
///
/// After this response, requests with it are rejected, including those whose body is still arriving. It stays in the
/// list.
#[endpoint(
    operation_id = "revoke_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses((status_code = 200, body = Success<KeyData>, description = "The key is revoked.")),
)]
impl RevokeKey {
    async fn handle(&self, req: &mut Request) -> Result<Success<KeyData>, ApiError> {
        let (id, name) = (param(req, "id"), param(req, "name"));
        let revoked = self.0.change(by(req), move |catalog, by| {
            catalog.revoke_key(&id, &name, by)
        });
        Ok(envelope::ok(show(&self.0, &*revoked.await?)))
    }
}

fn show(operator: &Operator, key: &IngestKey) -> KeyData {
    let connector = operator.catalog.connector(&key.connector);
    key_data(
        key,
        connector.map_or(ConnectorKind::Ingest, |one| one.kind),
        operator.catalog.public_url(),
    )
}

/// The connector that the path names.
fn find(operator: &Operator, req: &Request) -> Result<Arc<Connector>, CatalogError> {
    let connector = operator.catalog.connector(&param(req, "id"));
    connector.ok_or(CatalogError::NotFound(ResourceKind::Connector))
}
