//! Changes of the configuration, and of the files that it names, while the daemon runs.
//!
//! `serve` reads the configuration again on SIGHUP and when a file has changed, and hands it here.
//!
//! **Invariant**: what cannot be used changes nothing and is told; a file is only read when it has been left alone for
//! a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::sinks::Sinks;
use base::clock;
use http::tls::Encryption;
use operate::Operator;
use settings::{Loaded, SecretSource, Settings, Tls, explain, quoted};

/// What takes changes.
#[derive(Debug, Clone)]
pub struct Reload {
    pub(super) operator: Operator,
    pub(super) sinks: Arc<Sinks>,
    pub(super) encryption: Encrypted,
}

/// What the connections of the listeners are encrypted with, where they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Encrypted {
    pub(super) service: Option<Encryption>,
    pub(super) admin: Option<Encryption>,
}

impl Encrypted {
    /// Takes the certificates as their files are now; what is wrong with one that stays as it was.
    fn renew(&self, settings: &Settings) -> Vec<String> {
        let listeners = [
            ("server.tls", &self.service, &settings.server.tls),
            ("admin.tls", &self.admin, &settings.admin.tls),
        ];
        let renewed = listeners.into_iter().filter_map(|(name, encryption, tls)| {
            let wrong = encryption.as_ref()?.renew(tls.as_ref()?).err()?;
            Some(format!("{name}: {wrong}; keeping the previous certificate"))
        });
        renewed.collect()
    }
}

impl Reload {
    /// Takes a configuration: certificates, streams, connectors, keys, presets, the declared admin tokens and sinks
    /// change at once, everything else at the next start.
    pub async fn apply(&self, loaded: &Loaded) {
        if let Some(gone) = self.without_preset() {
            webhook::restore_own(loaded.presets_before.clone());
            return self.refuse(&gone);
        }
        for warning in self.operator.catalog.renew(&loaded.settings) {
            tracing::warn!("{warning}");
        }
        self.operator.live.recheck_keys();
        self.operator.access.renew(&loaded.settings.admin);
        self.sinks.apply().await;
        self.log_gaps();
        self.operator.configuration.set_rows(explain(loaded));
        for wrong in self.encryption.renew(&loaded.settings) {
            tracing::error!("{wrong}");
            self.operator.configuration.set_problem(wrong);
        }
        self.log_terms();
        self.operator.note_plugins().await;
        tracing::info!(
            "configuration reloaded: certificates, streams, connectors, keys, presets, admin tokens and sinks are updated; other changes apply after a restart"
        );
    }

    /// What a connector uses that was made at run time, and is no preset any more. It is looked for before anything
    /// changes, so that the configuration is rejected as a whole.
    fn without_preset(&self) -> Option<String> {
        self.operator.catalog.connectors().iter().find_map(|connector| {
            let gone = connector.preset_names().find(|name| webhook::preset(name).is_none())?;
            Some(format!(
                "the preset {} is missing, but the connector {} uses it; keep the preset as long as the connector exists",
                quoted(gone),
                quoted(&connector.name)
            ))
        })
    }

    /// Says which streams reach no sink, or none that writes the data pool.
    pub(super) fn log_gaps(&self) {
        for gap in self.operator.delivery.gaps(&self.operator.catalog) {
            tracing::warn!("{gap}");
        }
    }

    /// Says which certificates are in use, and in the log those that end soon.
    pub(super) fn log_terms(&self) {
        let certificates = &self.operator.certificates;
        let listeners = [
            ("service", &self.encryption.service),
            ("admin", &self.encryption.admin),
        ];
        for (listener, encryption) in listeners {
            let terms = encryption.as_ref().map(Encryption::terms);
            certificates.set(listener, terms.unwrap_or_default());
        }
        for problem in certificates.problems() {
            tracing::warn!("{problem}");
        }
    }

    /// The configuration cannot be used, and the old one stays. The files of plugins are taken all the same.
    pub async fn keep(&self, reason: &str) {
        self.refuse(reason);
        self.sinks.apply().await;
        self.operator.note_plugins().await;
    }

    /// Says that the configuration cannot be used.
    fn refuse(&self, reason: &str) {
        tracing::error!("configuration rejected, keeping the previous one: {reason}");
        let problem = format!("the configuration was changed and cannot be used: {reason}");
        self.operator.configuration.set_problem(problem);
    }
}

/// The files that a configuration was made of: its own, the plugins, the secrets of signing keys, among them
/// certificates and key sets, which their tools change, and those of admin tokens.
#[derive(Debug)]
pub struct Files {
    paths: BTreeSet<PathBuf>,
    /// Its components are followed, whoever uses them: sinks that were made at run time do.
    plugins_dir: PathBuf,
    presets_dir: PathBuf,
    known: BTreeMap<PathBuf, Option<Look>>,
}

/// What a file looks like from outside; none: it is not there, or is an empty folder. The content is not read, because
/// the files are compared every second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    bytes: u64,
    inode: u64,
    changed: Option<SystemTime>,
}

impl Files {
    /// As they are now.
    pub fn of(loaded: &Loaded) -> Self {
        let mut files = Self {
            paths: BTreeSet::new(),
            plugins_dir: loaded.settings.storage.plugins_dir(),
            presets_dir: loaded.settings.storage.presets_dir(),
            known: BTreeMap::new(),
        };
        files.follow(loaded);
        files
    }

    /// What they are now is known: call it before they are read. A change while they are read is then a change after
    /// it.
    pub fn remember(&mut self) {
        self.known = self.looks();
    }

    /// Beside those, from now on, the files that a configuration names which cannot be used.
    pub fn follow_too(&mut self, loaded: &Loaded) {
        for path in named(loaded) {
            if self.paths.insert(path.clone()) {
                // What came since it was read is a change.
                self.known.entry(path).or_insert(None);
            }
        }
    }

    /// From now on those of another configuration.
    pub fn follow(&mut self, loaded: &Loaded) {
        self.paths = named(loaded);
        let mut known = std::mem::take(&mut self.known);
        let looks = self.followed().into_iter().map(|path| {
            let known = known.remove(&path);
            let look = known.unwrap_or_else(|| look(&path));
            (path, look)
        });
        self.known = looks.collect();
        // What has gone from a folder since it was read is a change.
        let folders = [&self.plugins_dir, &self.presets_dir];
        let is_in_folder = |path: &Path| folders.iter().any(|one| path.parent() == Some(one));
        known.retain(|path, _| is_in_folder(path));
        self.known.append(&mut known);
    }

    /// What is named, the components of the plugins folder, and presets.
    fn followed(&self) -> BTreeSet<PathBuf> {
        let in_folder = |folder: &Path, wanted: &str| -> Vec<PathBuf> {
            let entries = folder.read_dir().into_iter().flatten().flatten();
            let files = entries.map(|entry| entry.path());
            files
                .filter(|path| path.extension().is_some_and(|end| end == wanted))
                .collect()
        };
        let components = in_folder(&self.plugins_dir, "wasm");
        let presets = in_folder(&self.presets_dir, "toml");
        self.paths
            .iter()
            .cloned()
            .chain(components)
            .chain(presets)
            .collect()
    }

    /// Ends when one of them is another than is known, and was the same a second ago. A file that is still being
    /// written would be read in half.
    pub async fn changed(&self) {
        let mut before = None;
        loop {
            tokio::time::sleep_until(clock::next_second().into()).await;
            let now = self.looks();
            if now != self.known && before.as_ref() == Some(&now) {
                return;
            }
            before = Some(now);
        }
    }

    fn looks(&self) -> BTreeMap<PathBuf, Option<Look>> {
        let looks = self.followed().into_iter().map(|path| {
            let look = look(&path);
            (path, look)
        });
        looks.collect()
    }
}

/// The files that a configuration names.
fn named(loaded: &Loaded) -> BTreeSet<PathBuf> {
    let plugins = loaded
        .settings
        .sinks
        .iter()
        .map(|sink| sink.plugin.as_str());
    let plugins = plugins.filter(|plugin| !settings::BUILT_IN_PLUGINS.contains(plugin));
    let paths = loaded.files.iter().cloned();
    // The folder: a configuration that names a plugin before it is there is read again when it comes.
    let paths = paths.chain([loaded.settings.storage.plugins_dir()]);
    let paths = paths.chain(plugins.map(PathBuf::from));
    let keys = loaded.settings.connectors.iter().flat_map(|one| &one.keys);
    let secrets = keys.filter_map(|key| key.verify.as_ref()?.secret.as_ref());
    let tokens = loaded.settings.admin.tokens.iter();
    let secrets = secrets.chain(tokens.filter_map(|token| token.secret.as_ref()));
    let paths = paths.chain(secrets.filter_map(|secret| match secret.source() {
        SecretSource::File(path) => Some(path.clone()),
        SecretSource::Text | SecretSource::Variable(_) => None,
    }));
    let listeners = [&loaded.settings.server.tls, &loaded.settings.admin.tls];
    let certificates = listeners.into_iter().flatten().flat_map(Tls::files);
    let paths = paths.chain(certificates.cloned());
    paths.collect()
}

fn look(path: &Path) -> Option<Look> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.metadata().ok()?;
    // A folder without anything in it is as good as none: the start makes the one of the plugins.
    if metadata.is_dir() && path.read_dir().ok()?.next().is_none() {
        return None;
    }
    Some(Look {
        bytes: metadata.len(),
        inode: metadata.ino(),
        changed: metadata.modified().ok(),
    })
}

#[cfg(test)]
mod tests;
