//! Which of the streams that there are now no running sink takes, or none that writes the data pool.
//!
//! The start, each change of the configuration and the status page ask.
//!
//! **Invariant**: streams and keys that were made at run time count like declared ones.

use std::collections::BTreeMap;

use super::Delivery;
use catalog::Catalog;
use settings::routing_gaps::{Inflow, gaps};

impl Delivery {
    /// What does not reach what it should, in sentences.
    pub fn gaps(&self, catalog: &Catalog) -> Vec<String> {
        let streams = catalog.streams();
        let mut inflows: BTreeMap<&str, Inflow> = streams
            .iter()
            .map(|stream| {
                let inflow = Inflow {
                    stream: stream.name.to_string(),
                    connectors: Vec::new(),
                };
                (&*stream.name, inflow)
            })
            .collect();
        for connector in catalog.connectors() {
            for key in connector.keys.iter().filter(|key| key.revoked_at.is_none()) {
                if let Some(inflow) = inflows.get_mut(&*key.stream) {
                    inflow.connectors.push(connector.name.to_string());
                }
            }
        }
        let inflows: Vec<Inflow> = inflows.into_values().collect();
        let lanes: Vec<_> = self.lanes().iter().map(|lane| lane.reach()).collect();
        gaps(
            &inflows,
            lanes.iter().map(|(sink, writes)| (&**sink, *writes)),
        )
    }
}
