//! The rate limit of one key, and what is told of it.
//!
//! **Invariant**: a flood of refused requests writes one log entry a second, with a count.

use std::sync::{Mutex, PoisonError};

use super::bucket::{Bucket, Left, SECOND_NS};
use base::clock::Unix;

/// A token bucket: `burst` requests at once, refilled at `requests_per_second`.
#[derive(Debug)]
pub struct Quota {
    pub(super) bucket: Bucket,
    requests_per_second: u32,
    burst: u32,
    /// A lock is enough here, because only refused requests take it.
    flood: Mutex<Flood>,
}

/// What is left of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    /// The size of the bucket.
    pub burst: u32,
    /// Seconds in which an empty bucket fills.
    pub window_seconds: u32,
    /// Requests that may come now.
    pub remaining: u32,
    /// Whole seconds until the bucket is full again, or, for a refused request, until one fits.
    pub reset_seconds: u64,
}

/// Refusals that the log has not heard of. An entry for each would make a flood of requests a flood of entries.
#[derive(Debug, Default)]
struct Flood {
    second: u64,
    unlogged: u64,
}

impl Quota {
    /// Both at least 1; 0 counts as 1.
    pub fn new(requests_per_second: u32, burst: u32) -> Self {
        let (rate, burst) = (requests_per_second.max(1), burst.max(1));
        Self {
            bucket: Bucket::new(rate.into(), burst.into()),
            requests_per_second: rate,
            burst,
            flood: Mutex::default(),
        }
    }

    /// Whether it is such a bucket.
    pub(super) fn is_of(&self, requests_per_second: u32, burst: u32) -> bool {
        (self.requests_per_second, self.burst) == (requests_per_second.max(1), burst.max(1))
    }

    pub fn requests_per_second(&self) -> u32 {
        self.requests_per_second
    }

    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// What an untouched bucket would say.
    pub fn full(&self) -> QuotaState {
        QuotaState {
            burst: self.burst,
            window_seconds: self.burst.div_ceil(self.requests_per_second),
            remaining: self.burst,
            reset_seconds: 0,
        }
    }

    /// Takes one request from the bucket.
    ///
    /// # Errors
    /// The bucket is empty; `reset_seconds` tells when one fits, at least 1.
    pub fn take(&self) -> Result<QuotaState, QuotaState> {
        let full = self.full();
        match self.bucket.take(1, Bucket::now_ns()) {
            Ok(Left {
                remaining,
                missing_ns,
            }) => Ok(QuotaState {
                remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
                reset_seconds: missing_ns.div_ceil(SECOND_NS),
                ..full
            }),
            Err(wait_ns) => Err(QuotaState {
                remaining: 0,
                reset_seconds: wait_ns.div_ceil(SECOND_NS).max(1),
                ..full
            }),
        }
    }

    /// Notes a refused request. Returns how many the log should speak of now: the first of a second
    /// counts all that came since the last log entry, the others wait.
    pub fn note_refusal(&self, now: Unix) -> Option<u64> {
        let mut flood = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
        flood.unlogged += 1;
        let second = now.seconds();
        if second == flood.second {
            return None;
        }
        flood.second = second;
        Some(std::mem::take(&mut flood.unlogged))
    }

    /// Refusals of earlier seconds that the log has not heard of. The last ones of a flood would otherwise wait for the
    /// next flood.
    pub fn unlogged_refusals(&self, now: Unix) -> Option<u64> {
        let mut flood = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
        if flood.unlogged == 0 || flood.second == now.seconds() {
            return None;
        }
        Some(std::mem::take(&mut flood.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::Quota;
    use base::clock::Unix;

    #[test]
    fn the_bucket_holds_the_burst_and_tells_what_is_left() {
        let quota = Quota::new(1, 3);
        for remaining in [2, 1, 0] {
            assert_eq!(quota.take().map(|state| state.remaining), Ok(remaining));
        }
        let refused = quota.take().expect_err("the bucket is empty");
        assert_eq!((refused.reset_seconds, refused.window_seconds), (1, 3));
    }

    #[test]
    fn a_flood_is_one_log_entry_a_second_and_none_is_forgotten() {
        let quota = Quota::new(1, 1);
        assert_eq!(quota.note_refusal(Unix::from_ms(5_000)), Some(1));
        for _ in 0..41 {
            assert_eq!(quota.note_refusal(Unix::from_ms(5_999)), None);
        }
        assert_eq!(
            quota.unlogged_refusals(Unix::from_ms(5_999)),
            None,
            "the second is not over"
        );
        assert_eq!(quota.note_refusal(Unix::from_ms(6_000)), Some(42));
        assert_eq!(quota.note_refusal(Unix::from_ms(6_001)), None);
        assert_eq!(quota.unlogged_refusals(Unix::from_ms(7_000)), Some(1));
        assert_eq!(quota.unlogged_refusals(Unix::from_ms(8_000)), None);
    }
}
