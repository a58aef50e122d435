//! Gauges of how the daemon is, set when somebody reads the metrics.
//!
//! **Invariant**: a sink or a file that is gone has no number.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

type Labels = [(&'static str, String); 1];
type ByLabel = Family<Labels, Gauge<i64, AtomicI64>>;

/// The states of a sink; it has one of them.
pub const SINK_STATES: [&str; 8] = [
    "starting",
    "running",
    "filling",
    "failing",
    "paused",
    "crashed",
    "elsewhere",
    "unconfigured",
];

/// How a sink is. What is not known has no number.
#[derive(Debug, Clone, Copy, Default)]
pub struct SinkGauges {
    /// One of [`SINK_STATES`].
    pub state: &'static str,
    /// By how many sequence numbers it is behind.
    pub lag: u64,
    /// Seconds that the oldest request has waited which it has not taken.
    pub oldest_seconds: Option<u64>,
    /// Items of the data pool that it is to be filled with and does not have.
    pub fill_left: Option<u64>,
    /// Bytes of the payloads that it has not taken.
    pub backlog_bytes: Option<u64>,
    /// Batches that wait for another attempt.
    pub retries: Option<u64>,
    /// Items given up.
    pub dead_letters: Option<u64>,
    /// Items that a sink refused which follows the newest state.
    pub rejected: u64,
}

/// What operators do to streams.
#[derive(Debug)]
struct ActGauges {
    held: ByLabel,
    held_keys: ByLabel,
    overridden_fields: ByLabel,
}

impl ActGauges {
    fn register(registry: &mut Registry) -> Self {
        let mut by_label = |name: &str, help: &str| by_label(registry, name, help);
        Self {
            held: by_label(
                "stream_held",
                "1 for a stream that an operator holds as a whole",
            ),
            held_keys: by_label(
                "stream_held_keys",
                "Keys of a stream that operators hold one by one",
            ),
            overridden_fields: by_label(
                "stream_overridden_fields",
                "Fields of a stream that operators have overridden",
            ),
        }
    }
}

/// The gauges.
#[derive(Debug)]
pub struct ConditionGauges {
    sink_state: Family<[(&'static str, String); 2], Gauge>,
    sink_lag: ByLabel,
    sink_oldest_seconds: ByLabel,
    sink_fill_left: ByLabel,
    sink_backlog_bytes: ByLabel,
    sink_retries: ByLabel,
    sink_dead_letters: ByLabel,
    sink_rejected: Family<Labels, Counter>,
    file_bytes: ByLabel,
    acts: ActGauges,
    screen_connected: ByLabel,
    problems: Family<[(&'static str, &'static str); 1], Gauge>,
    log_bytes: Gauge,
    payload_bytes: Gauge,
    quarantined: Gauge,
}

/// What sinks refused that follow the newest state: the one number here that only rises.
fn rejected(registry: &mut Registry) -> Family<Labels, Counter> {
    let help = "Items that the receiver of a sink with mode = \"latest\" rejected";
    let family = Family::<Labels, Counter>::default();
    registry.register("sink_rejected", help, family.clone());
    family
}

impl ConditionGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let help = "The state of a sink: 1 for the one that it has, 0 for the others";
        let sink_state = made(registry, "sink_state", help);
        let sink_rejected = rejected(registry);
        let mut by_label = |name: &str, help: &str| -> ByLabel { made(registry, name, help) };
        let sink_lag = by_label(
            "sink_lag",
            "Requests that a sink has not delivered, at most, including retries and the rest of a fill; 0 if it has everything",
        );
        let sink_oldest_seconds = by_label(
            "sink_oldest_seconds",
            "Age in seconds of the oldest request that a sink has not taken; 0 if it has all",
        );
        let sink_fill_left = by_label(
            "sink_fill_left",
            "Items of the data pool that a sink is to be filled with and does not have; 0 if it has all",
        );
        let sink_backlog_bytes = by_label(
            "sink_backlog_bytes",
            "Approximate bytes of payloads that a sink has not taken",
        );
        let sink_retries = by_label("sink_retries", "Batches that wait for a retry");
        let sink_dead_letters = by_label("sink_dead_letters", "Dead letters of a sink");
        let file_bytes = by_label(
            "file_bytes",
            "Size of each file; write-ahead logs end in -wal",
        );
        let screen_connected = by_label(
            "screen_connected",
            "Whether a screen is connected, or asks for a feed again and again: 1 or 0",
        );
        let acts = ActGauges::register(registry);
        let help = "Problems that the status lists, by kind";
        let problems = made(registry, "problems", help);
        let mut gauge = |name: &str, help: &str| -> Gauge { made(registry, name, help) };
        Self {
            sink_state,
            sink_lag,
            sink_oldest_seconds,
            sink_fill_left,
            sink_backlog_bytes,
            sink_retries,
            sink_dead_letters,
            sink_rejected,
            file_bytes,
            acts,
            screen_connected,
            problems,
            log_bytes: gauge("log_bytes", "Bytes of the request log, about"),
            payload_bytes: gauge(
                "payload_bytes",
                "Approximate bytes of payloads in the journal",
            ),
            quarantined: gauge(
                "quarantined_payloads",
                "Payloads that could not be read and are quarantined",
            ),
        }
    }

    /// Forgets the numbers of before.
    pub fn begin(&self) {
        self.sink_state.clear();
        self.sink_rejected.clear();
        for family in [
            &self.sink_lag,
            &self.sink_oldest_seconds,
            &self.sink_fill_left,
            &self.sink_backlog_bytes,
            &self.sink_retries,
            &self.sink_dead_letters,
            &self.file_bytes,
            &self.acts.held,
            &self.acts.held_keys,
            &self.acts.overridden_fields,
            &self.screen_connected,
        ] {
            family.clear();
        }
    }

    /// Sets the numbers of a sink.
    pub fn set_sink(&self, name: &str, gauges: SinkGauges) {
        for state in SINK_STATES {
            let labels = [("sink", name.to_owned()), ("state", state.to_owned())];
            let gauge = self.sink_state.get_or_create_owned(&labels);
            gauge.set(i64::from(state == gauges.state));
        }
        let labels = [("sink", name.to_owned())];
        put(&self.sink_lag, &labels, Some(gauges.lag));
        put(&self.sink_oldest_seconds, &labels, gauges.oldest_seconds);
        put(&self.sink_fill_left, &labels, gauges.fill_left);
        put(&self.sink_backlog_bytes, &labels, gauges.backlog_bytes);
        put(&self.sink_retries, &labels, gauges.retries);
        put(&self.sink_dead_letters, &labels, gauges.dead_letters);
        let rejected = self.sink_rejected.get_or_create_owned(&labels);
        rejected.inc_by(gauges.rejected);
    }

    /// Sets the size of a file.
    pub fn set_file(&self, name: &str, bytes: u64) {
        put(&self.file_bytes, &[("file", name.to_owned())], Some(bytes));
    }

    /// Sets what operators do to a stream; one that they leave alone has no numbers.
    pub fn set_acts(&self, stream: &str, held: bool, held_keys: u64, fields: u64) {
        let labels = [("stream", stream.to_owned())];
        put(&self.acts.held, &labels, Some(u64::from(held)));
        put(&self.acts.held_keys, &labels, Some(held_keys));
        put(&self.acts.overridden_fields, &labels, Some(fields));
    }

    /// Sets whether a screen, by the name of its read key, is there.
    pub fn set_screen(&self, name: &str, is_there: bool) {
        let labels = [("screen", name.to_owned())];
        put(&self.screen_connected, &labels, Some(u64::from(is_there)));
    }

    /// Sets how many problems of a kind there are.
    pub fn set_problems(&self, kind: &'static str, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.problems
            .get_or_create_owned(&[("kind", kind)])
            .set(count);
    }

    /// Sets what is not of a sink or a file. What is not known stays as it was.
    pub fn set(
        &self,
        log_bytes: Option<u64>,
        payload_bytes: Option<u64>,
        quarantined: Option<u64>,
    ) {
        for (gauge, value) in [
            (&self.log_bytes, log_bytes),
            (&self.payload_bytes, payload_bytes),
            (&self.quarantined, quarantined),
        ] {
            if let Some(value) = value {
                gauge.set(signed(value));
            }
        }
    }
}

fn by_label(registry: &mut Registry, name: &str, help: &str) -> ByLabel {
    let family = ByLabel::default();
    registry.register(name, help, family.clone());
    family
}

/// A metric that is registered.
fn made<T: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> T {
    let metric = T::default();
    registry.register(name, help, metric.clone());
    metric
}

fn put(family: &ByLabel, labels: &Labels, value: Option<u64>) {
    if let Some(value) = value {
        family.get_or_create(labels).set(signed(value));
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
