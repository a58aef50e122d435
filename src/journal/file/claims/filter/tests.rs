//! Unit tests of `file/claims/filter.rs`.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

fn key(number: u64) -> Key {
    let digest = Sha256::digest(number.to_le_bytes());
    std::array::from_fn(|at| digest[at])
}

proptest! {
    #[test]
    fn what_was_put_in_passes(
        runs in prop::collection::vec(prop::collection::vec(0..1_u64 << 40, 0..600), 1..9),
        removed in 0..9_usize,
    ) {
        let blocks = blocks_for(200);
        let mut filters = Filters::new(blocks);
        let mut runs: Vec<Vec<Key>> =
            runs.into_iter().map(|run| run.into_iter().map(key).collect()).collect();
        for keys in &runs {
            let filter = Filter::of(blocks, keys.iter());
            let stored = Filter::from_bytes(blocks, &filter.to_bytes());
            prop_assert_eq!(stored.as_ref(), Some(&filter));
            filters.push(&filter);
        }
        if removed < runs.len() {
            let keys = runs.swap_remove(removed);
            let filter = filters.swap_remove(removed);
            prop_assert_eq!(filter, Filter::of(blocks, keys.iter()));
        }
        for (at, keys) in runs.iter().enumerate() {
            for key in keys {
                prop_assert!(filters.passing(key).any(|passing| passing == at));
            }
        }
    }

    #[test]
    fn a_stored_filter_that_was_changed_is_noticed(at in 0..324_usize, bit in 0..8_u32) {
        let keys: Vec<Key> = (0..100).map(key).collect();
        let mut bytes = Filter::of(5, keys.iter()).to_bytes();
        assert_eq!(bytes.len(), 324);
        assert_eq!(Filter::from_bytes(6, &bytes), None);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(Filter::from_bytes(5, &bytes), None);
        prop_assert_eq!(Filter::from_bytes(5, &bytes[..at]), None);
    }
}

#[test]
fn few_others_pass_and_a_key_takes_less_than_three_bytes() {
    const KEYS: u64 = 100_000;
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let filter = Filter::of(blocks_for(keys.len()), keys.iter());
    let bytes = filter.to_bytes().len() as f64 / KEYS as f64;
    assert!(bytes < 2.7, "{bytes} bytes a key");
    let mut filters = Filters::new(filter.blocks.len());
    filters.push(&filter);
    let others = KEYS..11 * KEYS;
    let passed = others.map(|number| filters.passing(&key(number)).count());
    let share = passed.sum::<usize>() as f64 / (10 * KEYS) as f64;
    assert!(share < 0.000_25, "{share}");
}
