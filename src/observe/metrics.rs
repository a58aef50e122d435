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

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use condition::{ConditionGauges, SINK_STATES, SinkGauges};
pub use listeners::{Connections, ListenerMetrics};
pub use plugins::{PluginMetrics, Refused};
pub use recent::{Minute, Recent};

/// Every metric. Counters are cheap to increment from any thread.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests answered 202 that were stored.
    pub accepted: Counter,
    /// Requests answered 202 as repeats.
    pub duplicates: Counter,
    /// Requests answered 202 with a test key.
    pub tests: Counter,
    /// Requests answered 400.
    pub invalid: Counter,
    /// Requests answered 401.
    pub unauthorized: Counter,
    /// Requests to the admin listener with a wrong token, and sign-ins.
    pub admin_refused: Counter,
    /// Requests answered 403: removals that the key's connector may not ask for.
    pub not_allowed: Counter,
    /// Requests answered 404 for their stream.
    pub stream_not_found: Counter,
    /// Requests answered 413.
    pub too_large: Counter,
    /// Requests answered 429.
    pub rate_limited: Counter,
    /// Refused because their stream was full.
    pub stream_full: Counter,
    /// Requests answered 503.
    pub unavailable: Counter,
    /// Greetings of tools, and events that are none.
    pub greetings: Counter,
    /// Items accepted.
    pub items: Counter,
    /// Bytes of bodies accepted.
    pub body_bytes: Counter,
    /// Handlers that panicked.
    pub panics: Counter,
    /// Groups committed by the journal.
    pub journal_commits: Counter,
    /// Jobs in a group.
    pub journal_group_size: Histogram,
    /// Seconds that a commit took.
    pub journal_commit_seconds: Histogram,
    /// Log entries of refused requests that were dropped because too much waited for the disk.
    pub log_entries_dropped: Counter,
    /// Batches that sinks took.
    pub sink_batches: Counter,
    /// Items that sinks took.
    pub sink_items: Counter,
    /// Batches that sinks did not take.
    pub sink_failures: Counter,
    /// Calls in which a plugin trapped or ran out of time or memory.
    pub sink_traps: Counter,
    /// Items given up.
    pub dead_letters: Counter,
    /// Seconds from the arrival of a request to its delivery, for the oldest of each batch.
    pub delivery_seconds: Histogram,
    /// Renderers connected.
    pub renderers: Gauge,
    /// The connections of both listeners.
    pub listeners: ListenerMetrics,
    /// Messages sent to renderers.
    pub live_messages: Counter,
    /// Renderers whose position could not be resumed from.
    pub live_resets: Counter,
    /// Bodies of feeds that were built, however often each was sent.
    pub feeds_built: Counter,
    /// Bytes free on the disk of the data folder.
    pub disk_free_bytes: Gauge,
    /// Size of the disk of the data folder.
    pub disk_bytes: Gauge,
    /// When the daemon started, in seconds of Unix time.
    pub started_at: Gauge,
    /// Spans that the collector took.
    pub spans_sent: Counter,
    /// Spans that did not get there: too many at once, or no collector for too long.
    pub spans_dropped: Counter,
    /// When the files were last looked through whole, in seconds of Unix time; 0 before the first time.
    pub files_checked_at: Gauge,
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
        registry.register(
            "requests",
            "Ingest requests by what became of them",
            requests.clone(),
        );
        let outcome = |name: &'static str| requests.get_or_create_owned(&vec![("outcome", name)]);
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let items = counter("items", "Items accepted");
        let body_bytes = counter("body_bytes", "Bytes of accepted bodies");
        let panics = counter("panics", "Request handlers that panicked");
        let journal_commits = counter("journal_commits", "Groups of requests committed");
        let log_entries_dropped = counter(
            "log_entries_dropped",
            "Log entries of refused requests dropped under overload",
        );
        let sink_batches = counter("sink_batches", "Batches that sinks took");
        let sink_items = counter("sink_items", "Items that sinks took");
        let sink_failures = counter("sink_failures", "Batches that sinks did not take");
        let sink_traps = counter(
            "sink_traps",
            "Plugin calls that trapped or ran out of time or memory",
        );
        let dead_letters = counter("dead_letters", "Items given up by sinks");
        let spans_sent = counter("spans_sent", "Spans that the collector of traces took");
        let spans_dropped = counter(
            "spans_dropped",
            "Spans that did not get to the collector of traces",
        );
        let live_messages = counter("live_messages", "Messages sent to renderers");
        let live_resets = counter(
            "live_resets",
            "Renderers that could not resume and began afresh",
        );
        let feeds_built = counter("feeds_built", "Bodies of feeds that were built");
        let mut histogram = |name: &str, help: &str, start: f64, length: u16| {
            let histogram = Histogram::new(exponential_buckets(start, 4.0, length));
            registry.register(name, help, histogram.clone());
            histogram
        };
        let journal_group_size = histogram(
            "journal_group_size",
            "Jobs in a group of the journal",
            1.0,
            7,
        );
        let journal_commit_seconds = histogram(
            "journal_commit_seconds",
            "Seconds that a commit of the journal took",
            0.000_1,
            9,
        );
        let delivery_seconds = histogram(
            "delivery_seconds",
            "Seconds from arrival to delivery, for the oldest request of each batch",
            0.001,
            10,
        );
        let renderers = Gauge::default();
        registry.register("renderers", "Renderers connected", renderers.clone());
        let disk_bytes = Gauge::default();
        registry.register(
            "disk_bytes",
            "Size of the disk of the data folder",
            disk_bytes.clone(),
        );
        let disk_free_bytes = Gauge::default();
        registry.register(
            "disk_free_bytes",
            "Bytes free on the disk of the data folder",
            disk_free_bytes.clone(),
        );
        let admin_refused = Counter::default();
        registry.register(
            "admin_auth_failures",
            "Requests to the admin listener with a wrong token, and sign-ins that were refused",
            admin_refused.clone(),
        );
        let files_checked_at = Gauge::default();
        registry.register(
            "files_checked_timestamp_seconds",
            "When the files were last looked through for damage, in Unix time; 0 before the first time",
            files_checked_at.clone(),
        );
        let started_at = Gauge::default();
        registry.register(
            "started_timestamp_seconds",
            "When the daemon started, in Unix time",
            started_at.clone(),
        );
        let listeners = ListenerMetrics::register(&mut registry);
        let condition = ConditionGauges::register(&mut registry);
        let plugins = PluginMetrics::register(&mut registry);
        Self {
            accepted: outcome("accepted"),
            duplicates: outcome("duplicate"),
            tests: outcome("test"),
            invalid: outcome("invalid_payload"),
            unauthorized: outcome("unauthorized"),
            admin_refused,
            not_allowed: outcome("not_allowed"),
            stream_not_found: outcome("stream_not_found"),
            too_large: outcome("payload_too_large"),
            rate_limited: outcome("rate_limited"),
            stream_full: outcome("stream_full"),
            unavailable: outcome("unavailable"),
            greetings: outcome("handshake"),
            items,
            body_bytes,
            panics,
            journal_commits,
            journal_group_size,
            journal_commit_seconds,
            log_entries_dropped,
            sink_batches,
            sink_items,
            sink_failures,
            sink_traps,
            dead_letters,
            delivery_seconds,
            renderers,
            listeners,
            live_messages,
            live_resets,
            feeds_built,
            disk_free_bytes,
            disk_bytes,
            started_at,
            spans_sent,
            spans_dropped,
            files_checked_at,
            condition,
            plugins,
            recent: Recent::default(),
            registry,
        }
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
