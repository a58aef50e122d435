//! This node of a cluster: its copies, what follows the log, and who runs the sinks.
//!
//! Writers block until the log has what they append, and who follows takes their locks. So neither shares a thread with
//! the other, nor with requests: both have a thread of their own.
//!
//! **Invariant**: nothing is shown or accepted before the copies have everything that the log had at the start. What a
//! thread of a node serves has ended when [`Node::close`] returns.

mod arrival;
mod epochs;
mod facts;
mod limits;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::DaemonError;
use arrival::Arrival;
pub(super) use arrival::{FORMAT, copies_at_rest};
use base::clock::since_boot;
use base::lease::Lease;
use catalog::Catalog;
use cluster::{Bases, Candidate, Copy, Follower, KeepPlaces, Member, Members, Role, Status};
use epochs::Epochs;
use facts::Facts;
use limits::KeyLimits;
use observe::metrics::Metrics;
use operate::access::Access;
use pool::Pool;
use postgres::{
    AccessTables, Asks, Database, DatabaseCall, DatabaseOptions, Durability, Finding, Made,
};
use replica::log::{Doubts, Log};
use replica::{AtRestError, LogEntry, LogError, LogPlace, ReplicaFile, SharedLog, part_of};
use settings::{ClusterDurability, ClusterHints, Settings};

/// From a claim until the copies have what the owner before has settled.
const LEVEL_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Node {
    id: Uuid,
    database: Database,
    pub(super) log: SharedLog,
    facts: Arc<Facts>,
    status: Status,
    members: Members,
    hints: ClusterHints,
    doubts: Doubts,
    threads: Vec<JoinHandle<()>>,
    /// What still appends ends last.
    stop: CancellationToken,
}

/// A node whose files are open.
#[derive(Debug)]
pub(super) struct RunningNode {
    id: Uuid,
    database: Database,
    log: SharedLog,
    pub(super) status: Status,
    threads: Vec<JoinHandle<()>>,
    doubts: Doubts,
    stop: CancellationToken,
    facts: Arc<Facts>,
    pub(super) copy: Copy,
    pub(super) lease: Lease,
    /// Sessions, links, tickets and the admin token of all nodes.
    pub(super) access: AccessTables,
    /// What operators ask on nodes that do not run the sinks.
    pub(super) asks: Asks,
    role: watch::Receiver<Role>,
    begin: watch::Sender<bool>,
    stop_candidate: CancellationToken,
    changed: Arc<OnceLock<CatalogChanged>>,
}

/// What is done when another node has changed the catalog.
struct CatalogChanged(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for CatalogChanged {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CatalogChanged")
            .finish_non_exhaustive()
    }
}

/// The database of these settings.
///
/// # Errors
/// What is wrong with a URL, without a word of it.
pub fn database_of(settings: &Settings) -> Result<Database, DaemonError> {
    let cluster = &settings.cluster;
    let options = DatabaseOptions {
        urls: cluster.urls(),
        schema: cluster.schema.clone(),
        name: cluster.node.clone(),
        durability: match cluster.durability {
            ClusterDurability::Standby => Durability::Standby,
            ClusterDurability::Local => Durability::Local,
        },
    };
    Database::new(&options).map_err(DaemonError::Cluster)
}

impl Node {
    /// Brings the copies of the folder to the head of the log, which it begins if nobody has. They can be opened then.
    /// While nodes live that are too old for this version, it waits.
    pub(super) async fn join(
        data_dir: &Path,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, DaemonError> {
        let database = database_of(settings)?;
        count_calls(&database, metrics);
        make_tables(&database).await?;
        let id = Uuid::now_v7();
        let status = Status::default();
        let facts = Arc::new(Facts::of(settings, metrics));
        let said = Arc::clone(&facts);
        let member = member(id, settings);
        let members = Members::join(database.clone(), member, status.clone(), move || said.say());
        let mut members = members.await?;
        let files = [data_dir.join(pool::FILE), data_dir.join(catalog::FILE)];
        let copies = copies_at_rest([&files[0], &files[1]]);
        (copies.delete_suspects()).map_err(AtRestError::from)?;
        let arrival = Arrival {
            copies,
            log: Log::new(database.clone(), id),
            members: &mut members,
            status: &status,
        };
        arrival.run(settings).await?;
        // Another connection: who serves one must not wait for the threads of requests.
        let doubts = Doubts::default();
        let log = Log::new(database.clone(), id).with_doubts(doubts.clone());
        let (shared, task) = SharedLog::over(log, FORMAT);
        // Once for the life of the process.
        let _ = facts.log.set(shared.clone());
        let stop = CancellationToken::new();
        let serving = stop.clone();
        let thread = thread("cluster-log", async move {
            serving.run_until_cancelled(task).await;
        })?;
        Ok(Self {
            id,
            database,
            log: shared,
            facts,
            status,
            members,
            hints: settings.cluster.hints,
            doubts,
            threads: vec![thread],
            stop,
        })
    }

    /// Follows the log from now on; returns when the files have everything that there was.
    pub(super) async fn run(
        mut self,
        catalog: &Arc<Catalog>,
        pool: &Arc<Pool>,
        metrics: &Arc<Metrics>,
    ) -> Result<RunningNode, DaemonError> {
        let changed = Arc::default();
        let follower = Follower::new(
            Log::new(self.database.clone(), self.id),
            self.log.clone(),
            applying(catalog, pool, &changed, metrics),
            keeping(catalog, pool),
        );
        let copy = follower.copy();
        let _ = self.facts.copy.set(copy.clone());
        let following = follower.run(self.stop.clone());
        self.threads.push(thread("cluster-copies", following)?);
        self.catch_up(&copy).await?;
        let epochs = Epochs::begin(pool, self.members.epoch()).await?;
        let candidate = Candidate::new(Log::new(self.database.clone(), self.id));
        let candidate = candidate.allowed_by(self.members.may_claim());
        let candidate = candidate.giving(self.status.hand_over.clone());
        let (role, lease) = (candidate.role(), candidate.lease());
        let (begin, mut begins) = watch::channel(false);
        let stop_candidate = self.stop.child_token();
        let stop = stop_candidate.clone();
        self.threads.push(thread("cluster-sinks", async move {
            let begun = async { begins.wait_for(|begin| *begin).await.is_ok() };
            if stop.run_until_cancelled(begun).await == Some(true) {
                candidate.run(stop).await;
            }
        })?);
        let living = self.members.run(self.log.clone(), self.stop.clone());
        let limits = KeyLimits::new(self.id, self.database.clone(), catalog, &self.status);
        let limits = limits.run(self.stop.clone());
        let hinting = hinting(self.hints, self.database.clone(), self.stop.clone());
        let renewing = epochs.renew(self.stop.clone());
        self.threads.push(thread("cluster-members", async move {
            tokio::join!(living, limits, hinting, renewing);
        })?);
        Ok(RunningNode {
            id: self.id,
            access: AccessTables::new(self.database.clone()),
            asks: Asks::new(self.database.clone()),
            database: self.database,
            log: self.log,
            facts: self.facts,
            status: self.status,
            threads: self.threads,
            doubts: self.doubts,
            stop: self.stop,
            copy,
            lease,
            role,
            begin,
            stop_candidate,
            changed,
        })
    }

    /// Returns when the copies have all that there was, and other nodes know of this one.
    async fn catch_up(&mut self, copy: &Copy) -> Result<(), DaemonError> {
        copy.caught_up().await.map_err(of_log)?;
        self.members.announce().await?;
        // Who changed the catalog before did not wait for this node.
        copy.has_all_until(since_boot()).await.map_err(of_log)
    }
}

impl RunningNode {
    /// The log that its files commit to.
    pub(super) fn log(&self) -> &SharedLog {
        &self.log
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// What this life of the node is known by.
    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// From now on this is done whenever another node has changed the catalog, before anything that came later is
    /// shown.
    pub(super) fn on_change(&self, changed: impl Fn() + Send + Sync + 'static) {
        // Once for the life of the process.
        let _ = self.changed.set(CatalogChanged(Box::new(changed)));
    }

    /// The node says from now on which admin tokens it accepts.
    pub(super) fn set_access(&self, access: &Arc<Access>) {
        // Once for the life of the process.
        let _ = self.facts.access.set(Arc::clone(access));
    }

    /// The node may run the sinks from now on.
    pub(super) fn may_run_sinks(&self) {
        self.begin.send_replace(true);
    }

    /// Whether it runs them, and its changes.
    pub(super) fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// What the node settles is settled under this claim; returns when the copies have what the owner before has
    /// settled. Otherwise the lanes would begin behind that, and deliver it again.
    pub(super) async fn take_sinks(&self, fence: i64, from: LogPlace) {
        while self.log().place().n < from.n {
            tokio::time::sleep(LEVEL_EVERY).await;
        }
        self.log().set_fence(Some(fence));
    }

    /// Nothing is settled any more: no lane runs.
    pub(super) fn leave_sinks(&self) {
        self.log().set_fence(None);
    }

    /// What makes bases for new nodes.
    pub(super) fn bases(&self, data_dir: &Path, catalog: &Arc<Catalog>, pool: &Arc<Pool>) -> Bases {
        let log = Log::new(self.database.clone(), self.id);
        let files = [data_dir.join(pool::FILE), data_dir.join(catalog::FILE)];
        Bases::new(log, FORMAT, files, keeping(catalog, pool))
    }

    /// The node stops: what became of a change is asked for no longer than so long, so that a database that is away
    /// does not keep the process.
    pub(super) fn stops_within(&self, grace: Duration) {
        self.doubts.end_at(Instant::now() + grace);
    }

    /// Lets another node have the sinks, as soon as no lane runs here.
    pub(super) fn resign(&self) {
        self.stop_candidate.cancel();
    }

    /// Ends the threads, when both files are closed.
    pub(super) async fn close(self) {
        self.stop.cancel();
        let threads = self.threads;
        let join = || threads.into_iter().for_each(|thread| drop(thread.join()));
        let _ = tokio::task::spawn_blocking(join).await;
    }
}

/// Makes the tables of a cluster in a database that can keep what they are for, unless they are there.
///
/// # Errors
/// [`DaemonError::Cluster`], [`DaemonError::Database`].
pub async fn make_tables(database: &Database) -> Result<Made, DaemonError> {
    must_be_usable(&database.inspect().await?)?;
    let mut connection = database.connect().await?;
    Ok(postgres::make(database, &mut connection).await?)
}

/// Refuses a server with which the promises of a cluster cannot be kept; tells of what may become a problem.
fn must_be_usable(found: &[Finding]) -> Result<(), DaemonError> {
    let errors = found.iter().filter(|finding| finding.is_error);
    let errors: Vec<&str> = errors.map(|finding| &*finding.sentence).collect();
    if !errors.is_empty() {
        return Err(DaemonError::Cluster(errors.join("\n")));
    }
    for finding in found {
        tracing::warn!("{}", finding.sentence);
    }
    Ok(())
}

fn member(id: Uuid, settings: &Settings) -> Member {
    Member {
        id,
        name: settings.cluster.node.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address: settings.server.listen.to_string(),
        may_run_sinks: settings.cluster.sinks,
        format: FORMAT,
    }
}

/// Counts how long calls to the database take. The histograms are made once, because a lookup by name would be part of
/// each call.
fn count_calls(database: &Database, metrics: &Metrics) {
    let seconds = DatabaseCall::ALL.map(|call| metrics.postgres_call(call.as_str()));
    database.observe_calls(move |call, took| {
        if let Some(seconds) = seconds.get(call as usize) {
            seconds.observe(took.as_secs_f64());
        }
    });
}

/// Sends and receives the hints of nodes, where they are used.
async fn hinting(hints: ClusterHints, database: Database, stop: CancellationToken) {
    if hints == ClusterHints::Notify {
        database.hints().run(&database, stop).await;
    }
}

/// Hands an entry to the catalog, and then to the pool. The catalog comes first, because its change takes effect before
/// anything that came later is shown.
fn applying(
    catalog: &Arc<Catalog>,
    pool: &Arc<Pool>,
    changed: &Arc<OnceLock<CatalogChanged>>,
    metrics: &Arc<Metrics>,
) -> cluster::Apply {
    let (catalog, pool, changed) = (Arc::clone(catalog), Arc::clone(pool), Arc::clone(changed));
    let entries = metrics.replica_entries.clone();
    Box::new(move |before, entry: &LogEntry<'_>| {
        let applied = catalog.follow_entry(before, entry);
        applied.map_err(|error| error.to_string())?;
        if let Some(changed) = changed.get()
            && !matches!(part_of(entry.change, ReplicaFile::Catalog), Ok(None))
        {
            (changed.0)();
        }
        let applied = pool.follow_entry(before, entry);
        applied.map_err(|error| error.to_string())?;
        entries.inc();
        Ok(())
    })
}

/// Has both files note where they are.
fn keeping(catalog: &Arc<Catalog>, pool: &Arc<Pool>) -> KeepPlaces {
    let (catalog, pool) = (Arc::clone(catalog), Arc::clone(pool));
    Box::new(move || {
        let kept = catalog.keep_place();
        kept.map_err(|error| error.to_string())?;
        pool.keep_place().map_err(|error| error.to_string())
    })
}

/// Why the node has to end.
pub(super) fn of_log(error: LogError) -> DaemonError {
    match error {
        LogError::Newer(newer) => DaemonError::NewerLog(newer),
        error => DaemonError::Copy(error.to_string()),
    }
}

/// A thread that drives this alone.
fn thread(
    name: &str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, DaemonError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(DaemonError::Thread)?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || runtime.block_on(work));
    spawned.map_err(DaemonError::Thread)
}
