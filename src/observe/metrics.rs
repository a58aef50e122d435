//! What the daemon counts. The fields of [`Metrics`] are the list of metrics; `/metrics` prints them.
//!
//! Plugins have numbers of their own (`metrics/plugins.rs`), and so have the listeners (`metrics/listeners.rs`); the pages have the last hour (`metrics/recent.rs`); how
//! sinks and files are is measured when somebody reads the metrics (`metrics/condition.rs`).
//!
//! **Invariant**: a label never takes its value from a request, so the number of series is bounded.

mod condition;
mod listeners;
mod plugins;
mod recent;

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use condition::{ConditionGauges, SINK_STATES, SinkGauges};
pub use listeners::{Connections, ListenerMetrics};
pub use plugins::{InvalidMetric, PluginMetrics};
pub use recent::{Minute, Recent};

/// Declares the metrics: a field each, with its help text, and with its name where that is not the field's.
macro_rules! metrics {
    (
        $($(#[$outcome_doc:meta])* $outcome:ident = $label:literal;)*
        ---
        $($(#[$doc:meta])* $field:ident $(as $name:literal)?: $kind:ty, $help:literal $(, $new:expr)?;)*
    ) => {
        /// Every metric. Counters are cheap to increment from any thread.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($(#[$outcome_doc])* pub $outcome: Counter,)*
            $($(#[$doc])* pub $field: $kind,)*
            /// The connections of both listeners.
            pub listeners: ListenerMetrics,
            /// How the daemon is; set when somebody reads the metrics.
            pub condition: ConditionGauges,
            /// What plugins count themselves.
            pub plugins: PluginMetrics,
            /// The last hour, for the charts.
            pub recent: Recent,
        }

        impl Metrics {
            /// All metrics at zero.
            pub fn new() -> Self {
                let mut registry = Registry::with_prefix("headgate");
                let requests = Family::<Vec<(&'static str, &'static str)>, Counter>::default();
                let help = "Ingest requests by result";
                registry.register("requests", help, requests.clone());
                $(
                    let $field: $kind = metrics!(@new $($new)?);
                    registry.register(metrics!(@name $field $($name)?), $help, $field.clone());
                )*
                Self {
                    $($outcome: requests.get_or_create_owned(&vec![("outcome", $label)]),)*
                    $($field,)*
                    listeners: ListenerMetrics::register(&mut registry),
                    condition: ConditionGauges::register(&mut registry),
                    plugins: PluginMetrics::register(&mut registry),
                    recent: Recent::default(),
                    registry,
                }
            }
        }
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

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

metrics! {
    /// Requests answered 202 that were stored.
    accepted = "accepted";
    /// Requests answered 202 as repeats.
    duplicates = "duplicate";
    /// Requests answered 202 with a test key.
    tests = "test";
    /// Requests answered 400.
    invalid = "invalid_payload";
    /// Requests answered 401.
    unauthorized = "unauthorized";
    /// Requests answered 403: removals that the key's connector may not ask for.
    not_allowed = "not_allowed";
    /// Requests answered 404 for their stream.
    stream_not_found = "stream_not_found";
    /// Requests answered 413.
    too_large = "payload_too_large";
    /// Requests answered 429.
    rate_limited = "rate_limited";
    /// Refused because their stream was full.
    stream_full = "stream_full";
    /// Requests answered 503.
    unavailable = "unavailable";
    /// Greetings of tools, and events that are none.
    challenges = "handshake";
    ---
    /// Items accepted.
    items: Counter, "Items accepted";
    /// Bytes of bodies accepted.
    body_bytes: Counter, "Bytes of accepted bodies";
    /// Handlers that panicked.
    panics: Counter, "Request handlers that panicked";
    /// Groups committed by the journal.
    journal_commits: Counter, "Groups of requests committed";
    /// Log entries of refused requests that were dropped because too much waited for the disk.
    log_entries_dropped: Counter, "Log entries of rejected requests dropped under overload";
    /// Lines that standard error or standard output did not take.
    log_lines_dropped: Counter, "Log lines that could not be written", crate::lines::dropped();
    /// Batches that sinks took.
    sink_batches: Counter, "Batches that sinks took";
    /// Items that sinks took.
    sink_items: Counter, "Items that sinks took";
    /// Batches that sinks did not take.
    sink_failures: Counter, "Batches that sinks did not take";
    /// Calls in which a plugin trapped or ran out of time or memory.
    sink_traps: Counter, "Plugin calls that trapped or ran out of time or memory";
    /// Items given up.
    dead_letters: Counter, "Items that became dead letters";
    /// Spans that the collector took.
    spans_sent: Counter, "Spans that the collector of traces took";
    /// Spans that did not get there: too many at once, or no collector for too long.
    spans_dropped: Counter, "Spans that did not get to the collector of traces";
    /// Messages sent to renderers.
    live_messages: Counter, "Messages sent to renderers";
    /// Renderers whose position could not be resumed from.
    live_resets: Counter, "Screens that could not resume and received a snapshot";
    /// Bodies of feeds that were built, however often each was sent.
    feeds_built: Counter, "Bodies of feeds that were built";
    /// Jobs in a group.
    journal_group_size: Histogram, "Jobs in a group of the journal", buckets(1.0, 7);
    /// Seconds that a commit took.
    journal_commit_seconds: Histogram, "Seconds that a commit of the journal took", buckets(0.000_1, 9);
    /// Seconds from the arrival of a request to its delivery, for the oldest of each batch.
    delivery_seconds: Histogram, "Seconds from arrival to delivery, for the oldest request of each batch",
        buckets(0.001, 10);
    /// Seconds that calls to PostgreSQL took; empty without a cluster.
    postgres_calls as "postgres_call_seconds": ByCall,
        "Seconds that calls to PostgreSQL took, by what they are for", by_call();
    /// Renderers connected.
    renderers: Gauge, "Renderers connected";
    /// Nodes of the cluster that live; 1 without a cluster.
    cluster_nodes: Gauge, "Nodes of the cluster that are running; 1 without a cluster", gauge_at(1);
    /// 1 if this node runs the sinks.
    runs_sinks: Gauge, "1 if this node runs the sinks", gauge_at(1);
    /// How far the copies of this node are behind the log of the cluster, in seconds.
    replica_delay as "replica_delay_seconds": Gauge<f64, AtomicU64>,
        "How far the copies of this node are behind the other nodes; 0 without a cluster";
    /// Changes of other nodes that this one applied to its copies.
    replica_entries: Counter, "Changes by other nodes that this node applied to its copies";
    /// For how long the number below which nothing will be committed any more has been the same, in seconds.
    horizon_age as "horizon_age_seconds": Gauge<f64, AtomicU64>,
        "How long this node has read no newer requests from the database; 0 without a cluster";
    /// Size of the disk of the data folder.
    disk_bytes: Gauge, "Size of the disk of the data directory";
    /// Bytes free on the disk of the data folder.
    disk_free_bytes: Gauge, "Bytes free on the disk of the data directory";
    /// Requests to the admin listener with a wrong token, and sign-ins.
    admin_refused as "admin_auth_failures": Counter,
        "Requests to the admin listener with a wrong token, and rejected sign-ins";
    /// When the files were last looked through whole, in seconds of Unix time; 0 before the first time.
    files_checked_at as "files_checked_timestamp_seconds": Gauge,
        "When the files were last scanned for damage, in Unix time; 0 before the first time";
    /// When the daemon started, in seconds of Unix time.
    started_at as "started_timestamp_seconds": Gauge, "When the daemon started, in Unix time";
}

impl Metrics {
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
