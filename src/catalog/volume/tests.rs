//! Unit tests of `volume.rs`.

use std::time::Duration;

use super::*;

/// Noon of some day.
const NOON: Unix = Unix::from_ms((20_000 * DAY_SECONDS + DAY_SECONDS / 2) * 1_000);
const HALF_DAY: Duration = Duration::from_hours(12);

fn volume(bytes_per_second: u64, bytes_per_day: u64) -> Volume {
    Volume::new(VolumeLimits::new(bytes_per_second, bytes_per_day, 1_000))
}

#[test]
fn the_rate_lets_the_largest_body_through_and_tells_when_the_next_fits() {
    let volume = volume(100, 0);
    assert_eq!(volume.limits().burst_bytes, 1_000);
    assert_eq!(volume.take_at(1_000, 0, NOON), Ok(()));
    let over = volume.take_at(150, 0, NOON).expect_err("it is empty");
    assert_eq!((over.per, over.retry_after_seconds), ("second", 2));
    let left = volume.left_at(0, NOON).rate.expect("a rate");
    assert_eq!(
        (left.remaining, left.reset_seconds, left.window_seconds),
        (0, 10, 10)
    );
    assert_eq!(
        volume.take_at(150, SECOND_NS, NOON),
        Err(OverVolume {
            retry_after_seconds: 1,
            ..over
        })
    );
    assert_eq!(volume.take_at(150, 2 * SECOND_NS, NOON), Ok(()));
    assert_eq!(
        volume.stored_on(20_000),
        1_150,
        "what is refused is not counted"
    );
    assert_eq!(volume.left_at(0, NOON).day, None);
}

#[test]
fn a_day_is_counted_exactly_and_ends_at_midnight() {
    let volume = volume(0, 1_000);
    assert_eq!(volume.take_at(600, 0, NOON), Ok(()));
    let over = volume.take_at(401, 0, NOON).expect_err("too much");
    assert_eq!((over.per, over.retry_after_seconds), ("day", 43_200));
    assert_eq!(volume.take_at(400, 0, NOON), Ok(()));
    assert!(
        volume
            .take_at(1, 0, NOON + HALF_DAY - Duration::from_millis(1))
            .is_err()
    );
    assert_eq!(
        volume.take_at(5_000, 0, NOON + HALF_DAY),
        Ok(()),
        "the first"
    );
    assert!(volume.take_at(1, 0, NOON + HALF_DAY).is_err());
    // Whoever set the clock wrong is not held to it.
    assert_eq!(volume.take_at(1, 0, NOON), Ok(()));
}

#[test]
fn what_was_not_stored_is_given_back() {
    let volume = volume(100, 1_000);
    assert_eq!(volume.take_at(1_000, 0, NOON), Ok(()));
    volume.give_back(1_000);
    assert_eq!(volume.stored_on(20_000), 0);
    assert_eq!(volume.take_at(1_000, 0, NOON), Ok(()));
    let unlimited = Volume::new(VolumeLimits::default());
    for _ in 0..3 {
        assert_eq!(unlimited.take_at(u64::MAX, 0, NOON), Ok(()));
    }
    assert_eq!(unlimited.stored_on(20_000), BYTES_MASK);
}

#[test]
fn what_was_stored_before_counts_on_its_own_day_only() {
    let volume = volume(0, 1_000);
    volume.restore((19_999, 900));
    assert_eq!(
        (volume.stored_on(19_999), volume.stored_on(20_000)),
        (900, 0)
    );
    assert_eq!(volume.unwritten(), None);
    assert_eq!(volume.take_at(1_000, 0, NOON), Ok(()));
    assert_eq!(volume.unwritten(), Some((20_000, 1_000)));
}

#[test]
fn what_other_nodes_store_counts_on_its_own_day() {
    let volume = volume(0, 1_000);
    volume.set_elsewhere((20_000, 900));
    assert_eq!(volume.stored_on(20_000), 900);
    assert!(volume.take_at(101, 0, NOON).is_err());
    assert_eq!(volume.take_at(100, 0, NOON), Ok(()));
    assert_eq!(volume.unwritten(), Some((20_000, 100)), "its own alone");
    assert_eq!(volume.stored_on(20_000), 1_000);
    assert_eq!(volume.take_at(1_000, 0, NOON + HALF_DAY), Ok(()));
}

#[test]
fn requests_at_the_same_moment_share_one_limit() {
    let volume = volume(0, 1_000);
    let taken: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let fits = |_: &u64| volume.take_at(7, 0, NOON).is_ok();
                    (0..100).filter(fits).count() as u64
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|one| one.join().expect("it ends"))
            .sum()
    });
    assert_eq!(taken, 142);
    assert_eq!(volume.stored_on(20_000), 994);
}
