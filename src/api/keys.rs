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

/// What is to be changed of a key; what is absent stays.
#[derive(ToSchema)]
struct KeyPatch {}

/// How a key is to be rotated.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct RotateKeyBody {
    /// How long the old key can still be used; default a day, 0: it ends now.
    #[salvo(schema(value_type = u64, required = false))]
    grace_seconds: Field,
    /// When the new key ends, RFC 3339; null: never. If absent: when the old one would have.
    #[salvo(schema(value_type = Option<String>))]
    expires_at: Field,
    /// What the tool signs with from now on; for a key that verifies signatures, and only for such a key.
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
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
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
/// The answer holds the key itself, which is shown only here. A connector that is defined in the configuration may
/// have keys that were made at run time.
#[endpoint(
    operation_id = "create_key",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = NewKey, description = "The key.", example = json!({"name": "main", "stream": "orders"})),
    responses(
        (status_code = 201, body = Success<MadeKey>, description = "It can be used."),
        (status_code = 400, description = "The body cannot be used, or there is no such stream."),
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

/// Change a key: when it ends, and what is said of it.
#[endpoint(
    operation_id = "change_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    request_body(content = Option<KeyPatch>, description = "The members to change; absent: none.", example = json!({"expires_at": "2030-01-31T00:00:00Z"})),
    responses(
        (status_code = 200, body = Success<KeyData>, description = "As it is now."),
        (status_code = 409, description = "It was revoked, or is defined in the configuration."),
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
/// It is refused from now on, and no longer listed.
#[endpoint(
    operation_id = "delete_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses((status_code = 200, body = Success<KeyData>, description = "It is gone.")),
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
/// A new key takes the name. The old one is listed under a name of its own, `<name>.<its public id>`, and ends after
/// the grace. The answer holds the new key itself, which is shown only here.
#[endpoint(
    operation_id = "rotate_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    request_body(content = Option<RotateKeyBody>, description = "May be absent: a day of grace.", example = json!({"grace_seconds": 3600})),
    responses(
        (status_code = 201, body = Success<MadeKey>, description = "The new key can be used."),
        (status_code = 409, description = "It was revoked, or is defined in the configuration."),
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

/// Take the secret that the key's tool has sent.
///
/// For tools that make the secret themselves and send it before they sign, such as Notion. It is the key's from now on,
/// and the answer holds it, once. Of a key that is defined in the configuration it is only handed out.
#[endpoint(
    operation_id = "take_key_secret",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses(
        (status_code = 200, body = Success<TakenSecret>, description = "The secret, which is to be set in the configuration."),
        (status_code = 201, body = Success<TakenSecret>, description = "The secret counts."),
        (status_code = 409, description = "None was sent, the key has one, or it was revoked."),
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
/// No request that begins after the answer is accepted with it, and none whose body still arrives. It stays in the
/// list.
#[endpoint(
    operation_id = "revoke_key",
    parameters(
        ("id" = String, Path, description = "Id of the connector."),
        ("name" = String, Path, description = "Name of the key."),
    ),
    responses((status_code = 200, body = Success<KeyData>, description = "It is revoked.")),
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
