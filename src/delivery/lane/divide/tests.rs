//! Unit tests of `lane/divide.rs`.

use super::{bytes_of, give_up, halve};
use crate::verdict::Attempts;
use crate::verdict::tests::batch;
use pool::Settlement;

/// First and last position of each retry.
fn parts(settlement: &Settlement) -> Vec<(u32, u32)> {
    let parts = settlement.retries.iter().flat_map(|retry| &retry.parts);
    parts.map(|part| (part.1.get(), part.2.get())).collect()
}

#[test]
fn a_batch_is_halved_in_its_order_until_one_item_is_left() {
    let mut settlement = Settlement::default();
    halve(&batch(5), Attempts::FIRST, &mut settlement);
    assert_eq!(parts(&settlement), [(0, 2), (2, 5)]);
    assert!(settlement.retries.iter().all(|retry| retry.attempts == 1));
    // With others it may have been too much; alone it is tried once.
    let mut settlement = Settlement::default();
    halve(&batch(1), Attempts::FIRST, &mut settlement);
    assert_eq!(parts(&settlement), [(0, 1)]);
    assert!(settlement.dead_letters.is_empty());
}

#[test]
fn an_item_that_is_too_large_alone_is_a_dead_letter_with_the_reason() {
    let mut settlement = Settlement::default();
    let attempts = Attempts {
        batch: 1,
        earlier: 2,
    };
    give_up(&batch(1), attempts, "too large", &mut settlement);
    assert!(settlement.retries.is_empty());
    let [letter] = &settlement.dead_letters[..] else {
        panic!("{settlement:?}");
    };
    assert_eq!((&*letter.reason, letter.attempts), ("too large", 3));
}

#[test]
fn the_bytes_of_a_batch_are_those_of_its_requests() {
    let one = batch(100);
    assert!(bytes_of(&one) > 200, "{}", bytes_of(&one));
}
