//! Divides batches whose results one entry of the cluster's log cannot take: their parts become retries, which are settled one
//! by one. Daemons without a cluster never do so.
//!
//! **Invariant**: an item is given up only if its results alone are too large. The order of the items of a key stays.

use super::{Lane, Step, StepError};
use crate::verdict::{self, Attempts};
use base::clock::{Lived, Unix};
use item::batch::{Batch, Slice};
use pool::Settlement;

/// Reason of a retry that is a part of a batch.
const DIVIDED: &str = "the results of a larger batch were too large to be stored at once";

impl StepError {
    /// Whether the results of the step are to be stored in parts.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, Self::Pool(error) if error.is_too_large())
    }
}

impl Lane {
    /// Whether results of this number of items are stored in parts already if they are large. Calls of others are not
    /// repeated for that, because their effects are final.
    pub(super) fn can_divide(&self, items: usize) -> bool {
        items > 1 && !self.reaches_others()
    }

    /// What became of new batches; if their results are too large, the next step divides them. Instances are dropped,
    /// because they may remember what was not stored.
    pub(super) fn divides(&mut self, taken: Result<Step, StepError>) -> Result<Step, StepError> {
        let too_large = taken.as_ref().err().filter(|error| error.is_too_large());
        self.is_dividing = too_large.is_some();
        let Some(error) = too_large else {
            return taken;
        };
        tracing::info!(sink = &*self.name, %error, "the results of the sink are stored in parts");
        // What it did since is not stored.
        self.instances.clear();
        Ok(Step::Worked)
    }

    /// Makes retries of the halves of new batches, in place of calls.
    pub(super) async fn divide(
        &mut self,
        batches: &[Batch],
        mut settlement: Settlement,
    ) -> Result<Step, StepError> {
        for batch in batches {
            halve(batch, Attempts::FIRST, &mut settlement);
        }
        self.settle(settlement).await?;
        Ok(Step::Worked)
    }

    /// The same of a retry whose results were too large, in place of another attempt. One item becomes a dead letter.
    pub(super) fn divide_retry(
        &mut self,
        batch: &Batch,
        attempts: Attempts,
        reason: &str,
        settlement: &mut Settlement,
    ) {
        match batch.len() {
            0 => {}
            1 => {
                give_up(batch, attempts, reason, settlement);
                self.note_failed(false, true, attempts.batch, reason);
            }
            _ => halve(batch, Attempts::FIRST, settlement),
        }
    }
}

/// The halves of the batch are retried, or its one item.
fn halve(batch: &Batch, attempts: Attempts, settlement: &mut Settlement) {
    let now = Lived::now();
    let retry = |batch: &Batch| verdict::retry(batch, attempts, now, DIVIDED);
    match batch.halves() {
        Some((left, right)) => settlement.retries.extend([&left, &right].map(retry)),
        None => settlement.retries.push(retry(batch)),
    }
}

fn give_up(batch: &Batch, attempts: Attempts, reason: &str, settlement: &mut Settlement) {
    let all = attempts.earlier.saturating_add(attempts.batch);
    let letters = verdict::letters(batch, all, reason, Unix::now());
    settlement.dead_letters.extend(letters);
}

/// About the bytes of a batch: the whole of each request that it has items of. An estimate is enough, because it bounds
/// memory only.
pub(super) fn bytes_of(batch: &Batch) -> usize {
    let slices = batch.slices().iter();
    slices
        .map(|slice: &Slice| slice.entry.items.byte_len())
        .sum()
}

#[cfg(test)]
mod tests;
