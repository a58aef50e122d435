//! One lane: takes entries in order, hands them to its sink, settles.
//!
//! **Invariant**: the cursor moves only in the transaction that also holds what the sink did with
//! the entries, or the retry or dead letters that it did not do anything with.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Delivery, LaneState, LaneStatus, pace};
use crate::batch::{Batch, Slice};
use crate::clock;
use crate::config::Retry as RetrySettings;
use crate::journal::{ReadRequest, StorageError};
use crate::metrics::Metrics;
use crate::plugin::{Failure, Instance, Plugin, Plugins, Staged};
use crate::pool::{DeadLetter, Part, PoolError, Retry, Settlement};

/// Traps on one batch after which it is halved; a sink that asks for a retry gets all its attempts.
const TRAPS_MAX: u32 = 3;
/// So many new batches failing one after another mean that the sink is down, not the batches bad.
const FAILURES_BEFORE_PAUSE: u32 = 5;
/// A lane that was busy within this time waits for more before it takes the next batch.
const LINGER: Duration = Duration::from_millis(4);
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
    plugins: Arc<Plugins>,
    metrics: Arc<Metrics>,
    plugin: Option<Plugin>,
    instance: Option<Instance>,
    /// The cursor as it stands in the pool.
    stored_cursor: u64,
    stored_at: Instant,
    /// The retry that is due first.
    next_retry: Option<Retry>,
    /// New batches that failed since the last one that did not.
    failures: u32,
    /// Pauses since the last success.
    pauses: u32,
    busy_at: Option<Instant>,
    /// Size of the last batch.
    last_items: usize,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Worked,
    /// Nothing to do before the next entry or this time (Unix time in milliseconds).
    Idle(Option<u64>),
    /// The sink or the storage does not work: wait.
    Failing,
}

/// Why a step could not be made.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Journal(#[from] StorageError),
    #[error("{0}")]
    Plugin(#[from] crate::plugin::PluginError),
}

impl Lane {
    pub(super) fn new(
        status: Arc<LaneStatus>,
        delivery: &Arc<Delivery>,
        plugins: &Arc<Plugins>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            name: status.sink.name.as_str().into(),
            stored_cursor: status.cursor(),
            stored_at: Instant::now(),
            status,
            delivery: Arc::clone(delivery),
            plugins: Arc::clone(plugins),
            metrics: Arc::clone(metrics),
            plugin: None,
            instance: None,
            next_retry: None,
            failures: 0,
            pauses: 0,
            busy_at: None,
            last_items: 0,
        }
    }

    /// The name of the sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Delivers until `stop`, then ends at a batch edge. Blocks its thread at times: it must have
    /// one of its own.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut newest = self.delivery.journal.newest();
        while !stop.is_cancelled() {
            newest.mark_unchanged();
            let step = match self.step().await {
                Ok(step) => step,
                Err(error) => {
                    self.pause(&error.to_string());
                    Step::Failing
                }
            };
            let wake_ms = match step {
                Step::Worked => continue,
                Step::Idle(wake_ms) => wake_ms,
                Step::Failing => match self.status.state() {
                    LaneState::Paused { until_ms, .. } => {
                        let pause = sleep_until(Some(until_ms));
                        tokio::select! {
                            () = pause => {}
                            () = stop.cancelled() => {}
                        }
                        continue;
                    }
                    _ => None,
                },
            };
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { break },
                () = sleep_until(wake_ms) => {}
                () = stop.cancelled() => {}
            }
        }
        if let Err(error) = self.store_cursor() {
            tracing::warn!(sink = &*self.name, %error, "the cursor was not stored; some entries will be looked at again");
        }
    }

    /// Delivers one batch, if there is one.
    async fn step(&mut self) -> Result<Step, StepError> {
        if self.plugin.is_none() {
            self.plugin = Some(self.plugins.load(&self.status.sink.plugin)?);
            self.next_retry = self.delivery.pool.next_retry(&self.name)?;
            self.status.set_state(LaneState::Running);
            tracing::info!(
                sink = &*self.name,
                cursor = self.status.cursor(),
                "the sink is running"
            );
        }
        let now_ms = clock::unix_ms();
        if let Some(retry) = &self.next_retry
            && (retry.due_ms <= now_ms || self.pauses > 0)
            && !self.probes_with_new()
        {
            let retry = retry.clone();
            return self.try_again(retry).await;
        }
        self.take_next().await
    }

    /// Whether a paused lane finds out with a new batch if the sink works again. Old and new take
    /// turns: a few bad batches must not look like a sink that is down for ever.
    fn probes_with_new(&self) -> bool {
        let newest = *self.delivery.journal.newest().borrow();
        self.pauses > 0 && self.pauses.is_multiple_of(2) && newest > self.status.cursor()
    }

    async fn take_next(&mut self) -> Result<Step, StepError> {
        self.linger().await;
        let cursor = self.status.cursor();
        let sink = &self.status.sink;
        let request = ReadRequest {
            after: cursor,
            // A paused lane finds out with as little as possible: one request.
            items_max: if self.pauses > 0 {
                1
            } else {
                sink.batch.items_max
            },
            bytes_max: sink.batch.bytes_max,
            wanted: &|stream| sink.matches(stream),
        };
        let taken = self.delivery.journal.read_after(request).await?;
        let mut settlement = self.settlement();
        settlement.cursor = Some(taken.through);
        for (seq, reason) in taken.corrupt {
            tracing::error!(sink = &*self.name, seq, reason, "a payload is put aside");
            self.delivery.journal.quarantine(seq, reason.clone());
            settlement.dead_letters.push(unreadable(seq, &reason));
        }
        if taken.entries.is_empty() {
            if settlement.dead_letters.is_empty() {
                self.status.cursor.store(taken.through, Ordering::Release);
                if self.stored_at.elapsed() >= SKIP_STORED_EVERY {
                    self.store_cursor()?;
                }
                if taken.through > cursor {
                    self.delivery.release();
                    return Ok(Step::Worked);
                }
                if self.next_retry.is_none() {
                    self.resume();
                }
                return Ok(Step::Idle(self.wake_ms()));
            }
            self.settle(settlement)?;
            return Ok(Step::Worked);
        }
        let received_ms = taken.entries.first().map_or(0, |entry| entry.received_ms);
        let slices = taken.entries.into_iter().map(Slice::whole).collect();
        let batch = Batch::new(slices, 1);
        match self.write(batch.clone()).await? {
            Ok(staged) => {
                settlement.upserts = staged.upserts;
                self.settle(settlement)?;
                self.succeeded(&batch);
                self.metrics.delivery_seconds.observe(
                    Duration::from_millis(clock::unix_ms().saturating_sub(received_ms))
                        .as_secs_f64(),
                );
                Ok(Step::Worked)
            }
            Err(failure) => {
                self.failures += 1;
                let counts = !matches!(failure, Failure::Reject { .. });
                let down = counts && self.failures >= FAILURES_BEFORE_PAUSE;
                if !counts {
                    self.failures = 0;
                }
                let reason = self.put_aside(&batch, 1, failure, &mut settlement);
                self.settle(settlement)?;
                if down {
                    self.pause(&reason);
                    return Ok(Step::Failing);
                }
                Ok(Step::Worked)
            }
        }
    }

    /// Another attempt at a batch that failed before. While the lane is paused this is how it finds
    /// out whether the sink works again, and the attempt does not count against the batch.
    async fn try_again(&mut self, retry: Retry) -> Result<Step, StepError> {
        let mut settlement = self.settlement();
        let mut slices = Vec::with_capacity(retry.parts.len());
        for Part(seq, start, end) in retry.parts.iter().copied() {
            match self.delivery.journal.read_one(seq).await? {
                Some(entry) => slices.push(Slice { entry, start, end }),
                None => settlement
                    .dead_letters
                    .push(unreadable(seq, "the payload cannot be read any more")),
            }
        }
        let probing = self.pauses > 0;
        let attempts = retry.attempts + u32::from(!probing);
        let batch = Batch::new(slices, attempts.max(2));
        if batch.is_empty() {
            settlement.retry_done = Some(retry);
            self.settle(settlement)?;
            return Ok(Step::Worked);
        }
        match self.write(batch.clone()).await? {
            Ok(staged) => {
                settlement.upserts = staged.upserts;
                settlement.retry_done = Some(retry);
                self.settle(settlement)?;
                self.succeeded(&batch);
                Ok(Step::Worked)
            }
            Err(failure) if probing && !matches!(failure, Failure::Reject { .. }) => {
                let reason = failure.to_string();
                // To the end of the line: the next attempt is made with another batch, and a trap
                // may be the fault of one item, which must not keep the others from being tried.
                let halves = match failure {
                    Failure::Trap { .. } => batch.halves(),
                    _ => None,
                };
                let parts = halves.map_or_else(|| vec![batch], |(left, right)| vec![left, right]);
                let now_ms = clock::unix_ms();
                let again = |part| self::retry(part, retry.attempts, now_ms, &reason);
                settlement.retries.extend(parts.iter().map(again));
                settlement.retry_done = Some(retry);
                self.settle(settlement)?;
                self.pause(&reason);
                Ok(Step::Failing)
            }
            Err(failure) => {
                self.put_aside(&batch, attempts, failure, &mut settlement);
                settlement.retry_done = Some(retry);
                self.settle(settlement)?;
                Ok(Step::Worked)
            }
        }
    }

    /// Calls the plugin. The outer error is the instance's that could not be started.
    async fn write(&mut self, batch: Batch) -> Result<Result<Staged, Failure>, StepError> {
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
            None => self.instance.insert(plugin.start().await?),
        };
        let result = instance.write(batch).await;
        if let Err(failure) = &result {
            if matches!(failure, Failure::Trap { .. }) {
                self.instance = None;
                self.metrics.sink_traps.inc();
            }
            self.metrics.sink_failures.inc();
            let reason = failure.to_string();
            tracing::warn!(sink = &*self.name, reason = %reason.escape_debug(), "the sink did not take a batch");
            self.status.set_last_error(clock::unix_ms(), &reason);
        }
        Ok(result)
    }

    /// Decides what becomes of a batch that was not taken: another attempt, two halves, or dead
    /// letters. Returns the reason.
    fn put_aside(
        &self,
        batch: &Batch,
        attempts: u32,
        failure: Failure,
        settlement: &mut Settlement,
    ) -> String {
        let reason = failure.to_string();
        let settings = &self.status.sink.retry;
        let now_ms = clock::unix_ms();
        let (attempts_max, after) = match failure {
            Failure::Reject { .. } => {
                settlement
                    .dead_letters
                    .extend(letters(batch, attempts, &reason, now_ms));
                return reason;
            }
            Failure::Retry { after, .. } => (settings.attempts, after),
            Failure::Trap { .. } => (settings.attempts.min(TRAPS_MAX), None),
        };
        if attempts < attempts_max {
            let pause = after.unwrap_or_else(|| pace::pause(settings, attempts));
            let due_ms = now_ms + u64::try_from(pause.as_millis()).unwrap_or(u64::MAX >> 1);
            settlement
                .retries
                .push(retry(batch, attempts, due_ms, &reason));
        } else if let Some((left, right)) = batch.halves() {
            // The halves have one attempt each before they are halved again.
            for half in [left, right] {
                settlement
                    .retries
                    .push(retry(&half, attempts, now_ms, &reason));
            }
        } else {
            settlement
                .dead_letters
                .extend(letters(batch, attempts, &reason, now_ms));
        }
        reason
    }

    fn settle(&mut self, settlement: Settlement) -> Result<(), StepError> {
        self.delivery.pool.settle(&settlement)?;
        if let Some(cursor) = settlement.cursor {
            self.stored_cursor = cursor;
            self.stored_at = Instant::now();
            self.status.cursor.store(cursor, Ordering::Release);
        }
        self.metrics
            .dead_letters
            .inc_by(settlement.dead_letters.len() as u64);
        if settlement.retry_done.is_some() || !settlement.retries.is_empty() {
            self.next_retry = self.delivery.pool.next_retry(&self.name)?;
        }
        self.busy_at = Some(Instant::now());
        self.delivery.release();
        Ok(())
    }

    fn succeeded(&mut self, batch: &Batch) {
        self.failures = 0;
        self.resume();
        self.last_items = batch.len() as usize;
        self.metrics.sink_batches.inc();
        self.metrics.sink_items.inc_by(u64::from(batch.len()));
    }

    /// Ends a pause: the sink took something, or there is nothing left to try it with.
    fn resume(&mut self) {
        if self.pauses > 0 {
            self.pauses = 0;
            self.status.set_state(LaneState::Running);
            tracing::info!(sink = &*self.name, "the sink runs again");
        }
    }

    fn pause(&mut self, reason: &str) {
        self.pauses += 1;
        let now_ms = clock::unix_ms();
        let pause = pace::pause(&LANE_PAUSES, self.pauses);
        tracing::error!(sink = &*self.name, reason = %reason.escape_debug(), pause_ms = pause.as_millis(), "the sink is paused; its data waits");
        self.status.set_last_error(now_ms, reason);
        self.status.set_state(LaneState::Paused {
            reason: reason.to_owned(),
            until_ms: now_ms + u64::try_from(pause.as_millis()).unwrap_or(0),
        });
        // Whatever the storage or the plugin did: begin afresh.
        self.instance = None;
    }

    /// Under load a short wait makes few large batches of many small ones; an idle lane goes ahead
    /// at once.
    async fn linger(&self) {
        let was_large = self.last_items >= self.status.sink.batch.items_max / 4;
        if !was_large
            && let Some(busy_at) = self.busy_at
            && let Some(left) = LINGER.checked_sub(busy_at.elapsed())
        {
            tokio::time::sleep(left).await;
        }
    }

    /// When an idle lane has something to do that no new entry tells of.
    fn wake_ms(&self) -> Option<u64> {
        let retry_ms = self.next_retry.as_ref().map(|retry| retry.due_ms);
        let behind = self.status.cursor() > self.stored_cursor;
        let store_ms = behind.then(|| clock::unix_ms() + 1_000);
        [retry_ms, store_ms].into_iter().flatten().min()
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

fn retry(batch: &Batch, attempts: u32, due_ms: u64, reason: &str) -> Retry {
    Retry {
        id: 0,
        parts: batch
            .slices()
            .iter()
            .map(|slice| Part(slice.entry.seq, slice.start, slice.end))
            .collect(),
        attempts,
        due_ms,
        reason: reason.to_owned(),
    }
}

fn letters<'a>(
    batch: &'a Batch,
    attempts: u32,
    reason: &'a str,
    at_ms: u64,
) -> impl Iterator<Item = DeadLetter> + 'a {
    batch.slices().iter().flat_map(move |slice| {
        let entry = &slice.entry;
        slice.items().map(move |(position, item)| DeadLetter {
            id: 0,
            seq: entry.seq,
            request_id: entry.request_id.to_string(),
            stream: Arc::clone(&entry.stream),
            position,
            key: item.key.to_owned(),
            fields: item.fields.to_owned(),
            reason: reason.to_owned(),
            attempts,
            at_ms,
        })
    })
}

/// A dead letter for a payload that nobody can read: the journal's table `quarantine` has its bytes.
fn unreadable(seq: u64, reason: &str) -> DeadLetter {
    DeadLetter {
        id: 0,
        seq,
        request_id: String::new(),
        stream: "".into(),
        position: 0,
        key: String::new(),
        fields: String::new(),
        reason: reason.to_owned(),
        attempts: 0,
        at_ms: clock::unix_ms(),
    }
}
