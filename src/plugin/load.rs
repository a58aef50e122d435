//! Loads the plugin that a sink's settings name.
//!
//! **Invariant**: with a compiler program, this process parses no file of a user. If the settings pin a digest, only
//! the file with this digest is used.

use std::io::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use wasmtime::component::{Component, Linker};

use super::cache::{self, Digest};
use super::compile::{self, Failed, Refused, Source};
use super::egress::Egress;
use super::postgres::Database;
use super::wire::Wire;
use super::{BUILT_IN, Exports, Grants, Host, Plugin, PluginError, Plugins, explain, host};
use base::opaque::Opaque;
use base::text::hex;
use settings::Leaves;

/// The import of a component that calls others.
const HTTP: [&str; 2] = ["wasi:http/", "headgate:sink/http@"];
/// The import of a component that writes the data pool, of any version.
const POOL: &str = "headgate:sink/pool@";
/// The import of a component that keeps state between calls. Concurrent calls would overwrite the state of each other.
const STATE: &str = "headgate:sink/state@";

impl Plugins {
    /// Loads the plugin of a sink, with the grants of the sink's settings. Compiles it if necessary, which may take as
    /// long as the limits allow. Blocks.
    ///
    /// # Errors
    /// See [`PluginError`].
    pub fn load(&self, sink: &settings::Sink) -> Result<Plugin, PluginError> {
        let name = || sink.plugin.clone();
        let (component, digest) = match built_in(&sink.plugin) {
            Some(bytes) => {
                let digest = Sha256::digest(bytes).into();
                (self.built_in(&sink.plugin, bytes, &digest)?, digest)
            }
            None => self.supplied(&sink.plugin, sink.sha256.as_deref())?,
        };
        let mut linker = (*self.linker).clone();
        let grants = self.grant(sink, &component, &mut linker)?;
        let linked = linker
            .instantiate_pre(&component)
            .and_then(|pre| Ok((Exports::of(&pre)?, pre)));
        let (exports, pre) = linked.map_err(|error| PluginError::Link {
            name: name(),
            reason: explain::of_link(&self.engine, &component, &error),
        })?;
        let plugin = Plugin {
            name: sink.plugin.as_str().into(),
            sha256: hex(&digest).into(),
            pre: Opaque::new(pre),
            exports,
            asks_for_pool: self.asks_for(&component, POOL),
            grants,
            limits: self.limits.of(sink),
            scheduler: match built_in(&sink.plugin) {
                Some(_) => self.scheduler.at_once(),
                None => self.scheduler.clone(),
            },
        };
        match sink.leaves == Leaves::Remove && !plugin.takes_removals() {
            true => Err(PluginError::NoRemovals { name: name() }),
            false => Ok(plugin),
        }
    }

    /// Links the grants of the sink's settings; a component with an import that is not granted is rejected. Each such
    /// import has its error, so that the error names the setting to add.
    fn grant(
        &self,
        sink: &settings::Sink,
        component: &Component,
        linker: &mut Linker<Host>,
    ) -> Result<Grants, PluginError> {
        let name = || sink.plugin.clone();
        let mut grants = Grants {
            writes: sink.writes().into(),
            makes: sink.makes.as_slice().into(),
            ..Grants::default()
        };
        match &sink.http {
            Some(http) => {
                let egress = Egress::new(http).map_err(PluginError::Authorities)?;
                grants.egress = Some(egress.into());
                host::link_http(linker).map_err(PluginError::Engine)?;
            }
            None if HTTP.iter().any(|one| self.asks_for(component, one)) => {
                return Err(PluginError::NoHttp { name: name() });
            }
            None => {}
        }
        match &sink.postgres {
            Some(postgres) => {
                let database = Database::new(postgres).map_err(|reason| PluginError::Database {
                    name: name(),
                    reason,
                })?;
                grants.database = Some(Opaque::new(database));
                host::link_postgres(linker).map_err(PluginError::Engine)?;
            }
            None if self.asks_for(component, "headgate:sink/postgres@") => {
                return Err(PluginError::NoDatabase { name: name() });
            }
            None => {}
        }
        self.grant_places(sink, component, linker, &mut grants)?;
        if sink.in_flight > 1 && self.asks_for(component, STATE) {
            return Err(PluginError::KeepsState { name: name() });
        }
        Ok(grants)
    }

    /// Links the grants of connections and of the folder.
    fn grant_places(
        &self,
        sink: &settings::Sink,
        component: &Component,
        linker: &mut Linker<Host>,
        grants: &mut Grants,
    ) -> Result<(), PluginError> {
        let name = || sink.plugin.clone();
        match &sink.wire {
            Some(wire) => {
                let wire = Wire::new(wire).map_err(PluginError::Authorities)?;
                grants.wire = Some(wire.into());
                host::link_wire(linker).map_err(PluginError::Engine)?;
            }
            None if self.asks_for(component, "headgate:sink/wire@") => {
                return Err(PluginError::NoWire { name: name() });
            }
            None => {}
        }
        match &sink.folder {
            Some(folder) => {
                let opened = (self.roots).folder(&folder.path);
                grants.folder = opened.map_err(|reason| PluginError::Folder {
                    name: name(),
                    reason,
                })?;
                host::link_folder(linker).map_err(PluginError::Engine)?;
            }
            None if self.asks_for(component, "headgate:sink/folder@") => {
                return Err(PluginError::NoFolder { name: name() });
            }
            None => {}
        }
        Ok(())
    }

    fn asks_for(&self, component: &Component, interface: &str) -> bool {
        let component = component.component_type();
        let mut imports = component.imports(&self.engine);
        imports.any(|(name, _)| name.starts_with(interface))
    }

    /// Loads the code that another process has compiled.
    fn known(&self, digest: &Digest) -> Option<Component> {
        let shared = self.shared.as_ref()?;
        shared.get(&self.engine, digest)
    }

    fn built_in(
        &self,
        name: &str,
        bytes: &[u8],
        digest: &Digest,
    ) -> Result<Component, PluginError> {
        if let Some(component) = self.known(digest) {
            return Ok(component);
        }
        let Some(cache) = &self.cache else {
            return Component::new(&self.engine, bytes).map_err(PluginError::Engine);
        };
        if let Some(component) = cache.get(&self.engine, digest) {
            return Ok(component);
        }
        // By an engine of its own, whose compiler keeps some ten megabytes for as long as the engine lives.
        let compiled = super::engine().and_then(|compiler| compiler.precompile_component(bytes));
        let code = compiled.map_err(PluginError::Engine)?;
        if let Err(error) = keep(cache, digest, &code) {
            tracing::warn!(plugin = name, %error, "the compiled plugin cannot be kept; the next start compiles it again");
        }
        match cache.get(&self.engine, digest) {
            Some(component) => Ok(component),
            None => Component::new(&self.engine, bytes).map_err(PluginError::Engine),
        }
    }

    /// A component of a user, and its digest.
    fn supplied(
        &self,
        name: &str,
        sha256: Option<&str>,
    ) -> Result<(Component, Digest), PluginError> {
        let unreadable = |source| PluginError::Read {
            path: name.into(),
            source,
        };
        let bytes_max = self.limits.compile.file_bytes_max;
        let source = Source::open(Path::new(name), bytes_max).map_err(unreadable)?;
        let digest = source.digest;
        let found = hex(&digest);
        if let Some(wanted) = sha256.filter(|wanted| *wanted != found) {
            return Err(PluginError::Pin {
                name: name.to_owned(),
                found,
                wanted: wanted.to_owned(),
            });
        }
        if let Some(component) = self.known(&digest) {
            return Ok((component, digest));
        }
        let failed = |source| PluginError::Compiler {
            name: name.to_owned(),
            source,
        };
        let temporary;
        let cache = match &self.cache {
            Some(cache) => cache,
            None => {
                temporary = cache::Cache::temporary(&self.engine).map_err(failed)?;
                &temporary
            }
        };
        if let Some(component) = cache.get(&self.engine, &digest) {
            return Ok((component, digest));
        }
        let refused = |source| PluginError::Compile {
            name: name.to_owned(),
            source,
        };
        match &self.compiler {
            Some(compiler) => {
                let done = || cache.get(&self.engine, &digest).is_some();
                let compiled = compiler.compile(source, done, || cache.begin(&digest));
                compiled.map_err(|error| match error {
                    Failed::Refused(why) => refused(why),
                    Failed::Io(error) => failed(error),
                    Failed::Stopping => failed(std::io::Error::other("the daemon stops")),
                })?;
            }
            None => {
                let bytes = source.read(bytes_max).map_err(unreadable)?;
                let code = compile::compile(&self.engine, &bytes)
                    .map_err(|error| refused(Refused::NotUsable(error)))?;
                keep(cache, &digest, &code).map_err(failed)?;
            }
        }
        if let Some(shared) = &self.shared
            && let Err(error) = shared.adopt(cache, &digest)
        {
            tracing::debug!(plugin = name, %error, "the compiled plugin is not left for others");
        }
        let component = cache.get(&self.engine, &digest);
        let component = component.ok_or_else(|| {
            failed(std::io::Error::other(
                "the compiled code does not fit this process; start the daemon again if its program was replaced",
            ))
        })?;
        Ok((component, digest))
    }
}

fn built_in(name: &str) -> Option<&'static [u8]> {
    let mut found = BUILT_IN.iter().filter(|(own, _)| *own == name);
    found.next().map(|(_, bytes)| *bytes)
}

fn keep(cache: &cache::Cache, digest: &Digest, code: &[u8]) -> std::io::Result<()> {
    let unfinished = cache.begin(digest)?;
    unfinished.file().write_all(code)?;
    unfinished.finish()
}
