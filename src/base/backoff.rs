//! The pauses between attempts.
//!
//! Lanes, `send` and `tail` wait like this after a failure.
//!
//! **Invariant**: pauses grow, have a ceiling, and are jittered, so that what failed together does not come back at
//! the same moment.

use std::time::Duration;

/// The pause after so many failures in a row, counted from 1: doubles from `first` up to `max`, and is drawn from its
/// upper half.
pub fn pause(first: Duration, max: Duration, failures: u32) -> Duration {
    // Without randomness, pauses are merely regular.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    drawn(first, max, failures, random)
}

/// A random number below `below`.
pub fn jitter(below: u32) -> u32 {
    getrandom::u32().unwrap_or(0) % below.max(1)
}

fn drawn(first: Duration, max: Duration, failures: u32, random: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = first.saturating_mul(1 << doublings).min(max);
    full.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_ceiling_and_stay_in_their_upper_half() {
        let check = |failures, random, millis| {
            let (first, max) = (Duration::from_millis(500), Duration::from_secs(15));
            let pause = drawn(first, max, failures, random);
            assert_eq!(pause.as_millis(), millis, "{failures}, {random}");
        };
        check(0, u32::MAX, 500);
        check(1, u32::MAX, 500);
        check(1, 0, 250);
        check(2, u32::MAX, 1_000);
        check(5, u32::MAX, 8_000);
        check(6, u32::MAX, 15_000);
        check(u32::MAX, 0, 7_500);
    }

    #[test]
    fn pauses_are_jittered() {
        let hour = Duration::from_secs(3_600);
        let pauses: std::collections::HashSet<_> = (0..8).map(|_| pause(hour, hour, 1)).collect();
        assert!(pauses.len() > 1, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (hour / 2..=hour).contains(pause)));
        assert_eq!(jitter(1), 0);
    }
}
