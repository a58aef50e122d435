//! New entries: cut into batches, delivered to the sink, settled together.
//!
//! The lane's steps call it, also to repeat an unsettled call.
//!
//! **Invariant**: for a sink that calls others, the contents of a batch are stored before the call.

use std::time::Duration;

use super::divide::bytes_of;
use super::{Lane, Step, StepError};
use crate::verdict::Attempts;
use crate::{selection, verdict};
use base::clock::Lived;
use base::order::Seq;
use item::batch::{Action, Batch, Slice};
use journal::ReadRequest;
use plugin::{NotTaken, Plugin, Taken};
use pool::{Call, Settlement};
use settings::Ordering;

/// A cursor that moved past irrelevant entries only is stored at this interval: it frees payloads.
const SKIP_STORED_EVERY: Duration = Duration::from_secs(1);

/// Reason of a retry that was not tried yet.
const BEHIND: &str = "an earlier operation with the same key waits for a retry";

/// Result of reading new entries.
enum Cut {
    Batches(Vec<Batch>),
    /// No entry is for this sink.
    Nothing(Step),
}

impl Lane {
    /// New entries: a batch, or several that are settled together. What changes too much for one entry of the log becomes
    /// retries of its parts.
    pub(super) async fn take_next(&mut self) -> Result<Step, StepError> {
        let taken = self.take_new().await;
        self.divides(taken)
    }

    async fn take_new(&mut self) -> Result<Step, StepError> {
        self.linger().await;
        let mut settlement = self.settlement();
        let mut done = Vec::new();
        let (mut items, mut bytes) = (0, 0);
        loop {
            let batches = match self.call.clone() {
                Some(call) => self.called_before(call, &mut settlement).await?,
                None => match self.cut(&mut settlement).await? {
                    Cut::Batches(batches) => batches,
                    Cut::Nothing(_) if !done.is_empty() => break,
                    Cut::Nothing(step) => return Ok(step),
                },
            };
            if batches.is_empty() {
                break;
            }
            if self.is_dividing {
                return self.divide(&batches, settlement).await;
            }
            let results = self.write_all(&batches).await?;
            let mut failed = None;
            let mut keeps_state = false;
            let before = done.len();
            for (batch, result) in batches.into_iter().zip(results) {
                match result {
                    Ok(Taken { staged, rejected }) => {
                        keeps_state |= !staged.state.is_empty();
                        settlement.staged.add(staged);
                        self.note_taken(&batch, &rejected);
                        verdict::dead_letter(&batch, Attempts::FIRST, rejected, &mut settlement);
                        items += batch.len() as usize;
                        bytes += bytes_of(&batch);
                        done.push(batch);
                    }
                    Err(not_taken) => {
                        failed = Some(self.failed_new(batch, not_taken, &mut settlement));
                    }
                }
            }
            if done.len() > before {
                self.failures = 0;
            }
            settlement.is_divisible = self.can_divide(items);
            if let Some((reason, is_down)) = failed {
                self.settle(settlement).await?;
                done.iter().for_each(|batch| self.count(batch));
                if self.pauses > 0 || (is_down && done.len() == before) {
                    return Ok(self.pause(&reason));
                }
                return Ok(Step::Worked);
            }
            if keeps_state || !self.goes_on(items, bytes) {
                break;
            }
        }
        self.settle_taken(settlement, &done, items).await
    }

    /// Settles new batches that were accepted.
    async fn settle_taken(
        &mut self,
        settlement: Settlement,
        done: &[Batch],
        items: usize,
    ) -> Result<Step, StepError> {
        self.settle(settlement).await?;
        for batch in done {
            self.succeeded(batch);
        }
        self.last_items = items;
        self.measure(done.first());
        Ok(Step::Worked)
    }

    /// The batch of an unsettled call, with the same items, so that a receiver that knows the idempotency key ignores
    /// it.
    async fn called_before(
        &self,
        call: Call,
        settlement: &mut Settlement,
    ) -> Result<Vec<Batch>, StepError> {
        settlement.cursor = Some(call.through);
        let mut batches = Vec::with_capacity(call.batches.len());
        for parts in &call.batches {
            let batch = self.read(parts, 2, settlement).await?;
            if !batch.is_empty() {
                batches.push(batch);
            }
        }
        Ok(batches)
    }

    /// Settles a new batch that was not accepted: its rest becomes a retry or dead letters. Returns the reason, and
    /// whether the sink counts as down.
    fn failed_new(
        &mut self,
        batch: Batch,
        not_taken: NotTaken,
        settlement: &mut Settlement,
    ) -> (String, bool) {
        let NotTaken {
            failure,
            progress,
            staged,
        } = not_taken;
        settlement.staged.add(staged);
        let took_some = progress.taken > 0;
        let (rest, attempts) = self.rest(batch, Attempts::FIRST, progress, settlement);
        let is_down = self.is_down_after(&failure);
        let reason = failure.to_string();
        let before = settlement.dead_letters.len();
        verdict::schedule_retry(&self.sink, &rest, attempts, failure, settlement);
        let given_up = settlement.dead_letters.len() > before;
        self.note_failed(took_some, given_up, attempts.batch, &reason);
        (reason, is_down)
    }

    /// How long the oldest settled entry has waited. By uptime, because a step of the wall clock would stay in the
    /// histogram.
    fn measure(&self, batch: Option<&Batch>) {
        let oldest = batch.and_then(|batch| batch.slices().first());
        if let Some(oldest) = oldest
            // Without the moment there is nothing to measure; the batch is settled all the same.
            && let Some(arrived) = self.delivery.journal.arrived(&oldest.entry)
        {
            let waited = (Lived::now() - arrived).as_secs_f64();
            self.delivery.metrics.delivery_seconds.observe(waited);
        }
    }

    /// Whether another batch can be settled together with those before it, which have this number of items and bytes.
    /// Alternating updates and removals make small batches, and a flush for each of them would be expensive. A sink
    /// that calls others settles each call alone, because a crash would repeat all of them.
    fn goes_on(&self, items: usize, bytes: usize) -> bool {
        items < self.sink.batch.items_max
            && bytes < self.sink.batch.bytes_max
            && self.sink.ordering != Ordering::Strict
            && !self.reaches_others()
            && self.pauses == 0
    }

    /// Effects outside the daemon are final when the call ends, whether it is settled or not. So its batches are stored
    /// before the call.
    pub(super) fn reaches_others(&self) -> bool {
        self.sink.reaches_others()
    }

    /// The next batches of new entries, without a common key: one, unless the sink allows concurrent calls. For a sink
    /// that calls others, their contents are stored first, so that exactly these batches are repeated after a crash.
    async fn cut(&mut self, settlement: &mut Settlement) -> Result<Cut, StepError> {
        let after = settlement.cursor;
        let cursor = after.unwrap_or_else(|| self.status.cursor());
        let removals = self.plugin.as_ref().is_some_and(Plugin::takes_removals);
        let Some(mut taken) = self.read_after(cursor, removals).await? else {
            return Ok(Cut::Nothing(Step::Worked));
        };
        let sink = &self.sink;
        settlement.cursor = Some(taken.through);
        self.give_up_unreadable(&mut taken, settlement).await?;
        let entries = std::mem::take(&mut taken.entries);
        if entries.is_empty() && after.is_some() {
            return Ok(Cut::Nothing(Step::Worked));
        }
        if entries.is_empty() && settlement.dead_letters.is_empty() {
            return Ok(Cut::Nothing(self.skip_to(cursor, taken.through)?));
        }
        let mut slices: Vec<Slice> = entries.into_iter().map(Slice::whole).collect();
        if !removals {
            slices = Batch::new(slices, 1).updates().slices().to_vec();
        }
        let slices = selection::selected(sink, slices, &self.delivery.problems);
        let has_more = !settlement.dead_letters.is_empty() || !settlement.retries.is_empty();
        if slices.is_empty() && !has_more {
            return Ok(Cut::Nothing(match after {
                None => self.skip_to(cursor, taken.through)?,
                Some(_) => Step::Worked,
            }));
        }
        let batch = self.without_waiting(slices, settlement);
        if batch.is_empty() {
            return Ok(Cut::Batches(Vec::new()));
        }
        let batches = self.spread(batch);
        if self.reaches_others() {
            let call = Call {
                batches: batches.iter().map(verdict::parts).collect(),
                through: taken.through,
            };
            let mut noted = self.settlement();
            noted.calling = Some(call.clone());
            noted.dead_letters = std::mem::take(&mut settlement.dead_letters);
            noted.retries = std::mem::take(&mut settlement.retries);
            self.settle(noted).await?;
            self.call = Some(call);
        }
        Ok(Cut::Batches(batches))
    }

    /// Reads new entries after the cursor. `None`: an operator paused the sink or resent dead letters, and entries that
    /// were accepted afterwards may be among them. Otherwise later entries could reach the sink before the dead letters
    /// that were resent.
    async fn read_after(
        &self,
        cursor: Seq,
        removals: bool,
    ) -> Result<Option<journal::Taken>, StepError> {
        let sink = &self.sink;
        let request = ReadRequest {
            after: cursor,
            items_max: sink.batch.items_max.saturating_mul(self.calls_max()),
            bytes_max: sink.batch.bytes_max.saturating_mul(self.calls_max()),
            wanted: &|stream, action| {
                sink.matches(stream) && (action == Action::Upsert || removals)
            },
        };
        let _cutting = self.status.cutting.lock().await;
        let taken = self.delivery.journal.read_after(request).await?;
        let is_late = self.status.is_held() || *self.commands.borrow() != self.heard;
        Ok((!is_late).then_some(taken))
    }

    /// A batch of the items that can be handed out. An item whose key is in a retry waits behind it: in a retry without
    /// an attempt, or in a part of one.
    fn without_waiting(&self, slices: Vec<Slice>, settlement: &mut Settlement) -> Batch {
        let (free, behind) = self.retries.split_new(slices);
        if !behind.is_empty() {
            let contents = self.retries.contents(&behind);
            let mut retry =
                verdict::retry(&Batch::new(behind, 1), Attempts::NONE, Lived::now(), BEHIND);
            let limits = &self.sink.batch;
            // What this step puts behind goes to the end of what is behind already, once.
            if settlement.retries.is_empty()
                && let Some(id) = self.retries.joined(&contents, retry.parts.len(), limits)
            {
                retry.id = id;
            }
            settlement.retries.push(retry);
        }
        Batch::new(free, 1)
    }

    /// Moves past entries that are irrelevant to this sink. The cursor is stored now and then only, because such an
    /// entry may be read again without harm.
    fn skip_to(&mut self, cursor: Seq, through: Seq) -> Result<Step, StepError> {
        self.status.set_cursor(through);
        if self.stored_at.elapsed() >= SKIP_STORED_EVERY {
            self.store_cursor()?;
        }
        if through > cursor {
            self.delivery.forget_passed();
            return Ok(Step::Worked);
        }
        if self.retries.is_empty() {
            self.resume();
        }
        let retry_at = self.retries.next().map(|(_, due_at)| due_at);
        let behind = self.status.cursor() > self.stored_cursor;
        let store_at = behind.then(|| Lived::now() + SKIP_STORED_EVERY);
        Ok(Step::Idle([retry_at, store_at].into_iter().flatten().min()))
    }

    /// Waits briefly under load, so that many small batches become few large ones; an idle lane continues at once. Each
    /// batch costs a commit, so a few requests more in each make the lane faster.
    async fn linger(&self) {
        let batch = &self.sink.batch;
        let linger = *batch.linger_ms;
        let was_large = self.last_items >= batch.items_max / 4;
        if !was_large
            && let Some(busy_at) = self.busy_at
            && let Some(left) = linger.checked_sub(busy_at.elapsed())
        {
            tokio::time::sleep(left).await;
        }
    }
}
