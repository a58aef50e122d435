//! Nodes that share one database: which of them runs the sinks.
//!
//! Every node accepts requests and shows the pool. One node runs the sinks ([`Candidate`]).
//!
//! **Invariant**: the node that runs the sinks is known by the number of its claim. The log refuses what another number
//! settles, whatever a node believes.
#![deny(unsafe_code)]

mod candidate;
mod lease;
#[cfg(test)]
mod tests;

pub use candidate::{Candidate, Role};
pub use lease::Lease;
