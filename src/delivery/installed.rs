//! The plugins that there are, whether or not a sink uses them.
//!
//! **Invariant**: a file is inspected once, until it is another.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Delivery;
use plugin::{PluginFacts, Plugins};
use settings::BUILT_IN_PLUGINS;

/// Files of the plugins folder that are looked at.
const FILES_MAX: usize = 1_000;

/// A plugin that there is.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    /// As `plugin` of a section names it.
    pub name: String,
    /// Where its file is; none: it is built in.
    pub path: Option<PathBuf>,
    /// What it says of itself, or why it cannot be used; none: nobody has looked at it yet.
    pub facts: Option<Result<Arc<PluginFacts>, String>>,
}

/// What a file looks like from outside.
type Look = (u64, Option<SystemTime>);
type Inspected = (Look, Result<Arc<PluginFacts>, String>);

/// What was inspected.
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
}

fn look(plugin: &str) -> Look {
    let file = std::fs::metadata(plugin).ok();
    file.map_or((0, None), |file| (file.len(), file.modified().ok()))
}

impl Delivery {
    /// The built-in plugins and those of a folder, as far as they were inspected. Blocks.
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

    /// The same, with each inspected: what is new is compiled. Those that were new. Blocks, on a thread of a runtime.
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

    /// What the component in a file is, or why it cannot be used. Blocks, on a thread of a runtime.
    pub fn inspect_file(&self, path: &str) -> Result<Arc<PluginFacts>, String> {
        self.inspect(&self.plugins, path)
    }

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

/// The components of a folder, by name.
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
