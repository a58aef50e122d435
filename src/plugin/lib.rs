//! Plugins: WebAssembly components that wasmtime runs. No other package uses wasmtime.
//!
//! Delivery loads a [`Plugin`] for each lane, keeps one [`Instance`] of it, and calls [`Instance::write`] for each
//! batch. `plugin/host.rs` has the functions that a guest can call; the world is `plugins/sdk/wit/sink.wit`.
//! `plugin/egress.rs` limits its HTTP requests, `plugin/postgres.rs` its statements, `plugin/guest_log.rs` its log, and
//! `plugin/scheduler.rs` its computing time. A separate process compiles components from files: `plugin/compile.rs`.
//!
//! **Invariant**: a guest affects only its instance. It has no files except those in its sink's directory and no
//! sockets except those that the host opens. Its memory and time are limited, including the host's work for it. Its
//! effects are only staged, for streams in its sink's settings. It reaches only the HTTP hosts, the database, the
//! directory and the connections in these settings. After a trap or a deadline, an instance is never called again. With
//! a compiler program, this process parses no file of a user.
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

/// The optional exports of a component for removals, alone or together with updates.
const REMOVALS: &str = "headgate:sink/removals@1.2.0";
const OPERATIONS: &str = "headgate:sink/operations@1.2.0";

/// The plugins in the binary: name in the configuration and component. Of a constant, each unit of code that names it may have
/// copies of the components.
static BUILT_IN: [(&str, &[u8]); 9] = [
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

/// The period of the interruption clock. A shorter one would wake the thread more often; a longer one would make turns
/// and time limits coarse.
const TICK: Duration = Duration::from_millis(10);

/// Sink settings passed to an instance.
#[derive(Debug, Clone)]
pub struct SinkContext {
    /// Name of the sink.
    pub sink: Arc<str>,
    /// Its `where` and `fields`, which distinguish requests with the same items; empty without them. The same items
    /// have other fields under another selection, and such a body needs another key.
    pub selection: Arc<str>,
    /// Its `config`, an object.
    pub config: serde_json::Value,
    /// The secrets that it can read.
    pub secrets: BTreeMap<String, settings::Secret>,
    /// The streams that it receives.
    receives: Arc<Receives>,
    /// The storage of its state; `None` without a pool.
    pub pool: Option<Arc<Pool>>,
    /// Its counters.
    pub metrics: Arc<Metrics>,
    /// Masks secrets in its texts. It is part of the context, so that no text of a guest passes without it.
    redactor: Arc<Redactor>,
    guest_log: Arc<GuestLog>,
    /// The sink is only tried, and has no lane.
    trial: Option<Arc<Trial>>,
}

impl SinkContext {
    /// The context of a sink's instances. All contexts of a sink share one log.
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

    /// The context of a trial, which counts in no metric. `mark` replaces the selection, so that the idempotency keys
    /// of its requests are different. Otherwise a receiver would drop the real request as a repetition of the trial's.
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

/// Everything outside that a sink can reach, shared by its instances.
#[derive(Clone, Default)]
struct Grants {
    egress: Option<Arc<Egress>>,
    database: Option<Opaque<Database>>,
    folder: Option<Arc<Folder>>,
    wire: Option<Arc<Wire>>,
    writes: Arc<settings::Writes>,
    /// Streams for which it can make items.
    makes: Arc<[String]>,
}

/// A plugin's description of itself.
#[derive(Debug, Clone, Default)]
pub struct Descriptor {
    pub name: String,
    pub version: String,
    /// JSON Schema of its settings; empty if it has none.
    pub config_schema: String,
}

/// The engine of all plugins.
pub struct Plugins {
    engine: Opaque<Engine>,
    linker: Opaque<Linker<Host>>,
    /// `None` if compiled code is not kept.
    cache: Option<cache::Cache>,
    /// The cache of a daemon, which may be running. It is apart, because a running daemon has locked it.
    shared: Option<cache::Cache>,
    compiler: Option<Compiler>,
    limits: GuestLimits,
    roots: FolderRoots,
    scheduler: Scheduler,
}

impl Plugins {
    /// Creates the engine. It keeps compiled code in `cache_dir`, which must belong to the daemon; without `cache_dir`,
    /// it keeps none. `program` is this program, whose verb `compile-plugin` compiles the components of users. Without
    /// it, this process compiles them, without limits.
    ///
    /// # Errors
    /// The engine does not work on this machine, or the directory cannot be created.
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

    /// Adds the directories below which sinks can have folders.
    #[must_use]
    pub fn with_roots(self, roots: FolderRoots) -> Self {
        Self { roots, ..self }
    }

    /// An engine for a program next to a daemon, which may be running: it reads the daemon's cache and adds to it. It
    /// does not use a directory that belongs to another user.
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

    /// The directory for [`new`](Self::new) below one that a user names.
    ///
    /// # Errors
    /// [`PluginError::Cache`].
    pub fn cache_within(folder: &Path) -> Result<PathBuf, PluginError> {
        cache::Cache::within(folder).map_err(|source| PluginError::Cache {
            path: folder.to_owned(),
            source,
        })
    }

    /// Ends a running compiler and starts no other: from here on [`load`](Self::load) fails unless the code is in the
    /// cache.
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

/// A plugin that is ready to be instantiated.
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

/// Indexes of a component's exports.
#[derive(Clone)]
struct Exports {
    sink: world::GuestIndices,
    /// `None` for older components, and for sinks that do not receive removals.
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

    /// The imports of the component, by interface.
    pub fn imports(&self) -> Vec<String> {
        let component = self.pre.component();
        let kind = component.component_type();
        let imports = kind.imports(self.pre.engine());
        imports.map(|(name, _)| name.to_owned()).collect()
    }

    /// The exports of the component, by interface.
    pub fn exports(&self) -> Vec<String> {
        let component = self.pre.component();
        let kind = component.component_type();
        let exports = kind.exports(self.pre.engine());
        exports.map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether the component imports the functions that write the data pool. Some languages always do.
    pub fn asks_for_pool(&self) -> bool {
        self.asks_for_pool
    }

    /// Whether it can write the data pool: it imports the functions, and its sink's settings list a stream.
    pub fn writes_pool(&self) -> bool {
        self.writes_given() || (self.asks_for_pool && !self.grants.makes.is_empty())
    }

    /// Whether it can write the streams that it receives.
    fn writes_given(&self) -> bool {
        self.asks_for_pool && !self.grants.writes.is_empty()
    }

    /// Whether it handles removals: it exports a function for them, or the host removes the items that it wrote to the
    /// pool. Components from before removals existed still lose their items so.
    pub fn takes_removals(&self) -> bool {
        self.exports_removals() || self.writes_given()
    }

    /// Whether it exports a function for removals.
    pub(crate) fn exports_removals(&self) -> bool {
        let Exports {
            removals,
            operations,
            ..
        } = &self.exports;
        removals.is_some() || operations.is_some()
    }

    /// The limits of an instance.
    pub fn limits(&self) -> &GuestLimits {
        &self.limits
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Plugin").field(&self.name).finish()
    }
}

/// The engine configuration that runs and compiles plugins. One function for all processes, because code fits only an
/// engine with the same settings.
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
