//! How the daemon is at this moment: what status, pages and metrics show beside what is counted anyway.
//!
//! It is measured when somebody asks, so it costs nothing when nobody does.
//!
//! **Invariant**: what cannot be read is left out and said in [`Condition::unreadable`]; nothing here fails.

use std::path::Path;
use std::sync::Arc;

use super::Parts;
use crate::delivery::LaneStatus;
use crate::metrics::SinkGauges;
use crate::pool::Undelivered;

/// The files of the data folder that grow.
const FILES: [&str; 6] = [
    "journal.db",
    "journal.db-wal",
    "pool.db",
    "pool.db-wal",
    "catalog.db",
    "catalog.db-wal",
];

/// How the daemon is.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) sinks: Vec<SinkCondition>,
    /// Name and bytes of each file that is there.
    pub(super) files: Vec<(&'static str, u64)>,
    /// Payloads that could not be read and are put aside.
    pub(super) quarantined: Option<u64>,
    /// What could not be read, and why, in sentences.
    pub(super) unreadable: Vec<String>,
}

/// How a sink is.
#[derive(Debug)]
pub(super) struct SinkCondition {
    pub(super) name: Arc<str>,
    /// None: it is not in the configuration any more, and not forgotten.
    pub(super) lane: Option<Arc<LaneStatus>>,
    /// Everything up to this sequence number is behind it.
    pub(super) cursor: u64,
    /// By how many sequence numbers it is behind.
    pub(super) lag: u64,
    /// When the oldest request arrived that it has not taken: Unix time in milliseconds.
    pub(super) oldest_ms: Option<u64>,
    /// None: the pool cannot be read.
    pub(super) undelivered: Option<Undelivered>,
}

/// What takes longer to measure.
#[derive(Debug, Default)]
pub(super) struct Amounts {
    /// About what the log takes.
    pub(super) log_bytes: Option<u64>,
    /// About what the payloads take that the journal keeps.
    pub(super) payload_bytes: Option<u64>,
    /// About what of it each sink has not taken, in the order of the sinks.
    pub(super) backlog_bytes: Vec<Option<u64>>,
}

impl Condition {
    /// Looks.
    pub(super) async fn of(parts: &Parts) -> Self {
        let mut unreadable = Vec::new();
        let mut sinks = Vec::new();
        for lane in parts.delivery.lanes() {
            let name = Arc::clone(lane.name());
            // In this order: what the cursor has passed is then seen among retries and dead letters.
            let cursor = lane.cursor();
            sinks.push(sink(parts, name, Some(lane), cursor, &mut unreadable).await);
        }
        let known = parts.pool.known_sinks().await;
        for known in seen(known, "the data pool", &mut unreadable).unwrap_or_default() {
            // Asked again: it may have been added since.
            if parts.delivery.lane(&known.name).is_none() {
                let name = known.name.into();
                sinks.push(sink(parts, name, None, known.cursor, &mut unreadable).await);
            }
        }
        let quarantined = parts.journal.quarantined().await;
        let quarantined = seen(quarantined, "the journal", &mut unreadable);
        Self {
            sinks,
            files: files(Path::new(&parts.about.data_dir)),
            quarantined,
            unreadable,
        }
    }

    /// Looks further. What cannot be read has been said.
    pub(super) async fn amounts(&self, parts: &Parts) -> Amounts {
        let journal = &parts.journal;
        let mut backlog_bytes = Vec::with_capacity(self.sinks.len());
        for sink in &self.sinks {
            backlog_bytes.push(match sink.lag {
                0 => Some(0),
                _ => journal.payload_bytes_after(sink.cursor).await.ok(),
            });
        }
        Amounts {
            log_bytes: journal.log_bytes().await.ok(),
            payload_bytes: journal.payload_bytes_after(0).await.ok(),
            backlog_bytes,
        }
    }

    /// Sets the gauges.
    pub(super) fn show(&self, amounts: &Amounts, parts: &Parts) {
        let gauges = &parts.metrics.condition;
        gauges.begin();
        for (sink, backlog_bytes) in self.sinks.iter().zip(&amounts.backlog_bytes) {
            let of = |count: fn(&Undelivered) -> u64| sink.undelivered.as_ref().map(count);
            gauges.set_sink(
                &sink.name,
                SinkGauges {
                    lag: sink.lag,
                    backlog_bytes: *backlog_bytes,
                    retries: of(|undelivered| undelivered.retries),
                    dead_letters: of(|undelivered| undelivered.dead_letters),
                },
            );
        }
        for (name, bytes) in &self.files {
            gauges.set_file(name, *bytes);
        }
        gauges.set(amounts.log_bytes, amounts.payload_bytes, self.quarantined);
    }
}

async fn sink(
    parts: &Parts,
    name: Arc<str>,
    lane: Option<Arc<LaneStatus>>,
    cursor: u64,
    unreadable: &mut Vec<String>,
) -> SinkCondition {
    let lag = parts.journal.lag(cursor);
    let undelivered = parts.pool.undelivered(&name).await;
    let undelivered = seen(undelivered, "the data pool", unreadable);
    let oldest_ms = match lag {
        0 => None,
        _ => {
            let oldest = parts.journal.oldest_after_ms(cursor).await;
            seen(oldest, "the journal", unreadable).flatten()
        }
    };
    SinkCondition {
        name,
        lane,
        cursor,
        lag,
        oldest_ms,
        undelivered,
    }
}

fn seen<T, E: std::fmt::Display>(
    result: Result<T, E>,
    what: &str,
    unreadable: &mut Vec<String>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let sentence = format!("{what} cannot be read: {error}");
            if !unreadable.contains(&sentence) {
                unreadable.push(sentence);
            }
            None
        }
    }
}

fn files(data_dir: &Path) -> Vec<(&'static str, u64)> {
    let size = |name: &'static str| {
        let metadata = data_dir.join(name).metadata().ok()?;
        Some((name, metadata.len()))
    };
    FILES.into_iter().filter_map(size).collect()
}
