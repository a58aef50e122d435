//! The plugins that there are; adding, replacing and removing one.
//!
//! **Invariant**: one that cannot be used is listed with the reason. A component that is sent is used as a whole or not at
//! all.

use salvo_core::http::ResBody;
use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::{Request, Response, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use http::body;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::{NewComponent, Operator, UsedPlugin};
use wire::{PluginData, RemovedPluginData};

const WASM: HeaderValue = HeaderValue::from_static("application/wasm");
const SOURCE_CHARS_MAX: usize = 1_000;

/// All of plugins.
pub(super) fn routes(operator: &Operator) -> Router {
    let one = Router::with_path("{name}")
        .get(GetPlugin(operator.clone()))
        .put(PutPlugin(operator.clone()))
        .delete(DeletePlugin(operator.clone()))
        .push(Router::with_path("rollback").post(RollBackPlugin(operator.clone())))
        .push(Router::with_path("component").get(GetComponent(operator.clone())));
    Router::with_path("plugins")
        .oapi_tag("sinks")
        .get(ListPlugins(operator.clone()))
        .push(one)
}

fn plugin_data(used: UsedPlugin) -> PluginData {
    let kind = used.kind().to_owned();
    let UsedPlugin {
        plugin,
        used_by,
        added,
    } = used;
    let added = added.unwrap_or_default();
    let known = |text: String| (kind == "store").then_some(text);
    let data = PluginData {
        name: plugin.name,
        source: known(added.source),
        added_at: known(added.added_at),
        previous: added.previous,
        kind,
        used_by,
        ..PluginData::default()
    };
    match plugin.facts {
        None => data,
        Some(Err(error)) => PluginData {
            error: Some(error),
            ..data
        },
        Some(Ok(facts)) => PluginData {
            version: Some(facts.version.clone()),
            sha256: Some(facts.sha256.clone()),
            bytes: Some(facts.bytes),
            asks_for: facts
                .asks_for
                .iter()
                .map(|word| (*word).to_owned())
                .collect(),
            removals: facts.removals,
            schema: serde_json::from_str(&facts.schema).ok(),
            ..data
        },
    }
}

struct ListPlugins(Operator);

/// The plugins.
///
/// The built-in plugins, and the files of the plugins directory. A new file is compiled and inspected first.
#[endpoint(operation_id = "list_plugins")]
impl ListPlugins {
    async fn handle(&self) -> Listing<PluginData> {
        let plugins = self.0.plugins().await;
        envelope::list(plugins.into_iter().map(plugin_data).collect(), None)
    }
}

struct GetPlugin(Operator);

/// One plugin.
#[endpoint(
    operation_id = "get_plugin",
    parameters(("name" = String, Path, description = "Name of the plugin, as in `plugin` of a section.")),
    responses(
        (status_code = 200, body = Success<PluginData>, description = "The plugin."),
        (status_code = 404, description = "No such plugin."),
    ),
)]
impl GetPlugin {
    async fn handle(&self, req: &mut Request) -> Result<Success<PluginData>, ApiError> {
        let name = param(req, "name");
        let plugins = self.0.plugins().await;
        let found = plugins.into_iter().find(|used| used.plugin.name == name);
        let found = found.ok_or_else(|| {
            let message = "no such plugin; `GET /api/admin/plugins` lists them";
            ApiError::not_found("PLUGIN_NOT_FOUND", message)
        })?;
        Ok(envelope::ok(plugin_data(found)))
    }
}

struct PutPlugin(Operator);

/// Add or replace a plugin.
///
/// The body is the component. The daemon compiles and inspects it, then starts each sink that uses the name with it. If
/// one of them does not start, nothing is changed. Otherwise the sinks switch to it immediately.
#[endpoint(
    operation_id = "put_plugin",
    parameters(
        ("name" = String, Path, description = "Name for `plugin` of a section: letters, digits, hyphens and underscores."),
        ("source" = Option<String>, Query, description = "Origin to show, such as a file or a URL, at most 1,000 characters."),
    ),
    request_body(content = String, content_type = "application/wasm", description = "The component, at most `plugins.file_max_bytes` long."),
    responses(
        (status_code = 200, body = Success<PluginData>, description = "It replaces the previous plugin."),
        (status_code = 201, body = Success<PluginData>, description = "The plugin was added."),
        (status_code = 400, description = "The name or the component is invalid."),
        (status_code = 409, description = "`PLUGIN_BY_HAND`: a file with this name was put there by hand. `PLUGIN_REFUSED`: a sink that uses it does not start with it. `PLUGIN_CHANGED`: the stored component has another digest."),
    ),
)]
impl PutPlugin {
    async fn handle(&self, req: &mut Request) -> Result<Success<PluginData>, ApiError> {
        let name = param(req, "name");
        let source = req.query::<String>("source").unwrap_or_default();
        if source.chars().count() > SOURCE_CHARS_MAX {
            let message = format!("source has more than {SOURCE_CHARS_MAX} characters");
            return Err(ApiError::invalid(message));
        }
        let bytes_max = self.0.about.component_bytes_max;
        let component = body::at_most(req, bytes_max).await?.clone();
        let by = by(req);
        let put = self
            .0
            .put_plugin(&name, NewComponent { component, source }, by);
        let (plugin, is_new) = put.await?;
        let data = plugin_data(plugin);
        Ok(match is_new {
            true => envelope::created(data),
            false => envelope::ok(data),
        })
    }
}

struct RollBackPlugin(Operator);

/// Roll back a plugin.
///
/// Restores the component from before the last replacement; a second call reverts that. Sinks that use the plugin are
/// started with it first, as for a replacement.
#[endpoint(
    operation_id = "roll_back_plugin",
    parameters(("name" = String, Path, description = "Name of the plugin.")),
    responses(
        (status_code = 200, body = Success<PluginData>, description = "The plugin."),
        (status_code = 404, description = "No plugin was added with this name."),
        (status_code = 409, description = "`NOTHING_TO_ROLL_BACK`: the plugin was never replaced. `PLUGIN_REFUSED`, `PLUGIN_BY_HAND`: as for a new one."),
    ),
)]
impl RollBackPlugin {
    async fn handle(&self, req: &mut Request) -> Result<Success<PluginData>, ApiError> {
        let plugin = self
            .0
            .roll_back_plugin(&param(req, "name"), by(req))
            .await?;
        Ok(envelope::ok(plugin_data(plugin)))
    }
}

struct DeletePlugin(Operator);

/// Remove a plugin.
#[endpoint(
    operation_id = "delete_plugin",
    parameters(("name" = String, Path, description = "Name of the plugin.")),
    responses(
        (status_code = 200, body = Success<RemovedPluginData>, description = "Deleted."),
        (status_code = 404, description = "No plugin was added with this name."),
        (status_code = 409, description = "`PLUGIN_IN_USE`: sinks use it; the message names them. `PLUGIN_BY_HAND`: as for a new one."),
    ),
)]
impl DeletePlugin {
    async fn handle(&self, req: &mut Request) -> Result<Success<RemovedPluginData>, ApiError> {
        let name = param(req, "name");
        self.0.remove_plugin(&name, by(req)).await?;
        Ok(envelope::ok(RemovedPluginData { name }))
    }
}

struct GetComponent(Operator);

/// The component of a plugin.
#[endpoint(
    operation_id = "get_component",
    parameters(("name" = String, Path, description = "Name of the plugin.")),
    responses(
        (status_code = 200, description = "The component.", body = String, content_type = "application/wasm"),
        (status_code = 404, description = "No plugin was added with this name."),
        (status_code = 409, description = "`PLUGIN_BY_HAND`, `PLUGIN_CHANGED`: as for a new one."),
    ),
)]
impl GetComponent {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let component = self.0.component_of(&param(req, "name")).await?;
        res.headers_mut().insert(CONTENT_TYPE, WASM);
        res.body(ResBody::Once(component));
        Ok(())
    }
}
