//! The daemon: builds every part, spawns every task, stops them in order.
//!
//! `serve`, `demo` and the tests start it.
//!
//! **Invariant**: every task of the daemon is spawned here, and has ended when [`Daemon::run`] returns.
//! Threads: a lane each (`daemon/sinks.rs`); the journal's writer and the plugins' clock, by their modules.

mod admin_token;
mod ballast;
mod cluster;
mod connection_limits;
mod error;
mod files;
mod hourly;
mod memory;
mod moving;
mod node;
mod parts;
mod permissions;
mod pipeline;
mod reload;
pub mod routes;
mod scrub;
mod sinks;
mod stopping;
mod stored;
mod upgrade;
mod upgrading;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use base::clock;
use base::order::Seq;
use base::process;
use http::host::Hosts;
use http::listen::{Bound, Places, Stopper, bind};
use http::sessions::Sessions;
use http::{AdminParts, Outside, ServiceParts};
use observe::metrics::Metrics;
use observe::telemetry::Tracer;
use operate::{Operator, OperatorParts};
use plugin::{FolderRoots, Plugins};
use settings::{Loaded, Networks, ProxyHeader, Settings};
use sqlite::FailStop;

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
pub use connection_limits::ConnectionLimits;
pub use error::DaemonError;
pub use moving::{MOVED_MARK, MovedIn, MovedOut, move_in, move_out};
use node::RunningNode;
pub use node::{database_of, make_tables};
use parts::Parts;
pub use pipeline::{Delivered, Pipeline};
pub use reload::{Files, Reload};
use sinks::Sinks;
use stored::Stored;
pub use stored::{repair_folder, restore_into};
pub use upgrade::{Upgrade, look as look_at_formats};

#[derive(Debug)]
pub struct Daemon {
    /// Where the service listener is reached: `http://127.0.0.1:8080` or `unix:/…`.
    pub service_address: String,
    /// Where the admin listener is reached.
    pub admin_address: String,
    pub data_dir: PathBuf,
    /// What an operator sees and does, for whoever runs the daemon in its own process.
    pub operator: Operator,
    /// Who is signed in to the admin pages.
    pub sessions: Arc<Sessions>,
    shutdown_time_max: Duration,
    servers: Vec<Stopper>,
    encryption: reload::Encrypted,
    tasks: TaskTracker,
    stop: CancellationToken,
    sinks: Arc<Sinks>,
    plugins: Arc<Plugins>,
    fail_stop: FailStop,
    /// In a cluster.
    node: Option<Arc<RunningNode>>,
    /// Held as long as the daemon lives: nobody else may use the data folder.
    lock: files::Lock,
}

/// Where compiled plugins are kept in a data folder.
pub fn cache_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("plugin-cache")
}

impl Daemon {
    /// Starts everything and returns when both listeners answer. `program` is the executable of this program, as
    /// [`Plugins::new`] wants it.
    ///
    /// # Errors
    /// See [`DaemonError`]; nothing keeps running then.
    pub fn start<'a>(
        loaded: &'a Loaded,
        program: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Self, DaemonError>> {
        Box::pin(Self::start_on_disk(loaded, program))
    }

    /// Starts with what is kept for a full disk, if it is full.
    async fn start_on_disk(loaded: &Loaded, program: Option<&Path>) -> Result<Self, DaemonError> {
        let data_dir = files::open_folder(&loaded.settings.storage.data_dir)?;
        match Self::start_in(&data_dir, loaded, program).await {
            Err(error) if error.is_full() => {
                if !ballast::give_up(&data_dir) {
                    return Err(DaemonError::DiskFull(data_dir.display().to_string()));
                }
                tracing::error!(
                    "the disk is full: what was kept for this moment is used up to start"
                );
                Self::start_in(&data_dir, loaded, program).await
            }
            started => started.inspect_err(|error| error.suspect(&data_dir)),
        }
    }

    async fn start_in(
        data_dir: &Path,
        loaded: &Loaded,
        program: Option<&Path>,
    ) -> Result<Self, DaemonError> {
        let settings = &loaded.settings;
        let lock = files::Lock::take(data_dir)?;
        upgrading::look(data_dir, settings)?;
        clock::trust(settings.storage.trust_clock.into());
        permissions::close(data_dir, settings.storage.pool_mode);
        moving::must_be_usable(data_dir, settings.storage.engine)?;
        files::open_plugins(&settings.storage.plugins_dir())?;
        let own_token = admin_token::of_alone(settings)?;
        upgrading::run(data_dir, settings).await?;
        let metrics = Arc::new(Metrics::new());
        let node = stored::join(data_dir, settings, &metrics).await?;
        let (service_listener, admin_listener) = bind_both(settings).await?;
        let (tracer, exporter) = Tracer::new(&settings.telemetry.otlp, &metrics);
        let stored = Stored::open(data_dir, settings, &metrics, node).await?;
        stored.fail_stop.watch_files(lock.identity());
        permissions::open_pool(data_dir, settings.storage.pool_mode);
        let (cache_dir, limits) = (cache_dir(data_dir), (&settings.plugins).into());
        let plugins = Plugins::new(Some(&cache_dir), program, limits)?;
        let plugins = Arc::new(plugins.with_roots(FolderRoots::of(data_dir, settings)));
        let parts = Parts {
            stored: &stored,
            plugins: &plugins,
            metrics: &metrics,
            tracer,
        };
        let access = admin_token::access(own_token, settings, stored.node.as_ref()).await?;
        let operator = parts.operator(loaded, data_dir, access, &service_listener.address);
        let stop = CancellationToken::new();
        let (delivery, catalog) = (&operator.delivery, &operator.catalog);
        let node = stored.node.map(Arc::new);
        let sessions = cluster::sessions(&operator.access, node.as_deref());
        let sinks = Sinks::start(delivery, catalog, stop.child_token(), node.is_none()).await?;
        let mut daemon = Self {
            service_address: service_listener.address.clone(),
            admin_address: admin_listener.address.clone(),
            data_dir: data_dir.to_owned(),
            shutdown_time_max: Duration::from_secs(settings.server.shutdown_seconds),
            servers: Vec::new(),
            encryption: reload::Encrypted {
                service: service_listener.encryption.clone(),
                admin: admin_listener.encryption.clone(),
            },
            tasks: TaskTracker::new(),
            stop,
            sinks: Arc::new(sinks),
            plugins,
            fail_stop: stored.fail_stop,
            node,
            lock,
            sessions: Arc::new(sessions),
            operator,
        };
        if daemon.node.is_none() {
            daemon.reload().log_gaps();
        }
        daemon.reload().log_terms();
        let logged = daemon.operator.journal.newest_logged().await?;
        daemon.operator.restore_screens().await;
        daemon.operator.expire_at_start().await;
        let counted = cluster::count_unsettled(&daemon.operator).await?;
        daemon.spawn(settings, service_listener, admin_listener);
        daemon.follow_sinks();
        daemon.follow_cluster(counted);
        if let Some(exporter) = exporter {
            daemon.tasks.spawn(exporter.run(daemon.stop.clone()));
        }
        let problems = daemon.operator.clone();
        let stop = daemon.stop.clone();
        (daemon.tasks)
            .spawn(async move { stop.run_until_cancelled(problems.publish_problems()).await });
        let counting = hourly::count(daemon.operator.clone(), logged, daemon.stop.clone());
        daemon.tasks.spawn(counting);
        Ok(daemon)
    }

    /// Runs the sinks when it is the turn of this node, if there are others. Up to `counted`, what was accepted is.
    fn follow_cluster(&self, counted: Seq) {
        let OperatorParts { catalog, pool, .. } = &*self.operator;
        let Some(node) = &self.node else { return };
        let stop = || self.stop.clone();
        self.operator.delivery.set_lease(node.lease.clone());
        let live = Arc::clone(&self.operator.live);
        let changes = Arc::clone(&self.operator.sink_changes);
        node.on_change(move || {
            live.recheck_keys();
            changes.ask();
        });
        let following = cluster::follow_role(Arc::clone(node), Arc::clone(&self.sinks), stop());
        self.tasks.spawn(following);
        let watching = cluster::watch(Arc::clone(node), self.operator.clone(), stop());
        self.tasks.spawn(watching);
        let (operator, tasks) = (self.operator.clone(), self.tasks.clone());
        let answering = cluster::answer_asks(Arc::clone(node), operator, tasks, stop());
        self.tasks.spawn(answering);
        let counting = cluster::count_elsewhere(self.operator.clone(), counted, stop());
        self.tasks.spawn(counting);
        let deleting = cluster::delete_ended_access(node.access.clone(), stop());
        self.tasks.spawn(deleting);
        let bases = node.bases(&self.data_dir, catalog, pool);
        self.tasks.spawn(bases.run(node.role(), stop()));
        node.may_run_sinks();
    }

    /// Carries out changes of sinks, and inspects unused plugins. The start does not wait, because they are compiled.
    fn follow_sinks(&self) {
        let changes = Arc::clone(&self.operator.sink_changes);
        self.tasks.spawn(Arc::clone(&self.sinks).follow(changes));
        let operator = self.operator.clone();
        // It ends when compiling does.
        self.tasks
            .spawn(async move { operator.note_plugins().await });
    }

    /// Takes changes of the configuration while the daemon runs.
    pub fn reload(&self) -> Reload {
        Reload {
            operator: self.operator.clone(),
            sinks: Arc::clone(&self.sinks),
            encryption: self.encryption.clone(),
        }
    }

    fn spawn(&mut self, settings: &Settings, service: Bound, admin: Bound) {
        let bodies = journal::Retention {
            bytes_max: settings.storage.rejected_retention_bytes,
            age_max: MINUTE * settings.storage.rejected_retention_minutes,
        };
        // Before the first request; the watch says it again.
        self.operator.journal.keep_bodies(bodies);
        let routes = routes::service(&ServiceParts {
            operator: self.operator.clone(),
            origins: settings.live.origins.as_slice().into(),
            body_timeout_seconds: settings.limits.body_timeout_seconds,
            outside: Outside::of(settings),
        });
        let connections = ConnectionLimits::of(settings, process::open_files_max());
        if let Some(shortage) = connections.shortage() {
            tracing::info!("{shortage}");
        }
        let metrics = Arc::clone(&self.operator.metrics);
        let (stopper, serving) = service.serve(
            routes,
            &settings.server,
            Places {
                max: connections.service,
                of_address_max: connections.of_address,
                exempt: settings.server.trusted_proxies.clone(),
            },
            (&metrics, |all| &all.listeners.service),
        );
        self.servers.push(stopper);
        self.tasks.spawn(serving);
        let routes = routes::admin(&AdminParts {
            operator: self.operator.clone(),
            sessions: Arc::clone(&self.sessions),
            hosts: Hosts {
                listed: settings.admin.hosts.as_slice().into(),
                is_local: settings.admin.listen.is_loopback(),
            },
            outside: Outside::of(settings),
        });
        let (stopper, serving) = admin.serve(
            routes,
            &settings.server,
            Places {
                max: connections.admin,
                of_address_max: connections.admin,
                exempt: Networks::default(),
            },
            (&metrics, |all| &all.listeners.admin),
        );
        self.servers.push(stopper);
        self.tasks.spawn(serving);
        let watch = watch::Watch {
            operator: self.operator.clone(),
            sinks: Arc::clone(&self.sinks),
            data_dir: self.data_dir.clone(),
            disk_free_bytes_min: settings.storage.min_free_bytes,
            payloads: journal::Retention {
                bytes_max: settings.storage.payload_retention_bytes,
                age_max: MINUTE * settings.storage.payload_retention_minutes,
            },
            bodies,
        };
        self.tasks.spawn(watch.run(self.stop.clone()));
        let files = files::keep_watch(self.fail_stop.clone(), self.stop.clone());
        self.tasks.spawn(files);
        let scrub = scrub::Scrub {
            data_dir: self.data_dir.clone(),
            metrics: Arc::clone(&self.operator.metrics),
            fail_stop: self.fail_stop.clone(),
        };
        self.tasks.spawn(scrub.run(self.stop.clone()));
    }
}

/// The settings that say where the listeners are.
pub const SERVICE_LISTEN: &str = "server.listen";
/// See [`SERVICE_LISTEN`].
pub const ADMIN_LISTEN: &str = "admin.listen";

/// The two listeners, service and admin.
async fn bind_both(settings: &Settings) -> Result<(Bound, Bound), DaemonError> {
    let (server, admin) = (&settings.server, &settings.admin);
    let announcing = match server.proxy_header {
        ProxyHeader::ProxyProtocol => server.trusted_proxies.clone(),
        _ => Networks::default(),
    };
    let of = |setting| move |error| DaemonError::Listen { setting, error };
    let service = bind(&server.listen, server.tls.as_ref(), &announcing).await;
    let admin = bind(&admin.listen, admin.tls.as_ref(), &announcing).await;
    Ok((
        service.map_err(of(SERVICE_LISTEN))?,
        admin.map_err(of(ADMIN_LISTEN))?,
    ))
}

/// Makes a data folder if it is missing, for this user only; its absolute path.
///
/// # Errors
/// [`DaemonError::DataFolder`].
pub fn data_folder(path: &Path) -> Result<PathBuf, DaemonError> {
    files::open_folder(path)
}

fn retention(settings: &Settings) -> Duration {
    DAY * settings.storage.log_retention_days
}
