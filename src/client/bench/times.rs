//! Percentiles of durations.
//!
//! All parts of the bench report times with it.
//!
//! **Invariant**: a percentile is one of the measured values, never an interpolation.

use std::time::Duration;

use serde::Serialize;

/// A distribution, in milliseconds; all zero if it is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Times {
    pub(super) count: usize,
    /// 50% of the values are not longer.
    pub(super) p50_ms: f64,
    /// 90% of the values are not longer.
    pub(super) p90_ms: f64,
    /// 99% of the values are not longer.
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Times {
    /// The distribution of these values.
    pub(super) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut sorted: Vec<Duration> = times.into_iter().collect();
        sorted.sort_unstable();
        Self {
            count: sorted.len(),
            p50_ms: percentile(&sorted, 50),
            p90_ms: percentile(&sorted, 90),
            p99_ms: percentile(&sorted, 99),
            max_ms: percentile(&sorted, 100),
        }
    }

    /// The four times, as cells of a table.
    pub(super) fn cells(&self) -> [String; 4] {
        [self.p50_ms, self.p90_ms, self.p99_ms, self.max_ms].map(|ms| format!("{ms:.2}"))
    }
}

/// The smallest value that at least `percent` of all values do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    let value = sorted.get(place).copied().unwrap_or_default();
    value.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: impl IntoIterator<Item = u64>) -> Times {
        Times::of(millis.into_iter().map(Duration::from_millis))
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred = times((1..=100).rev());
        assert_eq!(hundred.count, 100);
        assert_eq!(
            (
                hundred.p50_ms,
                hundred.p90_ms,
                hundred.p99_ms,
                hundred.max_ms
            ),
            (50.0, 90.0, 99.0, 100.0)
        );
        let three = times([30, 10, 20]);
        assert_eq!(
            (three.p50_ms, three.p90_ms, three.p99_ms, three.max_ms),
            (20.0, 30.0, 30.0, 30.0)
        );
        let one = times([7]);
        assert_eq!((one.p50_ms, one.p99_ms), (7.0, 7.0));
        assert_eq!(times([]), Times::default());
    }
}
