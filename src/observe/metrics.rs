//! What the daemon counts. Each metric is a row (`metrics/row.rs`); `/metrics` prints the values, the guide the rows.
//!
//! Plugins have numbers of their own (`metrics/plugins.rs`), and so have the listeners (`metrics/listeners.rs`); the pages
//! have the last hour (`metrics/recent.rs`). The numbers of sinks and files are measured when somebody reads the metrics
//! (`metrics/condition.rs`).
//!
//! **Invariant**: a label never takes its value from a request, so the number of series is bounded.

mod condition;
mod listeners;
mod plugins;
mod recent;
mod row;

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use condition::{ConditionGauges, PROBLEM_KINDS, SINK_STATES, SinkGauges};
pub use listeners::{Connections, ListenerMetrics};
pub use plugins::{InvalidMetric, PluginMetrics};
pub use recent::{Minute, Recent};
pub use row::MetricRow;
use row::metrics;

/// A histogram for each kind of call.
type ByCall = Family<[(&'static str, &'static str); 1], Histogram>;

/// Counts in powers of four.
fn buckets(start: f64, length: u16) -> Histogram {
    Histogram::new(exponential_buckets(start, 4.0, length))
}

fn by_call() -> ByCall {
    ByCall::new_with_constructor(|| buckets(0.000_1, 9))
}

fn gauge_at(value: i64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

/// The values of `outcome`.
const OUTCOMES: &[&str] = &[
    "accepted",
    "duplicate",
    "handshake",
    "invalid_payload",
    "not_allowed",
    "payload_too_large",
    "rate_limited",
    "stream_full",
    "stream_not_found",
    "test",
    "unauthorized",
    "unavailable",
];

/// The calls to PostgreSQL.
const CALLS: &[&str] = &[
    "accept", "place", "append", "follow", "horizon", "read", "log", "beat", "claim", "base",
    "limits", "access", "ask",
];

metrics! {
    /// Every metric. Counters are cheap to increment from any thread.
    pub struct Metrics of registry {
        /// Ingest requests by outcome; `handshake` is a challenge from a provider.
        pub requests: Family<[(&'static str, &'static str); 1], Counter>, "requests", labels: &[("outcome", OUTCOMES)];
        /// Accepted items.
        pub items: Counter, "items";
        /// Bytes of accepted bodies.
        pub body_bytes: Counter, "bytes";
        /// Requests whose handler panicked: a defect.
        pub panics: Counter, "requests";
        /// Groups of requests that the journal committed.
        pub journal_commits: Counter, "commits";
        /// Log entries of rejected requests that are not in the log, because too many entries waited for the disk.
        pub log_entries_dropped: Counter, "entries";
        /// Lines of the daemon's log that could not be written: standard error is full, closed, or not read.
        pub log_lines_dropped: Counter = crate::lines::dropped(), "lines";
        /// Batches that all sinks processed.
        pub sink_batches: Counter, "batches";
        /// Items in the batches that all sinks processed.
        pub sink_items: Counter, "items";
        /// Batches that sinks failed to process.
        pub sink_failures: Counter, "batches";
        /// Plugin calls that trapped or ran out of time or memory.
        pub sink_traps: Counter, "calls";
        /// Items that sinks could not deliver and that became dead letters.
        pub dead_letters: Counter, "items";
        /// Spans that the collector of traces accepted.
        pub spans_sent: Counter, "spans", guide: "See [traces](#traces).";
        /// Spans that did not reach the collector of traces.
        pub spans_dropped: Counter, "spans";
        /// Messages sent to renderers.
        pub live_messages: Counter, "messages";
        /// Renderers that could not resume and received a snapshot.
        pub live_resets: Counter, "renderers";
        /// Bodies of feeds that were built; identical requests share one.
        pub feeds_built: Counter, "bodies";
        /// Jobs in one commit of the journal.
        pub journal_group_size: Histogram = buckets(1.0, 7), "jobs";
        /// Duration of a commit of the journal; every 202 waits for one.
        pub journal_commit_seconds: Histogram = buckets(0.000_1, 9), "seconds";
        /// Time from arrival to delivery, of the oldest request of each batch, while the daemon runs; a step of the wall
        /// clock does not change it.
        pub delivery_seconds: Histogram = buckets(0.001, 10), "seconds";
        /// Duration of calls to PostgreSQL, also of those that failed; absent without a cluster.
        postgres_calls as "postgres_call_seconds": ByCall = by_call(), "seconds", labels: &[("call", CALLS)],
            guide: "See [calls to PostgreSQL](#calls-to-postgresql).";
        /// Connected renderers.
        pub renderers: Gauge, "renderers";
        /// Nodes of the cluster that are running, as this node sees it; 1 without a cluster.
        pub cluster_nodes: Gauge = gauge_at(1), "nodes", guide: "See [more than one machine](cluster.md).";
        /// 1 if this node runs the sinks; always 1 without a cluster.
        pub runs_sinks: Gauge = gauge_at(1), "0 or 1";
        /// Time by which the copies of this node are behind the other nodes; 0 without a cluster.
        pub replica_delay as "replica_delay_seconds": Gauge<f64, AtomicU64>, "seconds";
        /// Changes by other nodes that this node applied to its copies.
        pub replica_entries: Counter, "changes";
        /// Time since this node last read accepted requests from the database up to a newer one; 0 without a cluster.
        pub horizon_age as "horizon_age_seconds": Gauge<f64, AtomicU64>, "seconds",
            guide: "It is high if the database is away, or if a transaction of another program is open.";
        /// Size of the disk of the data directory.
        pub disk_bytes: Gauge, "bytes";
        /// Free bytes on the disk of the data directory.
        pub disk_free_bytes: Gauge, "bytes";
        /// Requests to the admin listener with an invalid token, and failed sign-ins.
        pub admin_refused as "admin_auth_failures": Counter, "requests";
        /// Time of the last scan of all files for damage; 0 before the first scan.
        pub files_checked_at as "files_checked_timestamp_seconds": Gauge, "Unix time in seconds";
        /// Time when the daemon started.
        pub started_at as "started_timestamp_seconds": Gauge, "Unix time in seconds";
    } beside {
        /// Requests answered 202 that were stored.
        pub accepted: Counter = outcome(&requests, "accepted");
        /// Requests answered 202 as repeats.
        pub duplicates: Counter = outcome(&requests, "duplicate");
        /// Requests answered 202 with a test key.
        pub tests: Counter = outcome(&requests, "test");
        /// Requests answered 400.
        pub invalid: Counter = outcome(&requests, "invalid_payload");
        /// Requests answered 401.
        pub unauthorized: Counter = outcome(&requests, "unauthorized");
        /// Requests answered 403: removals that the key's connector may not ask for.
        pub not_allowed: Counter = outcome(&requests, "not_allowed");
        /// Requests answered 404 for their stream.
        pub stream_not_found: Counter = outcome(&requests, "stream_not_found");
        /// Requests answered 413.
        pub too_large: Counter = outcome(&requests, "payload_too_large");
        /// Requests answered 429.
        pub rate_limited: Counter = outcome(&requests, "rate_limited");
        /// Requests rejected because their stream was full.
        pub stream_full: Counter = outcome(&requests, "stream_full");
        /// Requests answered 503.
        pub unavailable: Counter = outcome(&requests, "unavailable");
        /// Challenges of providers, and events without items.
        pub challenges: Counter = outcome(&requests, "handshake");
        /// The connections of both listeners.
        pub listeners: ListenerMetrics = ListenerMetrics::register(registry);
        /// How the daemon is; set when somebody reads the metrics.
        pub condition: ConditionGauges = ConditionGauges::register(registry);
        /// What plugins count themselves.
        pub plugins: PluginMetrics = PluginMetrics::register(registry);
        /// The last hour, for the charts.
        pub recent: Recent = Recent::default();
        /// Encodes the metrics.
        registry: Registry = Registry::default();
    }
}

/// The counter of an outcome, which is printed from the start.
fn outcome(
    requests: &Family<[(&'static str, &'static str); 1], Counter>,
    outcome: &'static str,
) -> Counter {
    requests.get_or_create_owned(&[("outcome", outcome)])
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("headgate");
        let metrics = Self::register(&mut registry);
        Self {
            registry,
            ..metrics
        }
    }

    pub fn rows() -> impl Iterator<Item = &'static MetricRow> {
        [
            Self::ROWS,
            ListenerMetrics::ROWS,
            ConditionGauges::ROWS,
            PluginMetrics::ROWS,
        ]
        .into_iter()
        .flatten()
    }

    /// The seconds that calls of a kind to PostgreSQL took. From the first question on they are printed.
    pub fn postgres_call(&self, call: &'static str) -> Histogram {
        self.postgres_calls.get_or_create_owned(&[("call", call)])
    }

    /// The text that Prometheus reads (OpenMetrics).
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
