//! Adding, replacing, rolling back and removing plugins while the daemon runs.
//!
//! **Invariant**: a component is compiled, started and inspected before anything changes. If one of the sinks that use
//! the name does not start with it, all of them keep their component.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{By, OperateError, Operator, UsedPlugin, in_background};
use base::clock::{self, Unix};
use catalog::{AuditChange, ResourceKind};
use plugin::store::{Installed, Store, StoreError};
use settings::BUILT_IN_PLUGINS;

/// Maximum characters of a name.
const NAME_CHARS_MAX: usize = 64;

/// Why the plugins were not changed.
#[derive(Debug, thiserror::Error)]
pub enum PluginChangeError {
    /// The name is not valid for a component.
    #[error(
        "the name of a plugin has 1 to {NAME_CHARS_MAX} letters, digits, hyphens and underscores, and is none of {}", BUILT_IN_PLUGINS.join(", ")
    )]
    Name,
    /// No plugin has the name.
    #[error("no such plugin")]
    Unknown,
    /// An operator copied the file there.
    #[error(
        "{0}.wasm in the plugins directory was put there by hand, and is used as it is; delete or rename it first"
    )]
    ByHand(String),
    /// It has no earlier version.
    #[error(
        "the plugin {0:?} was not replaced since it was added, so there is nothing to go back to"
    )]
    NothingBefore(String),
    /// Sinks use it.
    #[error("the plugin is used by {}; delete these sinks, or change their plugin", .0.join(", "))]
    InUse(Vec<String>),
    /// It is not a component that a sink can use.
    #[error("the component cannot be used: {0}")]
    Unusable(String),
    /// A sink does not start with it.
    #[error(
        "nothing was changed, because the sink {sink:?} does not start with this component: {reason}"
    )]
    Refused { sink: String, reason: String },
    /// The files cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A component, and its origin.
#[derive(Debug, Clone)]
pub struct NewComponent {
    pub component: Bytes,
    /// A file or an address, for users and for `headgate plugin update`.
    pub source: String,
}

impl Operator {
    fn plugin_store(&self) -> Store {
        Store::of(&self.about.storage.plugins_dir())
    }

    /// Adds a plugin, or replaces one that was added; returns whether it is new.
    ///
    /// # Errors
    /// See [`PluginChangeError`]; nothing was changed then.
    pub async fn put_plugin(
        &self,
        name: &str,
        new: NewComponent,
        by: By,
    ) -> Result<(UsedPlugin, bool), OperateError> {
        let _one = self.sink_changes.one_change().await;
        if !is_name(name) {
            return Err(PluginChangeError::Name.into());
        }
        let before = self.replaceable(name).await?;
        let (store, component) = (self.plugin_store(), new.component);
        let sha256 = in_background(move || store.keep(&component)).await;
        let mut installed = Installed {
            name: name.to_owned(),
            sha256: sha256.map_err(PluginChangeError::from)?,
            source: new.source,
            ..Installed::default()
        };
        if let Some(before) = &before {
            installed.previous = replaced(before, &installed.sha256);
        }
        let is_new = before.is_none();
        let action = if is_new { "add" } else { "replace" };
        match self.install(installed, before, action, by).await {
            Ok(plugin) => Ok((plugin, is_new)),
            Err(error) => {
                let store = self.plugin_store();
                // What nobody uses goes at the next start otherwise.
                let _ = in_background(move || store.recover()).await;
                Err(error)
            }
        }
    }

    /// Restores the previous version of a plugin. It is installed like a new one, because a sink may not start with
    /// it any more.
    ///
    /// # Errors
    /// See [`PluginChangeError`]; nothing was changed then.
    pub async fn roll_back_plugin(&self, name: &str, by: By) -> Result<UsedPlugin, OperateError> {
        let _one = self.sink_changes.one_change().await;
        let before = self.replaceable(name).await?;
        let before = before.ok_or(PluginChangeError::Unknown)?;
        let Some(last) = before.previous.first().cloned() else {
            return Err(PluginChangeError::NothingBefore(name.to_owned()).into());
        };
        // What was added long ago may be something else by now.
        let (store, content) = (self.plugin_store(), last.clone());
        let read = in_background(move || store.read(&content)).await;
        read.map_err(PluginChangeError::from)?;
        let installed = Installed {
            previous: replaced(&before, &last),
            sha256: last,
            ..before.clone()
        };
        self.install(installed, Some(before), "rollback", by).await
    }

    /// Removes an added plugin that no sink uses.
    ///
    /// # Errors
    /// See [`PluginChangeError`]; nothing was changed then.
    pub async fn remove_plugin(&self, name: &str, by: By) -> Result<(), OperateError> {
        let _one = self.sink_changes.one_change().await;
        let before = self.replaceable(name).await?;
        let before = before.ok_or(PluginChangeError::Unknown)?;
        let used_by = self.users_of(name);
        if !used_by.is_empty() {
            let names = used_by.into_iter().map(|sink| sink.name).collect();
            return Err(PluginChangeError::InUse(names).into());
        }
        let (store, removed) = (self.plugin_store(), name.to_owned());
        let removed = in_background(move || store.remove(&removed)).await;
        removed.map_err(PluginChangeError::from)?;
        let was = json!({ "sha256": before.sha256, "version": before.version });
        let change = AuditChange::done("remove", ResourceKind::Plugin, name, was);
        self.record(by, change).await;
        Ok(())
    }

    /// The component of an added plugin.
    ///
    /// # Errors
    /// See [`PluginChangeError`].
    pub async fn component_of(&self, name: &str) -> Result<Bytes, OperateError> {
        let installed = self.replaceable(name).await?;
        let installed = installed.ok_or(PluginChangeError::Unknown)?;
        let store = self.plugin_store();
        let component = in_background(move || store.read(&installed.sha256)).await;
        Ok(component.map_err(PluginChangeError::from)?.into())
    }

    /// The current version of a name that can be replaced; `None`: there is none.
    async fn replaceable(&self, name: &str) -> Result<Option<Installed>, OperateError> {
        if !is_name(name) {
            return Err(PluginChangeError::Unknown.into());
        }
        let (store, own) = (self.plugin_store(), name.to_owned());
        let found = in_background(move || {
            let installed = store.installed()?.into_iter().find(|one| one.name == own);
            let sha256 = installed.as_ref().map_or("", |one| &one.sha256);
            let is_unchanged = store.is_unchanged(&own, sha256)?;
            Ok::<_, StoreError>((installed, is_unchanged))
        });
        match found.await.map_err(PluginChangeError::from)? {
            (_, Some(false)) => Err(PluginChangeError::ByHand(name.to_owned()).into()),
            (installed, Some(true)) => Ok(installed),
            // Somebody has deleted the file.
            (_, None) => Ok(None),
        }
    }

    /// Has a name mean content that is kept, once the content and each sink that uses the name agree.
    async fn install(
        &self,
        mut installed: Installed,
        before: Option<Installed>,
        action: &'static str,
        by: By,
    ) -> Result<UsedPlugin, OperateError> {
        let (name, store) = (installed.name.clone(), self.plugin_store());
        let content = store
            .content(&installed.sha256)
            .to_string_lossy()
            .into_owned();
        let (delivery, path) = (Arc::clone(&self.delivery), content.clone());
        let facts = in_background(move || delivery.inspect_file(&path)).await;
        // Nobody knows the file by its digest.
        let named = |reason: String| reason.replace(&content, &name);
        let facts = facts.map_err(|reason| PluginChangeError::Unusable(named(reason)))?;
        installed.version.clone_from(&facts.version);
        for sink in self.users_of(&name) {
            let candidate = settings::Sink {
                plugin: content.clone(),
                ..sink
            };
            let started = self.delivery.can_start(&candidate).await;
            started.map_err(|reason| PluginChangeError::Refused {
                sink: candidate.name,
                reason: named(reason),
            })?;
        }
        installed.added_at = clock::rfc3339(Unix::now());
        let after = json!({
            "sha256": installed.sha256, "version": installed.version, "source": installed.source,
            "replaced": before.map(|before| before.sha256),
        });
        let done = in_background(move || store.install(installed)).await;
        done.map_err(PluginChangeError::from)?;
        // Whoever uses it goes over now, and not when the file is looked at next.
        self.sink_changes.carry_out().await;
        let change = AuditChange::done(action, ResourceKind::Plugin, &*name, after);
        self.record(by, change).await;
        let mut plugins = self.plugins().await.into_iter();
        let found = plugins.find(|used| used.plugin.name == name);
        found.ok_or_else(|| PluginChangeError::Unknown.into())
    }

    /// The sinks that use the file of a name.
    fn users_of(&self, name: &str) -> Vec<settings::Sink> {
        let file = self.plugin_store().file(name);
        let sinks = self.catalog.sinks().into_iter();
        let own = sinks.filter(|sink| *sink.settings.plugin == *file.to_string_lossy());
        own.map(|sink| settings::Sink::clone(&sink.settings))
            .collect()
    }
}

/// Whether a plugin that is added can have the name. The name becomes that of a file, so a slash or a dot could name
/// another one.
fn is_name(name: &str) -> bool {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.chars().all(is_sound)
        && !BUILT_IN_PLUGINS.contains(&name)
}

/// What a name meant before it means this. A version that is restored leaves the list; otherwise a second rollback
/// would lead to itself.
fn replaced(before: &Installed, now: &str) -> Vec<String> {
    let all = std::iter::once(&before.sha256).chain(&before.previous);
    all.filter(|one| *one != now).cloned().collect()
}
