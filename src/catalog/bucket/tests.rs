//! Unit tests of `bucket.rs`.

use super::*;

/// Takes single units until one is refused.
fn drain(bucket: &Bucket, now_ns: u64) -> u64 {
    let mut taken = 0;
    while bucket.take(1, now_ns).is_ok() {
        taken += 1;
    }
    taken
}

#[test]
fn it_holds_the_burst_and_fills_at_the_rate() {
    for (rate, burst) in [(1, 1), (3, 5), (7, 100), (1_000, 2_000), (999_983, 17)] {
        let bucket = Bucket::new(rate, burst);
        assert_eq!(drain(&bucket, 0), burst, "{rate} {burst}");
        let later = (burst * SECOND_NS).div_ceil(rate) + 1;
        assert_eq!(drain(&bucket, later), burst, "{rate} {burst}");
    }
}

#[test]
fn shares_of_all_nodes_together_are_the_bucket() {
    let nodes: Vec<Bucket> = (0..4).map(|_| Bucket::new(1_000, 2_000)).collect();
    for (node, parts) in nodes.iter().zip([32_768, 16_384, 8_192, 8_192]) {
        node.set_share(NodeShare::of_parts(parts), 0);
    }
    let taken: Vec<u64> = nodes.iter().map(|node| drain(node, 0)).collect();
    assert_eq!(taken, [1_000, 500, 250, 250]);
    let taken: Vec<u64> = nodes.iter().map(|node| drain(node, SECOND_NS)).collect();
    assert_eq!(taken, [500, 250, 125, 125]);
}

#[test]
fn a_share_that_grows_gives_nothing_at_once_and_a_small_one_lets_one_through() {
    let bucket = Bucket::new(100, 200);
    bucket.set_share(NodeShare::of_parts(655), 0);
    assert_eq!(drain(&bucket, 0), 1, "1 % of 200");
    bucket.set_share(NodeShare::WHOLE, 0);
    assert!(drain(&bucket, 0) <= 1);
    assert_eq!(drain(&bucket, 3 * SECOND_NS), 200);
    let slow = Bucket::new(1, 1);
    slow.set_share(NodeShare::of_parts(NodeShare::WHOLE.parts() / 4), 0);
    assert_eq!(drain(&slow, 0), 1, "also where its share is less than one");
    assert_eq!(
        slow.take(1, SECOND_NS).map(|left| left.remaining),
        Err(3 * SECOND_NS)
    );
    assert_eq!(drain(&slow, 4 * SECOND_NS), 1);
}

#[test]
fn what_is_wanted_is_counted_while_others_have_a_share() {
    let bucket = Bucket::new(10, 10);
    drain(&bucket, 0);
    assert_eq!(bucket.take_wanted(), 0);
    bucket.set_share(NodeShare::of_parts(6_554), 0);
    assert_eq!(drain(&bucket, 0), 0);
    assert_eq!(bucket.take_wanted(), 1, "what is refused counts as well");
    assert_eq!(bucket.take_wanted(), 0);
}
