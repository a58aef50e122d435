//! The installed plugins, whether or not a sink uses them.
//!
//! **Invariant**: a file is inspected once, until it changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Delivery;
use plugin::{PluginFacts, Plugins};
use settings::BUILT_IN_PLUGINS;

/// Maximum number of files in the plugins directory that are inspected.
const FILES_MAX: usize = 1_000;

#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    /// Its name, as in `plugin` of a sink.
    pub name: String,
    /// Its file; `None`: it is built in.
    pub path: Option<PathBuf>,
    /// Its description, or why it cannot be used; `None`: not inspected yet.
    pub facts: Option<Result<Arc<PluginFacts>, String>>,
}

/// Metadata of a file.
type Look = (u64, Option<SystemTime>);
type Inspected = (Look, Result<Arc<PluginFacts>, String>);

#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<String, Inspected>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Inspected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, plugin: &str) -> Option<Result<Arc<PluginFacts>, String>> {
        let look = look(plugin);
        let known = self.lock();
        let (_, facts) = known.get(plugin).filter(|(known, _)| *known == look)?;
        Some(facts.clone())
    }

    /// Whether a sink may write the data pool; `None`: its component was not inspected, or cannot be used. It reads
    /// the results of inspections only, because a new component has to be compiled.
    pub(super) fn may_write_pool(&self, sink: &settings::Sink) -> Option<bool> {
        let certain = settings::routing_gaps::writes_pool(sink);
        certain.or_else(|| {
            let facts = self.get(&sink.plugin)?.ok()?;
            Some(facts.asks_for.contains(&"pool"))
        })
    }
}

/// Reading the whole file for each list would take as long as the file is large.
fn look(plugin: &str) -> Look {
    let file = std::fs::metadata(plugin).ok();
    file.map_or((0, None), |file| (file.len(), file.modified().ok()))
}

impl Delivery {
    /// The built-in plugins and those of a directory, with the results of earlier inspections. Nothing is inspected
    /// here, because that compiles new components. Blocks.
    pub fn installed(&self, plugins_dir: &Path) -> Vec<InstalledPlugin> {
        let built_in = BUILT_IN_PLUGINS.iter().map(|name| InstalledPlugin {
            name: (*name).to_owned(),
            path: None,
            facts: PluginFacts::of_built_in(name).map(|facts| Ok(Arc::new(facts))),
        });
        let files = components(plugins_dir).into_iter().map(|path| {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let facts = match BUILT_IN_PLUGINS.contains(&&*name) {
                true => Some(Err(
                    "a built-in plugin with the same name takes precedence: rename it".to_owned(),
                )),
                false => self.known.get(&path.to_string_lossy()),
            };
            InstalledPlugin {
                name,
                path: Some(path),
                facts,
            }
        });
        built_in.chain(files).collect()
    }

    /// Inspects all plugins: new components are compiled. Also returns the new ones. Blocks, on a thread of a runtime.
    pub fn inspect_installed(&self, plugins_dir: &Path) -> (Vec<InstalledPlugin>, Vec<String>) {
        let mut installed = self.installed(plugins_dir);
        let mut new = Vec::new();
        for plugin in installed.iter_mut().filter(|plugin| plugin.facts.is_none()) {
            if let Some(path) = &plugin.path {
                plugin.facts = Some(self.inspect(&self.plugins, &path.to_string_lossy()));
                new.push(plugin.name.clone());
            }
        }
        (installed, new)
    }

    /// The description of the component in a file, or why it cannot be used. Blocks, on a thread of a runtime.
    pub fn inspect_file(&self, path: &str) -> Result<Arc<PluginFacts>, String> {
        self.inspect(&self.plugins, path)
    }

    /// It notes the file as it was before, so that a change meanwhile is seen by the next look.
    fn inspect(&self, plugins: &Plugins, place: &str) -> Result<Arc<PluginFacts>, String> {
        // As it was before it was read: a change meanwhile is seen later.
        let look = look(place);
        let facts = plugins.inspect(place);
        let facts = facts.map(Arc::new).map_err(|error| error.to_string());
        self.known
            .lock()
            .insert(place.to_owned(), (look, facts.clone()));
        facts
    }
}

/// The components in a directory, by name.
fn components(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"))
        .take(FILES_MAX)
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_says_whether_it_may_write_the_data_pool_once_it_was_inspected() {
        let known = Known::default();
        for (path, asks_for) in [
            ("/nowhere/one.wasm", vec!["http"]),
            ("/nowhere/two.wasm", vec!["http", "pool"]),
        ] {
            let sink = settings::Sink {
                plugin: path.to_owned(),
                writes: Some(vec!["*".to_owned()]),
                ..settings::Sink::default()
            };
            let writes_nothing = settings::Sink {
                writes: Some(Vec::new()),
                ..sink.clone()
            };
            assert_eq!(known.may_write_pool(&writes_nothing), Some(false));
            assert_eq!(known.may_write_pool(&sink), None);
            let expected = asks_for.contains(&"pool");
            let facts = PluginFacts {
                name: path.to_owned(),
                version: String::new(),
                sha256: String::new(),
                bytes: 0,
                asks_for,
                removals: false,
                schema: String::new(),
            };
            let facts = Ok(Arc::new(facts));
            let inspected = |look: Look| (look, facts.clone());
            known.lock().insert(path.to_owned(), inspected(look(path)));
            assert_eq!(known.may_write_pool(&sink), Some(expected));
            // The file that was inspected was another one.
            known.lock().insert(path.to_owned(), inspected((7, None)));
            assert_eq!(known.may_write_pool(&sink), None);
        }
    }
}
