//! The public state of a lane, and the assignments to it.
//!
//! The lane writes it, the admin API reads it; the daemon assigns new settings.
//!
//! **Invariant**: the lane itself changes settings and plugin together, at the end of a batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::beginning::RefillError;
use super::commands::Commands;
use base::clock::Unix;
use base::order::{ChangeSeq, Seq};
use plugin::{GuestLog, Plugin};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    /// It loads its plugin.
    Starting,
    /// It delivers, or waits for entries.
    Running,
    /// It fills its sink from the data pool.
    Filling,
    /// It delivers, but the sink breaks a rule.
    Failing {
        /// The broken rule.
        reason: String,
    },
    /// It delivers, but the sink has accepted nothing since its last batch became dead letters or failed repeatedly.
    TakesNothing {
        /// The failure of the last batch.
        reason: String,
    },
    /// A defect of the daemon ended it; its data waits for the next start.
    Crashed,
    /// The sink runs on another node. Only a stand-in is in this state, never a lane that runs here.
    Elsewhere {
        /// Where it runs, as a sentence.
        reason: String,
    },
    /// An operator paused it, until an operator resumes it.
    Held(Hold),
    /// The sink keeps failing: the data waits for the next attempt.
    Paused {
        /// The reason.
        reason: String,
        /// Time of the next attempt.
        until: Unix,
        /// The database of the cluster did not answer: the sink may work. So the status names the database and not the
        /// sink.
        is_outage: bool,
    },
}

/// A pause by an operator: the lane does nothing, and its data is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who paused it.
    pub by: Arc<str>,
    /// Since when; `None`: the configuration disables it.
    pub at: Option<Unix>,
}

impl Hold {
    /// The pause of a sink of the catalog; `None`: nobody has paused it.
    pub fn of(sink: &catalog::Sink) -> Option<Self> {
        let pause = sink.pause.as_ref()?;
        Some(Self {
            by: Arc::clone(&pause.by),
            at: pause.at,
        })
    }
}

/// Settings, and a plugin that was started with them once.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) sink: Arc<settings::Sink>,
    pub(super) plugin: Plugin,
}

/// The public part of a lane.
#[derive(Debug)]
pub struct LaneStatus {
    name: Arc<str>,
    /// Apart from `shown`, because each settlement of any lane reads the cursors of all.
    cursor: AtomicU64,
    retried: AtomicU64,
    /// Of a sink with the newest state: it has every change up to here.
    place: AtomicU64,
    /// Items that the sink rejected since the start.
    rejected: AtomicU64,
    /// Stops the lane.
    pub(super) stopping: CancellationToken,
    /// Wakes the lane for its next assignment.
    pub(super) assigned: Notify,
    /// Commands of operators, which the lane reads.
    pub(super) commands: watch::Sender<Commands>,
    /// Held while the lane reads new entries, and while dead letters are selected to be resent: later entries wait
    /// behind them.
    pub(super) cutting: tokio::sync::Mutex<()>,
    /// Limits the log of the sink.
    pub(super) guest_log: Arc<GuestLog>,
    shown: Mutex<Shown>,
}

/// Receives the result of a requested refill.
pub(super) type Asked = oneshot::Sender<Result<(), RefillError>>;

#[derive(Debug)]
struct Shown {
    sink: Arc<settings::Sink>,
    /// SHA-256 of the component in use, once it was loaded.
    plugin: Option<String>,
    /// Whether that component may write the data pool.
    writes_pool: Option<bool>,
    takes_removals: bool,
    state: LaneState,
    /// Apart from `state`, so that a resumed lane shows again what it was before.
    hold: Option<Hold>,
    is_filling: bool,
    /// Requests for a refill from the data pool.
    refills: Vec<Asked>,
    /// The rule that the sink breaks while it delivers.
    misbehaves: Option<String>,
    /// The failure of the last batch, if nothing was accepted since.
    takes_nothing: Option<String>,
    last_error: Option<(Unix, String)>,
    last_rejected: Option<String>,
    refilled: Option<(Unix, String)>,
    refused: Option<String>,
    next: Option<Assignment>,
}

impl LaneStatus {
    pub(super) fn new(sink: &settings::Sink, cursor: Seq, stopping: CancellationToken) -> Self {
        Self {
            name: sink.name.as_str().into(),
            cursor: AtomicU64::new(cursor.get()),
            retried: AtomicU64::new(0),
            place: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            stopping,
            assigned: Notify::new(),
            commands: watch::Sender::default(),
            cutting: tokio::sync::Mutex::default(),
            guest_log: GuestLog::new(&sink.name),
            shown: Mutex::new(Shown {
                sink: Arc::new(sink.clone()),
                plugin: None,
                writes_pool: None,
                takes_removals: true,
                state: LaneState::Starting,
                hold: None,
                is_filling: false,
                refills: Vec::new(),
                misbehaves: None,
                takes_nothing: None,
                last_error: None,
                last_rejected: None,
                refilled: None,
                refused: None,
                next: None,
            }),
        }
    }

    /// Name of the sink.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The settings in use.
    pub fn sink(&self) -> Arc<settings::Sink> {
        Arc::clone(&self.shown().sink)
    }

    /// The settings in use or assigned next, and whether the plugin writes the data pool, if that is known.
    pub fn reach(&self) -> (Arc<settings::Sink>, Option<bool>) {
        let shown = self.shown();
        match &shown.next {
            Some(next) => (Arc::clone(&next.sink), Some(next.plugin.writes_pool())),
            None => {
                let certain = settings::routing_gaps::writes_pool(&shown.sink);
                (Arc::clone(&shown.sink), certain.or(shown.writes_pool))
            }
        }
    }

    /// Every entry up to here was delivered, or is in a retry or a dead letter.
    pub fn cursor(&self) -> Seq {
        Seq::new(self.cursor.load(Ordering::Acquire))
    }

    /// Requests that wait in retries, at most, as of the lane's last count.
    pub fn retried(&self) -> u64 {
        self.retried.load(Ordering::Acquire)
    }

    /// Of a sink with the newest state: the number of the last change that it has.
    pub fn place(&self) -> ChangeSeq {
        ChangeSeq::new(self.place.load(Ordering::Acquire))
    }

    pub(super) fn set_place(&self, place: ChangeSeq) {
        self.place.store(place.get(), Ordering::Release);
    }

    /// The number of items that the sink rejected since the start, and the last reason.
    pub fn rejected(&self) -> (u64, Option<String>) {
        let count = self.rejected.load(Ordering::Acquire);
        (count, self.shown().last_rejected.clone())
    }

    pub(super) fn add_rejected(&self, count: u64, reason: &str) {
        self.rejected.fetch_add(count, Ordering::AcqRel);
        self.shown().last_rejected = Some(reason.to_owned());
    }

    /// When the sink was last refilled, and why.
    pub fn refilled(&self) -> Option<(Unix, String)> {
        self.shown().refilled.clone()
    }

    pub(super) fn set_refilled(&self, refilled: Option<(Unix, String)>) {
        self.shown().refilled = refilled;
    }

    pub(super) fn set_retried(&self, requests: usize) {
        self.retried.store(requests as u64, Ordering::Release);
    }

    /// Whether the sink receives removals; `true` until its plugin is loaded.
    pub fn takes_removals(&self) -> bool {
        self.shown().takes_removals
    }

    /// The state of the lane. A crash is shown before a pause, because nobody can resume that lane.
    pub fn state(&self) -> LaneState {
        let shown = self.shown();
        if let (Some(hold), false) = (&shown.hold, shown.state == LaneState::Crashed) {
            return LaneState::Held(hold.clone());
        }
        if shown.is_filling && shown.state == LaneState::Running {
            return LaneState::Filling;
        }
        match (&shown.state, &shown.misbehaves, &shown.takes_nothing) {
            (LaneState::Running, Some(reason), _) => LaneState::Failing {
                reason: reason.clone(),
            },
            (LaneState::Running, None, Some(reason)) => LaneState::TakesNothing {
                reason: reason.clone(),
            },
            (state, ..) => state.clone(),
        }
    }

    /// Whether this stands for a lane of another node.
    pub fn is_stand_in(&self) -> bool {
        matches!(self.shown().state, LaneState::Elsewhere { .. })
    }

    /// The last failure: its time and its reason.
    pub fn last_error(&self) -> Option<(Unix, String)> {
        self.shown().last_error.clone()
    }

    /// Why newer settings, or a newer file of the plugin, are not in use.
    pub fn refused(&self) -> Option<String> {
        self.shown().refused.clone()
    }

    /// Pauses the lane at the end of the current batch, or resumes it.
    pub fn hold(&self, hold: Option<Hold>) {
        let mut shown = self.shown();
        let is_new = shown.hold != hold;
        shown.hold = hold;
        drop(shown);
        if is_new {
            self.assigned.notify_one();
        }
    }

    /// Whether the fill from the data pool is in progress.
    pub fn is_filling(&self) -> bool {
        self.shown().is_filling
    }

    pub(super) fn set_filling(&self, is_filling: bool) {
        self.shown().is_filling = is_filling;
    }

    /// Requests a refill from the data pool; returns a channel for the result, without an answer if the lane has ended.
    pub(super) fn ask_refill(&self) -> oneshot::Receiver<Result<(), RefillError>> {
        let (asked, answer) = oneshot::channel();
        self.shown().refills.push(asked);
        self.assigned.notify_one();
        answer
    }

    pub(super) fn take_refills(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shown().refills)
    }

    /// Whether an operator paused it.
    pub(super) fn is_held(&self) -> bool {
        self.shown().hold.is_some()
    }

    /// Stops the lane at the end of a batch.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Records that the lane's thread ended with a panic.
    pub fn crashed(&self) {
        self.set_state(LaneState::Crashed);
        // Nobody answers any more.
        self.take_refills();
    }

    /// Whether the lane has, or is assigned, these settings and this plugin.
    pub(super) fn has(&self, sink: &settings::Sink, plugin: &Plugin) -> bool {
        let shown = self.shown();
        match &shown.next {
            Some(next) => *next.sink == *sink && next.plugin.sha256() == plugin.sha256(),
            None => *shown.sink == *sink && shown.plugin.as_deref() == Some(plugin.sha256()),
        }
    }

    /// Records that the settings in use are the newest.
    pub(super) fn set_current(&self) {
        self.shown().refused = None;
    }

    /// Records that these settings are not used. A sink that never worked is paused instead.
    pub(super) fn refuse(&self, sink: &settings::Sink, reason: &str) {
        let mut shown = self.shown();
        if shown.plugin.is_some() || *shown.sink != *sink {
            shown.refused = Some(reason.to_owned());
        }
    }

    /// Assigns settings and a plugin for use after the current batch.
    pub(super) fn assign(&self, assignment: Assignment) {
        let mut shown = self.shown();
        shown.refused = None;
        shown.next = Some(assignment);
        drop(shown);
        self.assigned.notify_one();
    }

    /// Makes the next assignment the current one.
    pub(super) fn take_assignment(&self) -> Option<Assignment> {
        let mut shown = self.shown();
        let next = shown.next.take()?;
        shown.sink = Arc::clone(&next.sink);
        shown.plugin = Some(next.plugin.sha256().to_owned());
        shown.writes_pool = Some(next.plugin.writes_pool());
        shown.takes_removals = next.plugin.takes_removals();
        Some(next)
    }

    pub(super) fn set_plugin(&self, plugin: &Plugin) {
        let mut shown = self.shown();
        shown.plugin = Some(plugin.sha256().to_owned());
        shown.writes_pool = Some(plugin.writes_pool());
        shown.takes_removals = plugin.takes_removals();
    }

    /// What is known of the plugin of a stand-in, which loads none.
    pub(super) fn set_writes_pool(&self, writes_pool: Option<bool>) {
        self.shown().writes_pool = writes_pool;
    }

    pub(super) fn set_cursor(&self, cursor: Seq) {
        self.cursor.store(cursor.get(), Ordering::Release);
    }

    pub(super) fn set_state(&self, state: LaneState) {
        self.shown().state = state;
    }

    pub(super) fn set_misbehaves(&self, reason: Option<String>) {
        self.shown().misbehaves = reason;
    }

    /// Whether the new value differs from the old one.
    pub(super) fn set_takes_nothing(&self, reason: Option<String>) -> bool {
        let mut shown = self.shown();
        let is_new = shown.takes_nothing != reason;
        shown.takes_nothing = reason;
        is_new
    }

    pub(super) fn set_last_error(&self, at: Unix, reason: &str) {
        self.shown().last_error = Some((at, reason.to_owned()));
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
