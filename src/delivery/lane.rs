//! One lane: reads entries in order, calls its sink with them, settles the results.
//!
//! `delivery/verdict.rs` decides about batches that the sink did not accept.
//!
//! **Invariant**: the cursor moves only in the transaction that also stores the effects of the call, or the retries and
//! dead letters of items that the sink did not accept.

mod attempt;
mod divide;
mod fill;
mod flight;
mod follow;
mod load;
mod retry_queue;
mod settle;
mod take;
mod trace;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::commands::Commands;
use super::status::Assignment;
use super::{AddError, Delivery, LaneState, LaneStatus, verdict};
use base::clock::{self, Lived, Unix};
use base::order::{ChangeSeq, Seq};
use follow::Following;
use journal::{JournalError, StorageError};
use plugin::{Failure, GuestLog, Instance, Plugin, PluginError, SinkContext};
use pool::{Call, Filling, PoolError};
use retry_queue::RetryQueue;
use settings::{Millis, Ordering, Retry as RetrySettings, Sink};
use trace::Followed;

/// After this number of new batches that fail in a row, the sink counts as down, and not the batches as bad. From then
/// on the pause protects the attempts of all others that wait.
const FAILURES_BEFORE_PAUSE: u32 = 5;
/// Where other batches wait, the lane retries the halves of a batch without others between them. One bad item among a
/// million traps 23 times before it is alone.
const HALVES_BEFORE_PAUSE: u32 = 32;
/// Pauses of the whole lane.
const LANE_PAUSES: RetrySettings = RetrySettings {
    first_ms: Millis::new(1_000),
    max_ms: Millis::new(60_000),
    attempts: u32::MAX,
};

/// A lane, before it has its thread.
#[derive(Debug)]
pub struct Lane {
    status: Arc<LaneStatus>,
    name: Arc<str>,
    delivery: Arc<Delivery>,
    sink: Arc<Sink>,
    plugin: Option<Plugin>,
    /// Idle instances: one, and under load one for each concurrent call.
    instances: Vec<Instance>,
    /// Number of replaced instances that kept handles, since the last one that kept none.
    hoarders: u32,
    /// Context of the sink for a new instance.
    context: SinkContext,
    /// The cursor in the pool.
    stored_cursor: Seq,
    stored_at: Instant,
    /// The lane has loaded the state of its last run.
    opened: bool,
    /// A call that is not settled. It is repeated before anything else, with the same items.
    call: Option<Call>,
    /// The last or current fill of the sink.
    filling: Option<Filling>,
    /// Retries, and the entries that wait behind them.
    retries: RetryQueue,
    /// The last step was a retry: new entries are next, so that neither starves.
    retried: bool,
    /// What was settled last changed more than an entry of the log may: the next batches are divided instead.
    is_dividing: bool,
    /// New batches that failed since the last one that succeeded.
    failures: u32,
    /// A change of the failing state that is not stored yet: the reason, or that the sink works again.
    failing: Option<Option<String>>,
    /// Pauses since the last success.
    pauses: u32,
    busy_at: Option<Instant>,
    /// Size of the last batch.
    last_items: usize,
    /// Spans of the requests in batches that are not settled. They end with the settlement, because only then the
    /// request is delivered.
    spans: Vec<Followed>,
    /// Progress of a sink with the newest state.
    following: Following,
    /// The number of the last change.
    head: watch::Receiver<ChangeSeq>,
    commands: watch::Receiver<Commands>,
    /// Commands that were carried out.
    heard: Commands,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Worked,
    /// Nothing to do before the next entry or this time.
    Idle(Option<Lived>),
    /// Nothing to do before this time, even if new entries arrive.
    Later(Lived),
    /// The sink or the storage fails: wait until this time.
    Failing(Lived),
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Read(#[from] StorageError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error(transparent)]
    Begin(#[from] AddError),
    #[error("{0}")]
    NotGranted(String),
    #[error(
        "this node could not tell the database in time that it runs the sinks; another node may run them"
    )]
    LeaseOver,
}

impl Lane {
    pub(super) fn new(status: Arc<LaneStatus>, delivery: &Arc<Delivery>) -> Self {
        let sink = status.sink();
        Self {
            name: Arc::clone(status.name()),
            stored_cursor: status.cursor(),
            stored_at: Instant::now(),
            delivery: Arc::clone(delivery),
            plugin: None,
            instances: Vec::new(),
            hoarders: 0,
            context: SinkContext::new(
                &sink,
                Some(&delivery.pool),
                &delivery.metrics,
                &status.guest_log,
            ),
            sink,
            following: Following::default(),
            head: delivery.pool.changes().watch(),
            commands: status.commands.subscribe(),
            heard: Commands::default(),
            status,
            opened: false,
            call: None,
            filling: None,
            retries: RetryQueue::default(),
            retried: false,
            is_dividing: false,
            failures: 0,
            failing: None,
            pauses: 0,
            busy_at: None,
            last_items: 0,
            spans: Vec::new(),
        }
    }

    /// The public state of the lane.
    pub fn status(&self) -> Arc<LaneStatus> {
        Arc::clone(&self.status)
    }

    /// Delivers until it is stopped, then ends at the end of a batch. It sometimes blocks its thread, so the lane needs
    /// a thread of its own.
    pub async fn run(mut self) {
        let mut newest = self.delivery.journal.newest();
        let status = Arc::clone(&self.status);
        let stop = &status.stopping;
        while !stop.is_cancelled() {
            newest.mark_unchanged();
            if let Some(assignment) = status.take_assignment() {
                self.take_over(assignment);
            }
            self.answer_refill().await;
            if status.is_held() {
                self.wait_held().await;
                continue;
            }
            let step = match self.step().await {
                Ok(step) => step,
                Err(error) => self.pause_for(&error.to_string(), error.is_outage()),
            };
            status.guest_log.flush();
            let heard = self.heard;
            if matches!(step, Step::Idle(_)) {
                self.instances.truncate(1);
            }
            match step {
                Step::Worked => {}
                Step::Later(until) | Step::Failing(until) => tokio::select! {
                    () = sleep_until(Some(until)) => {}
                    _ = self.commands.wait_for(|commands| commands.now != heard.now) => {}
                    () = status.assigned.notified() => {}
                    () = stop.cancelled() => {}
                    never = log_periodically(&status.guest_log) => match never {},
                },
                Step::Idle(wake_at) => tokio::select! {
                    changed = newest.changed(), if !self.sink.is_latest() => if changed.is_err() { break },
                    changed = self.head.changed(), if self.sink.is_latest() => if changed.is_err() { break },
                    _ = self.commands.wait_for(|commands| *commands != heard) => {}
                    () = sleep_until(wake_at) => {}
                    () = status.assigned.notified() => {}
                    () = stop.cancelled() => {}
                    never = log_periodically(&status.guest_log) => match never {},
                },
            }
        }
        status.guest_log.flush_rest();
        status.take_refills();
        self.leave_cursor();
    }

    /// Waits for the next assignment or the stop; the instances are dropped. They are dropped, so that a paused sink
    /// takes no memory of its plugin.
    async fn wait_held(&mut self) {
        self.instances.clear();
        self.end_spans(Some("paused"));
        self.leave_cursor();
        let status = Arc::clone(&self.status);
        status.guest_log.flush_rest();
        tokio::select! {
            () = status.assigned.notified() => {}
            () = status.stopping.cancelled() => {}
        }
    }

    fn leave_cursor(&mut self) {
        if let Err(error) = self.store_cursor() {
            tracing::warn!(sink = &*self.name, %error, "cannot store the cursor; some entries will be read again");
        }
    }

    /// Uses new settings or another plugin, which were tried: a pause ends. Retries are loaded again, because another
    /// order may need their keys.
    fn take_over(&mut self, assignment: Assignment) {
        let Assignment { sink, plugin } = assignment;
        let (pool, metrics) = (&self.delivery.pool, &self.delivery.metrics);
        self.context = SinkContext::new(&sink, Some(pool), metrics, &self.status.guest_log);
        self.plugin = Some(plugin);
        self.instances.clear();
        self.note_healthy();
        self.note_failing(None);
        // The order of retries may be another.
        self.opened = false;
        self.sink = sink;
        self.failures = 0;
        self.resume();
        tracing::info!(sink = &*self.name, "the sink uses its new settings");
    }

    /// Delivers one batch, if there is one: due retries and new entries alternate, or in strict order. If too many
    /// items wait behind retries, it reads no new entries. A call that was not settled is first, because nothing may
    /// come between it and its repeat.
    async fn step(&mut self) -> Result<Step, StepError> {
        self.poll_commands().await?;
        if self.plugin.is_none() {
            let plugin = self.delivery.plugins.load(&self.sink)?;
            self.status.set_plugin(&plugin);
            self.plugin = Some(plugin);
        }
        if self.sink.is_latest() {
            if !self.opened {
                self.open_latest()?;
            }
            return self.follow_next().await;
        }
        if !self.opened {
            self.open().await?;
        }
        if self.status.is_held() {
            return Ok(Step::Worked);
        }
        if self.call.is_some() {
            return self.take_next().await;
        }
        if self.is_filling() {
            return self.fill_next().await;
        }
        // A paused lane looks for anything that the sink takes; it need not be due.
        let due_at = if self.pauses > 0 {
            Lived::MAX
        } else {
            Lived::now()
        };
        let strict = self.sink.ordering == Ordering::Strict;
        let next = match strict {
            true => self.retries.first(),
            false => self.retries.next(),
        };
        let due = next.filter(|(_, at)| *at <= due_at);
        if strict || self.retries.is_full() {
            return match (due, next) {
                (Some((id, _)), _) => self.try_again(id).await,
                (None, Some((_, later))) => Ok(Step::Idle(Some(later))),
                (None, None) => self.take_next().await,
            };
        }
        if !self.retried
            && let Some((id, _)) = due
        {
            self.retried = true;
            return self.try_again(id).await;
        }
        self.retried = false;
        match (self.take_next().await?, due) {
            (Step::Idle(_), Some((id, _))) => self.try_again(id).await,
            (step, _) => Ok(step),
        }
    }

    /// Loads the state that the last run of the lane left.
    async fn open(&mut self) -> Result<(), StepError> {
        self.open_filling().await?;
        self.call = self.delivery.pool.call(&self.name)?;
        self.retries = RetryQueue::default();
        self.load_retries().await?;
        if self.pauses == 0 {
            self.status.set_state(LaneState::Running);
        }
        let cursor = self.status.cursor();
        if self.delivery.journal.has_released_after(cursor).await? {
            tracing::warn!(
                sink = &*self.name,
                cursor = cursor.get(),
                "sink was not configured for a while; entries after its cursor are deleted, continuing with the oldest available"
            );
        }
        tracing::info!(
            sink = &*self.name,
            cursor = cursor.get(),
            "the sink is loaded"
        );
        self.opened = true;
        Ok(())
    }

    /// Counts a failure; returns whether the sink counts as down. A sink that rejects works, because it has read the
    /// batch.
    fn is_down_after(&mut self, failure: &Failure) -> bool {
        self.failures = match failure {
            // Who refuses for good works.
            Failure::Reject { .. } => 0,
            Failure::Retry { .. } | Failure::NotGranted { .. } | Failure::Trap { .. } => {
                self.failures + 1
            }
        };
        let failures_max = match failure {
            Failure::Trap { .. } if self.holds_up() => HALVES_BEFORE_PAUSE,
            _ => FAILURES_BEFORE_PAUSE,
        };
        self.failures >= failures_max
    }

    /// Carries out commands of operators. A sink that still fails costs the waiting items no attempt: a paused lane
    /// tries one batch first, and then pauses again briefly.
    async fn poll_commands(&mut self) -> Result<(), StepError> {
        let commands = *self.commands.borrow_and_update();
        if commands == self.heard {
            return Ok(());
        }
        if commands.now != self.heard.now && self.pauses > 0 {
            self.pauses = 1;
            self.status.set_state(LaneState::Running);
        }
        // The storage may fail here: what is left to hear then does not end the pause that follows.
        if commands.now != self.heard.now {
            self.following.next = Lived::now();
        }
        self.heard.now = commands.now;
        self.load_retries().await?;
        self.heard = commands;
        Ok(())
    }

    /// Ends a pause: the sink accepted something, or nothing is left to try.
    fn resume(&mut self) {
        if self.pauses > 0 {
            self.pauses = 0;
            self.status.set_state(LaneState::Running);
            tracing::info!(sink = &*self.name, "the sink runs again");
        }
    }

    fn pause(&mut self, reason: &str) -> Step {
        self.pause_for(reason, false)
    }

    /// Instances are dropped, so that the next attempt does not meet a state that caused the failure.
    fn pause_for(&mut self, reason: &str, is_outage: bool) -> Step {
        self.pauses = self.pauses.saturating_add(1);
        let now = Unix::now();
        let pause = verdict::pause(&LANE_PAUSES, self.pauses);
        let pause_ms = clock::millis(pause);
        tracing::error!(sink = &*self.name, reason = %reason.escape_debug(), pause_ms, "the sink is paused; its data waits");
        self.status.set_last_error(now, reason);
        self.status.set_state(LaneState::Paused {
            reason: reason.to_owned(),
            until: now + pause,
            is_outage,
        });
        self.end_spans(Some("paused"));
        // Whatever the storage or the plugin did: begin afresh.
        self.instances.clear();
        Step::Failing(Lived::now() + pause)
    }
}

/// Logs the remaining messages of the sink, whenever they are due.
async fn log_periodically(guest_log: &GuestLog) -> Infallible {
    loop {
        guest_log.has_left_out().await;
        guest_log.flush();
    }
}

/// Waits until a time of the uptime clock; without one, forever.
async fn sleep_until(at: Option<Lived>) {
    match at {
        Some(at) => {
            tokio::time::sleep(at - Lived::now()).await;
        }
        None => std::future::pending().await,
    }
}
