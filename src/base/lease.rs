//! How long a node may believe that it runs the sinks.
//!
//! **Invariant**: the time counts from the sending of what the database answered, by a clock that counts while the machine
//! sleeps. So a node that was frozen finds its lease over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{millis, since_boot};

/// A node begins no call of a sink when the database has not answered for so long, so that a call has time to end
/// before the lease does.
const CALLS_BEGIN_WITHIN: Duration = Duration::from_secs(4);
/// Calls have ended by then: another node may take the sinks over.
pub const LASTS: Duration = Duration::from_secs(6);

/// Until when a node may call its sinks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Lease(Arc<AtomicU64>);

impl Lease {
    /// Whether a call of a sink may begin now.
    pub fn may_begin(&self) -> bool {
        self.age().is_some_and(|age| age < CALLS_BEGIN_WITHIN)
    }

    /// How long calls that are under way may still take; zero: not at all.
    pub fn left(&self) -> Duration {
        let age = self.age();
        age.map_or(Duration::ZERO, |age| LASTS.saturating_sub(age))
    }

    /// The database has answered what was sent then, by [`since_boot`].
    pub fn renew(&self, sent: Duration) {
        // 0 is none.
        self.0.store(millis(sent).max(1), Ordering::Release);
    }

    pub fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Since what the database answered was sent; none: it is over.
    pub fn age(&self) -> Option<Duration> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            sent => Some(since_boot().saturating_sub(Duration::from_millis(sent))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_begin_for_four_seconds_and_end_within_six() {
        let lease = Lease::default();
        assert_eq!((lease.may_begin(), lease.left()), (false, Duration::ZERO));
        let now = since_boot();
        let later = now + Duration::from_hours(1);
        lease.renew(later);
        assert!(lease.may_begin() && lease.left() == LASTS);
        lease.renew(now - CALLS_BEGIN_WITHIN);
        assert!(!lease.may_begin() && lease.left() <= Duration::from_secs(2));
        lease.renew(now - LASTS);
        assert_eq!(lease.left(), Duration::ZERO);
        lease.renew(later);
        lease.end();
        assert!(!lease.may_begin());
    }
}
