//! The connectors.
//!
//! **Invariant**: a connector that is declared in the configuration is shown and never changed.

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::{Deserialize, Serialize};

use super::super::Parts;
use super::super::envelope::{ErrorBody, Listing, Success};
use super::change::{self, Refused, change, param};
use super::keys::KeyData;
use super::wish::{self, Given, flag, nullable, optional, rate, required, text};
use crate::catalog::{CatalogError, Connector, ConnectorChange, ConnectorWish, Kind};
use crate::clock;
use crate::config::ConnectorKind;

const KINDS: &[(&str, ConnectorKind)] = &[
    ("ingest", ConnectorKind::Ingest),
    ("webhook", ConnectorKind::Webhook),
];

/// A connector.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ConnectorData {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
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
            kind: connector.kind.as_str(),
            item_key: connector.item_key.as_deref().map(str::to_owned),
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
pub(in crate::http) struct NewConnector {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    #[salvo(schema(value_type = String, required = true))]
    name: Given,
    /// `ingest` (default) or `webhook`.
    #[salvo(schema(value_type = String, required = false))]
    kind: Given,
    /// The field that identifies items when a request does not name one.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Given,
    /// Requests a second of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    requests_per_second: Given,
    /// Whether its keys may remove items; null: those of an `ingest` connector may, those of a `webhook` connector may
    /// not.
    #[salvo(schema(value_type = Option<bool>))]
    may_delete: Given,
    /// Requests at once of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    burst: Given,
}

/// What is to be changed of a connector; what is absent stays.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(in crate::http) struct ConnectorPatch {
    /// `ingest` or `webhook`.
    #[salvo(schema(value_type = String, required = false))]
    kind: Given,
    /// The field that identifies items when a request does not name one; null: none.
    #[salvo(schema(value_type = Option<String>))]
    item_key: Given,
    /// Requests a second of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    requests_per_second: Given,
    /// Whether its keys may remove items; null: those of an `ingest` connector may, those of a `webhook` connector may
    /// not.
    #[salvo(schema(value_type = Option<bool>))]
    may_delete: Given,
    /// Requests at once of each of its keys; null: the limit of all keys.
    #[salvo(schema(value_type = Option<u32>))]
    burst: Given,
}

/// `GET /api/admin/connectors`
pub(in crate::http) struct ListConnectors(pub(in crate::http) Parts);

/// The connectors, by name.
#[endpoint(
    operation_id = "list_connectors",
    tags("connectors"),
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
    responses(
        (status_code = 200, body = Listing<ConnectorData>, description = "A page."),
        (status_code = 400, body = ErrorBody, description = "A parameter cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
    ),
    security(("admin_token" = [])),
)]
impl ListConnectors {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let all = self.0.catalog.connectors();
        change::list_page(
            &all,
            |one| &one.name,
            |one| ConnectorData::from(one),
            req,
            res,
        );
    }
}

/// `POST /api/admin/connectors`
pub(in crate::http) struct CreateConnector(pub(in crate::http) Parts);

/// Create a connector.
///
/// It has no keys yet.
#[endpoint(
    operation_id = "create_connector",
    tags("connectors"),
    request_body(content = NewConnector, description = "The connector.", example = json!({"name": "shop", "kind": "webhook"})),
    responses(
        (status_code = 201, body = Success<ConnectorData>, description = "It is there."),
        (status_code = 400, body = ErrorBody, description = "The body cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 409, body = ErrorBody, description = "The name is taken."),
    ),
    security(("admin_token" = [])),
)]
impl CreateConnector {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let done = self.create(req).await;
        change::answer_made(done, req, res);
    }
}

impl CreateConnector {
    async fn create(&self, req: &mut Request) -> Result<ConnectorData, Refused> {
        let body: NewConnector = wish::read(req).await?;
        let per_second = nullable("requests_per_second", body.requests_per_second, rate)?;
        let wanted = ConnectorWish {
            name: required("name", body.name, text)?,
            kind: optional("kind", body.kind, wish::choice(KINDS))?.unwrap_or_default(),
            item_key: nullable("item_key", body.item_key, text)?.flatten(),
            may_delete: nullable("may_delete", body.may_delete, flag)?.flatten(),
            requests_per_second: per_second.flatten(),
            burst: nullable("burst", body.burst, rate)?.flatten(),
        };
        let create = change(&self.0, req, |catalog, by| {
            catalog.create_connector(wanted, by)
        });
        Ok(ConnectorData::from(&*create.await?))
    }
}

/// `GET /api/admin/connectors/{id}`
pub(in crate::http) struct GetConnector(pub(in crate::http) Parts);

/// One connector.
#[endpoint(
    operation_id = "get_connector",
    tags("connectors"),
    parameters(("id" = String, Path, description = "Id of the connector.")),
    responses(
        (status_code = 200, body = Success<ConnectorData>, description = "The connector.", example = json!({"name": "shop", "kind": "webhook"})),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such connector."),
    ),
    security(("admin_token" = [])),
)]
impl GetConnector {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let connector = self.0.catalog.connector(&param(req, "id"));
        let connector = connector.ok_or(Refused::Catalog(CatalogError::NotFound(Kind::Connector)));
        change::answer(connector.map(|one| ConnectorData::from(&*one)), req, res);
    }
}

/// `PATCH /api/admin/connectors/{id}`
pub(in crate::http) struct ChangeConnector(pub(in crate::http) Parts);

/// Change a connector.
///
/// It counts from the next request on. A changed rate begins with a full burst.
#[endpoint(
    operation_id = "change_connector",
    tags("connectors"),
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = ConnectorPatch, description = "What is to be another than it is.", example = json!({"item_key": "order.id"})),
    responses(
        (status_code = 200, body = Success<ConnectorData>, description = "As it is now."),
        (status_code = 400, body = ErrorBody, description = "The body cannot be used."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such connector."),
        (status_code = 409, body = ErrorBody, description = "It is declared in the configuration."),
    ),
    security(("admin_token" = [])),
)]
impl ChangeConnector {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let done = self.change(req).await;
        change::answer(done, req, res);
    }
}

impl ChangeConnector {
    async fn change(&self, req: &mut Request) -> Result<ConnectorData, Refused> {
        let body: ConnectorPatch = wish::read(req).await?;
        let per_second = nullable("requests_per_second", body.requests_per_second, rate)?;
        let wanted = ConnectorChange {
            kind: optional("kind", body.kind, wish::choice(KINDS))?,
            item_key: nullable("item_key", body.item_key, text)?,
            may_delete: nullable("may_delete", body.may_delete, flag)?,
            requests_per_second: per_second,
            burst: nullable("burst", body.burst, rate)?,
        };
        let id = param(req, "id");
        let changed = change(&self.0, req, move |catalog, by| {
            catalog.change_connector(&id, wanted, by)
        });
        Ok(ConnectorData::from(&*changed.await?))
    }
}

/// `DELETE /api/admin/connectors/{id}`
pub(in crate::http) struct DeleteConnector(pub(in crate::http) Parts);

/// Delete a connector.
///
/// Its keys go with it, at once. What was accepted is delivered, and its requests stay in the log.
#[endpoint(
    operation_id = "delete_connector",
    tags("connectors"),
    parameters(("id" = String, Path, description = "Id of the connector.")),
    responses(
        (status_code = 200, body = Success<ConnectorData>, description = "It is gone."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such connector."),
        (status_code = 409, body = ErrorBody, description = "It is declared in the configuration."),
    ),
    security(("admin_token" = [])),
)]
impl DeleteConnector {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let id = param(req, "id");
        let deleted = change(&self.0, req, move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        let done = deleted.await.map(|one| ConnectorData::from(&*one));
        change::answer(done, req, res);
    }
}
