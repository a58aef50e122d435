//! Operations of a request that are older than what the data pool has, for callers and for operators.
//!
//! **Invariant**: versions are shown as they were sent.

use operate::requests::Report;
use pool::Stale;
use wire::StaleData;

/// The operations of a request that are older than what the data pool has, as far as they are listed.
pub fn listed(report: &Report) -> Vec<StaleData> {
    let data = |stale: &Stale| StaleData {
        item: stale.item.get(),
        version: stale.version.clone(),
        reached: stale.reached.clone(),
        taken: (!stale.taken.is_empty()).then(|| stale.taken.clone()),
    };
    report.left_behind.first.iter().map(data).collect()
}
