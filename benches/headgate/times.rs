//! Distributions and medians.
//!
//! Used by every file that measures or reports.
//!
//! **Invariant:** nothing measured gives NaN, never a zero that looks like a result.

use serde::Serialize;

/// A distribution.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
    /// Median.
    pub(crate) p50: f64,
    /// 99th percentile.
    pub(crate) p99: f64,
    /// How many there were.
    pub(crate) samples: usize,
}

impl Times {
    /// Of times in µs, given in ms.
    pub(crate) fn from_micros(times: impl IntoIterator<Item = f64>) -> Self {
        let mut times: Vec<f64> = times.into_iter().map(|micros| micros / 1e3).collect();
        times.sort_unstable_by(f64::total_cmp);
        Self {
            p50: percentile_of_sorted(&times, 0.5),
            p99: percentile_of_sorted(&times, 0.99),
            samples: times.len(),
        }
    }
}

/// The median of one value over rounds.
pub(crate) fn median_of<T>(rounds: &[T], value: impl Fn(&T) -> f64) -> f64 {
    let values: Vec<f64> = rounds.iter().map(value).collect();
    median(&values)
}

/// The median, halfway between the two in the middle of an even number; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted[..] {
        [] => f64::NAN,
        _ => f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]),
    }
}

/// The value below which `share` of the values lie; NaN of nothing.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    percentile_of_sorted(&sorted, share)
}

fn percentile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let index = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
