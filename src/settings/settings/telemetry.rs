//! `[telemetry]`: what the daemon sends of its own work.
//!
//! **Invariant**: nothing is sent unless a collector is named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::Secret;

/// `[telemetry]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Traces of requests.
    pub otlp: Otlp,
}

/// `[telemetry.otlp]`: traces, sent as OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// The collector: what stands before `/v1/traces` in its URL. None: no traces are made.
    pub endpoint: Option<String>,
    /// Headers of the requests to it.
    pub headers: BTreeMap<String, Secret>,
    /// What the daemon is called there.
    pub service_name: String,
    /// Of requests whose callers have no trace, so many in a hundred have one.
    pub sample_percent: u32,
}
