//! The daemon: builds every part, spawns every task, stops them in order.
//!
//! `serve`, `demo` and the tests start it.
//!
//! **Invariant**: every task of the daemon is spawned here, and has ended when [`Daemon::run`] returns.
//! Threads: a lane each (`daemon/sinks.rs`); the journal's writer and the plugins' clock, by their modules.

mod files;
mod memory;
mod reload;
mod sinks;
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backup::Backups;
use crate::backup::restore::{MARK, RestoreError, Restored, restore};
use crate::catalog::{Catalog, CatalogError, KeyHash};
use crate::clock;
use crate::config::{self, Loaded, Settings};
use crate::delivery::{AddError, Delivery};
use crate::http::{
    self, About, Bound, Configuration, DeclaredIn, ListenError, Parts, Sessions, Stopper,
};
use crate::ingest::{Gate, Ingest, Limits};
use crate::journal::{self, Journal, StorageError};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::plugin::{PluginError, Plugins};
use crate::pool::{OnUpdate, Pool, PoolError};
pub use reload::{Files, Reload};
use sinks::Sinks;

/// Why the daemon could not start, or had to end.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The data folder cannot be used.
    #[error("{0}")]
    DataFolder(String),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The catalog cannot be opened.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The pool cannot be opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The plugin engine cannot be set up.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The lanes cannot be made.
    #[error(transparent)]
    Sinks(#[from] AddError),
    /// A listener cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A backup cannot be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The journal failed while the daemon ran: what is on disk is read afresh by the next start.
    #[error("the journal cannot be written; start again when the disk is well")]
    JournalFailed,
}

impl DaemonError {
    /// The exit code of the process: 70 for storage, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Journal(_)
            | Self::Catalog(_)
            | Self::Pool(_)
            | Self::Sinks(_)
            | Self::JournalFailed => 70,
            Self::Restore(RestoreError::Backup { .. }) => 1,
            Self::Restore(_) => 70,
            _ => 1,
        }
    }
}

/// How long answers may take to leave after the journal failed.
const FAILED_GRACE: Duration = Duration::from_secs(1);

/// How long renderers may take to hear that the daemon stops.
const RENDERERS_GRACE: Duration = Duration::from_secs(1);

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    /// Where the service listener is reached: `http://127.0.0.1:8080` or `unix:/…`.
    pub service_address: String,
    /// Where the admin listener is reached.
    pub admin_address: String,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The parts, for whoever runs the daemon in its own process.
    pub parts: Parts,
    shutdown_time_max: Duration,
    servers: Vec<Stopper>,
    tasks: TaskTracker,
    stop: CancellationToken,
    sinks: Arc<Sinks>,
    plugins: Arc<Plugins>,
    /// Held as long as the daemon lives: nobody else may use the data folder.
    lock: files::Lock,
}

impl Daemon {
    /// Starts everything and returns when both listeners answer. `program` is the executable of this program, as
    /// [`Plugins::new`] wants it.
    ///
    /// # Errors
    /// See [`DaemonError`]; nothing keeps running then.
    pub async fn start(loaded: &Loaded, program: Option<&Path>) -> Result<Self, DaemonError> {
        let settings = &loaded.settings;
        let data_dir = files::open_folder(&settings.storage.data_dir)?;
        let lock = files::Lock::take(&data_dir)?;
        if data_dir.join(MARK).exists() {
            return Err(DaemonError::DataFolder(format!(
                "the restore of a backup into {} did not come to its end; empty the folder and run `headgate restore` again",
                data_dir.display()
            )));
        }
        files::open_folder(&settings.storage.plugins_dir())?;
        let admin_token = files::admin_token(&settings.admin)?;
        let service_listener = http::bind(&settings.server.listen).await?;
        let admin_listener = http::bind(&settings.admin.listen).await?;

        let metrics = Arc::new(Metrics::new());
        let (catalog, warnings) = Catalog::open(&data_dir.join("catalog.db"), settings)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let catalog = Arc::new(catalog);
        let pool = Pool::open(&data_dir.join("pool.db"), HashMap::new()).await?;
        let journal = Journal::open(
            &data_dir.join("journal.db"),
            journal_options(settings, &pool)?,
            Arc::clone(&metrics),
        )
        .await?;
        let plugins = Arc::new(Plugins::new(
            Some(&data_dir.join("plugin-cache")),
            program,
            (&settings.plugins).into(),
        )?);
        let disk_free_bytes_min = settings.storage.min_free_bytes;
        let backups = Arc::new(Backups::new(&journal, &data_dir, disk_free_bytes_min));
        let delivery = Delivery::new(&journal, &pool, &plugins, &metrics);
        let live = Arc::new(Live::new(settings, &pool, &metrics));
        follow_streams(&catalog, &pool, &live);
        let gate = Arc::new(Gate::new(settings.limits.max_pending_bytes as u64));
        let ingest = Arc::new(Ingest::new(
            Arc::clone(&catalog),
            Arc::clone(&journal),
            Arc::clone(&gate),
            Arc::clone(&metrics),
            Limits {
                body_bytes_max: settings.limits.max_body_bytes as u64,
                flattened_bytes_max: settings.limits.max_flattened_bytes,
            },
        ));
        let parts = Parts {
            ingest,
            catalog,
            journal,
            backups,
            delivery,
            pool,
            live,
            origins: settings.live.origins.as_slice().into(),
            gate,
            metrics,
            admin_token: KeyHash::of(&admin_token),
            sessions: Arc::new(Sessions::default()),
            hosts: settings.admin.hosts.as_slice().into(),
            log_requests: settings.log.requests,
            body_timeout_seconds: settings.limits.body_timeout_seconds,
            about: Arc::new(About {
                profile: loaded.profile.clone(),
                service_address: service_listener.address.clone(),
                data_dir: data_dir.display().to_string(),
                durability: match settings.storage.durability {
                    config::Durability::Fsync => "fsync",
                    config::Durability::Os => "os",
                },
                started_ms: clock::unix_ms(),
                declared_in: DeclaredIn {
                    streams: source_of(loaded, "streams"),
                    connectors: source_of(loaded, "connectors"),
                    read_keys: source_of(loaded, "read_keys"),
                },
            }),
            configuration: Arc::new(Configuration::new(config::explain(loaded))),
        };
        let stop = CancellationToken::new();
        let sinks = Sinks::start(&parts.delivery, &settings.sinks, stop.child_token()).await?;
        let mut daemon = Self {
            service_address: service_listener.address.clone(),
            admin_address: admin_listener.address.clone(),
            data_dir,
            shutdown_time_max: Duration::from_secs(settings.server.shutdown_seconds),
            servers: Vec::new(),
            tasks: TaskTracker::new(),
            stop,
            sinks: Arc::new(sinks),
            plugins,
            lock,
            parts,
        };
        daemon.spawn(settings, service_listener, admin_listener);
        Ok(daemon)
    }

    /// Serves until `shutdown` resolves, then stops in order: no new requests, answers to the open
    /// ones, the lanes at a batch edge, the files.
    ///
    /// # Errors
    /// [`DaemonError::JournalFailed`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), DaemonError> {
        let mut failed = self.parts.journal.failed();
        let fatal = async {
            // An error means that the journal is gone, which is the same.
            let _ = failed.wait_for(|failed| *failed).await;
        };
        let failed = tokio::select! {
            () = shutdown => false,
            () = fatal => true,
        };
        let grace = if failed {
            FAILED_GRACE
        } else {
            self.shutdown_time_max
        };
        tracing::info!(failed, "stopping");
        self.parts.gate.drain();
        self.parts.live.stop();
        self.parts.backups.stop();
        for server in &self.servers {
            server.stop(grace);
        }
        self.stop.cancel();
        self.plugins.stop_compiling();
        self.tasks.close();
        let cutting = async {
            // Once to see who does not go, once to close their connections.
            for _ in 0..2 {
                tokio::time::sleep(RENDERERS_GRACE / 2).await;
                self.parts.live.cut_off();
            }
        };
        let gone = async {
            self.tasks.wait().await;
            self.parts.live.emptied().await;
        };
        tokio::select! {
            () = gone => {}
            () = cutting => self.tasks.wait().await,
        }
        if failed {
            // The files are left as they are: the next start reads what is really there.
            return Err(DaemonError::JournalFailed);
        }
        if !self.sinks.ended(self.shutdown_time_max).await {
            // Safe, because nothing of the call is committed.
            tracing::warn!(
                "a sink is still in a call; it is abandoned, the next start delivers again"
            );
        }
        self.parts.journal.close().await;
        self.parts.pool.close().await?;
        self.parts.catalog.close()?;
        if *self.parts.journal.failed().borrow() {
            return Err(DaemonError::JournalFailed);
        }
        drop(self.lock);
        tracing::info!("stopped");
        Ok(())
    }

    /// Takes changes of the configuration while the daemon runs.
    pub fn reload(&self) -> Reload {
        Reload {
            parts: self.parts.clone(),
            sinks: Arc::clone(&self.sinks),
        }
    }

    fn spawn(&mut self, settings: &Settings, service: Bound, admin: Bound) {
        let bodies = journal::Retention {
            bytes_max: settings.storage.rejected_retention_bytes,
            age_ms_max: u64::from(settings.storage.rejected_retention_minutes) * 60_000,
        };
        // Before the first request; the watch says it again.
        self.parts.journal.keep_bodies(bodies);
        let connections_max = settings.server.connections_max;
        let (stopper, serving) = service.serve(http::service(&self.parts), connections_max);
        self.servers.push(stopper);
        self.tasks.spawn(serving);
        let (stopper, serving) = admin.serve(http::admin(&self.parts), connections_max);
        self.servers.push(stopper);
        self.tasks.spawn(serving);
        let watch = watch::Watch {
            parts: self.parts.clone(),
            data_dir: self.data_dir.clone(),
            disk_free_bytes_min: settings.storage.min_free_bytes,
            retention_ms: retention_ms(settings),
            payloads: journal::Retention {
                bytes_max: settings.storage.payload_retention_bytes,
                age_ms_max: u64::from(settings.storage.payload_retention_minutes) * 60_000,
            },
            bodies,
        };
        self.tasks.spawn(watch.run(self.stop.clone()));
    }
}

/// Makes a data folder of a backup. `data_dir` must be missing or empty.
///
/// # Errors
/// [`DaemonError::DataFolder`], [`DaemonError::Restore`]; nothing that was written is left then.
pub fn restore_into(data_dir: &Path, backup: &Path) -> Result<Restored, DaemonError> {
    let claimed = files::Claimed::empty(data_dir)?;
    let restored = restore(backup, &claimed.path)?;
    claimed.keep();
    Ok(restored)
}

/// Streams that change are known to the pool and to renderers before anybody can use them.
fn follow_streams(catalog: &Catalog, pool: &Arc<Pool>, live: &Arc<Live>) {
    let (pool, live) = (Arc::clone(pool), Arc::clone(live));
    catalog.follow_streams(move |streams| {
        let on_update = streams.values().map(|stream| {
            let on_update = match stream.on_update {
                config::OnUpdate::Replace => OnUpdate::Replace,
                config::OnUpdate::Merge => OnUpdate::Merge,
            };
            (Arc::clone(&stream.name), on_update)
        });
        pool.set_on_update(on_update.collect());
        let stale_after = streams.values().filter_map(|stream| {
            let seconds = stream.stale_after_seconds?;
            Some((Arc::clone(&stream.name), seconds))
        });
        live.set_stale_after(stale_after.collect());
    });
}

fn journal_options(settings: &Settings, pool: &Pool) -> Result<journal::Options, PoolError> {
    Ok(journal::Options {
        durability: match settings.storage.durability {
            config::Durability::Fsync => journal::Durability::Fsync,
            config::Durability::Os => journal::Durability::Os,
        },
        pending_bytes_max: settings.limits.max_pending_bytes,
        seq_floor: pool.highest_seq()?,
        log_retention_ms: retention_ms(settings),
        log_retention_bytes: settings.storage.log_retention_bytes,
    })
}

fn retention_ms(settings: &Settings) -> u64 {
    u64::from(settings.storage.log_retention_days) * 86_400_000
}

/// Where a list of the configuration stands; empty if it stands nowhere.
fn source_of(loaded: &Loaded, list: &str) -> String {
    loaded.source_of(list).unwrap_or_default().to_owned()
}
