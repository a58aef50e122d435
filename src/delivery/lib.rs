//! Delivery: from the journal to the sinks, one lane per sink.
//!
//! `daemon` creates, changes and removes lanes and gives each a thread; the admin API reads their status.
//! `delivery/lane.rs` explains how a lane works.
//!
//! **Invariant**: a sink that fails, hangs or is slow delays its own lane only, and no accepted request is dropped to
//! free memory or disk space.
#![deny(unsafe_code)]

mod beginning;
mod commands;
mod elsewhere;
mod installed;
mod lane;
mod missing;
mod retries;
mod routing_gaps;
mod selection;
mod status;
mod trial;
mod unsettled;
mod verdict;

use base::lease::Lease;
use base::order::Seq;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use journal::{Journal, Retention, StorageError};
use observe::metrics::Metrics;
use observe::telemetry::Tracer;
use plugin::{GuestLog, Plugins, SinkContext};
use pool::{Pool, PoolError, Undelivered};
use status::Assignment;

pub use beginning::{RefillError, Refilled};
pub use installed::InstalledPlugin;
pub use lane::Lane;
pub use retries::{GivenUp, ReadError, Waiting};
pub use selection::narrowed;
pub use status::{Hold, LaneState, LaneStatus};
pub use trial::Tried;
pub use unsettled::Unsettled;

/// Why lanes could not be created.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The cursors cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Why the data of a sink was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// It has a lane.
    #[error("the sink is in the configuration; remove it there first")]
    Configured,
    /// The pool cannot be written.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// All lanes.
#[derive(Debug)]
pub struct Delivery {
    journal: Arc<Journal>,
    pool: Arc<Pool>,
    plugins: Arc<Plugins>,
    metrics: Arc<Metrics>,
    tracer: Tracer,
    /// The stream of the daemon's problems.
    problems: Box<str>,
    /// Until when sinks may be called; without one, always: no other node has them.
    lease: OnceLock<Lease>,
    /// In the order of the configuration.
    lanes: RwLock<Vec<Arc<LaneStatus>>>,
    /// What is shown of sinks that run on another node.
    elsewhere: RwLock<Vec<Arc<LaneStatus>>>,
    /// The installed plugins, used or not.
    known: installed::Known,
}

impl Delivery {
    /// Without lanes. `problems` is the stream of the daemon's problems; `""`: disabled.
    pub fn new(
        journal: &Arc<Journal>,
        pool: &Arc<Pool>,
        plugins: &Arc<Plugins>,
        metrics: &Arc<Metrics>,
        tracer: Tracer,
        problems: &str,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal: Arc::clone(journal),
            pool: Arc::clone(pool),
            plugins: Arc::clone(plugins),
            metrics: Arc::clone(metrics),
            tracer,
            problems: problems.into(),
            lease: OnceLock::new(),
            lanes: RwLock::default(),
            elsewhere: RwLock::default(),
            known: installed::Known::default(),
        })
    }

    /// Sinks are called only while this lease lasts: other nodes may have them afterwards.
    pub fn set_lease(&self, lease: Lease) {
        // There is one for the life of the process.
        let _ = self.lease.set(lease);
    }

    /// Creates lanes for sinks without one; they end with `stop`. On a new pool, a sink starts with the first entry; a
    /// sink that is added later starts as its settings say.
    ///
    /// # Errors
    /// The files cannot be read; no lane was created then.
    pub async fn add(
        self: &Arc<Self>,
        sinks: &[settings::Sink],
        stop: &CancellationToken,
    ) -> Result<Vec<Lane>, AddError> {
        let newest = *self.journal.newest().borrow();
        let oldest = self.journal.oldest_kept().await?.unwrap_or(newest + 1) - 1;
        let (added, behind) = self.add_from(sinks, oldest, stop)?;
        if let Some(cursor) = behind {
            self.remember_removals(cursor).await?;
        }
        for lane in &added {
            self.log_missing(lane).await?;
        }
        let lane = |status| Lane::new(status, self);
        Ok(added.into_iter().map(lane).collect())
    }

    /// Creates lanes, which from here on keep the entries after their cursors in the journal. Also returns the lowest
    /// cursor of the lanes that begin with entries the pool may already have had. The oldest existing entry is the one
    /// after `oldest`. The lock on the lanes is held meanwhile, so that no entry is released that a new lane begins
    /// with.
    fn add_from(
        &self,
        sinks: &[settings::Sink],
        oldest: Seq,
        stop: &CancellationToken,
    ) -> Result<(Vec<Arc<LaneStatus>>, Option<Seq>), AddError> {
        // Nothing is released meanwhile: what a new lane starts with is still there.
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        let oldest = oldest.max(self.journal.released());
        let is_new = self.pool.is_new()?;
        let mut added = Vec::with_capacity(sinks.len());
        let mut behind: Option<Seq> = None;
        for sink in sinks {
            let stood = self.begin(sink, &lanes, sinks, (is_new, oldest))?;
            let writes_pool = !sink.reaches_others();
            let cursor = match sink.is_latest() {
                true => stood,
                false => (self.pool).look_back(&sink.name, stood, oldest, writes_pool)?,
            };
            let begins_early = sink.start == settings::Start::Journal && !sink.is_latest();
            if begins_early || cursor < stood {
                behind = Some(behind.map_or(cursor, |lowest| lowest.min(cursor)));
            }
            let status = LaneStatus::new(sink, cursor, stop.child_token());
            status.set_takes_nothing(self.pool.failing(&sink.name)?);
            added.push(Arc::new(status));
        }
        lanes.extend(added.iter().cloned());
        Ok((added, behind))
    }

    /// Restores tombstones of removals after this entry: the pool may have forgotten them because every sink had passed
    /// them. Otherwise a sink that begins there would restore removed items.
    async fn remember_removals(&self, after: Seq) -> Result<(), AddError> {
        let mut after = after;
        while let Some((removals, through)) = self.journal.removals_after(after).await? {
            self.pool.remember_removals(&removals)?;
            after = through;
        }
        Ok(())
    }

    /// Drops the lane of a sink, which must have ended. The pool keeps its cursor, retries and dead letters, and the
    /// journal its undelivered requests, until an operator deletes the sink's data.
    pub fn remove(&self, name: &str) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| **lane.name() != *name);
        drop(lanes);
        self.metrics.plugins.forget(name);
    }

    /// Deletes the data of a sink without a lane: its cursor, retries, dead letters and state. Returns the number of
    /// undelivered items; `None` if the sink is unknown. Blocks. The lock is held meanwhile, so that the sink gets no
    /// lane while its data goes.
    ///
    /// # Errors
    /// SQLite's; [`ForgetError::Configured`].
    pub fn forget(&self, name: &str) -> Result<Option<Undelivered>, ForgetError> {
        // Nobody gives it a lane meanwhile.
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if lanes.iter().any(|lane| **lane.name() == *name) {
            return Err(ForgetError::Configured);
        }
        let forgotten = self.pool.forget_sink(name)?;
        drop(lanes);
        if let Some(Undelivered {
            retries,
            dead_letters,
        }) = forgotten
        {
            tracing::info!(sink = name, retries, dead_letters, "sink data deleted");
            self.forget_passed();
        }
        Ok(forgotten)
    }

    /// Changes the settings or the plugin of a lane, if they work: the plugin is loaded and started once before the
    /// lane gets it, at the end of a batch. Otherwise the lane keeps the old ones and its status says why.
    ///
    /// # Errors
    /// Why the lane keeps its settings.
    pub async fn change(&self, lane: &LaneStatus, sink: &settings::Sink) -> Result<(), String> {
        let changed = match lane.sink().mode == sink.mode {
            true => self.prepare(Some(lane), sink).await,
            false => Err("`mode` cannot be changed while the sink runs: restart the daemon, or use another name".to_owned()),
        };
        match changed {
            Ok(None) => {
                lane.set_current();
                Ok(())
            }
            Ok(Some(assignment)) => {
                lane.assign(assignment);
                Ok(())
            }
            Err(reason) => {
                lane.refuse(sink, &reason);
                Err(reason)
            }
        }
    }

    /// Whether the plugin of a sink starts with its settings.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn can_start(&self, sink: &settings::Sink) -> Result<(), String> {
        self.prepare(None, sink).await.map(drop)
    }

    /// The lane's new settings and plugin; `None`: it has them already. The plugin is started on a thread for blocking
    /// work, because it may compute for long.
    async fn prepare(
        &self,
        lane: Option<&LaneStatus>,
        sink: &settings::Sink,
    ) -> Result<Option<Assignment>, String> {
        let sink = Arc::new(sink.clone());
        let (plugins, wanted) = (Arc::clone(&self.plugins), Arc::clone(&sink));
        let plugin = tokio::task::spawn_blocking(move || plugins.load(&wanted)).await;
        let plugin = plugin
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        if lane.is_some_and(|lane| lane.has(&sink, &plugin)) {
            return Ok(None);
        }
        let guest_log = match lane {
            Some(lane) => Arc::clone(&lane.guest_log),
            None => GuestLog::new(&sink.name),
        };
        let context = SinkContext::new(&sink, Some(&self.pool), &self.metrics, &guest_log);
        let (tried, runtime) = (plugin.clone(), Handle::current());
        // It may compute for long, which no thread that answers requests has the time for.
        let started = move || runtime.block_on(tried.start(&context)).map(drop);
        let started = tokio::task::spawn_blocking(started).await;
        started
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        Ok(Some(Assignment { sink, plugin }))
    }

    /// The lanes, in the order of the configuration.
    pub fn lanes(&self) -> Vec<Arc<LaneStatus>> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.clone()
    }

    /// The names of the running sinks that never write the data pool.
    pub fn bystanders(&self) -> Vec<String> {
        let mut lanes = self.lanes();
        lanes.retain(|lane| lane.reach().1 == Some(false));
        lanes.iter().map(|lane| lane.name().to_string()).collect()
    }

    /// The lowest cursor of the sinks that write a stream to the data pool; `None`: no sink is known to write it.
    pub fn settled_through(&self, stream: &str) -> Option<Seq> {
        let writers = self.writers(stream).into_iter();
        writers.map(|lane| lane.cursor()).min()
    }

    /// The lanes, or stand-ins, of the sinks that may write a stream to the data pool. An unknown plugin counts as a
    /// writer, because its operations must not be missed.
    pub fn writers(&self, stream: &str) -> Vec<Arc<LaneStatus>> {
        let mut lanes = self.shown();
        lanes.retain(|lane| {
            let (sink, writes_pool) = lane.reach();
            writes_pool != Some(false) && sink.matches(stream)
        });
        lanes
    }

    /// The lane of a sink.
    pub fn lane(&self, name: &str) -> Option<Arc<LaneStatus>> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().find(|lane| **lane.name() == *name).cloned()
    }

    /// Every lane has passed the entries up to here.
    pub fn passed(&self) -> Seq {
        self.passed_by(&self.lanes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sinks of the newest state are beyond every entry, so the newest one is the bound.
    fn passed_by(&self, lanes: &[Arc<LaneStatus>]) -> Seq {
        let newest = *self.journal.newest().borrow();
        let cursors = lanes.iter().map(|lane| lane.cursor());
        cursors.min().map_or(newest, |lowest| lowest.min(newest))
    }

    /// Makes the journal drop from memory the entries that every lane has passed.
    pub fn forget_passed(&self) {
        self.journal.passed(self.passed());
    }

    /// Frees storage: from memory, the entries that every lane has passed; from the journal, the requests that every
    /// sink has processed and that exceed the retention for future sinks. No lane is added meanwhile, because it could
    /// begin with what is let go.
    ///
    /// # Errors
    /// The files cannot be read; nothing was freed then.
    pub async fn free_storage(self: &Arc<Self>, retention: Retention) -> Result<(), AddError> {
        let kept_from = self.journal.kept_from(retention).await?;
        let pool = Arc::clone(&self.pool);
        let low_water = tokio::task::spawn_blocking(move || pool.low_water()).await;
        let Ok(low_water) = low_water else {
            return Ok(());
        };
        let low_water = low_water?;
        // A sink that was added since has a lane; none is added meanwhile: it would begin with what is let go.
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let passed = self.passed_by(&lanes);
        self.journal.passed(passed);
        self.journal.release(low_water.min(passed).min(kept_from));
        Ok(())
    }
}
