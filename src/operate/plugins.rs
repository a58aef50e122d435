//! The installed plugins, and the sinks that use each.
//!
//! **Invariant**: an unused plugin is not a problem; it is a notice.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{Operator, in_background};
use delivery::{Delivery, InstalledPlugin};
use plugin::store::{Installed, Store};

/// A plugin and the sinks that use it.
#[derive(Debug, Clone)]
pub struct UsedPlugin {
    pub plugin: InstalledPlugin,
    pub used_by: Vec<String>,
    /// Its entry in the store, if it was added and its file is unchanged.
    pub added: Option<Installed>,
}

impl UsedPlugin {
    /// `built-in`, `store`, or `file`.
    pub fn kind(&self) -> &'static str {
        match (&self.plugin.path, &self.added) {
            (None, _) => "built-in",
            (Some(_), Some(_)) => "store",
            (Some(_), None) => "file",
        }
    }

    /// The reason why it cannot be used.
    pub fn error(&self) -> Option<&str> {
        self.plugin
            .facts
            .as_ref()?
            .as_ref()
            .err()
            .map(String::as_str)
    }

    /// Its version of itself.
    pub fn version(&self) -> &str {
        let facts = self.plugin.facts.as_ref();
        let facts = facts.and_then(|facts| facts.as_ref().ok());
        facts.map_or("", |facts| facts.version.as_str())
    }

    /// Imports that its sink must grant, as sentences.
    pub fn asks_for(&self) -> String {
        let facts = self.plugin.facts.as_ref();
        match facts.and_then(|facts| facts.as_ref().ok()) {
            Some(facts) if !facts.asks_for.is_empty() => facts.asks_for.join(", "),
            _ => "nothing".to_owned(),
        }
    }

    /// The JSON Schema of its settings; null: it has none.
    pub fn schema(&self) -> Value {
        let facts = self.plugin.facts.as_ref();
        let facts = facts.and_then(|facts| facts.as_ref().ok());
        let schema = facts.and_then(|facts| serde_json::from_str(&facts.schema).ok());
        schema.unwrap_or_default()
    }

    /// The notice about an unused file: its name and version, or why it cannot be used.
    pub fn notice(&self) -> Option<String> {
        let name = &self.plugin.name;
        if self.plugin.path.is_none() || !self.used_by.is_empty() {
            return None;
        }
        Some(match self.plugin.facts.as_ref()? {
            Ok(facts) => format!("{name} {} is installed and not used", facts.version),
            Err(error) => format!("{name} is installed and cannot be used: {error}"),
        })
    }
}

impl Operator {
    /// All plugins, after an inspection, which may take long for new ones.
    pub async fn plugins(&self) -> Vec<UsedPlugin> {
        self.used(Delivery::inspect_installed).await.0
    }

    /// All plugins, with the results of earlier inspections. Nothing is compiled, so a page can call it.
    pub async fn known_plugins(&self) -> Vec<UsedPlugin> {
        let known = |delivery: &Delivery, folder: &Path| (delivery.installed(folder), Vec::new());
        self.used(known).await.0
    }

    /// Inspects new files, and logs the results.
    pub async fn note_plugins(&self) {
        let (plugins, new) = self.used(Delivery::inspect_installed).await;
        for used in plugins {
            let UsedPlugin {
                plugin, used_by, ..
            } = &used;
            if plugin.path.is_none() || !new.contains(&plugin.name) {
                continue;
            }
            let (name, used_by) = (&*plugin.name, used_by.join(", "));
            match &plugin.facts {
                Some(Ok(facts)) => tracing::info!(
                    plugin = name,
                    version = %facts.version.escape_debug(),
                    asks_for = facts.asks_for.join(", "),
                    used_by,
                    "a plugin is installed"
                ),
                Some(Err(error)) => tracing::warn!(
                    plugin = name,
                    used_by,
                    error = %error.escape_debug(),
                    "a plugin is installed and cannot be used"
                ),
                None => {}
            }
        }
    }

    /// The plugins that `find` returns, and the names of some of them. Blocks.
    async fn used(
        &self,
        find: impl FnOnce(&Delivery, &Path) -> (Vec<InstalledPlugin>, Vec<String>) + Send + 'static,
    ) -> (Vec<UsedPlugin>, Vec<String>) {
        let (delivery, folder) = (Arc::clone(&self.delivery), self.about.storage.plugins_dir());
        let found =
            in_background(move || (find(&delivery, &folder), Store::of(&folder).installed()));
        let ((plugins, names), installed) = found.await;
        let installed = installed.unwrap_or_else(|error| {
            tracing::warn!(%error, "what plugins were added as cannot be read");
            Vec::new()
        });
        let sinks = self.catalog.sinks();
        let used_by = |plugin: &InstalledPlugin| {
            let own = sinks.iter().filter(|sink| match &plugin.path {
                Some(path) => *sink.settings.plugin == *path.to_string_lossy(),
                None => sink.settings.plugin == plugin.name,
            });
            own.map(|sink| sink.name().to_owned()).collect()
        };
        let added = |plugin: &InstalledPlugin| {
            let facts = plugin.facts.as_ref()?.as_ref().ok()?;
            let mut of_name = installed.iter().filter(|one| one.name == plugin.name);
            of_name.find(|one| one.sha256 == facts.sha256).cloned()
        };
        let used = plugins.into_iter().map(|plugin| UsedPlugin {
            used_by: used_by(&plugin),
            added: plugin.path.as_ref().and_then(|_| added(&plugin)),
            plugin,
        });
        (used.collect(), names)
    }
}
