//! The computing time of a guest: its own code and the host's work for it.
//!
//! **Invariant**: time in which a guest waits, or in which the machine runs something else, is not counted.

use std::thread::{self, ThreadId};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::TICK;

/// The remaining computing time of one call.
#[derive(Debug, Default)]
pub(super) struct Meter {
    left: Duration,
    /// The computing time of the guest's thread at the last check. The thread is part of it, because the runtime may
    /// move a guest to another one, whose clock differs.
    last: Option<(ThreadId, Duration)>,
}

impl Meter {
    /// For a new call with this much computing time.
    pub(super) fn of(time_max: Duration) -> Self {
        Self {
            // What the first look charges.
            left: time_max.saturating_add(TICK),
            last: None,
        }
    }

    /// Charges the computing time since the last check; `false` if none is left. The first check of a call charges the
    /// time between two checks: a call that ends before its first check costs no check.
    pub(super) fn charge(&mut self) -> bool {
        let now = (thread::current().id(), thread_time());
        let spent = match self.last {
            Some((thread, before)) if thread == now.0 => now.1.saturating_sub(before),
            _ => TICK,
        };
        self.last = Some(now);
        self.left = self.left.saturating_sub(spent);
        !self.left.is_zero()
    }
}

/// The computing time of this thread. The wall clock would charge a guest for the time of others.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_computed_is_charged() {
        let mut meter = Meter::of(Duration::from_secs(3_600));
        assert!(meter.charge());
        let before = meter.left;
        assert_eq!(before, Duration::from_secs(3_600));
        let begun = thread_time();
        while thread_time() < begun + Duration::from_millis(5) {}
        assert!(meter.charge());
        assert!(meter.left <= before - Duration::from_millis(5));
        // Another thread's time says nothing about this one's.
        let left = meter.left;
        let meter = thread::spawn(move || {
            assert!(meter.charge());
            meter
        });
        let mut meter = meter.join().expect("it ends");
        assert_eq!(meter.left, left - TICK);
        meter.left = TICK;
        assert!(!meter.charge(), "it is on this thread for the first time");
    }
}
