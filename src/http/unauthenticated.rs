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

/// Burst, in seconds of the rate. A program that starts with an old key may send some requests at once.
const BURST: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// Maximum remembered clients.
const CLIENTS_MAX: usize = 10_000;
/// Minimum time between two removals of clients that can be forgotten. A sweep reads the whole table, so a flood must
/// not cause one for each request.
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
mod tests;
