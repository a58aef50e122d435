//! Plugins: WebAssembly components that wasmtime runs. The only place that knows wasmtime.
//!
//! Delivery loads a [`Plugin`] for each lane, keeps one [`Instance`] of it, and calls
//! [`Instance::write`] for each batch. What a guest may ask of the host is in `plugin/host.rs`; the
//! world is `plugins/sdk/wit/sink.wit`. Whom it may call is in `plugin/egress.rs`, what it may write to a database
//! in `plugin/postgres.rs`. Components from files are compiled by a process of its own, in `plugin/compile.rs`.
//!
//! **Invariant**: nothing that a guest does reaches beyond its instance: it has no files and no
//! sockets, its memory and its time are bounded, and its effects are only staged. The ways out are
//! HTTP to the hosts and statements to the database that its sink's settings list. After a trap or a deadline an
//! instance is never called again. With a compiler's program at hand, no file of a user is parsed in this process.

mod cache;
mod compile;
mod egress;
mod host;
mod output;
mod postgres;
mod schema;
mod veil;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Engine, Store, UpdateDeadline};

use crate::backoff::jitter;
use crate::batch::{Action, Batch};
use crate::metrics::Metrics;
use crate::pool::{Effect, Pool, Staged};
use crate::{clock, config};
use cache::Digest;
pub use compile::{CompileLimits, CompilerError, NOT_USABLE, Refused, compile_standard_input};
use compile::{Compiler, Failed, Source};
use egress::Egress;
use host::Host;
use host::bindings::exports::headgate::sink::{removals, sink as world};
use postgres::Database;
use veil::Veil;

/// What a component may export to hear of removals.
const REMOVALS: &str = "headgate:sink/removals@1.1.0";
/// What a component imports to write the data pool, of any version.
const POOL: &str = "headgate:sink/pool@";

/// The plugins inside the binary: name in the configuration and component.
const BUILT_IN: [(&str, &[u8]); 6] = [
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
];

/// How long one tick of the interruption clock takes.
const TICK: Duration = Duration::from_millis(10);
/// Calls after which an instance is replaced, so that leaks in a guest stay small.
const CALLS_MAX: u32 = 10_000;
/// Bytes of a guest's reason that are kept: it is stored with each item that is given up.
const REASON_BYTES_MAX: usize = 4_096;

/// What a guest may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all its memories together.
    pub memory_bytes_max: usize,
    /// Time in the guest's own code for one call.
    pub cpu_time_max: Duration,
    /// Time for one call, host calls and waiting included.
    pub call_time_max: Duration,
    /// What compiling it may take.
    pub compile: CompileLimits,
}

impl From<&config::Plugins> for Limits {
    fn from(settings: &config::Plugins) -> Self {
        Self {
            memory_bytes_max: settings.memory_max_bytes,
            cpu_time_max: Duration::from_millis(settings.cpu_timeout_ms),
            call_time_max: Duration::from_millis(settings.write_timeout_ms),
            compile: settings.into(),
        }
    }
}

impl Limits {
    /// With those that a sink has of its own.
    fn of(self, sink: &config::Sink) -> Self {
        let own = &sink.limits;
        let time = |own: Option<u64>, all| own.map_or(all, Duration::from_millis);
        Self {
            memory_bytes_max: own.memory_max_bytes.unwrap_or(self.memory_bytes_max),
            cpu_time_max: time(own.cpu_timeout_ms, self.cpu_time_max),
            call_time_max: time(own.write_timeout_ms, self.call_time_max),
            compile: self.compile,
        }
    }
}

/// Why a plugin cannot be used at all.
#[derive(Debug, Error)]
pub enum PluginError {
    /// Neither the name of a built-in plugin nor a file that can be read.
    #[error("cannot read the plugin {path}: {source}", path = path.display())]
    Read {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The engine cannot be set up on this machine.
    #[error("cannot set up the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
    /// Not a component, or one that cannot be compiled within the limits.
    #[error("{name} is not a usable WebAssembly component: {source}")]
    Compile {
        /// The plugin.
        name: String,
        /// Why not.
        source: Refused,
    },
    /// The compiler does not run, or what it made cannot be kept or loaded.
    #[error("cannot compile {name}: {source}")]
    Compiler {
        /// The plugin.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Not the file that the sink's section pins.
    #[error(
        "{name} is not the file that the sink's section wants: its SHA-256 is {found}, sha256 is {wanted}; put the right file there, or the digest of this one if it is"
    )]
    Pin {
        /// The plugin.
        name: String,
        /// The digest of the file.
        found: String,
        /// The digest in the section.
        wanted: String,
    },
    /// It asks for something that is not given, or lacks the export `headgate:sink/sink`.
    #[error("{name} does not fit the world headgate:sink@1.1.0: {source:#}")]
    Link {
        /// The plugin.
        name: String,
        /// wasmtime's words; they name the import or export.
        source: wasmtime::Error,
    },
    /// It asks for HTTP, and the sink's settings grant none.
    #[error(
        "{name} asks for outgoing HTTP; to grant it, list the hosts that it may call in the sink's section: http = {{ hosts = [\"api.example.com\"] }}"
    )]
    NoHttp {
        /// The plugin.
        name: String,
    },
    /// It asks for a database, and the sink's settings name none.
    #[error(
        "{name} asks for a PostgreSQL database; name it in the sink's section: postgres = {{ url = {{ env = \"DATABASE_URL\" }} }} (to try it out: --postgres URL)"
    )]
    NoDatabase {
        /// The plugin.
        name: String,
    },
    /// The database's address cannot be read.
    #[error(
        "`postgres.url` of {name}: {reason}; wants postgresql://user:password@host:5432/database"
    )]
    Database {
        /// The plugin.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to check certificates with.
    #[error(
        "cannot read the certificate authorities of this machine, without which no host can be called over https: {0}"
    )]
    Authorities(std::io::Error),
    /// Its `config` does not fit the schema that the plugin brings, or the plugin does not like it.
    #[error("{name} cannot work with its `config`: {reason}")]
    Config {
        /// The plugin.
        name: String,
        /// What is wrong, with the place.
        reason: String,
    },
    /// It failed before its first call.
    #[error("{name} does not start: {source:#}")]
    Start {
        /// The plugin.
        name: String,
        /// wasmtime's words.
        source: wasmtime::Error,
    },
}

/// How far a guest came with a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// So many items, from the first one, are settled for good: taken, or refused.
    pub taken: u32,
    /// Places in the batch that are refused for good, with the guest's words. They count where `taken` reaches.
    pub refused: Vec<(Range<u32>, String)>,
}

/// A batch that was not taken, or only in part. What the guest staged is gone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{failure}")]
pub struct NotTaken {
    /// Why.
    pub failure: Failure,
    /// What is done nevertheless.
    pub progress: Progress,
}

impl From<Failure> for NotTaken {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            progress: Progress::default(),
        }
    }
}

/// Why a batch was not taken. Nothing of it was staged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// The sink asks for another attempt.
    #[error("{reason}")]
    Retry {
        /// Its wish, if it has one.
        after: Option<Duration>,
        /// Its words.
        reason: String,
    },
    /// The sink will never take it.
    #[error("{reason}")]
    Reject {
        /// Its words.
        reason: String,
    },
    /// The guest trapped or ran out of memory or time. The instance is dead.
    #[error("{reason}")]
    Trap {
        /// What happened, with the end of what the guest wrote to its standard error.
        reason: String,
    },
}

/// A batch that a guest took.
#[derive(Debug, Default)]
pub struct Taken {
    /// What it did, to be committed with the cursor.
    pub staged: Staged,
    /// Items that it refuses for good, by their place in the batch, with its words.
    pub rejected: Vec<(u32, String)>,
}

/// What an instance is told of its sink.
#[derive(Debug, Clone)]
pub struct Seat {
    /// Name of the sink.
    pub sink: Arc<str>,
    /// Its `config`, an object.
    pub config: serde_json::Value,
    /// What it may read.
    pub secrets: BTreeMap<String, config::Secret>,
    /// Where its state is kept; without a pool it has none.
    pub pool: Option<Arc<Pool>>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// What must not stand in what it says.
    veil: Arc<Veil>,
}

impl Seat {
    /// What an instance of this sink is told.
    pub fn new(sink: &config::Sink, pool: Option<&Arc<Pool>>, metrics: &Arc<Metrics>) -> Self {
        Self {
            sink: sink.name.as_str().into(),
            config: sink.config.clone(),
            secrets: sink.secrets.clone(),
            pool: pool.cloned(),
            metrics: Arc::clone(metrics),
            veil: Arc::new(Veil::of(sink)),
        }
    }
}

/// What a sink may reach outside, shared by all its instances.
#[derive(Clone, Default)]
struct Grants {
    egress: Option<Arc<Egress>>,
    database: Option<Arc<Database>>,
}

/// What a plugin says of itself.
#[derive(Debug, Clone, Default)]
pub struct Descriptor {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// JSON Schema of its settings; empty if it takes none.
    pub config_schema: String,
}

/// The engine that all plugins share.
pub struct Plugins {
    engine: Engine,
    linker: Linker<Host>,
    /// Absent if nothing is kept.
    cache: Option<cache::Cache>,
    compiler: Option<Compiler>,
    limits: Limits,
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
        limits: Limits,
    ) -> Result<Self, PluginError> {
        let engine = engine().map_err(PluginError::Engine)?;
        let linker = host::linker(&engine).map_err(PluginError::Engine)?;
        let cache =
            match cache_dir {
                Some(folder) => Some(cache::Cache::open(folder, &engine).map_err(|source| {
                    PluginError::Read {
                        path: folder.to_owned(),
                        source,
                    }
                })?),
                None => None,
            };
        start_ticking(&engine);
        Ok(Self {
            engine,
            linker,
            cache,
            compiler: program.map(|program| Compiler::new(program, limits.compile)),
            limits,
        })
    }

    /// Loads the plugin of a sink, with what the sink's section grants. Compiles it unless that was done before; may
    /// take as long as the limits allow. Blocks.
    ///
    /// # Errors
    /// See [`PluginError`].
    pub fn load(&self, sink: &config::Sink) -> Result<Plugin, PluginError> {
        let name = || sink.plugin.clone();
        let (component, digest) = match built_in(&sink.plugin) {
            Some(bytes) => {
                let digest = Sha256::digest(bytes).into();
                (self.built_in(&sink.plugin, bytes, &digest)?, digest)
            }
            None => self.supplied(&sink.plugin, sink.sha256.as_deref())?,
        };
        let mut linker = self.linker.clone();
        let mut grants = Grants::default();
        match &sink.http {
            Some(http) => {
                let egress = Egress::new(http).map_err(PluginError::Authorities)?;
                grants.egress = Some(egress.into());
                host::link_http(&mut linker).map_err(PluginError::Engine)?;
            }
            None if self.asks_for(&component, "wasi:http/") => {
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
                grants.database = Some(database.into());
                host::link_postgres(&mut linker).map_err(PluginError::Engine)?;
            }
            None if self.asks_for(&component, "headgate:sink/postgres@") => {
                return Err(PluginError::NoDatabase { name: name() });
            }
            None => {}
        }
        let linked = linker
            .instantiate_pre(&component)
            .and_then(|pre| Ok((Exports::of(&pre)?, pre)));
        let (exports, pre) = linked.map_err(|source| PluginError::Link {
            name: name(),
            source,
        })?;
        Ok(Plugin {
            name: sink.plugin.as_str().into(),
            sha256: cache::hex(&digest).into(),
            pre,
            exports,
            writes_pool: self.asks_for(&component, POOL),
            grants,
            limits: self.limits.of(sink),
        })
    }

    fn asks_for(&self, component: &Component, interface: &str) -> bool {
        let component = component.component_type();
        let mut imports = component.imports(&self.engine);
        imports.any(|(name, _)| name.starts_with(interface))
    }

    /// Ends a compiler that runs, and lets none start: [`load`](Self::load) fails from here on, unless the code is
    /// in the cache.
    pub fn stop_compiling(&self) {
        if let Some(compiler) = &self.compiler {
            compiler.stop();
        }
    }

    fn built_in(
        &self,
        name: &str,
        bytes: &[u8],
        digest: &Digest,
    ) -> Result<Component, PluginError> {
        let Some(cache) = &self.cache else {
            return Component::new(&self.engine, bytes).map_err(PluginError::Engine);
        };
        if let Some(component) = cache.get(&self.engine, digest) {
            return Ok(component);
        }
        let component = Component::new(&self.engine, bytes).map_err(PluginError::Engine)?;
        let code = component.serialize().map_err(PluginError::Engine)?;
        if let Err(error) = keep(cache, digest, &code) {
            tracing::warn!(plugin = name, %error, "the compiled plugin cannot be kept; the next start compiles it again");
        }
        // From the file it takes less memory.
        Ok(cache.get(&self.engine, digest).unwrap_or(component))
    }

    /// A component that a user supplies, and its digest.
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
        let found = cache::hex(&digest);
        if let Some(wanted) = sha256.filter(|wanted| *wanted != found) {
            return Err(PluginError::Pin {
                name: name.to_owned(),
                found,
                wanted: wanted.to_owned(),
            });
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
        let component = cache.get(&self.engine, &digest);
        let component = component.ok_or_else(|| {
            failed(std::io::Error::other(
                "the compiled code does not fit this process; start the daemon again if its program was replaced",
            ))
        })?;
        Ok((component, digest))
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
    pre: InstancePre<Host>,
    exports: Exports,
    writes_pool: bool,
    grants: Grants,
    limits: Limits,
}

/// Where a component has what the host calls.
#[derive(Clone)]
struct Exports {
    sink: world::GuestIndices,
    /// Older components, and sinks that do not want to hear of them, have none.
    removals: Option<removals::GuestIndices>,
}

impl Exports {
    fn of(pre: &InstancePre<Host>) -> wasmtime::Result<Self> {
        let hears = pre.component().get_export_index(None, REMOVALS).is_some();
        Ok(Self {
            sink: world::GuestIndices::new(pre)?,
            removals: match hears {
                true => Some(removals::GuestIndices::new(pre)?),
                false => None,
            },
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

    /// Whether it may write the data pool: whether it asks for the means.
    pub fn writes_pool(&self) -> bool {
        self.writes_pool
    }

    /// Whether removals are for it: it hears of them, or what it wrote into the pool is removed in its place.
    pub fn takes_removals(&self) -> bool {
        self.exports.removals.is_some() || self.writes_pool
    }

    /// What an instance may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A new instance, for one lane: started, asked what it is, and opened with the sink's settings.
    ///
    /// # Errors
    /// The guest failed in its start-up code, or cannot work with the settings.
    pub async fn start(&self, seat: &Seat) -> Result<Instance, PluginError> {
        let failed = |source| PluginError::Start {
            name: self.name.to_string(),
            source,
        };
        let host = Host::new(
            Arc::clone(&self.name),
            seat,
            &self.grants,
            self.limits.memory_bytes_max,
        );
        let mut store = Store::new(self.pre.engine(), host);
        store.limiter(|host| &mut host.memory);
        // A guest cannot hand more than this to the host in one call.
        store.set_hostcall_fuel(16 << 20);
        store.epoch_deadline_callback(|mut context| {
            let host = context.data_mut();
            host.ticks_left = host.ticks_left.saturating_sub(1);
            if host.ticks_left == 0 {
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::Yield(1))
        });
        arm(&mut store, &self.limits);
        let starting = async {
            let instance = self
                .pre
                .instantiate_async(&mut store)
                .await
                .map_err(failed)?;
            let Exports { sink, removals } = &self.exports;
            let sink = sink.load(&mut store, &instance).map_err(failed)?;
            let removals = (removals.as_ref())
                .map(|removals| removals.load(&mut store, &instance))
                .transpose()
                .map_err(failed)?;
            let descriptor = self.open(&mut store, &sink, seat).await?;
            Ok((sink, removals, descriptor))
        };
        let (sink, removals, descriptor) =
            tokio::time::timeout(self.limits.call_time_max, starting)
                .await
                .map_err(|_| failed(wasmtime::format_err!("no answer within the deadline")))??;
        Ok(Instance {
            store,
            sink,
            removals,
            descriptor,
            limits: self.limits,
            calls_left: CALLS_MAX - jitter(CALLS_MAX / 10),
        })
    }

    async fn open(
        &self,
        store: &mut Store<Host>,
        guest: &world::Guest,
        seat: &Seat,
    ) -> Result<Descriptor, PluginError> {
        let described = guest.call_describe(&mut *store).await;
        let descriptor = described.map_err(|error| self.trapped(store, &error))?;
        let refused = |reason: String| PluginError::Config {
            name: self.name.to_string(),
            reason: shortened(seat.veil.over(reason)),
        };
        schema::check(&descriptor.config_schema, &seat.config).map_err(refused)?;
        let opened = guest.call_open(&mut *store, &seat.config.to_string()).await;
        opened
            .map_err(|error| self.trapped(store, &error))?
            .map_err(refused)?;
        // What it staged before its first batch belongs to no batch.
        store.data_mut().begin();
        Ok(Descriptor {
            name: descriptor.name,
            version: descriptor.version,
            config_schema: descriptor.config_schema,
        })
    }

    fn trapped(&self, store: &Store<Host>, error: &wasmtime::Error) -> PluginError {
        PluginError::Start {
            name: self.name.to_string(),
            source: wasmtime::Error::msg(shortened(
                store.data().veil().over(store.data().describe(error)),
            )),
        }
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Plugin").field(&self.name).finish()
    }
}

impl From<removals::RemoveError> for world::WriteError {
    fn from(error: removals::RemoveError) -> Self {
        match error {
            removals::RemoveError::Retry(retry) => Self::Retry(world::Retry {
                after_ms: retry.after_ms,
                reason: retry.reason,
            }),
            removals::RemoveError::Reject(reason) => Self::Reject(reason),
            removals::RemoveError::RejectItems(items) => {
                let items = items.into_iter().map(|one| world::Rejection {
                    index: one.index,
                    reason: one.reason,
                });
                Self::RejectItems(items.collect())
            }
        }
    }
}

/// A running guest, owned by one lane.
pub struct Instance {
    store: Store<Host>,
    sink: world::Guest,
    removals: Option<removals::Guest>,
    descriptor: Descriptor,
    limits: Limits,
    calls_left: u32,
}

impl Instance {
    /// Hands the guest a batch and returns what it made of it. Removals that it does not hear of are applied to the pool in
    /// its place: what an older component wrote must not stay for ever. After [`Failure::Trap`] the instance must be
    /// dropped.
    ///
    /// # Errors
    /// See [`Failure`]; with what the guest had settled before it failed.
    pub async fn write(&mut self, batch: Batch) -> Result<Taken, NotTaken> {
        let action = batch.action();
        if action == Action::Remove && self.removals.is_none() {
            let staged = Staged {
                effects: vec![Effect::Delete(batch)],
                ..Staged::default()
            };
            return Ok(Taken {
                staged,
                ..Taken::default()
            });
        }
        self.calls_left = self.calls_left.saturating_sub(1);
        arm(&mut self.store, &self.limits);
        let trap = |reason: String| Failure::Trap { reason };
        let len = batch.len();
        let host = self.store.data_mut();
        host.begin();
        host.calls.begin(&batch, self.limits.call_time_max);
        let handle = self
            .store
            .data_mut()
            .lend(batch)
            .map_err(|error| trap(error.to_string()))?;
        let (sink, removals, store) = (&self.sink, self.removals.as_ref(), &mut self.store);
        let call = async move {
            match removals.filter(|_| action == Action::Remove) {
                Some(guest) => {
                    let result = guest.call_remove(store, handle).await?;
                    Ok(result.map_err(world::WriteError::from))
                }
                None => sink.call_write(store, handle).await,
            }
        };
        let result = tokio::time::timeout(self.limits.call_time_max, call).await;
        let host = self.store.data_mut();
        host.calls.end();
        let staged = std::mem::take(&mut host.staged);
        let progress = std::mem::take(&mut host.progress);
        let told = |reason: String| shortened(host.veil().over(reason));
        let failure = match result {
            Ok(Ok(Ok(()))) => {
                return Ok(Taken {
                    staged,
                    rejected: Vec::new(),
                });
            }
            Ok(Ok(Err(world::WriteError::RejectItems(rejections)))) => {
                let rejected: Vec<(u32, String)> = rejections
                    .into_iter()
                    .map(|one| (one.index, told(one.reason)))
                    .collect();
                match rejected.iter().find(|(index, _)| *index >= len) {
                    Some((index, _)) => {
                        trap(format!("it rejects item {index}; the batch has {len}"))
                    }
                    None => return Ok(Taken { staged, rejected }),
                }
            }
            Ok(Ok(Err(world::WriteError::Retry(retry)))) => Failure::Retry {
                after: retry.after_ms.map(Duration::from_millis),
                reason: told(retry.reason),
            },
            Ok(Ok(Err(world::WriteError::Reject(reason)))) => Failure::Reject {
                reason: told(reason),
            },
            Ok(Err(error)) => trap(told(host.describe(&error))),
            Err(_) => trap(format!(
                "no answer within {} ms",
                self.limits.call_time_max.as_millis()
            )),
        };
        let refused = progress.refused.into_iter();
        Err(NotTaken {
            failure,
            progress: Progress {
                taken: progress.taken.min(len),
                refused: refused.map(|(range, why)| (range, told(why))).collect(),
            },
        })
    }

    /// What the plugin says of itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Bytes of the guest's memory.
    pub fn memory_bytes(&self) -> usize {
        self.store.data().memory.used()
    }

    /// Whether the instance should be replaced before the next call: after many calls, when it
    /// holds more than half of its memory limit, or when it kept handles of batches or requests.
    pub fn is_worn_out(&self) -> bool {
        let host = self.store.data();
        self.calls_left == 0
            || host.memory.used() > self.limits.memory_bytes_max / 2
            || host.lent() > 0
            || host.calls.under_way()
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("calls_left", &self.calls_left)
            .finish_non_exhaustive()
    }
}

/// Gives the guest its time for one call.
fn arm(store: &mut Store<Host>, limits: &Limits) {
    let ticks = limits.cpu_time_max.as_millis().div_ceil(TICK.as_millis());
    store.data_mut().ticks_left = u64::try_from(ticks).unwrap_or(u64::MAX) + 1;
    store.set_epoch_deadline(1);
}

/// One thread moves the interruption clock of the engine on, until the engine is gone.
fn start_ticking(engine: &Engine) {
    let engine = engine.weak();
    let ticking = std::thread::Builder::new()
        .name("plugin-clock".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                clock::sleep_on_own_thread(TICK);
            }
        });
    if let Err(error) = ticking {
        tracing::error!(%error, "plugins run without an interruption clock");
    }
}

fn built_in(name: &str) -> Option<&'static [u8]> {
    let mut found = BUILT_IN.iter().filter(|(own, _)| *own == name);
    found.next().map(|(_, bytes)| *bytes)
}

/// The same for whoever runs plugins and whoever compiles them.
fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.max_wasm_stack(512 << 10);
    Engine::new(&config)
}

fn keep(cache: &cache::Cache, digest: &Digest, code: &[u8]) -> std::io::Result<()> {
    let unfinished = cache.begin(digest)?;
    unfinished.file().write_all(code)?;
    unfinished.finish()
}

/// The beginning of a reason, if it is long.
fn shortened(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        reason.push('…');
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_more_is_told_how_to_grant_it() {
        let plugins = Plugins::new(None, None, Limits::from(&config::Plugins::default()));
        let plugins = plugins.expect("an engine");
        let mut sink = config::Sink::default();
        assert!(plugins.load(&sink).is_ok(), "pool asks for nothing");
        sink.plugin = "http-forward".to_owned();
        let refused = plugins.load(&sink).expect_err("no grant");
        assert!(refused.to_string().contains("http = { hosts"), "{refused}");
        sink.http = Some(config::Http::default());
        let granted = plugins.load(&sink);
        assert!(granted.is_ok(), "{granted:?}");
    }

    #[test]
    fn the_configuration_knows_the_built_in_plugins() {
        let names: Vec<_> = super::BUILT_IN.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, crate::config::BUILT_IN_PLUGINS);
    }
}
