//! What a lane shows of itself, and what it is told.
//!
//! The lane writes it, the admin API reads it; the daemon hands new settings over.
//!
//! **Invariant**: settings and plugin change together, at a batch edge, by the lane's own hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::beginning::RefillError;
use super::commands::Commands;
use base::clock::Unix;
use base::order::{ChangeSeq, Seq};
use plugin::{GuestLog, Plugin};

/// What a lane is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    /// Loading its plugin.
    Starting,
    /// Delivering, or waiting for something to deliver.
    Running,
    /// Handing over what the data pool has.
    Filling,
    /// The same, but the sink does not behave.
    Failing {
        /// What it does.
        reason: String,
    },
    /// It delivers, and the sink has taken nothing since it failed for good, or again and again.
    TakesNothing {
        /// What happened to the last batch.
        reason: String,
    },
    /// Ended by a defect of the daemon; its data waits for the next start.
    Crashed,
    /// Somebody paused it: it does nothing until somebody lets it go on.
    Held(Hold),
    /// The sink keeps failing: the next attempt comes later, the data waits.
    Paused {
        /// Why.
        reason: String,
        /// When the next attempt is due.
        until: Unix,
    },
}

/// That a lane is to do nothing, and what waits for it is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who wants it so.
    pub by: Arc<str>,
    /// Since when; none: the configuration says so.
    pub at: Option<Unix>,
}

/// Settings and a plugin that was started with them once.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) sink: Arc<settings::Sink>,
    pub(super) plugin: Plugin,
}

/// A lane as others see it.
#[derive(Debug)]
pub struct LaneStatus {
    name: Arc<str>,
    cursor: AtomicU64,
    retried: AtomicU64,
    /// Of one that follows the changes of the data pool: the sink has everything up to here.
    place: AtomicU64,
    /// Items that it refused since the start.
    rejected: AtomicU64,
    /// Ends the lane.
    pub(super) stopping: CancellationToken,
    /// Wakes the lane for its next assignment.
    pub(super) assigned: Notify,
    /// What operators asked of the lane; it listens.
    pub(super) commands: watch::Sender<Commands>,
    /// Held while the lane reads new entries, and while dead letters are chosen to be sent again: what is accepted
    /// afterwards waits behind them.
    pub(super) cutting: tokio::sync::Mutex<()>,
    /// How much the sink may say.
    pub(super) guest_log: Arc<GuestLog>,
    shown: Mutex<Shown>,
}

/// Somebody waits to hear what became of it.
pub(super) type Asked = oneshot::Sender<Result<(), RefillError>>;

#[derive(Debug)]
struct Shown {
    sink: Arc<settings::Sink>,
    /// SHA-256 of the component that is in use, once it was loaded.
    plugin: Option<String>,
    /// Whether that component may write the pool.
    writes_pool: Option<bool>,
    takes_removals: bool,
    state: LaneState,
    hold: Option<Hold>,
    is_filling: bool,
    /// Who wants it to begin anew with what the data pool has.
    refills: Vec<Asked>,
    /// What the sink does that it should not, while it delivers.
    misbehaves: Option<String>,
    /// What happened to the last batch, if nothing was taken since.
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

    /// The settings in use or about to be, and whether the plugin writes the data pool, as far as that is known.
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

    /// Everything up to here was delivered, put aside for a retry, or given up.
    pub fn cursor(&self) -> Seq {
        Seq::new(self.cursor.load(Ordering::Acquire))
    }

    /// Requests that wait in retries, at most, as far as the lane has looked.
    pub fn retried(&self) -> u64 {
        self.retried.load(Ordering::Acquire)
    }

    /// Of one that follows the changes of the data pool: the number of the last change that the sink has.
    pub fn place(&self) -> ChangeSeq {
        ChangeSeq::new(self.place.load(Ordering::Acquire))
    }

    pub(super) fn set_place(&self, place: ChangeSeq) {
        self.place.store(place.get(), Ordering::Release);
    }

    /// How many items the sink refused since the start, and the last reason.
    pub fn rejected(&self) -> (u64, Option<String>) {
        let count = self.rejected.load(Ordering::Acquire);
        (count, self.shown().last_rejected.clone())
    }

    pub(super) fn add_rejected(&self, count: u64, reason: &str) {
        self.rejected.fetch_add(count, Ordering::AcqRel);
        self.shown().last_rejected = Some(reason.to_owned());
    }

    /// When the sink last began anew with all items, and why.
    pub fn refilled(&self) -> Option<(Unix, String)> {
        self.shown().refilled.clone()
    }

    pub(super) fn set_refilled(&self, refilled: Option<(Unix, String)>) {
        self.shown().refilled = refilled;
    }

    pub(super) fn set_retried(&self, requests: usize) {
        self.retried.store(requests as u64, Ordering::Release);
    }

    /// Whether the sink hears of removals; as long as its plugin is not loaded, it may.
    pub fn takes_removals(&self) -> bool {
        self.shown().takes_removals
    }

    /// What the lane is doing.
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

    /// The last failure: when, and its reason.
    pub fn last_error(&self) -> Option<(Unix, String)> {
        self.shown().last_error.clone()
    }

    /// Why newer settings, or a newer file of the plugin, are not in use.
    pub fn refused(&self) -> Option<String> {
        self.shown().refused.clone()
    }

    /// Has the lane do nothing from the edge of the next batch on, or go on.
    pub fn hold(&self, hold: Option<Hold>) {
        let mut shown = self.shown();
        let is_new = shown.hold != hold;
        shown.hold = hold;
        drop(shown);
        if is_new {
            self.assigned.notify_one();
        }
    }

    /// Whether the sink does not have all yet that the data pool had when it began.
    pub fn is_filling(&self) -> bool {
        self.shown().is_filling
    }

    pub(super) fn set_filling(&self, is_filling: bool) {
        self.shown().is_filling = is_filling;
    }

    /// Has the lane begin anew with what the data pool has; what became of it. Nobody answers if it has ended.
    pub(super) fn ask_refill(&self) -> oneshot::Receiver<Result<(), RefillError>> {
        let (asked, answer) = oneshot::channel();
        self.shown().refills.push(asked);
        self.assigned.notify_one();
        answer
    }

    pub(super) fn take_refills(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shown().refills)
    }

    /// Whether it is to do nothing.
    pub(super) fn is_held(&self) -> bool {
        self.shown().hold.is_some()
    }

    /// Has the lane end at the edge of a batch.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// The lane's thread has ended by a panic.
    pub fn crashed(&self) {
        self.set_state(LaneState::Crashed);
        // Nobody answers any more.
        self.take_refills();
    }

    /// The lane works with these settings and this plugin, or is about to.
    pub(super) fn has(&self, sink: &settings::Sink, plugin: &Plugin) -> bool {
        let shown = self.shown();
        match &shown.next {
            Some(next) => *next.sink == *sink && next.plugin.sha256() == plugin.sha256(),
            None => *shown.sink == *sink && shown.plugin.as_deref() == Some(plugin.sha256()),
        }
    }

    /// There are no newer settings.
    pub(super) fn set_current(&self) {
        self.shown().refused = None;
    }

    /// These settings are not taken. One that never worked says so by its pause.
    pub(super) fn refuse(&self, sink: &settings::Sink, reason: &str) {
        let mut shown = self.shown();
        if shown.plugin.is_some() || *shown.sink != *sink {
            shown.refused = Some(reason.to_owned());
        }
    }

    /// What the lane goes on with after the batch that it is at.
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

    pub(super) fn set_cursor(&self, cursor: Seq) {
        self.cursor.store(cursor.get(), Ordering::Release);
    }

    pub(super) fn set_state(&self, state: LaneState) {
        self.shown().state = state;
    }

    pub(super) fn set_misbehaves(&self, reason: Option<String>) {
        self.shown().misbehaves = reason;
    }

    /// Whether that is something else than before.
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
