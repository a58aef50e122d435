//! Gauges of how the daemon is, set when somebody reads the metrics.
//!
//! **Invariant**: a sink or a file that is gone has no number.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, String); 1];
type ByLabel = Family<Labels, Gauge<i64, AtomicI64>>;

/// How a sink is. What is not known has no number.
#[derive(Debug, Clone, Copy, Default)]
pub struct SinkGauges {
    /// By how many sequence numbers it is behind.
    pub lag: u64,
    /// Bytes of the payloads that it has not taken.
    pub backlog_bytes: Option<u64>,
    /// Batches that wait for another attempt.
    pub retries: Option<u64>,
    /// Items given up.
    pub dead_letters: Option<u64>,
}

/// The gauges.
#[derive(Debug)]
pub struct ConditionGauges {
    sink_lag: ByLabel,
    sink_backlog_bytes: ByLabel,
    sink_retries: ByLabel,
    sink_dead_letters: ByLabel,
    file_bytes: ByLabel,
    log_bytes: Gauge,
    payload_bytes: Gauge,
    quarantined: Gauge,
}

impl ConditionGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut by_label = |name: &str, help: &str| {
            let family = ByLabel::default();
            registry.register(name, help, family.clone());
            family
        };
        let sink_lag = by_label("sink_lag", "Sequence numbers that a sink is behind");
        let sink_backlog_bytes = by_label(
            "sink_backlog_bytes",
            "Bytes of payloads that a sink has not taken, about",
        );
        let sink_retries = by_label("sink_retries", "Batches that wait for another attempt");
        let sink_dead_letters = by_label(
            "sink_dead_letters",
            "Items given up that nobody sent again or discarded",
        );
        let file_bytes = by_label(
            "file_bytes",
            "Size of each file; write-ahead logs end in -wal",
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            sink_lag,
            sink_backlog_bytes,
            sink_retries,
            sink_dead_letters,
            file_bytes,
            log_bytes: gauge("log_bytes", "Bytes of the request log, about"),
            payload_bytes: gauge("payload_bytes", "Bytes of payloads in the journal, about"),
            quarantined: gauge(
                "quarantined_payloads",
                "Payloads that could not be read and are put aside",
            ),
        }
    }

    /// Forgets the numbers of before.
    pub fn begin(&self) {
        for family in [
            &self.sink_lag,
            &self.sink_backlog_bytes,
            &self.sink_retries,
            &self.sink_dead_letters,
            &self.file_bytes,
        ] {
            family.clear();
        }
    }

    /// Sets the numbers of a sink.
    pub fn set_sink(&self, name: &str, gauges: SinkGauges) {
        let labels = [("sink", name.to_owned())];
        put(&self.sink_lag, &labels, Some(gauges.lag));
        put(&self.sink_backlog_bytes, &labels, gauges.backlog_bytes);
        put(&self.sink_retries, &labels, gauges.retries);
        put(&self.sink_dead_letters, &labels, gauges.dead_letters);
    }

    /// Sets the size of a file.
    pub fn set_file(&self, name: &str, bytes: u64) {
        put(&self.file_bytes, &[("file", name.to_owned())], Some(bytes));
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
