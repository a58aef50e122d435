//! The time that a guest computes, its own code and what the host does for it.
//!
//! **Invariant**: time in which a guest waits, or in which the machine does something else, is not its time.

use std::thread::{self, ThreadId};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::TICK;

/// What is left of the time of one call.
#[derive(Debug, Default)]
pub(super) struct Meter {
    left: Duration,
    /// What the thread that runs the guest had computed when it was looked at last.
    last: Option<(ThreadId, Duration)>,
}

impl Meter {
    /// For a new call, which may compute for so long.
    pub(super) fn of(time_max: Duration) -> Self {
        Self {
            // What the first look charges.
            left: time_max.saturating_add(TICK),
            last: None,
        }
    }

    /// Charges what was computed since the last look; false when nothing is left. Who is looked at for the first time is
    /// charged the time from one look to the next: a call that is over before it is looked at costs no look.
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

/// How long this thread has computed.
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
