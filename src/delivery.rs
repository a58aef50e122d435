//! Delivery: from the journal to the sinks, a lane for each.
//!
//! `daemon` makes the lanes and gives each a thread; the admin API reads their status. How a lane
//! works is in `delivery/lane.rs`.
//!
//! **Invariant**: a sink that fails, hangs or is slow holds up its own lane only, and nothing that
//! was accepted is dropped to make room.

mod lane;
mod pace;
pub mod report;
mod verdict;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::plugin::Plugins;
use crate::pool::{Pool, PoolError};

pub use lane::Lane;

/// What a lane is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    /// Loading its plugin.
    Starting,
    /// Delivering, or waiting for something to deliver.
    Running,
    /// Ended by a defect of the daemon; its data waits for the next start.
    Crashed,
    /// The sink keeps failing: the next attempt comes later, the data waits.
    Paused {
        /// Why.
        reason: String,
        /// When the next attempt is due: Unix time in milliseconds.
        until_ms: u64,
    },
}

/// What a lane shows of itself.
#[derive(Debug)]
pub struct LaneStatus {
    /// The sink as configured.
    pub sink: config::Sink,
    cursor: AtomicU64,
    state: Mutex<LaneState>,
    last_error: Mutex<Option<(u64, String)>>,
}

impl LaneStatus {
    /// Everything up to here was delivered, put aside for a retry, or given up.
    pub fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Acquire)
    }

    /// What the lane is doing.
    pub fn state(&self) -> LaneState {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last failure: Unix time in milliseconds and reason.
    pub fn last_error(&self) -> Option<(u64, String)> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The lane's thread has ended by a panic.
    pub fn crashed(&self) {
        self.set_state(LaneState::Crashed);
    }

    fn set_state(&self, state: LaneState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn set_last_error(&self, at_ms: u64, reason: &str) {
        *self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((at_ms, reason.to_owned()));
    }
}

/// All lanes together.
#[derive(Debug)]
pub struct Delivery {
    journal: Arc<Journal>,
    pool: Arc<Pool>,
    lanes: Vec<Arc<LaneStatus>>,
}

impl Delivery {
    /// Makes a lane for each configured sink. On a new pool a sink starts with the oldest entry;
    /// one that is added later starts with the next.
    ///
    /// # Errors
    /// The cursors cannot be read.
    pub fn new(
        sinks: &[config::Sink],
        journal: &Arc<Journal>,
        pool: &Arc<Pool>,
        plugins: &Arc<Plugins>,
        metrics: &Arc<Metrics>,
    ) -> Result<(Arc<Self>, Vec<Lane>), PoolError> {
        let newest = *journal.newest().borrow();
        let start = if pool.is_new()? { 0 } else { newest };
        let mut statuses = Vec::with_capacity(sinks.len());
        for sink in sinks {
            statuses.push(Arc::new(LaneStatus {
                cursor: AtomicU64::new(pool.cursor(&sink.name, start)?),
                sink: sink.clone(),
                state: Mutex::new(LaneState::Starting),
                last_error: Mutex::new(None),
            }));
        }
        let delivery = Arc::new(Self {
            journal: Arc::clone(journal),
            pool: Arc::clone(pool),
            lanes: statuses.clone(),
        });
        let lanes = statuses
            .into_iter()
            .map(|status| Lane::new(status, &delivery, plugins, metrics))
            .collect();
        Ok((delivery, lanes))
    }

    /// The lanes, in the order of the configuration.
    pub fn lanes(&self) -> &[Arc<LaneStatus>] {
        &self.lanes
    }

    /// Everything up to here is behind every lane.
    pub fn passed(&self) -> u64 {
        let newest = *self.journal.newest().borrow();
        self.lanes
            .iter()
            .map(|lane| lane.cursor())
            .min()
            .unwrap_or(newest)
    }

    /// Lets the journal forget what every lane has behind it, and delete what is on disk in the
    /// sinks.
    pub fn release(&self) {
        self.journal.passed(self.passed());
        let newest = *self.journal.newest().borrow();
        self.journal
            .release(self.pool.durable_through().min(newest));
    }
}
