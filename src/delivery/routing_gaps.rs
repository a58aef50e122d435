//! Streams that no running sink receives, or that no sink writes to the data pool.
//!
//! The daemon checks them at the start and after each change of the configuration; the status page lists them.
//!
//! **Invariant**: streams and keys that were created at run time count like those in the configuration.

use std::collections::BTreeMap;

use super::Delivery;
use catalog::Catalog;
use settings::routing_gaps::{Inflow, gaps};

impl Delivery {
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
        let lanes: Vec<_> = self.shown().iter().map(|lane| lane.reach()).collect();
        gaps(
            &inflows,
            lanes.iter().map(|(sink, writes)| (&**sink, *writes)),
        )
    }
}
