//! `[telemetry]`: what the daemon sends of its own work.
//!
//! **Invariant**: nothing is sent unless a collector is named.

use std::collections::BTreeMap;

use crate::Secret;
use crate::checks::kinds;
use crate::record::record;

record! {
    /// `[telemetry]`
    pub struct Telemetry {
        /// Traces of requests.
        otlp: Otlp, Table(Otlp::FIELDS);
    }
}

record! {
    /// `[telemetry.otlp]`: traces of requests, sent to an OpenTelemetry collector as OTLP over HTTP, in JSON.
    pub struct Otlp {
        /// URL of the collector, without `/v1/traces`. By default, no traces are recorded.
        endpoint: Option<String>, Text(kinds::COLLECTOR), none: "no traces", example: r#""http://127.0.0.1:4318""#,
            guide: "See [traces][traces].";
        /// Headers of every request to the collector. Their values are secrets.
        headers: BTreeMap<String, Secret>, Secrets(kinds::HEADER_NAME),
            example: r#"{ authorization = { env = "COLLECTOR_AUTHORIZATION" } }"#;
        /// Name of the daemon in its traces.
        service_name: String = "headgate".to_owned(), Text(kinds::ANY);
        /// Percentage of requests without a `traceparent` that are traced.
        sample_percent: u32 = 100, Integer(0, 100);
    }
}
