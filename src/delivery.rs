//! Delivery: from the journal to the sinks, a lane for each.
//!
//! `daemon` has lanes made, changed and removed, and gives each a thread; the admin API reads their status. How a lane
//! works is in `delivery/lane.rs`.
//!
//! **Invariant**: a sink that fails, hangs or is slow holds up its own lane only, and nothing that
//! was accepted is dropped to make room.

mod lane;
mod pace;
pub mod report;
mod status;
mod verdict;
mod wishes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config;
use crate::journal::{Journal, Retention, StorageError};
use crate::metrics::Metrics;
use crate::plugin::{Plugins, Seat};
use crate::pool::{Pool, PoolError};
use status::Assignment;

pub use lane::Lane;
pub use status::{LaneState, LaneStatus};

/// Why lanes could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The cursors cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// All lanes together.
#[derive(Debug)]
pub struct Delivery {
    journal: Arc<Journal>,
    pool: Arc<Pool>,
    plugins: Arc<Plugins>,
    metrics: Arc<Metrics>,
    /// In the order of the configuration.
    lanes: RwLock<Vec<Arc<LaneStatus>>>,
    /// What comes after this entry is kept for sinks that are yet to come.
    kept_from: AtomicU64,
}

impl Delivery {
    /// Without lanes.
    pub fn new(
        journal: &Arc<Journal>,
        pool: &Arc<Pool>,
        plugins: &Arc<Plugins>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal: Arc::clone(journal),
            pool: Arc::clone(pool),
            plugins: Arc::clone(plugins),
            metrics: Arc::clone(metrics),
            lanes: RwLock::default(),
            kept_from: AtomicU64::new(0),
        })
    }

    /// Makes lanes for sinks that have none, which end with `stop`. On a new pool a sink starts with the first entry;
    /// one that is added later starts as its settings say.
    ///
    /// # Errors
    /// The files cannot be read; there are no new lanes then.
    pub async fn add(
        self: &Arc<Self>,
        sinks: &[config::Sink],
        stop: &CancellationToken,
    ) -> Result<Vec<Lane>, AddError> {
        let newest = *self.journal.newest().borrow();
        let oldest = self.journal.oldest_kept().await?.unwrap_or(newest + 1);
        // Nothing is released meanwhile: what a new lane starts with is still there.
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        let newest = *self.journal.newest().borrow();
        let is_new = self.pool.is_new()?;
        let mut added = Vec::with_capacity(sinks.len());
        for sink in sinks {
            let start = match sink.start {
                _ if is_new => 0,
                config::Start::Now => newest,
                config::Start::Oldest => (oldest - 1).max(self.journal.released()).min(newest),
            };
            let cursor = self.pool.add_sink(&sink.name, start)?;
            added.push(Arc::new(LaneStatus::new(sink, cursor, stop.child_token())));
        }
        lanes.extend(added.iter().cloned());
        let lane = |status| Lane::new(status, self);
        Ok(added.into_iter().map(lane).collect())
    }

    /// Forgets the lane of a sink, which must have ended. Its cursor, retries and dead letters stay in the pool.
    pub fn remove(&self, name: &str) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| **lane.name() != *name);
        drop(lanes);
        self.pool.remove_sink(name);
        self.metrics.plugins.forget(name);
        self.release();
    }

    /// Has a lane go on with changed settings, or a changed plugin, if they work: the plugin is loaded and started once
    /// before the lane gets it, at the edge of a batch. Otherwise the lane stays as it is and shows why.
    ///
    /// # Errors
    /// Why the lane stays as it is.
    pub async fn change(&self, lane: &LaneStatus, sink: &config::Sink) -> Result<(), String> {
        let changed = self.prepare(lane, sink).await;
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

    async fn prepare(
        &self,
        lane: &LaneStatus,
        sink: &config::Sink,
    ) -> Result<Option<Assignment>, String> {
        let sink = Arc::new(sink.clone());
        let (plugins, wanted) = (Arc::clone(&self.plugins), Arc::clone(&sink));
        let plugin = tokio::task::spawn_blocking(move || plugins.load(&wanted)).await;
        let plugin = plugin
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        if lane.has(&sink, &plugin) {
            return Ok(None);
        }
        let seat = Seat::new(&sink, Some(&self.pool), &self.metrics);
        let started = plugin.start(&seat).await;
        started.map_err(|error| error.to_string())?;
        Ok(Some(Assignment { sink, plugin }))
    }

    /// The lanes, in the order of the configuration.
    pub fn lanes(&self) -> Vec<Arc<LaneStatus>> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.clone()
    }

    /// The lane of a sink.
    pub fn lane(&self, name: &str) -> Option<Arc<LaneStatus>> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().find(|lane| **lane.name() == *name).cloned()
    }

    /// Everything up to here is behind every lane.
    pub fn passed(&self) -> u64 {
        self.passed_by(&self.lanes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn passed_by(&self, lanes: &[Arc<LaneStatus>]) -> u64 {
        let newest = *self.journal.newest().borrow();
        let cursors = lanes.iter().map(|lane| lane.cursor());
        cursors.min().unwrap_or(newest)
    }

    /// Looks what need not be kept any more for sinks that are yet to come, and lets it go.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn keep(&self, retention: Retention) -> Result<(), StorageError> {
        let kept_from = self.journal.kept_from(retention, clock::unix_ms()).await?;
        self.kept_from.store(kept_from, Ordering::Relaxed);
        self.release();
        Ok(())
    }

    /// Lets the journal forget what every lane has behind it, and delete what is on disk in the
    /// sinks and not kept for others.
    pub fn release(&self) {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        self.journal.passed(self.passed_by(&lanes));
        let newest = *self.journal.newest().borrow();
        let kept_from = self.kept_from.load(Ordering::Relaxed);
        let durable = self.pool.durable_through();
        self.journal.release(durable.min(newest).min(kept_from));
    }
}
