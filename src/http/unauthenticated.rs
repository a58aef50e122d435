//! Rate limit for clients without a valid key: for requests that are answered with 401.
//!
//! `middleware` counts them.
//!
//! **Invariant**: a client with a valid key is never delayed. A client is one address, or an IPv6 network of 64 bits.
//! The number of remembered clients is limited.

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

/// Burst, in seconds of the rate.
const BURST: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// Maximum remembered clients.
const CLIENTS_MAX: usize = 10_000;
/// Minimum time between two removals of clients that can be forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Delay of a response over the rate limit, to slow the client down.
const HELD_BACK: Duration = Duration::from_secs(1);

/// Rate limits of requests without a valid key.
pub struct Unauthenticated {
    requests_per_second: NonZeroU32,
    rate: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, DefaultClock>,
    /// Time of the last sweep: a [`Lived`], in milliseconds.
    swept_at: AtomicU64,
}

impl std::fmt::Debug for Unauthenticated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unauthenticated")
    }
}

impl Unauthenticated {
    /// With a rate per second for each client; 0: no limit.
    pub fn new(requests_per_second: u32) -> Option<Self> {
        let rate = NonZeroU32::new(requests_per_second)?;
        let quota = Quota::per_second(rate).allow_burst(rate.saturating_mul(BURST));
        Some(Self {
            requests_per_second: rate,
            rate: RateLimiter::hashmap(quota),
            swept_at: AtomicU64::new(0),
        })
    }

    /// Counts a request. If it exceeds the limit, waits, and returns when the next request is possible.
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
            // Until a sweep removes clients, new clients share the rate of one client, and none is added: the size of
            // the table stays the same.
            true => IpAddr::V4(0.into()),
            false => party,
        };
        let refused = self.rate.check_key(&party).err()?;
        let wait = refused.wait_time_from(DefaultClock::default().now());
        Some(wait.as_secs().max(1))
    }

    /// Whether a sweep is due; only one of several concurrent calls returns `true`.
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
        // At this rate, all clients except the last can be removed immediately.
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
