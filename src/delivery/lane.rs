//! One lane: takes entries in order, hands them to its sink, settles.
//!
//! What becomes of a batch that the sink did not take is decided in `delivery/verdict.rs`.
//!
//! **Invariant**: the cursor moves only in the transaction that also holds what the sink did with
//! the entries, or the retry or dead letters that it did not do anything with.

mod attempt;
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

/// So many new batches failing one after another mean that the sink is down, not the batches bad.
const FAILURES_BEFORE_PAUSE: u32 = 5;
/// Where the others wait, nothing comes between the halves of a batch. One bad item among a million traps 23 times before it
/// is alone.
const HALVES_BEFORE_PAUSE: u32 = 32;
/// Pauses of a lane as a whole.
const LANE_PAUSES: RetrySettings = RetrySettings {
    first_ms: Millis::new(1_000),
    max_ms: Millis::new(60_000),
    attempts: u32::MAX,
};

/// A lane, before it is given its thread.
#[derive(Debug)]
pub struct Lane {
    status: Arc<LaneStatus>,
    name: Arc<str>,
    delivery: Arc<Delivery>,
    sink: Arc<Sink>,
    plugin: Option<Plugin>,
    /// Those that wait for their next call: one, and under load one for each call that may be made at once.
    instances: Vec<Instance>,
    /// Instances that kept handles, since the last one that did not.
    hoarders: u32,
    /// What an instance is told of the sink.
    context: SinkContext,
    /// The cursor as it stands in the pool.
    stored_cursor: Seq,
    stored_at: Instant,
    /// The lane has looked at what it left behind when it ran the last time.
    opened: bool,
    /// What the sink was called with and that is not settled. It comes again before everything else, as it is.
    call: Option<Call>,
    /// How the sink was filled the last time, or is being filled.
    filling: Option<Filling>,
    /// What is tried again, and what waits behind it.
    retries: RetryQueue,
    /// The last step was a retry: new entries are next, so that neither starves.
    retried: bool,
    /// New batches that failed since the last one that did not.
    failures: u32,
    /// Why the sink is failing, or that it is not any more, until it is stored.
    failing: Option<Option<String>>,
    /// Pauses since the last success.
    pauses: u32,
    busy_at: Option<Instant>,
    /// Size of the last batch.
    last_items: usize,
    /// Spans of the requests in batches that the sink was called with and that are not settled.
    spans: Vec<Followed>,
    /// Where it is, if it follows the changes of the data pool.
    following: Following,
    /// The number of the last change.
    head: watch::Receiver<ChangeSeq>,
    commands: watch::Receiver<Commands>,
    /// What was done about them.
    heard: Commands,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Worked,
    /// Nothing to do before the next entry or this time.
    Idle(Option<Lived>),
    /// Nothing to do before this time, whatever comes.
    Later(Lived),
    /// The sink or the storage does not work: wait until this time.
    Failing(Lived),
}

/// Why a step could not be made.
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
            failures: 0,
            failing: None,
            pauses: 0,
            busy_at: None,
            last_items: 0,
            spans: Vec::new(),
        }
    }

    /// What the lane shows of itself.
    pub fn status(&self) -> Arc<LaneStatus> {
        Arc::clone(&self.status)
    }

    /// Delivers until it is stopped, then ends at a batch edge. Blocks its thread at times: it must have
    /// one of its own.
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
                Err(error) => self.pause(&error.to_string()),
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

    /// Does nothing until somebody has something to say; the plugin is let go.
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

    /// Goes on with other settings or another plugin, which work: a pause has no reason any more.
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

    /// Delivers one batch, if there is one: a retry that is due and new entries in turn, or in strict order. Where very much
    /// waits behind retries, no new entries are taken.
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

    /// Looks at what the lane left behind.
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

    /// Counts a failure; whether so many mean that the sink is down, not the batches bad.
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

    /// Does what operators asked for. A sink that still does not work costs no attempt of what waits: a lane
    /// that was paused tries one thing first, and pauses again, if briefly.
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

    /// Ends a pause: the sink took something, or there is nothing left to try it with.
    fn resume(&mut self) {
        if self.pauses > 0 {
            self.pauses = 0;
            self.status.set_state(LaneState::Running);
            tracing::info!(sink = &*self.name, "the sink runs again");
        }
    }

    fn pause(&mut self, reason: &str) -> Step {
        self.pauses = self.pauses.saturating_add(1);
        let now = Unix::now();
        let pause = verdict::pause(&LANE_PAUSES, self.pauses);
        let pause_ms = clock::millis(pause);
        tracing::error!(sink = &*self.name, reason = %reason.escape_debug(), pause_ms, "the sink is paused; its data waits");
        self.status.set_last_error(now, reason);
        self.status.set_state(LaneState::Paused {
            reason: reason.to_owned(),
            until: now + pause,
        });
        self.end_spans(Some("paused"));
        // Whatever the storage or the plugin did: begin afresh.
        self.instances.clear();
        Step::Failing(Lived::now() + pause)
    }
}

/// Says what is left of the sink to be said, whenever that is due.
async fn log_periodically(guest_log: &GuestLog) -> Infallible {
    loop {
        guest_log.has_left_out().await;
        guest_log.flush();
    }
}

/// Ends at a moment of time lived; never without one.
async fn sleep_until(at: Option<Lived>) {
    match at {
        Some(at) => {
            tokio::time::sleep(at - Lived::now()).await;
        }
        None => std::future::pending().await,
    }
}
