//! Facts about a component that no sink needs to use.
//!
//! **Invariant**: the component is inspected without grants: no host, no database, no folder, no stream.

use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::schema::of_built_in;
use super::{BUILT_IN, Plugin, PluginError, Plugins, SinkContext, Trial};
use base::text::hex;
use settings::{Folder, Http, Postgres, Secret, Sink, Wire};

/// The description and the imports of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFacts {
    /// Its name for itself.
    pub name: String,
    pub version: String,
    pub sha256: String,
    pub bytes: u64,
    /// Imports that its sink must grant: `http`, `postgres`, `folder`, `wire`, `pool`, `secrets`.
    pub asks_for: Vec<&'static str>,
    pub removals: bool,
    /// JSON Schema of its settings; empty: it has none.
    pub schema: String,
}

/// Interfaces that components import, and their names here.
const ASKED: [(&str, &str); 7] = [
    ("wasi:http/", "http"),
    ("headgate:sink/http@", "http"),
    ("headgate:sink/postgres@", "postgres"),
    ("headgate:sink/folder@", "folder"),
    ("headgate:sink/wire@", "wire"),
    ("headgate:sink/pool@", "pool"),
    ("headgate:sink/secrets@", "secrets"),
];

/// The imports of the built-in plugins, and whether they receive removals: this avoids compiling them.
const BUILT_IN_ASKS: [(&str, &[&str], bool); 9] = [
    ("pool", &["pool"], true),
    ("http-forward", &["http", "secrets"], true),
    ("postgres", &["postgres"], true),
    ("influx", &["http"], false),
    ("webhook", &["http", "secrets"], true),
    ("filter-map", &["pool"], true),
    ("file", &["folder"], true),
    ("lines", &["wire"], true),
    ("mqtt", &["wire", "secrets"], true),
];

impl PluginFacts {
    /// The facts of a built-in plugin.
    pub fn of_built_in(plugin: &str) -> Option<Self> {
        let (name, component) = BUILT_IN.iter().find(|(name, _)| *name == plugin)?;
        let (_, asks_for, removals) = BUILT_IN_ASKS.iter().find(|(known, ..)| known == name)?;
        Some(Self {
            name: (*name).to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: hex(&Sha256::digest(component)),
            bytes: component.len() as u64,
            asks_for: asks_for.to_vec(),
            removals: *removals,
            schema: of_built_in(plugin).unwrap_or_default().to_owned(),
        })
    }
}

impl Plugins {
    /// Loads a component, a built-in one by its name, and reads its description. Compiles it if necessary. Blocks, on a
    /// thread of a runtime.
    ///
    /// # Errors
    /// See [`PluginError`].
    pub fn inspect(&self, plugin: &str) -> Result<PluginFacts, PluginError> {
        let sink = Sink {
            name: "none".to_owned(),
            plugin: plugin.to_owned(),
            writes: Some(Vec::new()),
            // Linked, and without a place to go to.
            http: Some(Http::default()),
            postgres: Some(Postgres {
                url: Secret::new("postgresql://none@127.0.0.1/none"),
                ..Postgres::default()
            }),
            folder: Some(Folder::default()),
            wire: Some(Wire::default()),
            ..Sink::default()
        };
        let loaded = self.load(&sink)?;
        let trial = Trial::new(&sink, false);
        let context = SinkContext::of_trial(&sink, None, &trial, "");
        let descriptor = Handle::current().block_on(loaded.describe(&context))?;
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == plugin);
        let bytes = match built_in {
            Some((_, bytes)) => bytes.len() as u64,
            None => std::fs::metadata(plugin).map_or(0, |file| file.len()),
        };
        Ok(PluginFacts {
            name: descriptor.name,
            version: descriptor.version,
            sha256: loaded.sha256().to_owned(),
            bytes,
            asks_for: asked(&loaded),
            removals: loaded.exports_removals(),
            schema: descriptor.config_schema,
        })
    }
}

fn asked(plugin: &Plugin) -> Vec<&'static str> {
    let imports = plugin.imports();
    let asks = |interface: &str| imports.iter().any(|name| name.starts_with(interface));
    let asked = ASKED.iter().filter(|(interface, _)| asks(interface));
    let mut asked: Vec<_> = asked.map(|(_, word)| *word).collect();
    asked.dedup();
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GuestLimits;

    #[test]
    fn what_is_known_of_built_in_plugins_is_what_they_say() {
        let limits = GuestLimits::from(&settings::Plugins::default());
        let plugins = Plugins::new(None, None, limits).expect("an engine");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        for (name, _) in BUILT_IN {
            let said = plugins.inspect(name).expect("it says what it is");
            // Sections name it without what all packages of built-in plugins begin with.
            let said = PluginFacts {
                name: said.name.replace("headgate-plugin-", ""),
                ..said
            };
            assert_eq!(PluginFacts::of_built_in(name), Some(said));
        }
    }
}
