//! How long a cluster takes to recover, by what happened: printed at the end of a test.
//!
//! **Invariant**: nothing takes more than ten times as long as it should on a quiet machine.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a cluster recovers from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recovery {
    /// The node that runs the sinks is killed: until another one does.
    OwnerKilled,
    /// It is frozen.
    OwnerFrozen,
    /// It is cut off from the database.
    OwnerCutOff,
    /// A standby is promoted: until the first 202.
    Promotion,
}

impl Recovery {
    /// How long it should take on a quiet machine.
    fn aim(self) -> Duration {
        match self {
            Self::OwnerKilled | Self::Promotion => Duration::from_millis(1_500),
            Self::OwnerFrozen | Self::OwnerCutOff => Duration::from_secs(8),
        }
    }
}

/// The times that were taken.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<Recovery, Vec<Duration>>);

impl Times {
    /// Notes and prints one.
    pub(super) fn note(&mut self, of: Recovery, took: Duration) {
        let aim = of.aim();
        eprintln!("{of:?}: {took:.1?}, {aim:.1?} aimed at");
        assert!(took <= 10 * aim, "{of:?} took {took:?}");
        self.0.entry(of).or_default().push(took);
    }
}

/// A line for each kind.
impl fmt::Display for Times {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (of, times) in &self.0 {
            let mut times = times.clone();
            times.sort_unstable();
            let [p50, p99] =
                [50, 99].map(|percent| times[(times.len() * percent).div_ceil(100) - 1]);
            writeln!(
                formatter,
                "{of:?}: {} times, p50 {p50:.1?}, p99 {p99:.1?}, {:.1?} aimed at",
                times.len(),
                of.aim()
            )?;
        }
        Ok(())
    }
}

#[test]
fn the_times_of_each_kind_are_printed() {
    let killed = (1..=100).rev().map(Duration::from_millis);
    let times = Times(BTreeMap::from([
        (Recovery::Promotion, vec![Duration::from_secs(2)]),
        (Recovery::OwnerKilled, killed.collect()),
    ]));
    let expected = "OwnerKilled: 100 times, p50 50.0ms, p99 99.0ms, 1.5s aimed at\n\
                    Promotion: 1 times, p50 2.0s, p99 2.0s, 1.5s aimed at\n";
    assert_eq!(times.to_string(), expected);
}
