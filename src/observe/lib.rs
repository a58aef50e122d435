//! What others see of the daemon while it runs: counters for Prometheus, spans for collectors of traces, lines of a log.
//!
//! **Invariant**: counting and tracing never make a request wait, and a line of the log only for a moment.
#![deny(unsafe_code)]

pub mod lines;
pub mod metrics;
pub mod telemetry;
