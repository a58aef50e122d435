//! The connectors.
//!
//! **Invariant**: a connector that is declared in the configuration is shown and never changed.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::body::{self, Field, flag, nullable, optional, rate, required, set, text};
use super::keys::KeyData;
use super::{by, paging, param};
use crate::catalog::{CatalogError, Connector, Kind};
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
    /// The field that identifies items when a request does not name one.
    item_key: Option<String>,
    /// Whether its keys may remove items.
    may_delete: bool,
    /// Requests a second of each of its keys; null: the limit of all keys.
    requests_per_second: Option<u32>,
    /// Requests at once of each of its keys; null: the limit of all keys.
    burst: Option<u32>,
    /// Whether it stands in a configuration file, and so cannot be changed at run time.
    declared: bool,
    /// When it was made at run time, RFC 3339.
    created_at: Option<String>,
    /// Its keys, without their secrets, by name.
    keys: Vec<KeyData>,
}

impl From<&Connector> for ConnectorData {
    fn from(connector: &Connector) -> Self {
        let keys = connector.keys.iter();
        Self {
            id: connector.name.to_string(),
            name: connector.name.to_string(),
            description: connector.description.clone(),
            kind: connector.kind.as_str(),
            item_key: connector.item_key.clone(),
            may_delete: connector.may_delete(),
            requests_per_second: connector.requests_per_second,
            burst: connector.burst,
            declared: connector.created_ms.is_none(),
            created_at: connector.created_ms.map(clock::rfc3339),
            keys: keys.map(|key| KeyData::new(key, connector.kind)).collect(),
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
    /// The field that identifies items when a request does not name one.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Field,
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
    /// The field that identifies items when a request does not name one; null: none.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Field,
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
}

impl ConnectorPatch {
    fn read(self) -> Result<impl FnOnce(&mut config::Connector) + Send + 'static, ApiError> {
        let description = nullable("description", self.description, text)?;
        let kind = optional("kind", self.kind, body::choice(KINDS))?;
        let item_key = nullable("item_key", self.item_key, text)?;
        let may_delete = nullable("may_delete", self.may_delete, flag)?;
        let per_second = nullable("requests_per_second", self.requests_per_second, rate)?;
        let burst = nullable("burst", self.burst, rate)?;
        Ok(move |connector: &mut config::Connector| {
            set(&mut connector.description, description);
            set(&mut connector.kind, kind);
            set(&mut connector.item_key, item_key);
            set(&mut connector.may_delete, may_delete);
            set(&mut connector.requests_per_second, per_second);
            set(&mut connector.burst, burst);
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
        paging::by_name(&all, |one| &one.name, |one| ConnectorData::from(one), req)
    }
}

struct CreateConnector(Operator);

/// Create a connector.
///
/// It has no keys yet.
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
            item_key: body.item_key,
            may_delete: body.may_delete,
            requests_per_second: body.requests_per_second,
            burst: body.burst,
        };
        given.read()?(&mut connector);
        let created = self.0.change(by(req), move |catalog, by| {
            catalog.create_connector(connector, by)
        });
        Ok(envelope::created(ConnectorData::from(&*created.await?)))
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
        Ok(envelope::ok(ConnectorData::from(&*connector)))
    }
}

struct ChangeConnector(Operator);

/// Change a connector.
///
/// It counts from the next request on. A changed rate begins with a full burst.
#[endpoint(
    operation_id = "change_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = ConnectorPatch, description = "What is to be another than it is.", example = json!({"item_key": "order.id"})),
    responses((status_code = 200, body = Success<ConnectorData>, description = "As it is now.")),
)]
impl ChangeConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let body: ConnectorPatch = body::read(req).await?;
        let (id, change) = (param(req, "id"), body.read()?);
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_connector(&id, change, by)
        });
        Ok(envelope::ok(ConnectorData::from(&*changed.await?)))
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
        Ok(envelope::ok(ConnectorData::from(&*deleted.await?)))
    }
}
