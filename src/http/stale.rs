//! Stale operations of a request: they are older than the versions in the data pool. For senders and operators.
//!
//! **Invariant**: versions are shown as they were sent.

use operate::requests::Report;
use pool::Stale;
use wire::StaleData;

/// The stale operations of a request, up to the limit of the list.
pub fn listed(report: &Report) -> Vec<StaleData> {
    let data = |stale: &Stale| StaleData {
        item: stale.item.get(),
        version: stale.version.clone(),
        reached: stale.reached.clone(),
        taken: (!stale.taken.is_empty()).then(|| stale.taken.clone()),
    };
    report.left_behind.first.iter().map(data).collect()
}
