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

    /// Calls the plugin with each batch concurrently. The outer error is that of [`Lane::write`]; all batches are then
    /// retried.
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

/// Batches of about this number of items each.
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use base::clock::Unix;
    use base::order::Seq;
    use item::batch::Entry;
    use item::flatten::{FlattenLimits, flatten};
    use proptest::prelude::*;
    use uuid::Uuid;

    fn entry(seq: u64, keys: &[u8]) -> Slice {
        let items: Vec<String> = keys
            .iter()
            .map(|key| format!("{{\"id\":\"{key}\"}}"))
            .collect();
        let body = format!("[{}]", items.join(","));
        let limits = FlattenLimits {
            flattened_bytes_max: 1 << 20,
            item_bytes_max: 1 << 20,
        };
        Slice::whole(Arc::new(Entry {
            seq: Seq::new(seq),
            request_id: Uuid::nil(),
            stream: "orders".into(),
            received_at: Unix::from_ms(1),
            arrived: None,
            items: flatten(body.as_bytes(), Some("id"), limits).expect("items"),
        }))
    }

    /// Entry, position and key of each item.
    fn items(batches: &[Batch]) -> Vec<(Seq, u32, String)> {
        let slices = batches.iter().flat_map(|batch| batch.slices());
        let items = slices.flat_map(|slice| {
            let places = (slice.start..slice.end).zip(slice.items());
            places.map(|(at, (_, item))| (slice.entry.seq, at, item.key.to_owned()))
        });
        items.collect()
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_batch_behind_those_of_its_key(
            entries in prop::collection::vec(prop::collection::vec(0_u8..12, 1..8), 1..8),
            each in 1_usize..10,
        ) {
            let slices: Vec<Slice> = entries.iter().zip(1..).map(|(keys, seq)| entry(seq, keys)).collect();
            let whole = items(&[Batch::new(slices.clone(), 1)]);
            let batches = spread(&slices, each);
            let mut all = items(&batches);
            all.sort();
            prop_assert_eq!(&all, &whole);
            prop_assert!(batches.len() <= whole.len().div_ceil(each));
            let mut home = HashMap::new();
            for (number, batch) in batches.iter().enumerate() {
                let own = items(std::slice::from_ref(batch));
                prop_assert!(own.is_sorted(), "{own:?}");
                for (.., key) in own {
                    prop_assert_eq!(*home.entry(key).or_insert(number), number);
                }
            }
        }
    }
}
