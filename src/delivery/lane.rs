//! One lane: takes entries in order, hands them to its sink, settles.
//!
//! What becomes of a batch that the sink did not take is decided in `delivery/verdict.rs`.
//!
//! **Invariant**: the cursor moves only in the transaction that also holds what the sink did with
//! the entries, or the retry or dead letters that it did not do anything with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::status::Assignment;
use super::wishes::Wishes;
use super::{Delivery, LaneState, LaneStatus, pace, verdict};
use crate::batch::{Batch, Slice};
use crate::clock;
use crate::config::{Ordering, Retry as RetrySettings, Sink};
use crate::journal::log::Filter;
use crate::journal::{self, JournalError, ReadRequest, StorageError};
use crate::plugin::{Failure, Instance, Plugin, PluginError, Seat, Taken};
use crate::pool::{Part, PoolError, Retry, Settlement};

/// So many new batches failing one after another mean that the sink is down, not the batches bad.
const FAILURES_BEFORE_PAUSE: u32 = 5;
/// In strict order nothing comes between the halves of a batch. One bad item among a million traps 23 times before it
/// is alone.
const HALVES_BEFORE_PAUSE: u32 = 32;
/// A cursor that moved over unwanted entries only is stored this often: it lets payloads go.
const SKIP_STORED_EVERY: Duration = Duration::from_secs(1);
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
    seat: Seat,
    /// The cursor as it stands in the pool.
    stored_cursor: u64,
    stored_at: Instant,
    /// The lane has looked at what it left behind when it ran the last time.
    opened: bool,
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
    wishes: watch::Receiver<Wishes>,
    /// What was done about them.
    heard: Wishes,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Worked,
    /// Nothing to do before the next entry or this time (Unix time in milliseconds).
    Idle(Option<u64>),
    /// The sink or the storage does not work: wait until this time.
    Failing(u64),
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
            seat: Seat::new(&sink, Some(&delivery.pool), &delivery.metrics),
            sink,
            wishes: status.wishes.subscribe(),
            heard: Wishes::default(),
            status,
            opened: false,
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
                    _ = self.wishes.wait_for(|wishes| wishes.now != heard.now) => {}
                    () = status.assigned.notified() => {}
                    () = stop.cancelled() => {}
                },
                Step::Idle(wake_ms) => tokio::select! {
                    changed = newest.changed() => if changed.is_err() { break },
                    _ = self.wishes.wait_for(|wishes| *wishes != heard) => {}
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
        self.seat = Seat::new(&sink, Some(&self.delivery.pool), &self.delivery.metrics);
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
        // A paused lane looks for anything that the sink takes; it need not be due.
        let due_ms = if self.pauses > 0 {
            u64::MAX
        } else {
            clock::unix_ms()
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
        let wishes = *self.wishes.borrow_and_update();
        if wishes == self.heard {
            return Ok(());
        }
        if wishes.now != self.heard.now && self.pauses > 0 {
            self.pauses = 1;
            self.status.set_state(LaneState::Running);
        }
        // The storage may fail here: what is left to hear then does not end the pause that follows.
        self.heard.now = wishes.now;
        self.next_retry = self.next_retry()?;
        self.heard = wishes;
        Ok(())
    }

    async fn take_next(&mut self) -> Result<Step, StepError> {
        self.linger().await;
        let cursor = self.status.cursor();
        let sink = &self.sink;
        let request = ReadRequest {
            after: cursor,
            items_max: sink.batch.items_max,
            bytes_max: sink.batch.bytes_max,
            wanted: &|stream| sink.matches(stream),
        };
        let mut taken = self.delivery.journal.read_after(request).await?;
        let mut settlement = self.settlement();
        settlement.cursor = Some(taken.through);
        self.give_up_unreadable(&mut taken, &mut settlement).await?;
        let entries = std::mem::take(&mut taken.entries);
        let Some(oldest_ms) = entries.first().map(|entry| entry.received_ms) else {
            if settlement.dead_letters.is_empty() {
                return self.skip_to(cursor, taken.through);
            }
            self.settle(settlement)?;
            return Ok(Step::Worked);
        };
        let batch = Batch::new(entries.into_iter().map(Slice::whole).collect(), 1);
        match self.write(batch.clone()).await? {
            Ok(taken) => {
                let Taken { staged, rejected } = taken;
                settlement.staged = staged;
                verdict::bury(&batch, 1, rejected, &mut settlement);
                self.settle(settlement)?;
                self.succeeded(&batch);
                let waited_ms = clock::unix_ms().saturating_sub(oldest_ms);
                self.delivery
                    .metrics
                    .delivery_seconds
                    .observe(Duration::from_millis(waited_ms).as_secs_f64());
                Ok(Step::Worked)
            }
            Err(failure) => {
                let is_down = self.is_down_after(&failure);
                let reason = failure.to_string();
                verdict::put_aside(&self.sink, &batch, 1, failure, &mut settlement);
                self.settle(settlement)?;
                if self.pauses > 0 || is_down {
                    return Ok(self.pause(&reason));
                }
                Ok(Step::Worked)
            }
        }
    }

    /// Another attempt at a batch that failed before. While the lane is paused this is how it finds
    /// out whether the sink works again: nothing tells then that the batch is to blame, so the attempt
    /// does not count.
    async fn try_again(&mut self, retry: Retry) -> Result<Step, StepError> {
        let mut settlement = self.settlement();
        let batch = match retry.resent {
            true => Batch::resent(self.delivery.pool.resent(retry.id)?, retry.attempts + 1),
            false => self.read_again(&retry, &mut settlement).await?,
        };
        let attempts = retry.attempts;
        settlement.retry_done = Some(retry);
        if batch.is_empty() {
            self.settle(settlement)?;
            return Ok(Step::Worked);
        }
        let failure = match self.write(batch.clone()).await? {
            Ok(taken) => {
                let Taken { staged, rejected } = taken;
                settlement.staged = staged;
                verdict::bury(&batch, attempts + 1, rejected, &mut settlement);
                self.settle(settlement)?;
                self.succeeded(&batch);
                return Ok(Step::Worked);
            }
            Err(failure) => failure,
        };
        let reason = failure.to_string();
        let probing = self.pauses > 0;
        let works = matches!(failure, Failure::Reject { .. });
        // In any order new batches tell whether the sink is down.
        let is_down = self.sink.ordering == Ordering::Strict && self.is_down_after(&failure);
        if probing && !works {
            verdict::postpone(&self.sink, &batch, attempts, &reason, &mut settlement);
        } else {
            verdict::put_aside(&self.sink, &batch, attempts + 1, failure, &mut settlement);
        }
        self.settle(settlement)?;
        if probing && works {
            self.resume();
        } else if probing || is_down {
            return Ok(self.pause(&reason));
        }
        Ok(Step::Worked)
    }

    /// The batch of a retry, from the journal. What cannot be read any more becomes dead letters.
    async fn read_again(
        &self,
        retry: &Retry,
        settlement: &mut Settlement,
    ) -> Result<Batch, StepError> {
        let seqs: Vec<u64> = retry.parts.iter().map(|Part(seq, ..)| *seq).collect();
        let entries = self.delivery.journal.read_many(&seqs).await?;
        let mut entries = entries.into_iter().peekable();
        let mut slices = Vec::with_capacity(retry.parts.len());
        let mut gone = Vec::new();
        for Part(seq, start, end) in retry.parts.iter().copied() {
            match entries.next_if(|entry| entry.seq == seq) {
                Some(entry) => slices.push(Slice {
                    entry,
                    start,
                    end,
                    base: 0,
                }),
                None => gone.push((seq, "the payload cannot be read any more".to_owned())),
            }
        }
        self.bury(gone, settlement).await?;
        Ok(Batch::new(slices, retry.attempts + 1))
    }

    /// Calls the plugin. The outer error is the instance's that could not be started.
    async fn write(&mut self, batch: Batch) -> Result<Result<Taken, Failure>, StepError> {
        if self.instance.as_ref().is_some_and(Instance::is_worn_out) {
            self.instance = None;
        }
        let Some(plugin) = &self.plugin else {
            return Ok(Err(Failure::Trap {
                reason: "the plugin is not loaded".to_owned(),
            }));
        };
        let instance = match self.instance.take() {
            Some(instance) => self.instance.insert(instance),
            None => self.instance.insert(plugin.start(&self.seat).await?),
        };
        let result = instance.write(batch).await;
        if let Err(failure) = &result {
            if matches!(failure, Failure::Trap { .. }) {
                self.instance = None;
                self.delivery.metrics.sink_traps.inc();
            }
            self.delivery.metrics.sink_failures.inc();
            let reason = failure.to_string();
            tracing::warn!(sink = &*self.name, reason = %reason.escape_debug(), "the sink did not take a batch");
            self.status.set_last_error(clock::unix_ms(), &reason);
        }
        Ok(result)
    }

    /// Entries that nobody can read are put aside once, and are dead letters of every sink.
    async fn give_up_unreadable(
        &self,
        taken: &mut journal::Taken,
        settlement: &mut Settlement,
    ) -> Result<(), StepError> {
        for (seq, reason) in &taken.corrupt {
            tracing::error!(sink = &*self.name, seq, reason, "a payload is put aside");
            self.delivery.journal.quarantine(*seq, reason.clone())?;
        }
        let mut unreadable = std::mem::take(&mut taken.corrupt);
        unreadable.append(&mut taken.quarantined);
        self.bury(unreadable, settlement).await
    }

    /// Makes dead letters of entries that only the log still knows.
    async fn bury(
        &self,
        unreadable: Vec<(u64, String)>,
        settlement: &mut Settlement,
    ) -> Result<(), StepError> {
        for (seq, reason) in unreadable {
            let rows = (self.delivery.journal)
                .log_at(&Filter::default(), &[seq])
                .await?;
            settlement
                .dead_letters
                .push(verdict::unreadable(seq, rows.first(), reason));
        }
        Ok(())
    }

    /// Moves over entries that this sink does not want.
    fn skip_to(&mut self, cursor: u64, through: u64) -> Result<Step, StepError> {
        self.status.set_cursor(through);
        if self.stored_at.elapsed() >= SKIP_STORED_EVERY {
            self.store_cursor()?;
        }
        if through > cursor {
            self.delivery.release();
            return Ok(Step::Worked);
        }
        if self.next_retry.is_none() {
            self.resume();
        }
        let retry_ms = self.next_retry.as_ref().map(|retry| retry.due_ms);
        let behind = self.status.cursor() > self.stored_cursor;
        let store_ms = behind.then(|| clock::unix_ms() + 1_000);
        Ok(Step::Idle([retry_ms, store_ms].into_iter().flatten().min()))
    }

    fn settle(&mut self, settlement: Settlement) -> Result<(), StepError> {
        self.delivery.pool.settle(&settlement)?;
        if let Some(cursor) = settlement.cursor {
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
        self.delivery.release();
        Ok(())
    }

    fn succeeded(&mut self, batch: &Batch) {
        self.failures = 0;
        self.resume();
        self.last_items = batch.len() as usize;
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
        let pause_ms = pace::pause_ms(&LANE_PAUSES, self.pauses);
        let until_ms = now_ms + pause_ms;
        tracing::error!(sink = &*self.name, reason = %reason.escape_debug(), pause_ms, "the sink is paused; its data waits");
        self.status.set_last_error(now_ms, reason);
        self.status.set_state(LaneState::Paused {
            reason: reason.to_owned(),
            until_ms,
        });
        // Whatever the storage or the plugin did: begin afresh.
        self.instance = None;
        Step::Failing(until_ms)
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

/// Ends at a Unix time in milliseconds; never without one.
async fn sleep_until(unix_ms: Option<u64>) {
    match unix_ms {
        Some(unix_ms) => {
            let left = unix_ms.saturating_sub(clock::unix_ms());
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
        None => std::future::pending().await,
    }
}
