//! The daemon at a glance.
//!
//! **Invariant**: what is wrong is named, not only coloured: `problems` is empty exactly when
//! everything works.

use std::path::Path;

use salvo_core::Response;
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;

use super::super::Parts;
use super::super::condition::{Condition, SinkCondition};
use super::super::envelope::{self, ErrorBody, Success};
use super::sinks::{CRASHED, SinkData, sinks};
use crate::clock;
use crate::delivery::LaneState;
use crate::metrics::Minute;
use crate::repair::report;
use crate::sqlite::holders;

/// A sink that is behind for so long is a problem.
const LAG_MS_MAX: u64 = 60_000;
/// A write-ahead log of this size is one: it is copied back long before, unless somebody keeps it.
const WAL_BYTES_MAX: u64 = 256 << 20;
/// So many requests refused in so many minutes are one, if they are such a share of all.
const REFUSED_MIN: u64 = 10;
const REFUSED_MINUTES: usize = 5;
const REFUSED_PERCENT: u64 = 20;

/// The daemon at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct StatusData {
    /// Version of the daemon.
    version: &'static str,
    /// Name of the configuration profile.
    profile: String,
    /// The data folder.
    data_dir: String,
    /// `fsync` or `os`.
    durability: &'static str,
    /// When the daemon started, RFC 3339.
    started_at: String,
    /// Seconds since then.
    uptime_seconds: u64,
    /// What does not work, in sentences; empty if everything does.
    problems: Vec<String>,
    /// Sequence number of the newest accepted request.
    newest_seq: u64,
    /// Bytes free on the disk of the data folder.
    disk_free_bytes: i64,
    /// Requests since the start, by what became of them.
    requests: RequestCounts,
    /// About how many bytes the request log takes; null if it cannot be read.
    log_bytes: Option<u64>,
    /// About how many bytes the payloads take that the journal keeps; null if they cannot be read.
    payload_bytes: Option<u64>,
    /// Payloads that could not be read and are put aside; null if that cannot be read.
    quarantined_payloads: Option<u64>,
    /// The files that grow; write-ahead logs end in `-wal`.
    files: Vec<FileData>,
    /// The sinks.
    sinks: Vec<SinkData>,
}

/// A file of the data folder.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct FileData {
    /// Its name.
    name: &'static str,
    /// Its size.
    bytes: u64,
}

impl From<&(&'static str, u64)> for FileData {
    fn from((name, bytes): &(&'static str, u64)) -> Self {
        Self {
            name,
            bytes: *bytes,
        }
    }
}

/// Requests since the start.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RequestCounts {
    /// Stored.
    accepted: u64,
    /// Repeats.
    duplicate: u64,
    /// With test keys.
    test: u64,
    /// Refused with 400, 404, 413 or 429.
    rejected: u64,
    /// Without a valid key.
    unauthorized: u64,
    /// Refused because they could not be stored.
    unavailable: u64,
}

/// `GET /api/admin/status`
pub(in crate::http) struct GetStatus(pub(in crate::http) Parts);

/// The daemon at a glance.
#[endpoint(
    operation_id = "status",
    tags("status"),
    responses(
        (status_code = 200, body = Success<StatusData>, description = "How it is."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
    ),
    security(("admin_token" = [])),
)]
impl GetStatus {
    async fn handle(&self, res: &mut Response) {
        let parts = &self.0;
        let condition = Condition::of(parts).await;
        let amounts = condition.amounts(parts).await;
        let metrics = &parts.metrics;
        let status = StatusData {
            version: env!("CARGO_PKG_VERSION"),
            profile: parts.about.profile.clone(),
            data_dir: parts.about.data_dir.clone(),
            durability: parts.about.durability,
            started_at: clock::rfc3339(parts.about.started_ms),
            uptime_seconds: clock::unix_ms().saturating_sub(parts.about.started_ms) / 1_000,
            problems: problems(parts, &condition),
            newest_seq: *parts.journal.newest().borrow(),
            disk_free_bytes: metrics.disk_free_bytes.get(),
            requests: RequestCounts {
                accepted: metrics.accepted.get(),
                duplicate: metrics.duplicates.get(),
                test: metrics.tests.get(),
                rejected: metrics.invalid.get()
                    + metrics.stream_not_found.get()
                    + metrics.too_large.get()
                    + metrics.rate_limited.get(),
                unauthorized: metrics.unauthorized.get(),
                unavailable: metrics.unavailable.get(),
            },
            log_bytes: amounts.log_bytes,
            payload_bytes: amounts.payload_bytes,
            quarantined_payloads: condition.quarantined,
            files: condition.files.iter().map(FileData::from).collect(),
            sinks: sinks(&condition, Some(&amounts)),
        };
        envelope::ok(res, status);
    }
}

/// What does not work, in sentences.
pub(in crate::http) fn problems(parts: &Parts, condition: &Condition) -> Vec<String> {
    let mut problems = Vec::new();
    if let Err(error) = parts.gate.check() {
        problems.push(error.to_string());
    }
    problems.extend(parts.configuration.problem());
    problems.extend(parts.delivery.gaps(&parts.catalog));
    problems.extend(report::problems(Path::new(&parts.about.data_dir)));
    problems.extend(condition.unreadable.iter().cloned());
    for sink in &condition.sinks {
        let name = &sink.name;
        let Some(lane) = &sink.lane else {
            let told = SinkData::new(sink, None).reason.unwrap_or_default();
            problems.push(format!("the sink {name}: {told}"));
            continue;
        };
        if let Some(reason) = lane.refused() {
            problems.push(format!(
                "the sink {name} goes on as before, what is new for it cannot be used: {reason}"
            ));
        }
        match lane.state() {
            LaneState::Paused { reason, .. } => {
                problems.push(format!("the sink {name} is paused: {reason}"));
            }
            LaneState::Crashed => problems.push(format!("the sink {name}: {CRASHED}")),
            LaneState::Starting | LaneState::Running => {}
        }
        problems.extend(undelivered(sink));
    }
    problems.extend(refused(parts));
    if let Some(count @ 1..) = condition.quarantined {
        problems.push(format!(
            "{} could not be read and lie in the table quarantine of journal.db; their items are dead letters",
            counted(count, "payload")
        ));
    }
    for (name, bytes) in &condition.files {
        if name.ends_with("-wal") && *bytes >= WAL_BYTES_MAX {
            let file = name.trim_end_matches("-wal");
            let readers = holders::readers(&Path::new(&parts.about.data_dir).join(file));
            let who = match readers.is_empty() {
                true => "a program that reads the file for long".to_owned(),
                false => format!("{}, reading the file,", readers.join(", ")),
            };
            problems.push(format!(
                "{name} has grown to {} MiB: {who} keeps it from being copied back; end its transaction",
                bytes >> 20
            ));
        }
    }
    problems
}

/// What a sink has not delivered, and why, as far as that is known.
fn undelivered(sink: &SinkCondition) -> Vec<String> {
    let name = &sink.name;
    let mut problems = Vec::new();
    let waits_ms = (sink.oldest_ms).map(|oldest_ms| clock::unix_ms().saturating_sub(oldest_ms));
    if let Some(waits_ms) = waits_ms.filter(|waits_ms| *waits_ms >= LAG_MS_MAX) {
        problems.push(format!(
            "the sink {name} is {} behind; the oldest has waited for {} s",
            counted(sink.lag, "request"),
            waits_ms / 1_000
        ));
    }
    let Some(undelivered) = sink.undelivered else {
        return problems;
    };
    if undelivered.retries > 0 {
        let why = sink.lane.as_ref().and_then(|lane| lane.last_error());
        let why = why.map(|(_, why)| format!(": {why}"));
        problems.push(format!(
            "the sink {name} fails: {} for another attempt{}",
            waits(undelivered.retries, "batch", "batches"),
            why.unwrap_or_default()
        ));
    }
    if undelivered.dead_letters > 0 {
        problems.push(format!(
            "the sink {name} gave up: {} to be sent again or discarded",
            waits(undelivered.dead_letters, "dead letter", "dead letters")
        ));
    }
    problems
}

/// Connectors of whose requests many were refused lately, and requests of nobody known.
fn refused(parts: &Parts) -> Vec<String> {
    let now_ms = clock::unix_ms();
    let lately = |connector: Option<&str>| {
        let hour = parts.metrics.recent.hour(connector, now_ms);
        let minutes = hour.into_iter().rev().take(REFUSED_MINUTES);
        minutes.fold(Minute::default(), Minute::and)
    };
    let is_high = |errors: u64, requests: u64| {
        errors >= REFUSED_MIN && errors.saturating_mul(100) >= requests * REFUSED_PERCENT
    };
    let share = |errors: u64, requests: u64| errors.saturating_mul(100) / requests.max(1);
    let mut problems = Vec::new();
    let mut known = Minute::default();
    for connector in parts.catalog.connectors() {
        let sum = lately(Some(&connector.name));
        known = known.and(sum);
        if is_high(sum.errors, sum.requests) {
            problems.push(format!(
                "{} % of the requests of the connector {} were refused in the last {REFUSED_MINUTES} minutes; its request log says why",
                share(sum.errors, sum.requests),
                connector.name
            ));
        }
    }
    let all = lately(None);
    let unknown = all.errors.saturating_sub(known.errors);
    if is_high(unknown, all.requests) {
        problems.push(format!(
            "{} % of all requests were refused in the last {REFUSED_MINUTES} minutes because they had no valid key",
            share(unknown, all.requests)
        ));
    }
    problems
}

fn counted(number: u64, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

fn waits(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one} waits"),
        number => format!("{number} {many} wait"),
    }
}
