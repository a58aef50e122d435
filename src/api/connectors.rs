//! The connectors.
//!
//! **Invariant**: a connector that is defined in the configuration is shown and never changed.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde_json::{Map, Value};

use super::body;
use super::keys::key_data;
use super::{by, paging, param};
use base::clock;
use catalog::{CatalogError, Connector, FIRST_KEY, FirstStream, ResourceKind, SetUp};
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::Operator;
use settings::Patch;
use wire::{ConnectorData, WebhookAddress};

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

fn address(connector: &Connector, stream: &str, public_url: Option<&str>) -> WebhookAddress {
    let path = connector.path(stream);
    WebhookAddress {
        stream: stream.to_owned(),
        url: public_url.map(|before| format!("{before}{path}")),
        path,
    }
}

fn connector_data(operator: &Operator, connector: &Connector) -> ConnectorData {
    let public_url = operator.catalog.public_url();
    let keys = connector.keys.iter();
    let mut settings = body::shown(settings::Connector::FIELDS, &*connector.settings);
    settings
        .0
        .insert("may_delete".to_owned(), connector.may_delete().into());
    ConnectorData {
        id: connector.name.to_string(),
        settings,
        declared: connector.created_at.is_none(),
        created_at: connector.created_at.map(clock::rfc3339),
        webhooks: (connector.streams().into_iter())
            .map(|stream| address(connector, stream, public_url))
            .collect(),
        keys: keys
            .map(|key| key_data(key, connector.kind, public_url))
            .collect(),
        secret: None,
    }
}

/// A connector that is to be made.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "the document has the rows of the record beside these"
)]
struct NewConnector {
    /// Stream of a first key, `main`, that is created with the connector. If the stream does not exist, it is created.
    #[salvo(schema(required = false))]
    stream: String,
    /// Whether the first key is accepted as `?access_token=`.
    #[salvo(schema(required = false))]
    allow_in_url: bool,
    /// Scheme and secret of a provider that signs its requests, for the first key; null: the key is sent as text.
    verify: Option<serde_json::Value>,
}

/// The changes of a connector; absent members stay unchanged. An object is replaced as a whole.
#[derive(ToSchema)]
struct ConnectorPatch {}

struct ListConnectors(Operator);

/// The connectors, by name.
#[endpoint(
    operation_id = "list_connectors",
    parameters(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page."),
    ),
)]
impl ListConnectors {
    async fn handle(&self, req: &mut Request) -> Result<Listing<ConnectorData>, ApiError> {
        let all = self.0.catalog.connectors();
        let show = |one: &Connector| connector_data(&self.0, one);
        paging::by_name(&all, |one| &one.name, show, req)
    }
}

struct CreateConnector(Operator);

/// Create a connector.
///
/// It has no keys yet. If `stream` is set, a first key is created too; the response has that key, unless it verifies
/// signatures.
#[endpoint(
    operation_id = "create_connector",
    request_body(content = NewConnector, description = "The connector.", example = json!({"name": "shop", "kind": "webhook"})),
    responses(
        (status_code = 201, body = Success<ConnectorData>, description = "Created."),
        (status_code = 409, description = "The name is taken."),
    ),
)]
impl CreateConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let names = ["stream", "allow_in_url", "verify"];
        let of_first_key = settings::Key::FIELDS.iter();
        let of_first_key = of_first_key.filter(|row| names.contains(&row.name));
        let of_first_key: Vec<&settings::Field> = of_first_key.collect();
        let body = body::object(req).await?;
        let mut connector = Patch::of_new(settings::Connector::FIELDS, &of_first_key, body)?;
        let taken = names.map(|name| Some((name.to_owned(), connector.take(name)?)));
        let given: Map<String, Value> = taken.into_iter().flatten().collect();
        let key = settings::Key::of(&given)?;
        if !given.contains_key("stream") {
            if given.contains_key("allow_in_url") || key.verify.is_some() {
                let message = "allow_in_url and verify belong to the key that is created with stream; set stream too, or create the key later";
                return Err(ApiError::invalid(message));
            }
            let created = self.0.change(by(req), move |catalog, by| {
                catalog.create_connector(&connector, by)
            });
            let created = created.await?;
            return Ok(envelope::created(connector_data(&self.0, &created)));
        }
        let set_up = SetUp {
            connector,
            key: FIRST_KEY.to_owned(),
            stream: match self.0.catalog.has_stream(&key.stream) {
                true => FirstStream::Existing(key.stream),
                false => FirstStream::New(key.stream),
            },
            allow_in_url: key.allow_in_url,
            verify: key.verify,
        };
        if let Some(name) = set_up.stream.made() {
            self.0.clear_former(name, by(req).client).await?;
        }
        let made = (self.0).change(by(req), move |catalog, by| catalog.set_up(set_up, by));
        let (secret, key) = made.await?;
        let connector = self.0.catalog.connector(&key.connector);
        let connector = connector.ok_or(CatalogError::NotFound(ResourceKind::Connector))?;
        Ok(envelope::created(ConnectorData {
            secret: secret.map(|secret| secret.expose().to_owned()),
            ..connector_data(&self.0, &connector)
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
        let connector = connector.ok_or(CatalogError::NotFound(ResourceKind::Connector))?;
        Ok(envelope::ok(connector_data(&self.0, &connector)))
    }
}

struct ChangeConnector(Operator);

/// Change a connector.
///
/// The change applies from the next request. A changed rate limit starts with a full burst.
#[endpoint(
    operation_id = "change_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    request_body(content = Option<ConnectorPatch>, description = "The members to change; absent members stay unchanged.", example = json!({"item_key": "order.id"})),
    responses((status_code = 200, body = Success<ConnectorData>, description = "The changed connector.")),
)]
impl ChangeConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let body = body::object(req).await?;
        let patch = Patch::of_change(settings::Connector::FIELDS, body)?;
        let id = param(req, "id");
        let changed = self.0.change(by(req), move |catalog, by| {
            catalog.change_connector(&id, &patch, by)
        });
        Ok(envelope::ok(connector_data(&self.0, &*changed.await?)))
    }
}

struct DeleteConnector(Operator);

/// Delete a connector.
///
/// Its keys are deleted too, immediately. Accepted requests are still delivered, and its requests stay in the log.
#[endpoint(
    operation_id = "delete_connector",
    parameters(("id" = String, Path, description = "Id of the connector.")),
    responses((status_code = 200, body = Success<ConnectorData>, description = "Deleted.")),
)]
impl DeleteConnector {
    async fn handle(&self, req: &mut Request) -> Result<Success<ConnectorData>, ApiError> {
        let id = param(req, "id");
        let deleted = self.0.change(by(req), move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        Ok(envelope::ok(connector_data(&self.0, &*deleted.await?)))
    }
}
