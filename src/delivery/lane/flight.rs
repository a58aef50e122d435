//! Concurrent calls of a sink that waits for others.
//!
//! `take.rs` calls it for new entries. It spreads them over batches that have no key in common, so the operations of
//! one key stay in order. The batches are called concurrently and settled together.
//!
//! **Invariant**: each item is in exactly one batch, and all items of one key are in the same, in order of acceptance.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::attempt::Prepared;
use super::{Lane, StepError};
use item::batch::{Batch, Slice};
use plugin::{NotTaken, Taken};

impl Lane {
    /// Maximum number of concurrent calls of the sink; a paused lane makes one call, to test whether the sink works
    /// again.
    pub(super) fn calls_max(&self) -> usize {
        match self.pauses {
            0 => self.sink.in_flight,
            _ => 1,
        }
    }

    /// Splits a batch until each part has the size of a batch, within the maximum number of calls.
    pub(super) fn spread(&self, batch: Batch) -> Vec<Batch> {
        let calls_max = self.calls_max();
        if calls_max == 1 {
            return vec![batch];
        }
        let limits = &self.sink.batch;
        let items = batch.len() as usize;
        let all = batch.slices().iter().flat_map(Slice::items);
        let bytes: usize = all
            .map(|(_, item)| item.key.len() + item.fields.len())
            .sum();
        let (by_items, by_bytes) = (
            items.div_ceil(limits.items_max),
            bytes.div_ceil(limits.bytes_max),
        );
        match by_items.max(by_bytes).min(calls_max) {
            0 | 1 => vec![batch],
            count => spread(batch.slices(), items.div_ceil(count)),
        }
    }

    /// Calls the plugin with each batch concurrently. The outer error is that of [`Lane::write`]; all batches are
    /// then retried, because they are settled in one step. All are prepared before the first is made, because preparing
    /// needs the lane and making does not.
    pub(super) async fn write_all(
        &mut self,
        batches: &[Batch],
    ) -> Result<Vec<Result<Taken, NotTaken>>, StepError> {
        let mut prepared = Vec::with_capacity(batches.len());
        for batch in batches {
            prepared.push(self.prepare(batch.clone()).await?);
        }
        let made = prepared.into_iter().map(async |one| match one {
            Prepared::Decided(not_taken) => Err(not_taken),
            Prepared::Call(call) => Ok(call.make().await),
        });
        let called = join_all(made).await;
        let mut results = Vec::with_capacity(called.len());
        let mut refused = None;
        for called in called {
            let result =
                called.map_or_else(|not_taken| Ok(Err(not_taken)), |one| self.conclude(one));
            match result {
                Ok(result) => results.push(result),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }
}

/// Batches of about this number of items each. A key that was met before goes to its first batch, even if that is full,
/// so that its order stays.
fn spread(slices: &[Slice], items_each: usize) -> Vec<Batch> {
    let mut batches: Vec<(Vec<Slice>, usize)> = vec![(Vec::new(), 0)];
    let mut of_key: HashMap<(&str, &str), usize> = HashMap::new();
    for slice in slices {
        for (index, (_, item)) in (slice.start..slice.end).zip(slice.items()) {
            if batches
                .last()
                .is_some_and(|(_, items)| *items >= items_each)
            {
                batches.push((Vec::new(), 0));
            }
            let newest = batches.len() - 1;
            let key = (&*slice.entry.stream, item.key);
            let (batch, items) = &mut batches[*of_key.entry(key).or_insert(newest)];
            *items += 1;
            Slice::add(batch, slice, index);
        }
    }
    let batches = batches.into_iter().filter(|(_, items)| *items > 0);
    batches.map(|(slices, _)| Batch::new(slices, 1)).collect()
}

#[cfg(test)]
mod tests;
