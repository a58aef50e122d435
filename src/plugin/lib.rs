//! Plugins: WebAssembly components that wasmtime runs. The only place that knows wasmtime.
//!
//! Delivery loads a [`Plugin`] for each lane, keeps one [`Instance`] of it, and calls
//! [`Instance::write`] for each batch. What a guest may ask of the host is in `plugin/host.rs`; the
//! world is `plugins/sdk/wit/sink.wit`. Whom it may call is in `plugin/egress.rs`, what it may write to a database
//! in `plugin/postgres.rs`, how much it may say in `plugin/guest_log.rs`, when it computes in `plugin/scheduler.rs`. Components
//! from files are compiled by a process of its own, in `plugin/compile.rs`.
//!
//! **Invariant**: nothing that a guest does reaches beyond its instance: it has no files
//! but those of its sink's folder and no sockets but those that the host opens, its memory and its time are bounded, what the host does for it included, and its effects are only staged,
//! for streams that its sink's settings list. The ways out are HTTP to the hosts, statements to the database, files in the folder and connections that
//! these list. After a trap or a deadline an
//! instance is never called again. With a compiler's program at hand, no file of a user is parsed in this process.
#![deny(unsafe_code)]

mod cache;
mod compile;
mod egress;
mod epoch_ticker;
mod error;
mod explain;
mod facts;
mod folder;
mod grants;
mod guest_log;
mod host;
mod instance;
mod limits;
mod load;
mod meter;
mod outcome;
mod output;
mod postgres;
mod redact;
mod scheduler;
mod schema;
pub mod store;
mod trial;
mod wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{InstancePre, Linker};
use wasmtime::{Config, Engine};

use base::opaque::Opaque;
use compile::Compiler;
pub use compile::{CompileLimits, CompilerError, NOT_USABLE, Refused, compile_standard_input};
use egress::Egress;
use epoch_ticker::EpochTicker;
pub use error::{Failure, PluginError};
pub use facts::PluginFacts;
use folder::Folder;
pub use folder::FolderRoots;
pub use grants::{host_of, is_called, ungranted};
pub use guest_log::GuestLog;
use host::bindings::exports::headgate::sink::{operations, removals, sink as world};
use host::{Host, Receives};
pub use instance::{Instance, RecycleReason};
pub use limits::GuestLimits;
use observe::metrics::Metrics;
pub use outcome::{ItemChange, NotTaken, Progress, Taken};
use pool::Pool;
use postgres::Database;
pub use redact::Redactor;
use scheduler::Scheduler;
pub use schema::invalid_config;
pub use trial::{Trial, TrialRequest, TrialSeen};
use wire::Wire;

/// What a component may export to hear of removals, or to take them together with updates.
const REMOVALS: &str = "headgate:sink/removals@1.2.0";
const OPERATIONS: &str = "headgate:sink/operations@1.2.0";

/// The plugins inside the binary: name in the configuration and component.
const BUILT_IN: [(&str, &[u8]); 9] = [
    (
        "pool",
        include_bytes!(concat!(env!("OUT_DIR"), "/pool.wasm")),
    ),
    (
        "http-forward",
        include_bytes!(concat!(env!("OUT_DIR"), "/http_forward.wasm")),
    ),
    (
        "postgres",
        include_bytes!(concat!(env!("OUT_DIR"), "/postgres.wasm")),
    ),
    (
        "influx",
        include_bytes!(concat!(env!("OUT_DIR"), "/influx.wasm")),
    ),
    (
        "webhook",
        include_bytes!(concat!(env!("OUT_DIR"), "/webhook.wasm")),
    ),
    (
        "filter-map",
        include_bytes!(concat!(env!("OUT_DIR"), "/filter_map.wasm")),
    ),
    (
        "file",
        include_bytes!(concat!(env!("OUT_DIR"), "/file.wasm")),
    ),
    (
        "lines",
        include_bytes!(concat!(env!("OUT_DIR"), "/lines.wasm")),
    ),
    (
        "mqtt",
        include_bytes!(concat!(env!("OUT_DIR"), "/mqtt.wasm")),
    ),
];

/// How long one tick of the interruption clock takes.
const TICK: Duration = Duration::from_millis(10);

/// Sink settings passed to an instance.
#[derive(Debug, Clone)]
pub struct SinkContext {
    /// Name of the sink.
    pub sink: Arc<str>,
    /// Its `where` and `fields`, which requests with the same items are told apart by; empty without them.
    pub selection: Arc<str>,
    /// Its `config`, an object.
    pub config: serde_json::Value,
    /// What it may read.
    pub secrets: BTreeMap<String, settings::Secret>,
    /// What it receives.
    receives: Arc<Receives>,
    /// Where its state is kept; without a pool it has none.
    pub pool: Option<Arc<Pool>>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// What must not stand in what it says.
    redactor: Arc<Redactor>,
    /// How much it may say.
    guest_log: Arc<GuestLog>,
    /// It is tried out, and works for nobody.
    trial: Option<Arc<Trial>>,
}

impl SinkContext {
    /// What an instance of this sink is told. All contexts of a sink have the same voice.
    pub fn new(
        sink: &settings::Sink,
        pool: Option<&Arc<Pool>>,
        metrics: &Arc<Metrics>,
        guest_log: &Arc<GuestLog>,
    ) -> Self {
        Self {
            sink: sink.name.as_str().into(),
            selection: sink.selection().into(),
            config: sink.config.clone(),
            secrets: sink.secrets.clone(),
            receives: Arc::new(Receives::of(sink)),
            pool: pool.cloned(),
            metrics: Arc::clone(metrics),
            redactor: Arc::new(Redactor::of(sink)),
            guest_log: Arc::clone(guest_log),
            trial: None,
        }
    }

    /// The same for a trial, which counts nowhere. `mark` is in the place of what is said of the selection, so that its
    /// requests have keys of their own.
    pub fn of_trial(
        sink: &settings::Sink,
        pool: Option<&Arc<Pool>>,
        trial: &Arc<Trial>,
        mark: &str,
    ) -> Self {
        let (metrics, guest_log) = (Arc::new(Metrics::new()), GuestLog::new(&sink.name));
        Self {
            selection: format!("trial\0{mark}\0").into(),
            trial: Some(Arc::clone(trial)),
            ..Self::new(sink, pool, &metrics, &guest_log)
        }
    }
}

/// What a sink may reach, shared by all its instances.
#[derive(Clone, Default)]
struct Grants {
    egress: Option<Arc<Egress>>,
    database: Option<Opaque<Database>>,
    folder: Option<Arc<Folder>>,
    wire: Option<Arc<Wire>>,
    writes: Arc<settings::Writes>,
    /// Streams whose items it may make.
    makes: Arc<[String]>,
}

/// What a plugin says of itself.
#[derive(Debug, Clone, Default)]
pub struct Descriptor {
    pub name: String,
    pub version: String,
    /// JSON Schema of its settings; empty if it takes none.
    pub config_schema: String,
}

/// The engine that all plugins share.
pub struct Plugins {
    engine: Opaque<Engine>,
    linker: Opaque<Linker<Host>>,
    /// Absent if nothing is kept.
    cache: Option<cache::Cache>,
    /// That of a daemon, which may run.
    shared: Option<cache::Cache>,
    compiler: Option<Compiler>,
    limits: GuestLimits,
    roots: FolderRoots,
    scheduler: Scheduler,
}

impl Plugins {
    /// Sets the engine up. Compiled code is kept in `cache_dir`, which must be the daemon's own;
    /// without one nothing is kept. `program` is this program, whose verb `compile-plugin` compiles what
    /// users supply; without it that happens in this process, without limits.
    ///
    /// # Errors
    /// The engine does not work on this machine, or the folder cannot be made.
    pub fn new(
        cache_dir: Option<&Path>,
        program: Option<&Path>,
        limits: GuestLimits,
    ) -> Result<Self, PluginError> {
        let engine = engine().map_err(PluginError::Engine)?;
        let linker = host::linker(&engine).map_err(PluginError::Engine)?;
        let open = |folder: &Path| {
            cache::Cache::open(folder, &engine).map_err(|source| PluginError::Cache {
                path: folder.to_owned(),
                source,
            })
        };
        let cache = cache_dir.map(open).transpose()?;
        let scheduler = Scheduler::new(EpochTicker::start(&engine));
        Ok(Self {
            engine: Opaque::new(engine),
            linker: Opaque::new(linker),
            cache,
            shared: None,
            compiler: program.map(|program| Compiler::new(program, limits.compile)),
            limits,
            roots: FolderRoots::default(),
            scheduler,
        })
    }

    /// The same, with places where sinks may have folders.
    #[must_use]
    pub fn with_roots(self, roots: FolderRoots) -> Self {
        Self { roots, ..self }
    }

    /// The same beside a daemon, whether or not it runs: what lies in its cache is used, and what is compiled is left there.
    /// A folder that is not this user's is not used.
    ///
    /// # Errors
    /// The engine does not work on this machine.
    pub fn beside(
        cache_dir: &Path,
        program: Option<&Path>,
        limits: GuestLimits,
    ) -> Result<Self, PluginError> {
        let plugins = Self::new(None, program, limits)?;
        let shared = cache::Cache::shared(cache_dir, &plugins.engine).ok();
        Ok(Self { shared, ..plugins })
    }

    /// The folder for [`new`](Self::new) in one that a user names.
    ///
    /// # Errors
    /// [`PluginError::Cache`].
    pub fn cache_within(folder: &Path) -> Result<PathBuf, PluginError> {
        cache::Cache::within(folder).map_err(|source| PluginError::Cache {
            path: folder.to_owned(),
            source,
        })
    }

    /// Ends a compiler that runs, and lets none start: [`load`](Self::load) fails from here on, unless the code is
    /// in the cache.
    pub fn stop_compiling(&self) {
        if let Some(compiler) = &self.compiler {
            compiler.stop();
        }
    }
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Plugins")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A plugin, ready to be instantiated.
#[derive(Clone)]
pub struct Plugin {
    name: Arc<str>,
    sha256: Arc<str>,
    pre: Opaque<InstancePre<Host>>,
    exports: Exports,
    asks_for_pool: bool,
    grants: Grants,
    limits: GuestLimits,
    scheduler: Scheduler,
}

/// Where a component has what the host calls.
#[derive(Clone)]
struct Exports {
    sink: world::GuestIndices,
    /// Older components, and sinks that do not want to hear of them, have none.
    removals: Option<removals::GuestIndices>,
    operations: Option<operations::GuestIndices>,
}

impl Exports {
    fn of(pre: &InstancePre<Host>) -> wasmtime::Result<Self> {
        let has = |name| pre.component().get_export_index(None, name).is_some();
        let removals = has(REMOVALS).then(|| removals::GuestIndices::new(pre));
        let operations = has(OPERATIONS).then(|| operations::GuestIndices::new(pre));
        Ok(Self {
            sink: world::GuestIndices::new(pre)?,
            removals: removals.transpose()?,
            operations: operations.transpose()?,
        })
    }
}

impl Plugin {
    /// The SHA-256 of the component, 64 lowercase hex digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What the component asks the host for, interface by interface.
    pub fn imports(&self) -> Vec<String> {
        let component = self.pre.component();
        let kind = component.component_type();
        let imports = kind.imports(self.pre.engine());
        imports.map(|(name, _)| name.to_owned()).collect()
    }

    /// What the component has for the host, interface by interface.
    pub fn exports(&self) -> Vec<String> {
        let component = self.pre.component();
        let kind = component.component_type();
        let exports = kind.exports(self.pre.engine());
        exports.map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether it asks for the means to write the data pool. Some languages always do.
    pub fn asks_for_pool(&self) -> bool {
        self.asks_for_pool
    }

    /// Whether it may write the data pool: whether it asks for the means, and its sink's section lists a stream.
    pub fn writes_pool(&self) -> bool {
        self.writes_given() || (self.asks_for_pool && !self.grants.makes.is_empty())
    }

    /// Whether it may write there what it is given.
    fn writes_given(&self) -> bool {
        self.asks_for_pool && !self.grants.writes.is_empty()
    }

    /// Whether removals are for it: it hears of them, or what it wrote into the pool is removed in its place.
    pub fn takes_removals(&self) -> bool {
        self.hears_of_removals() || self.writes_given()
    }

    /// Whether it hears of removals.
    pub(crate) fn hears_of_removals(&self) -> bool {
        let Exports {
            removals,
            operations,
            ..
        } = &self.exports;
        removals.is_some() || operations.is_some()
    }

    /// What an instance may use.
    pub fn limits(&self) -> &GuestLimits {
        &self.limits
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Plugin").field(&self.name).finish()
    }
}

/// The same for whoever runs plugins and whoever compiles them.
fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.max_wasm_stack(512 << 10);
    Engine::new(&config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_more_is_told_how_to_grant_it() {
        let plugins = Plugins::new(None, None, GuestLimits::from(&settings::Plugins::default()));
        let plugins = plugins.expect("an engine");
        let mut sink = settings::Sink::default();
        assert!(plugins.load(&sink).is_ok(), "pool asks for nothing");
        sink.plugin = "http-forward".to_owned();
        let refused = plugins.load(&sink).expect_err("no grant");
        assert!(refused.to_string().contains("http = { hosts"), "{refused}");
        sink.http = Some(settings::Http::default());
        let granted = plugins.load(&sink);
        assert!(granted.is_ok(), "{granted:?}");
    }

    #[test]
    fn the_configuration_knows_the_built_in_plugins() {
        let names: Vec<_> = super::BUILT_IN.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, settings::BUILT_IN_PLUGINS);
    }
}
