//! The pauses between attempts.
//!
//! **Invariant**: pauses grow, have a ceiling, and are jittered, so that many failures do not come
//! back at the same moment.

use crate::config::Retry;

/// Milliseconds before the next attempt, after `attempts` failed ones: doubles from `first_ms` up to
/// `max_ms`, times a random factor between one half and one.
pub(super) fn pause_ms(retry: &Retry, attempts: u32) -> u64 {
    let doublings = attempts.saturating_sub(1).min(32);
    let full = retry
        .first_ms
        .saturating_mul(1_u64 << doublings)
        .clamp(1, retry.max_ms.max(1));
    let half = full / 2;
    half + random() % (full - half + 1)
}

fn random() -> u64 {
    getrandom::u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::pause_ms;
    use crate::config::Retry;

    #[test]
    fn pauses_double_up_to_the_ceiling_and_are_jittered() {
        let retry = Retry {
            first_ms: 100,
            max_ms: 1_000,
            attempts: 12,
        };
        for (attempts, full) in [
            (1, 100),
            (2, 200),
            (3, 400),
            (4, 800),
            (5, 1_000),
            (90, 1_000),
        ] {
            for _ in 0..200 {
                let pause = pause_ms(&retry, attempts);
                assert!(
                    (full / 2..=full).contains(&pause),
                    "{attempts}: {pause} of {full}"
                );
            }
        }
    }
}
