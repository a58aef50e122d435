//! What others see of the daemon while it runs: counters for Prometheus, spans for collectors of traces.
//!
//! **Invariant**: counting and tracing never make a request wait.
#![deny(unsafe_code)]

pub mod metrics;
pub mod telemetry;
