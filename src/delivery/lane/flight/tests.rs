//! Unit tests of `lane/flight.rs`.

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
