//! Operations of a request that are older than what the data pool has, for callers and for operators.
//!
//! **Invariant**: versions are shown as they were sent.

use salvo_oapi::ToSchema;
use serde::Serialize;

use base::order::ItemPosition;
use operate::requests::Report;
use pool::Stale;

/// An operation that is older than what the data pool has.
#[derive(Debug, Serialize, ToSchema)]
pub struct StaleData {
    /// Position of the item in the request, from 0.
    #[salvo(schema(value_type = u32))]
    item: ItemPosition,
    /// Its version, as it was sent.
    version: String,
    /// The version that its key has reached.
    reached: String,
    /// Names of the fields that count all the same, as nothing newer has written them; of a removal, of those that it
    /// removed. Only where there are some, in streams whose updates merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<Vec<String>>,
}

impl StaleData {
    /// The operations of a request that are older than what the data pool has, as far as they are listed.
    pub fn of(report: &Report) -> Vec<Self> {
        let first = report.left_behind.first.iter();
        first.map(Self::from).collect()
    }
}

impl From<&Stale> for StaleData {
    fn from(stale: &Stale) -> Self {
        Self {
            item: stale.item,
            version: stale.version.clone(),
            reached: stale.reached.clone(),
            taken: (!stale.taken.is_empty()).then(|| stale.taken.clone()),
        }
    }
}
