//! The plugins that there are.
//!
//! **Invariant**: one that cannot be used is listed with the reason.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::param;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use operate::{Operator, UsedPlugin};
use wire::PluginData;

/// Looking at plugins.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("plugins")
        .oapi_tag("sinks")
        .get(ListPlugins(operator.clone()))
        .push(Router::with_path("{name}").get(GetPlugin(operator.clone())))
}

fn plugin_data(used: UsedPlugin) -> PluginData {
    let kind = used.kind().to_owned();
    let UsedPlugin { plugin, used_by } = used;
    let data = PluginData {
        name: plugin.name,
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
/// Those that are built in, and the files of the plugins folder. A file that is new is compiled and asked what it is.
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
    parameters(("name" = String, Path, description = "As `plugin` of a section names it.")),
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
