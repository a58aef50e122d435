//! One lane: takes entries in order, hands them to its sink, settles.
//!
//! What becomes of a batch that the sink did not take is decided in `delivery/verdict.rs`.
//!
//! **Invariant**: the cursor moves only in the transaction that also holds what the sink did with
//! the entries, or the retry or dead letters that it did not do anything with.

mod attempt;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::commands::Commands;
use super::status::Assignment;
use super::{Delivery, LaneState, LaneStatus, verdict};
use crate::batch::{Action, Batch, Slice};
use crate::clock;
use crate::config::{Ordering, Retry as RetrySettings, Sink};
use crate::journal::{JournalError, ReadRequest, StorageError};
use crate::plugin::{Failure, Instance, NotTaken, Plugin, PluginError, SinkContext, Taken};
use crate::pool::{Call, PoolError, Retry, Settlement};

/// So many new batches failing one after another mean that the sink is down, not the batches bad.
const FAILURES_BEFORE_PAUSE: u32 = 5;
/// In strict order nothing comes between the halves of a batch. One bad item among a million traps 23 times before it
/// is alone.
const HALVES_BEFORE_PAUSE: u32 = 32;
/// A cursor that moved over unwanted entries only is stored this often: it lets payloads go.
const SKIP_STORED_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to store what cannot be stored yet.
const STORAGE_PAUSE: Duration = Duration::from_secs(1);
/// Pauses of a lane as a whole.
const LANE_PAUSES: RetrySettings = RetrySettings {
    first_ms: 1_000,
    max_ms: 60_000,
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
    instance: Option<Instance>,
    /// What an instance is told of the sink.
    context: SinkContext,
    /// The cursor as it stands in the pool.
    stored_cursor: u64,
    stored_at: Instant,
    /// The lane has looked at what it left behind when it ran the last time.
    opened: bool,
    /// The batch that the sink was called with and that is not settled. It comes again before everything else, as it is.
    call: Option<Call>,
    /// The retry that comes first.
    next_retry: Option<Retry>,
    /// The last step was a retry: new entries are next, so that neither starves.
    retried: bool,
    /// New batches that failed since the last one that did not.
    failures: u32,
    /// Pauses since the last success.
    pauses: u32,
    busy_at: Option<Instant>,
    /// Size of the last batch.
    last_items: usize,
    commands: watch::Receiver<Commands>,
    /// What was done about them.
    heard: Commands,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Worked,
    /// Nothing to do before the next entry or this time (time lived, in milliseconds).
    Idle(Option<u64>),
    /// The sink or the storage does not work: wait until this time (time lived, in milliseconds).
    Failing(u64),
}

/// What there is of new entries.
enum Cut {
    Batch(Batch),
    /// Nothing for this sink.
    Nothing(Step),
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
            instance: None,
            context: SinkContext::new(&sink, Some(&delivery.pool), &delivery.metrics),
            sink,
            commands: status.commands.subscribe(),
            heard: Commands::default(),
            status,
            opened: false,
            call: None,
            next_retry: None,
            retried: false,
            failures: 0,
            pauses: 0,
            busy_at: None,
            last_items: 0,
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
            let step = match self.step().await {
                Ok(step) => step,
                Err(error) => self.pause(&error.to_string()),
            };
            let heard = self.heard;
            match step {
                Step::Worked => {}
                Step::Failing(until_ms) => tokio::select! {
                    () = sleep_until(Some(until_ms)) => {}
                    _ = self.commands.wait_for(|commands| commands.now != heard.now) => {}
                    () = status.assigned.notified() => {}
                    () = stop.cancelled() => {}
                },
                Step::Idle(wake_ms) => tokio::select! {
                    changed = newest.changed() => if changed.is_err() { break },
                    _ = self.commands.wait_for(|commands| *commands != heard) => {}
                    () = sleep_until(wake_ms) => {}
                    () = status.assigned.notified() => {}
                    () = stop.cancelled() => {}
                },
            }
        }
        if let Err(error) = self.store_cursor() {
            tracing::warn!(sink = &*self.name, %error, "the cursor was not stored; some entries will be looked at again");
        }
    }

    /// Goes on with other settings or another plugin, which work: a pause has no reason any more.
    fn take_over(&mut self, assignment: Assignment) {
        let Assignment { sink, plugin } = assignment;
        self.context = SinkContext::new(&sink, Some(&self.delivery.pool), &self.delivery.metrics);
        self.plugin = Some(plugin);
        self.instance = None;
        // The order of retries may be another.
        self.opened = false;
        self.sink = sink;
        self.failures = 0;
        self.resume();
        tracing::info!(sink = &*self.name, "the sink goes on with its new settings");
    }

    /// Delivers one batch, if there is one: a retry that is due and new entries in turn, or in strict order.
    async fn step(&mut self) -> Result<Step, StepError> {
        self.hear()?;
        if self.plugin.is_none() {
            let plugin = self.delivery.plugins.load(&self.sink)?;
            self.status.set_plugin(&plugin);
            self.plugin = Some(plugin);
        }
        if !self.opened {
            self.open().await?;
        }
        if self.call.is_some() {
            return self.take_next().await;
        }
        // A paused lane looks for anything that the sink takes; it need not be due.
        let due_ms = if self.pauses > 0 {
            u64::MAX
        } else {
            clock::lived_ms()
        };
        let due = |lane: &Self| {
            let next = lane.next_retry.as_ref();
            next.filter(|retry| retry.due_ms <= due_ms).cloned()
        };
        if self.sink.ordering == Ordering::Strict {
            return match (due(self), &self.next_retry) {
                (Some(retry), _) => self.try_again(retry).await,
                (None, Some(later)) => Ok(Step::Idle(Some(later.due_ms))),
                (None, None) => self.take_next().await,
            };
        }
        if !self.retried
            && let Some(retry) = due(self)
        {
            self.retried = true;
            return self.try_again(retry).await;
        }
        self.retried = false;
        match self.take_next().await? {
            Step::Idle(wake_ms) => match due(self) {
                Some(retry) => self.try_again(retry).await,
                None => Ok(Step::Idle(wake_ms)),
            },
            step => Ok(step),
        }
    }

    /// Looks at what the lane left behind.
    async fn open(&mut self) -> Result<(), StepError> {
        self.call = self.delivery.pool.call(&self.name)?;
        self.next_retry = self.next_retry()?;
        if self.pauses == 0 {
            self.status.set_state(LaneState::Running);
        }
        let cursor = self.status.cursor();
        if self.delivery.journal.has_released_after(cursor).await? {
            tracing::warn!(
                sink = &*self.name,
                cursor,
                "the sink was not configured for a while: entries after its cursor are gone, it goes on with what is there"
            );
        }
        tracing::info!(sink = &*self.name, cursor, "the sink is loaded");
        self.opened = true;
        Ok(())
    }

    fn next_retry(&self) -> Result<Option<Retry>, PoolError> {
        let pool = &self.delivery.pool;
        pool.next_retry(&self.name, self.sink.ordering == Ordering::Strict)
    }

    /// Counts a failure; whether so many mean that the sink is down, not the batches bad.
    fn is_down_after(&mut self, failure: &Failure) -> bool {
        self.failures = match failure {
            // Who refuses for good works.
            Failure::Reject { .. } => 0,
            Failure::Retry { .. } | Failure::Trap { .. } => self.failures + 1,
        };
        let strict = self.sink.ordering == Ordering::Strict;
        let failures_max = match failure {
            Failure::Trap { .. } if strict => HALVES_BEFORE_PAUSE,
            _ => FAILURES_BEFORE_PAUSE,
        };
        self.failures >= failures_max
    }

    /// Does what operators asked for. A sink that still does not work costs no attempt of what waits: a lane
    /// that was paused tries one thing first, and pauses again, if briefly.
    fn hear(&mut self) -> Result<(), StepError> {
        let commands = *self.commands.borrow_and_update();
        if commands == self.heard {
            return Ok(());
        }
        if commands.now != self.heard.now && self.pauses > 0 {
            self.pauses = 1;
            self.status.set_state(LaneState::Running);
        }
        // The storage may fail here: what is left to hear then does not end the pause that follows.
        self.heard.now = commands.now;
        self.next_retry = self.next_retry()?;
        self.heard = commands;
        Ok(())
    }

    /// New entries: a batch, or several that are settled together.
    async fn take_next(&mut self) -> Result<Step, StepError> {
        self.linger().await;
        let mut settlement = self.settlement();
        let mut done = Vec::new();
        let mut items = 0;
        loop {
            let batch = match self.call.clone() {
                Some(call) => {
                    settlement.cursor = Some(call.through);
                    self.read(&call.parts, 2, &mut settlement).await?
                }
                None => match self.cut(&mut settlement).await? {
                    Cut::Batch(batch) => batch,
                    Cut::Nothing(_) if !done.is_empty() => break,
                    Cut::Nothing(step) => return Ok(step),
                },
            };
            if batch.is_empty() {
                break;
            }
            match self.write(batch.clone()).await? {
                Ok(taken) => {
                    let Taken { staged, rejected } = taken;
                    let keeps_state = !staged.state.is_empty();
                    settlement.staged.add(staged);
                    verdict::bury(&batch, 1, rejected, &mut settlement);
                    items += batch.len() as usize;
                    done.push(batch);
                    self.failures = 0;
                    if keeps_state || !self.goes_on(items) {
                        break;
                    }
                }
                Err(NotTaken { failure, progress }) => {
                    let (rest, attempts) = self.rest(batch, 1, progress, &mut settlement);
                    let is_down = self.is_down_after(&failure);
                    let reason = failure.to_string();
                    verdict::put_aside(&self.sink, &rest, attempts, failure, &mut settlement);
                    self.settle(settlement).await?;
                    done.iter().for_each(|batch| self.count(batch));
                    if self.pauses > 0 || is_down {
                        return Ok(self.pause(&reason));
                    }
                    return Ok(Step::Worked);
                }
            }
        }
        self.settle(settlement).await?;
        for batch in &done {
            self.succeeded(batch);
        }
        self.last_items = items;
        let oldest = done.first().and_then(|batch| batch.slices().first());
        if let Some(oldest) = oldest {
            let waited_ms = clock::unix_ms().saturating_sub(oldest.entry.received_ms);
            let waited = Duration::from_millis(waited_ms).as_secs_f64();
            self.delivery.metrics.delivery_seconds.observe(waited);
        }
        Ok(Step::Worked)
    }

    /// Whether another batch may be settled together with those before it, which have so many items. Upserts and removals
    /// in turn are batches of a few items each, and a flush for each of them would be dear.
    fn goes_on(&self, items: usize) -> bool {
        items < self.sink.batch.items_max
            && self.sink.ordering != Ordering::Strict
            && !self.reaches_others()
            && self.pauses == 0
    }

    /// What the sink did outside is done when the call ends, whether it is settled or not.
    fn reaches_others(&self) -> bool {
        self.sink.http.is_some() || self.sink.postgres.is_some()
    }

    /// The next batch of new entries. Of a sink that reaches others it is stored what is in it, so that exactly this
    /// batch comes again if nobody learns what became of it.
    async fn cut(&mut self, settlement: &mut Settlement) -> Result<Cut, StepError> {
        let after = settlement.cursor;
        let cursor = after.unwrap_or_else(|| self.status.cursor());
        let sink = &self.sink;
        let removals = self.plugin.as_ref().is_some_and(Plugin::takes_removals);
        let request = ReadRequest {
            after: cursor,
            items_max: sink.batch.items_max,
            bytes_max: sink.batch.bytes_max,
            wanted: &|stream, action| {
                sink.matches(stream) && (action == Action::Upsert || removals)
            },
        };
        let mut taken = self.delivery.journal.read_after(request).await?;
        settlement.cursor = Some(taken.through);
        self.give_up_unreadable(&mut taken, settlement).await?;
        let entries = std::mem::take(&mut taken.entries);
        if entries.is_empty() && after.is_some() {
            return Ok(Cut::Nothing(Step::Worked));
        }
        if entries.is_empty() && settlement.dead_letters.is_empty() {
            return Ok(Cut::Nothing(self.skip_to(cursor, taken.through)?));
        }
        let batch = Batch::new(entries.into_iter().map(Slice::whole).collect(), 1);
        if self.reaches_others() && !batch.is_empty() {
            let call = Call {
                parts: verdict::parts(&batch),
                through: taken.through,
            };
            let mut noted = self.settlement();
            noted.calling = Some(call.clone());
            noted.dead_letters = std::mem::take(&mut settlement.dead_letters);
            self.settle(noted).await?;
            self.call = Some(call);
        }
        Ok(Cut::Batch(batch))
    }

    /// Moves over entries that this sink does not want.
    fn skip_to(&mut self, cursor: u64, through: u64) -> Result<Step, StepError> {
        self.status.set_cursor(through);
        if self.stored_at.elapsed() >= SKIP_STORED_EVERY {
            self.store_cursor()?;
        }
        if through > cursor {
            self.delivery.forget_passed();
            return Ok(Step::Worked);
        }
        if self.next_retry.is_none() {
            self.resume();
        }
        let retry_ms = self.next_retry.as_ref().map(|retry| retry.due_ms);
        let behind = self.status.cursor() > self.stored_cursor;
        let store_ms = behind.then(|| clock::lived_ms() + 1_000);
        Ok(Step::Idle([retry_ms, store_ms].into_iter().flatten().min()))
    }

    async fn settle(&mut self, mut settlement: Settlement) -> Result<(), StepError> {
        settlement.called = settlement.cursor.is_some() && self.call.is_some();
        if !self.commit(&settlement).await? {
            tracing::info!(
                sink = &*self.name,
                "a retry was given up while it was tried"
            );
            self.next_retry = self.next_retry()?;
            return Ok(());
        }
        if let Some(cursor) = settlement.cursor {
            self.call = None;
            self.stored_cursor = cursor;
            self.stored_at = Instant::now();
            self.status.set_cursor(cursor);
        }
        self.delivery
            .metrics
            .dead_letters
            .inc_by(settlement.dead_letters.len() as u64);
        if settlement.retry_done.is_some() || !settlement.retries.is_empty() {
            self.next_retry = self.next_retry()?;
        }
        self.busy_at = Some(Instant::now());
        self.delivery.forget_passed();
        Ok(())
    }

    /// Commits a step. While the disk is full, or another process holds the file, the step waits: what the sink did is not
    /// asked of it a second time.
    async fn commit(&self, settlement: &Settlement) -> Result<bool, PoolError> {
        let stopping = &self.status.stopping;
        let mut waits = false;
        loop {
            let error = match self.delivery.pool.settle(settlement) {
                Err(error) if error.passes() && !stopping.is_cancelled() => error,
                done => {
                    if waits {
                        self.status.set_state(LaneState::Running);
                    }
                    return done;
                }
            };
            if !waits {
                tracing::warn!(sink = &*self.name, %error, "what the sink did cannot be stored yet: the lane waits");
            }
            waits = true;
            self.status.set_state(LaneState::Paused {
                reason: error.to_string(),
                until_ms: clock::unix_ms() + STORAGE_PAUSE.as_secs() * 1_000,
            });
            tokio::select! {
                () = tokio::time::sleep(STORAGE_PAUSE) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    fn succeeded(&mut self, batch: &Batch) {
        self.failures = 0;
        self.resume();
        self.count(batch);
    }

    fn count(&self, batch: &Batch) {
        self.delivery.metrics.sink_batches.inc();
        self.delivery
            .metrics
            .sink_items
            .inc_by(u64::from(batch.len()));
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
        let now_ms = clock::unix_ms();
        let pause_ms = verdict::pause_ms(&LANE_PAUSES, self.pauses);
        tracing::error!(sink = &*self.name, reason = %reason.escape_debug(), pause_ms, "the sink is paused; its data waits");
        self.status.set_last_error(now_ms, reason);
        self.status.set_state(LaneState::Paused {
            reason: reason.to_owned(),
            until_ms: now_ms + pause_ms,
        });
        // Whatever the storage or the plugin did: begin afresh.
        self.instance = None;
        Step::Failing(clock::lived_ms() + pause_ms)
    }

    /// Under load a short wait makes few large batches of many small ones; an idle lane goes ahead
    /// at once.
    async fn linger(&self) {
        let batch = &self.sink.batch;
        let linger = Duration::from_millis(batch.linger_ms);
        let was_large = self.last_items >= batch.items_max / 4;
        if !was_large
            && let Some(busy_at) = self.busy_at
            && let Some(left) = linger.checked_sub(busy_at.elapsed())
        {
            tokio::time::sleep(left).await;
        }
    }

    fn store_cursor(&mut self) -> Result<(), PoolError> {
        let cursor = self.status.cursor();
        if cursor > self.stored_cursor {
            let mut settlement = self.settlement();
            settlement.cursor = Some(cursor);
            self.delivery.pool.settle(&settlement)?;
            self.stored_cursor = cursor;
            self.stored_at = Instant::now();
        }
        Ok(())
    }

    fn settlement(&self) -> Settlement {
        Settlement {
            sink: Arc::clone(&self.name),
            ..Settlement::default()
        }
    }
}

/// Ends at a moment of time lived, in milliseconds; never without one.
async fn sleep_until(lived_ms: Option<u64>) {
    match lived_ms {
        Some(lived_ms) => {
            let left = lived_ms.saturating_sub(clock::lived_ms());
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
        None => std::future::pending().await,
    }
}
