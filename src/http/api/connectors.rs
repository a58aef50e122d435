//! The connectors.
//!
//! **Invariant**: a connector that is declared in the configuration is shown and never changed.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::body::{self, Field, flag, nullable, number, optional, rate, required, set, text};
use super::keys::KeyData;
use super::{by, paging, param};
use crate::catalog::{CatalogError, Connector, FIRST_KEY, FirstStream, Kind, SetUp};
use crate::clock;
use crate::config::{self, ConnectorKind};
use crate::http::envelope::{self, Listing, Success};
use crate::http::error::ApiError;
use crate::operate::Operator;

const KINDS: &[(&str, ConnectorKind)] = &[
    ("ingest", ConnectorKind::Ingest),
    ("webhook", ConnectorKind::Webhook),
];

/// What can be done with connectors.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("connectors")
        .oapi_tag("connectors")
        .get(ListConnectors(p()))
        .post(CreateConnector(p()))
        .push(
            Router::with_path("{id}")
                .get(GetConnector(p()))
                .patch(ChangeConnector(p()))
                .delete(DeleteConnector(p())),
        )
}

/// A connector.
#[derive(Debug, Serialize, ToSchema)]
struct ConnectorData {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
    /// What it is for; null: nobody said.
    description: Option<String>,
    /// `ingest` or `webhook`.
    kind: &'static str,
    /// The tool that sends, by the name of its preset, if it was chosen; null: the keys say so, or nothing does.
    preset: Option<String>,
    /// The field that identifies items when a request does not name one.
    item_key: Option<String>,
    /// Where the items are in a body; null: where the preset says, or they are the body.
    items: Option<String>,
    /// The field that says how new an item is.
    version: Option<String>,
    /// Which items are removals.
    delete_when: Option<serde_json::Value>,
    /// After so long without another update an item is removed from the data pool.
    expire_after_seconds: Option<u32>,
    /// Whether its keys may remove items.
    may_delete: bool,
    /// Requests a second of each of its keys; null: the limit of all keys.
    requests_per_second: Option<u32>,
    /// Requests at once of each of its keys; null: the limit of all keys.
    burst: Option<u32>,
    /// Bytes of bodies that each of its keys may have stored in a second, 0: any number; null: the limit of all keys.
    bytes_per_second: Option<u64>,
    /// The same in a day of UTC.
    bytes_per_day: Option<u64>,
    /// Whether it stands in a configuration file, and so cannot be changed at run time.
    declared: bool,
    /// When it was made at run time, RFC 3339.
    created_at: Option<String>,
    /// Its keys, without their secrets, by name.
    keys: Vec<KeyData>,
    /// The key that was made with it, shown only then; absent where none was made, or its tool signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl ConnectorData {
    fn new(operator: &Operator, connector: &Connector) -> Self {
        let public_url = operator.catalog.public_url();
        let keys = connector.keys.iter();
        Self {
            id: connector.name.to_string(),
            name: connector.name.to_string(),
            description: connector.description.clone(),
            kind: connector.kind.as_str(),
            preset: connector.settings.preset.clone(),
            item_key: connector.item_key.clone(),
            items: connector.items.clone(),
            version: connector.version.clone(),
            delete_when: connector
                .delete_when
                .as_ref()
                .and_then(|when| serde_json::to_value(when).ok()),
            expire_after_seconds: connector.expire_after_seconds,
            may_delete: connector.may_delete(),
            requests_per_second: connector.requests_per_second,
            burst: connector.burst,
            bytes_per_second: connector.bytes_per_second,
            bytes_per_day: connector.bytes_per_day,
            declared: connector.created_ms.is_none(),
            created_at: connector.created_ms.map(clock::rfc3339),
            keys: keys
                .map(|key| KeyData::new(key, connector.kind, public_url))
                .collect(),
            secret: None,
        }
    }
}

/// A connector that is to be made.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct NewConnector {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    #[salvo(schema(value_type = String, required = true))]
    name: Field,
    /// What it is for, at most 200 characters; null: none.
    #[salvo(schema(value_type = Option<String>))]
    description: Field,
    /// `ingest` (default) or `webhook`.
    #[salvo(schema(value_type = String, required = false))]
    kind: Field,
    /// The tool that sends, by the name of its preset.
    #[salvo(schema(value_type = Option<String>))]
    preset: Field,
    /// The field that identifies items when a request does not name one; `@delivery`: each delivery is an item.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Field,
    /// Where the items are in a body, as the path of an array or an object.
    #[salvo(schema(value_type = Option<String>))]
    items: Field,
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
    /// Requests a second of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    requests_per_second: Field,
    /// Whether its keys may remove items; null: those of an `ingest` connector may, those of a `webhook` connector may
    /// not.
    #[salvo(schema(value_type = Option<bool>))]
    may_delete: Field,
    /// Requests at once of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    burst: Field,
    /// Bytes of bodies that each of its keys may have stored in a second, 0: any number; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_per_second: Field,
    /// The same in a day of UTC.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_per_day: Field,
    /// The stream of a first key, `main`, that is made with it; the stream too, if there is none of this name.
    #[salvo(schema(value_type = String, required = false))]
    stream: Field,
    /// Whether that key may stand in a URL, as `?access_token=`.
    #[salvo(schema(value_type = bool, required = false))]
    allow_in_url: Field,
    /// In place of a text of its own: how what its tool signs is verified.
    #[salvo(schema(value_type = Option<serde_json::Value>))]
    verify: Field,
}

/// What is to be changed of a connector; what is absent stays.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
struct ConnectorPatch {
    /// What it is for, at most 200 characters; null: none.
    #[salvo(schema(value_type = Option<String>))]
    description: Field,
    /// `ingest` or `webhook`.
    #[salvo(schema(value_type = String, required = false))]
    kind: Field,
    /// The tool that sends, by the name of its preset; null: none.
    #[salvo(schema(value_type = Option<String>))]
    preset: Field,
    /// The field that identifies items when a request does not name one; `@delivery`: each delivery is an item; null:
    /// none.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Field,
    /// Where the items are in a body, as the path of an array or an object; null: they are the body.
    #[salvo(schema(value_type = Option<String>))]
    items: Field,
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
    /// Requests a second of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    requests_per_second: Field,
    /// Whether its keys may remove items; null: those of an `ingest` connector may, those of a `webhook` connector may
    /// not.
    #[salvo(schema(value_type = Option<bool>))]
    may_delete: Field,
    /// Requests at once of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    burst: Field,
    /// Bytes of bodies that each of its keys may have stored in a second, 0: any number; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_per_second: Field,
    /// The same in a day of UTC.
    #[salvo(schema(value_type = Option<u64>))]
    bytes_per_day: Field,
}

impl ConnectorPatch {
    fn read(self) -> Result<impl FnOnce(&mut config::Connector) + Send + 'static, ApiError> {
        let description = nullable("description", self.description, text)?;
        let kind = optional("kind", self.kind, body::choice(KINDS))?;
        let preset = nullable("preset", self.preset, text)?;
        let item_key = nullable("item_key", self.item_key, text)?;
        let items = nullable("items", self.items, text)?;
        let version = nullable("version", self.version, text)?;
        let delete_when = nullable("delete_when", self.delete_when, body::delete_when)?;
        let expire = nullable("expire_after_seconds", self.expire_after_seconds, rate)?;
        let may_delete = nullable("may_delete", self.may_delete, flag)?;
        let per_second = nullable("requests_per_second", self.requests_per_second, rate)?;
        let burst = nullable("burst", self.burst, rate)?;
        let of_second = nullable("bytes_per_second", self.bytes_per_second, number)?;
        let of_day = nullable("bytes_per_day", self.bytes_per_day, number)?;
        Ok(move |connector: &mut config::Connector| {
            set(&mut connector.description, description);
            set(&mut connector.kind, kind);
            set(&mut connector.preset, preset);
            set(&mut connector.item_key, item_key);
            set(&mut connector.items, items);
            set(&mut connector.version, version);
            set(&mut connector.delete_when, delete_when);
            set(&mut connector.expire_after_seconds, expire);
            set(&mut connector.may_delete, may_delete);
            set(&mut connector.requests_per_second, per_second);
            set(&mut connector.burst, burst);
            set(&mut connector.bytes_per_second, of_second);
            set(&mut connector.bytes_per_day, of_day);
        })
    }
}

struct ListConnectors(Operator);

/// The connectors, by name.
#[endpoint(
    operation_id = "list_connectors",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
)]
impl ListConnectors {
    async fn handle(&self, req: &mut Request) -> Result<Listing<ConnectorData>, ApiError> {
        let all = self.0.catalog.connectors();
        let show = |one: &Connector| ConnectorData::new(&self.0, one);
        paging::by_name(&all, |one| &one.name, show, req)
    }
}

struct CreateConnector(Operator);

/// Create a connector.
///
/// It has no keys yet, unless `stream` is given: then it has one, and the answer holds it, unless its tool signs.
#[endpoint(
    operation_id = "create_connector",
    request_body(content = NewConnector, description = "The connector.", example = json!({"name": "shop", "kind": "webhook"})),
    responses(
        (status_code = 201, body = Success<ConnectorData>, description = "It is there."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let body: NewConnector = body::read(req).await?;
        let mut connector = config::Connector {
            name: required("name", body.name, text)?,
            ..config::Connector::default()
        };
        let given = ConnectorPatch {
            description: body.description,
            kind: body.kind,
            preset: body.preset,
            item_key: body.item_key,
            items: body.items,
            version: body.version,
            delete_when: body.delete_when,
            expire_after_seconds: body.expire_after_seconds,
            may_delete: body.may_delete,
            requests_per_second: body.requests_per_second,
            burst: body.burst,
            bytes_per_second: body.bytes_per_second,
            bytes_per_day: body.bytes_per_day,
        };
        given.read()?(&mut connector);
        let stream = optional("stream", body.stream, text)?;
        let allow_in_url = optional("allow_in_url", body.allow_in_url, flag)?;
        let verify = nullable("verify", body.verify, body::verify)?.flatten();
        let Some(stream) = stream else {
            if allow_in_url.is_some() || verify.is_some() {
                let message = "allow_in_url and verify are of the key that is made with stream; give that too, or make the key later";
                return Err(ApiError::invalid(message));
            }
            let created = self.0.change(by(req), move |catalog, by| {
                catalog.create_connector(connector, by)
            });
            let created = created.await?;
            return Ok(envelope::created(ConnectorData::new(&self.0, &created)));
        };
        let set_up = SetUp {
            connector,
            key: FIRST_KEY.to_owned(),
            stream: match self.0.catalog.has_stream(&stream) {
                true => FirstStream::Existing(stream),
                false => FirstStream::New(config::Stream {
                    name: stream,
                    ..config::Stream::default()
                }),
            },
            allow_in_url: allow_in_url.unwrap_or(false),
            verify,
        };
        let made = (self.0).change(by(req), move |catalog, by| catalog.set_up(set_up, by));
        let (secret, key) = made.await?;
        let connector = self.0.catalog.connector(&key.connector);
        let connector = connector.ok_or(CatalogError::NotFound(Kind::Connector))?;
        Ok(envelope::created(ConnectorData {
            secret: secret.map(|secret| secret.expose().to_owned()),
            ..ConnectorData::new(&self.0, &connector)
        }))
    }
}

struct GetConnector(Operator);

/// One connector.
#[endpoint(
    operation_id = "get_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    responses((status_code = 200, body = Success<ConnectorData>, description = "The connector.", example = json!({"name": "shop", "kind": "webhook"}))),
)]
impl GetConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let connector = self.0.catalog.connector(&param(req, "id"));
        let connector = connector.ok_or(CatalogError::NotFound(Kind::Connector))?;
        Ok(envelope::ok(ConnectorData::new(&self.0, &connector)))
    }
}

struct ChangeConnector(Operator);

/// Change a connector.
///
/// It counts from the next request on. A changed rate begins with a full burst.
#[endpoint(
    operation_id = "change_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = Option<ConnectorPatch>, description = "What is to be another than it is; absent: nothing.", example = json!({"item_key": "order.id"})),
    responses((status_code = 200, body = Success<ConnectorData>, description = "As it is now.")),
)]
impl ChangeConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let body: ConnectorPatch = body::read(req).await?;
        let (id, change) = (param(req, "id"), body.read()?);
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_connector(&id, change, by)
        });
        Ok(envelope::ok(ConnectorData::new(&self.0, &*changed.await?)))
    }
}

struct DeleteConnector(Operator);

/// Delete a connector.
///
/// Its keys go with it, at once. What was accepted is delivered, and its requests stay in the log.
#[endpoint(
    operation_id = "delete_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    responses((status_code = 200, body = Success<ConnectorData>, description = "It is gone.")),
)]
impl DeleteConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let id = param(req, "id");
        let deleted = self.0.change(by(req), move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        Ok(envelope::ok(ConnectorData::new(&self.0, &*deleted.await?)))
    }
}

#[cfg(test)]
pub(super) fn old_change(
    body: serde_json::Map<String, serde_json::Value>,
) -> Result<config::Connector, ApiError> {
    let body: ConnectorPatch = body::parse(body)?;
    let mut connector = config::Connector {
        name: "x".to_owned(),
        ..Default::default()
    };
    body.read()?(&mut connector);
    Ok(connector)
}

#[cfg(test)]
pub(super) fn old_new(
    body: serde_json::Map<String, serde_json::Value>,
) -> Result<config::Connector, ApiError> {
    let body: NewConnector = body::parse(body)?;
    let mut connector = config::Connector {
        name: required("name", body.name, text)?,
        ..Default::default()
    };
    let given = ConnectorPatch {
        description: body.description,
        kind: body.kind,
        preset: body.preset,
        item_key: body.item_key,
        items: body.items,
        version: body.version,
        delete_when: body.delete_when,
        expire_after_seconds: body.expire_after_seconds,
        may_delete: body.may_delete,
        requests_per_second: body.requests_per_second,
        burst: body.burst,
        bytes_per_second: body.bytes_per_second,
        bytes_per_day: body.bytes_per_day,
    };
    given.read()?(&mut connector);
    optional("stream", body.stream, text)?;
    optional("allow_in_url", body.allow_in_url, flag)?;
    nullable("verify", body.verify, body::verify)?;
    Ok(connector)
}
