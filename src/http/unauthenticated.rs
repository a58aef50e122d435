//! How often one client may ask without a valid key: requests that are answered 401.
//!
//! `middleware` counts them.
//!
//! **Invariant**: who has a valid key is never kept waiting; one client is one address, or a network of IPv6 with 64 bits,
//! and no more clients are remembered than there is room for.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use base::clock::Lived;
use catalog::QuotaState;
use settings::party;

/// Seconds' worth of requests that may come at once.
const BURST: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// Clients that are remembered.
const CLIENTS_MAX: usize = 10_000;
/// How often, at most, all of them are looked at for those that can be forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long an answer to one that is over its rate is held back, so that it asks no faster.
const HELD_BACK: Duration = Duration::from_secs(1);

/// Requests without a valid key.
pub struct Unauthenticated {
    requests_per_second: NonZeroU32,
    rate: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, DefaultClock>,
    /// A [`Lived`], in milliseconds.
    swept_at: AtomicU64,
}

impl std::fmt::Debug for Unauthenticated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unauthenticated")
    }
}

impl Unauthenticated {
    /// So many a second of each; 0: no limit.
    pub fn new(requests_per_second: u32) -> Option<Self> {
        let rate = NonZeroU32::new(requests_per_second)?;
        let quota = Quota::per_second(rate).allow_burst(rate.saturating_mul(BURST));
        Some(Self {
            requests_per_second: rate,
            rate: RateLimiter::hashmap(quota),
            swept_at: AtomicU64::new(0),
        })
    }

    /// One more of a client. If that is too many: when the next may come, after having waited a moment.
    pub(super) async fn came(&self, address: IpAddr) -> Option<QuotaState> {
        let reset_seconds = self.over(party(address), Lived::now())?;
        tokio::time::sleep(HELD_BACK).await;
        Some(QuotaState {
            burst: self.requests_per_second.saturating_mul(BURST).get(),
            window_seconds: BURST.get(),
            remaining: 0,
            reset_seconds,
        })
    }

    fn over(&self, party: IpAddr, now: Lived) -> Option<u64> {
        let is_full = || self.rate.len() >= CLIENTS_MAX;
        if is_full() && self.may_sweep(now) {
            self.rate.retain_recent();
        }
        let party = match is_full() {
            // Until a sweep finds some that can be forgotten, whoever comes shares the rate of one client, and nobody is
            // added: the table stays as it is.
            true => IpAddr::V4(0.into()),
            false => party,
        };
        let refused = self.rate.check_key(&party).err()?;
        let wait = refused.wait_time_from(DefaultClock::default().now());
        Some(wait.as_secs().max(1))
    }

    /// Whether the last sweep is long enough ago; one of those who ask at a time is told so.
    fn may_sweep(&self, now: Lived) -> bool {
        let swept_at = self.swept_at.load(Ordering::Relaxed);
        now - Lived::from_ms(swept_at) >= SWEEP_EVERY
            && (self.swept_at)
                .compare_exchange(swept_at, now.ms(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn requests_beyond_the_rate_are_told_to_wait_and_others_are_not() {
        assert!(Unauthenticated::new(0).is_none());
        let unauthenticated = Unauthenticated::new(2).expect("a limit");
        let burst = 2 * BURST.get();
        for n in 0..burst {
            assert_eq!(
                unauthenticated.over(address("192.0.2.1"), Lived::MIN),
                None,
                "{n}"
            );
        }
        assert!(
            unauthenticated
                .over(address("192.0.2.1"), Lived::MIN)
                .is_some()
        );
        assert_eq!(unauthenticated.over(address("192.0.2.2"), Lived::MIN), None);
    }

    #[test]
    fn those_that_are_remembered_are_swept_once_a_second_and_no_more_are_added_before() {
        // At this rate all but the last can be forgotten at once.
        let unauthenticated = Unauthenticated::new(1_000_000).expect("a limit");
        let mut next = 0_u32;
        let mut come = |now| {
            next += 1;
            unauthenticated.over(IpAddr::V4(next.into()), now);
            unauthenticated.rate.len()
        };
        while come(Lived::from_ms(5_000)) < CLIENTS_MAX {}
        assert!(come(Lived::from_ms(5_000)) < CLIENTS_MAX, "the first sweep");
        while come(Lived::from_ms(5_000)) < CLIENTS_MAX {}
        for _ in 0..3 {
            assert_eq!(
                come(Lived::from_ms(5_999)),
                CLIENTS_MAX + 1,
                "others are as one"
            );
        }
        assert!(come(Lived::from_ms(6_000)) < CLIENTS_MAX, "the next sweep");
    }
}
