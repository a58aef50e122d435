//! An attempt at a batch: reads it, calls the plugin, and returns the rest.
//!
//! The lane's steps call it; `delivery/verdict.rs` decides about the rest.
//!
//! **Invariant**: a retry has the stored items of its batch; items that cannot be read become dead letters of every
//! sink.

mod call;

use super::{Lane, Step, StepError, trace};
use crate::retries::lost_list;
use crate::verdict;
use crate::verdict::Attempts;
use base::clock::Unix;
use base::order::Seq;
pub(super) use call::{Called, Prepared};
use item::batch::{Batch, BatchOrigin};
use plugin::{Failure, NotTaken, Progress, Taken};
use pool::{Part, Retry, Settlement};
use settings::Ordering;

/// After this number of instances in a row that keep handles, the plugin counts as broken. A single one is no reason to
/// alarm an operator.
const HOARDERS_MAX: u32 = 10;
/// Attempts at a batch after which a sink that has accepted nothing since is failing.
const ATTEMPTS_BEFORE_FAILING: u32 = 3;
/// Pauses of a lane until they reach the maximum. From then on, the only retry that can be tried is at fault. Otherwise
/// a bad batch would hold up all others for ever.
const PAUSES_BEFORE_BLAME: u32 = 7;

impl Lane {
    /// Retries a batch that failed, or that waited behind one that failed. A paused lane finds out in this way whether
    /// the sink works again. The batch may not be at fault then, so the attempt does not count. It does count if
    /// nothing else could ever end a bad batch that holds up all others.
    pub(super) async fn try_again(&mut self, id: i64) -> Result<Step, StepError> {
        match self.attempt(id, None).await {
            Err(error) if error.is_too_large() => {
                self.instances.clear();
                self.attempt(id, Some(&error.to_string())).await
            }
            tried => tried,
        }
    }

    /// The same, but for the call if its results were `too_large` to be stored. If the retry is gone, an operator has
    /// made dead letters of it meanwhile.
    async fn attempt(&mut self, id: i64, too_large: Option<&str>) -> Result<Step, StepError> {
        let Some(retry) = self.delivery.pool.retry(&self.name, id)? else {
            // Somebody has given it up.
            self.retries.remove(id);
            return Ok(Step::Worked);
        };
        let mut settlement = self.settlement();
        let attempts = Attempts::of(&retry);
        let batch = self.batch_of(&retry, &mut settlement).await?;
        let is_split = self.split_off_blocked(&retry, &batch, &mut settlement);
        settlement.retry_done = Some(retry);
        if let Some(reason) = too_large.filter(|_| !is_split) {
            self.divide_retry(&batch, attempts.next(), reason, &mut settlement);
        }
        if is_split || batch.is_empty() || too_large.is_some() {
            self.settle(settlement).await?;
            return Ok(Step::Worked);
        }
        settlement.is_divisible = self.can_divide(batch.len() as usize);
        let failed = match self.write(batch.clone()).await? {
            Ok(taken) => {
                let Taken { staged, rejected } = taken;
                settlement.staged = staged;
                self.note_taken(&batch, &rejected);
                verdict::dead_letter(&batch, attempts.next(), rejected, &mut settlement);
                self.settle(settlement).await?;
                self.succeeded(&batch);
                return Ok(Step::Worked);
            }
            Err(failed) => failed,
        };
        settlement.staged = failed.staged;
        let (progress, failure) = (failed.progress, failed.failure);
        let took_some = progress.taken > 0;
        let (rest, counted) = self.rest(batch, attempts.next(), progress, &mut settlement);
        let reason = failure.to_string();
        let probing = self.pauses > 0;
        let works = matches!(failure, Failure::Reject { .. });
        // Otherwise new batches tell whether the sink is down.
        let is_down = self.holds_up() && self.is_down_after(&failure);
        if probing && !works && !self.must_end() {
            verdict::defer(&self.sink, &rest, attempts, &reason, &mut settlement);
        } else {
            let before = settlement.dead_letters.len();
            verdict::schedule_retry(&self.sink, &rest, counted, failure, &mut settlement);
            let given_up = settlement.dead_letters.len() > before;
            self.note_failed(took_some, given_up, counted.batch, &reason);
        }
        self.settle(settlement).await?;
        if probing && works {
            self.resume();
        } else if probing || is_down {
            return Ok(self.pause(&reason));
        }
        Ok(Step::Worked)
    }

    /// The batch of a retry, for its next attempt. Items that cannot be read become dead letters.
    async fn batch_of(
        &self,
        retry: &Retry,
        settlement: &mut Settlement,
    ) -> Result<Batch, StepError> {
        let attempt = retry.attempts + 1;
        if retry.origin != BatchOrigin::Journal {
            let slices = self.delivery.pool.resent(retry.id)?;
            return Ok(Batch::of(retry.origin, slices, attempt));
        }
        if retry.parts.is_empty() {
            let lost = vec![(retry.seqs.0, lost_list(retry))];
            self.dead_letter(lost, settlement).await?;
        }
        self.read(&retry.parts, attempt, settlement).await
    }

    /// Splits a retry if some of its keys wait in an earlier one. The parts are stored before the sink is called.
    /// Otherwise one key could overtake itself.
    fn split_off_blocked(&self, retry: &Retry, batch: &Batch, settlement: &mut Settlement) -> bool {
        let Some((free, blocked)) = self.retries.split_retry(retry.id, batch.slices()) else {
            return false;
        };
        for slices in [free, blocked].into_iter().filter(|one| !one.is_empty()) {
            let part = Batch::of(retry.origin, slices, 1);
            let part = verdict::retry(&part, Attempts::of(retry), retry.due_at, &retry.reason);
            settlement.retries.push(part);
        }
        true
    }

    /// Whether new entries wait for a retry, so that none of them shows whether the sink works.
    pub(super) fn holds_up(&self) -> bool {
        self.sink.ordering == Ordering::Strict || self.retries.has_behind() || self.is_filling()
    }

    /// Whether attempts count although the lane is paused. They do not where retries of other keys can show that the
    /// sink works: a sink that is down for a few minutes then costs no attempts.
    fn must_end(&self) -> bool {
        self.sink.ordering == Ordering::Strict
            || (self.retries.is_alone() && self.pauses >= PAUSES_BEFORE_BLAME)
    }

    /// Records that the sink accepted a batch, except for the rejected items.
    pub(super) fn note_taken(&mut self, batch: &Batch, rejected: &[(u32, String)]) {
        let all = rejected.len() >= batch.len() as usize;
        let reason = rejected.last().filter(|_| all).map(|(_, reason)| reason);
        let reason = reason.map(|reason| given_up(reason));
        self.note_failing(reason);
    }

    /// Records that the sink did not accept a batch, with the number of the attempt.
    pub(super) fn note_failed(
        &mut self,
        took_some: bool,
        is_given_up: bool,
        attempt: u32,
        reason: &str,
    ) {
        let failing = match (took_some, is_given_up) {
            (true, _) => None,
            (false, true) => Some(given_up(reason)),
            (false, false) if attempt > ATTEMPTS_BEFORE_FAILING => {
                Some(format!("its last batch failed {attempt} times: {reason}"))
            }
            (false, false) => return,
        };
        self.note_failing(failing);
    }

    /// Records why the sink is failing, or that it is not. The next settlement stores it, for the next start. Otherwise
    /// a start would show a failing sink as running.
    pub(super) fn note_failing(&mut self, reason: Option<String>) {
        if self.status.set_takes_nothing(reason.clone()) {
            self.failing = Some(reason);
        }
    }

    /// The rest of a batch that the sink did not accept. If the sink settled a part of it, it works.
    pub(super) fn rest(
        &mut self,
        batch: Batch,
        attempts: Attempts,
        progress: Progress,
        settlement: &mut Settlement,
    ) -> (Batch, Attempts) {
        if progress.taken > 0 {
            self.failures = 0;
            self.resume();
        }
        verdict::rest(batch, attempts, progress, settlement)
    }

    /// Reads a batch from the journal, as it was stored. Items that cannot be read become dead letters.
    pub(super) async fn read(
        &self,
        parts: &[Part],
        attempt: u32,
        settlement: &mut Settlement,
    ) -> Result<Batch, StepError> {
        let (slices, gone) = self.delivery.read_parts(parts).await?;
        self.dead_letter(gone, settlement).await?;
        Ok(Batch::new(slices, attempt))
    }

    /// Calls the plugin. The outer error is that an instance could not be started, or did something without permission:
    /// its batches are not at fault.
    pub(super) async fn write(
        &mut self,
        batch: Batch,
    ) -> Result<Result<Taken, NotTaken>, StepError> {
        match self.prepare(batch).await? {
            Prepared::Decided(not_taken) => Ok(Err(not_taken)),
            Prepared::Call(call) => {
                let called = call.make().await;
                self.conclude(called)
            }
        }
    }

    /// Evaluates a call that was made. An instance that trapped is dropped, because its memory may be in any state.
    pub(super) fn conclude(
        &mut self,
        called: Called,
    ) -> Result<Result<Taken, NotTaken>, StepError> {
        let Called {
            instance,
            spans,
            result,
        } = called;
        let Some(result) = result else {
            return Err(StepError::LeaseOver);
        };
        trace::failed(&mut self.spans[spans], &result);
        let traps =
            matches!(&result, Err(not_taken) if matches!(not_taken.failure, Failure::Trap { .. }));
        if !traps {
            self.instances.push(instance);
        }
        if let Err(NotTaken { failure, .. }) = &result {
            if let Failure::NotGranted { reason } = failure {
                return Err(StepError::NotGranted(reason.clone()));
            }
            if traps {
                self.delivery.metrics.sink_traps.inc();
            }
            self.delivery.metrics.sink_failures.inc();
            let reason = failure.to_string();
            tracing::warn!(sink = &*self.name, reason = %reason.escape_debug(), "sink failed to process a batch");
            self.status.set_last_error(Unix::now(), &reason);
        }
        Ok(result)
    }

    /// Counts an instance that kept handles. If it happens occasionally, the instance is replaced; otherwise the plugin
    /// is broken.
    fn leaks_handles(&mut self) {
        self.hoarders = self.hoarders.saturating_add(1);
        if self.hoarders == HOARDERS_MAX {
            let reason = format!(
                "the plugin leaks batch or request handles ({HOARDERS_MAX} instances replaced in a row); drop every handle before `write` returns"
            );
            tracing::error!(sink = &*self.name, reason, "the sink fails");
            self.status.set_misbehaves(Some(reason));
        }
    }

    pub(super) fn note_healthy(&mut self) {
        if self.hoarders >= HOARDERS_MAX {
            self.status.set_misbehaves(None);
            tracing::info!(sink = &*self.name, "the plugin no longer leaks handles");
        }
        self.hoarders = 0;
    }

    /// Quarantines unreadable entries once; they become dead letters of every sink. The bytes are kept, so that an
    /// operator can look at them.
    pub(super) async fn give_up_unreadable(
        &self,
        taken: &mut journal::Taken,
        settlement: &mut Settlement,
    ) -> Result<(), StepError> {
        for (seq, reason) in &taken.corrupt {
            tracing::error!(
                sink = &*self.name,
                seq = seq.get(),
                reason,
                "unreadable payload quarantined"
            );
            self.delivery.journal.quarantine(*seq, reason.clone())?;
        }
        let mut unreadable = std::mem::take(&mut taken.corrupt);
        unreadable.append(&mut taken.quarantined);
        self.dead_letter(unreadable, settlement).await
    }

    /// Makes dead letters of entries of which only the request log is left.
    async fn dead_letter(
        &self,
        unreadable: Vec<(Seq, String)>,
        settlement: &mut Settlement,
    ) -> Result<(), StepError> {
        let letters = self.delivery.letters_of(unreadable).await?;
        settlement.dead_letters.extend(letters);
        Ok(())
    }
}

fn given_up(reason: &str) -> String {
    format!("its last batch became dead letters: {reason}")
}
