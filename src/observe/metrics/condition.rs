//! Gauges of how the daemon is, set when somebody reads the metrics.
//!
//! **Invariant**: a sink or a file that is gone has no number.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::row::metrics;

type Labels = [(&'static str, String); 1];
type ByLabel = Family<Labels, Gauge<i64, AtomicI64>>;

const SINK: &[(&str, &[&str])] = &[("sink", &[])];
const STREAM: &[(&str, &[&str])] = &[("stream", &[])];

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

/// The kinds of problems. `strangers` is the name that version 0.1 has for `unauthenticated`.
pub const PROBLEM_KINDS: &[&str] = &[
    "intake",
    "cluster",
    "configuration",
    "certificate",
    "no_sink",
    "repair",
    "hold_restored",
    "unreadable",
    "sink_unconfigured",
    "sink_refused",
    "sink_paused",
    "sink_failing",
    "sink_crashed",
    "sink_behind",
    "sink_retries",
    "sink_dead_letters",
    "connections",
    "limit",
    "item_key",
    "clock",
    "wrong_tokens",
    "renderers",
    "screen_away",
    "refused",
    "unauthenticated",
    "strangers",
    "quarantine",
    "wal",
    "log",
];

metrics! {
    /// The gauges.
    pub struct ConditionGauges of registry {
        /// The state of a sink: 1 for the one that it has, 0 for the others.
        sink_state: Family<[(&'static str, String); 2], Gauge>, "0 or 1", labels: &[("sink", &[]), ("state", &SINK_STATES)];
        /// Requests and items that the sink has not finished, at most, including retries and the rest of a filling; 0 only if
        /// it has everything.
        sink_lag: ByLabel, "requests and items", labels: SINK;
        /// Items that the receiver of a sink with `mode = "latest"` rejected.
        sink_rejected: Family<Labels, Counter>, "items", labels: SINK;
        /// Items of the data pool that the sink is to be filled with and does not have; 0 if it has all.
        sink_fill_left: ByLabel, "items", labels: SINK;
        /// Age of the oldest request that the sink has not finished; 0 if it has finished all.
        sink_oldest_seconds: ByLabel, "seconds", labels: SINK;
        /// Approximate bytes of requests that the sink has not finished.
        sink_backlog_bytes: ByLabel, "bytes", labels: SINK;
        /// Batches that wait for a retry.
        sink_retries: ByLabel, "batches", labels: SINK;
        /// Dead letters of the sink that were not yet retried or discarded.
        sink_dead_letters: ByLabel, "items", labels: SINK;
        /// 1 if an operator holds the whole stream; no number for streams that nobody acts in.
        stream_held: ByLabel, "0 or 1", labels: STREAM, guide: "See [acting on what is shown][acts].";
        /// Items of a stream that operators hold one by one.
        stream_held_keys: ByLabel, "items", labels: STREAM;
        /// Fields of a stream that operators have overridden.
        stream_overridden_fields: ByLabel, "fields", labels: STREAM;
        /// 1 if the screen is connected, or polls a feed. The label is the name of its read key.
        screen_connected: ByLabel, "0 or 1", labels: &[("screen", &[])];
        /// Problems that the status lists, by kind.
        problems: Family<[(&'static str, &'static str); 1], Gauge>, "problems", labels: &[("kind", PROBLEM_KINDS)],
            guide: "Until version 0.3, `strangers` counts those of `unauthenticated` too, because version 0.1 called it so.";
        /// Size of each file; write-ahead logs end in -wal.
        file_bytes: ByLabel, "bytes", labels: &[("file", &[])];
        /// Approximate bytes of the request log.
        log_bytes: Gauge, "bytes";
        /// Approximate bytes of payloads in the journal.
        payload_bytes: Gauge, "bytes";
        /// Payloads that could not be read and are quarantined.
        quarantined as "quarantined_payloads": Gauge, "payloads";
    }
}

impl ConditionGauges {
    /// Forgets the numbers of before. Otherwise a sink, a stream or a file that is gone would keep its last ones.
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
            &self.stream_held,
            &self.stream_held_keys,
            &self.stream_overridden_fields,
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
        put(&self.stream_held, &labels, Some(u64::from(held)));
        put(&self.stream_held_keys, &labels, Some(held_keys));
        put(&self.stream_overridden_fields, &labels, Some(fields));
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

fn put(family: &ByLabel, labels: &Labels, value: Option<u64>) {
    if let Some(value) = value {
        family.get_or_create(labels).set(signed(value));
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
