//! Status of each request, and why items became dead letters.
//!
//! **Invariant**: a sink that was added after a request says nothing about it.

pub use wire::Status;

use super::Requests;
use base::clock::Unix;
use base::order::Seq;
use delivery::ReadError;
use item::batch::Action;
use journal::Outcome;
use journal::log::LogRow;
use pool::{GivenUp, LeftBehind, PoolError, SinkState, Stale};

/// Maximum characters of a sink's reason.
const REASON_CHARS_MAX: usize = 500;

/// The stored outcome of a status.
pub(super) fn outcome(status: Status) -> Outcome {
    match status {
        Status::Accepted
        | Status::Processed
        | Status::Stale
        | Status::Failed
        | Status::Discarded => Outcome::Accepted,
        Status::Rejected => Outcome::Rejected,
        Status::Duplicate => Outcome::Duplicate,
        Status::Test => Outcome::Test,
        Status::Removed => Outcome::Removed,
        Status::Handshake => Outcome::Handshake,
    }
}

/// A request with its status.
#[derive(Debug, Clone)]
pub struct Report {
    pub row: LogRow,
    pub status: Status,
    /// When the last sink had processed it; `None` unless every sink has.
    pub processed_at: Option<Unix>,
    /// Why its items became dead letters, and which of its operations are older than the items in the data pool, a
    /// sentence each.
    pub failures: Vec<String>,
    /// Its operations that are older than the items in the data pool.
    pub left_behind: LeftBehind,
    /// The sinks that receive its stream, by name; not those that were added later.
    pub sinks: Vec<(String, SinkState)>,
}

impl Requests {
    /// The statuses of these requests.
    pub(super) async fn complete(&self, rows: Vec<LogRow>) -> Result<Vec<Report>, ReadError> {
        let report = |row: LogRow| Report {
            status: match row.entry.outcome {
                Outcome::Accepted => Status::Accepted,
                Outcome::Rejected => Status::Rejected,
                Outcome::Duplicate => Status::Duplicate,
                Outcome::Test => Status::Test,
                Outcome::Removed => Status::Removed,
                Outcome::Handshake => Status::Handshake,
            },
            row,
            processed_at: None,
            failures: Vec::new(),
            left_behind: LeftBehind::default(),
            sinks: Vec::new(),
        };
        let mut reports: Vec<Report> = rows.into_iter().map(report).collect();
        let lanes = self.delivery.shown().into_iter();
        // Others get the newest state, and no request.
        for lane in lanes.filter(|lane| !lane.sink().is_latest()) {
            let sink = lane.sink();
            let takes_removals = lane.takes_removals();
            let mut wanted: Vec<&mut Report> = (reports.iter_mut())
                .filter(|report| match report.row.entry.outcome.action() {
                    Some(Action::Remove) => takes_removals && has_payload(report),
                    action => action.is_some(),
                })
                .filter(|report| sink.matches(&report.row.entry.stream))
                .collect();
            let seqs: Vec<Seq> = wanted.iter().map(|report| report.row.seq).collect();
            let states = self.pool.sink_states(lane.name(), &seqs).await?;
            for (report, state) in wanted.iter_mut().zip(states) {
                if let Some(state) = state {
                    report.sinks.push((lane.name().to_string(), state));
                }
            }
        }
        let accepted = |report: &&mut Report| report.row.entry.outcome.action().is_some();
        for report in reports.iter_mut().filter(accepted) {
            let count = u64::from(report.row.entry.items);
            let is = |wanted: &dyn Fn(&SinkState) -> bool| {
                let mut states = report.sinks.iter().map(|(_, state)| state);
                states.any(wanted)
            };
            let became = if is(&|state| *state == SinkState::Failed) {
                Status::Failed
            } else if is(&|state| matches!(state, SinkState::Waiting | SinkState::Retrying)) {
                Status::Accepted
            } else if is(&|state| matches!(state, SinkState::Discarded(_))) {
                Status::Discarded
            } else if is(
                &|state| matches!(state, SinkState::Stale { items, .. } if *items >= count),
            ) {
                Status::Stale
            } else {
                Status::Processed
            };
            // A removal is called so whatever becomes of it; its sinks say more.
            if report.row.entry.outcome == Outcome::Accepted {
                report.status = became;
            }
            if matches!(became, Status::Processed | Status::Stale) {
                let done = report.sinks.iter().map(|(_, state)| match state {
                    SinkState::Done(at) | SinkState::Stale { at, .. } => *at,
                    _ => None,
                });
                report.processed_at = done.max().flatten();
            }
        }
        Ok(reports)
    }

    /// Adds the reasons of dead letters, and the outdated operations.
    pub(super) async fn explain(&self, reports: &mut [Report]) -> Result<(), PoolError> {
        let seqs: Vec<Seq> = reports.iter().map(|report| report.row.seq).collect();
        let mut left_behind = self.pool.left_behind(&seqs).await?;
        for report in reports.iter_mut() {
            if let Some(left) = left_behind.remove(&report.row.seq) {
                report.failures = older(&left);
                report.left_behind = left;
            }
        }
        for lane in self.delivery.shown() {
            let name = &**lane.name();
            let failed = |report: &&mut Report| {
                let mut sinks = report.sinks.iter();
                sinks.any(|(sink, state)| *state == SinkState::Failed && *sink == *name)
            };
            let failed: Vec<&mut Report> = reports.iter_mut().filter(failed).collect();
            if failed.is_empty() {
                continue;
            }
            let seqs: Vec<Seq> = failed.iter().map(|report| report.row.seq).collect();
            let reasons = self.pool.reasons(name, &seqs).await?;
            for (report, reasons) in failed.into_iter().zip(reasons) {
                let failures = reasons.iter().map(|reason| failure(name, reason));
                report.failures.extend(failures);
            }
        }
        Ok(())
    }
}

impl Report {
    /// All errors: why it was rejected, notices about it, and the reasons of dead letters.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        let failures = self.failures.iter().map(String::as_str);
        self.row.entry.error.as_deref().into_iter().chain(failures)
    }
}

/// `item 3: version 2 is older than 9, which item "m1" has`
fn older(left: &LeftBehind) -> Vec<String> {
    let say = |stale: &Stale| {
        let Stale {
            item,
            key,
            version,
            reached,
            taken,
        } = stale;
        let taken = match &taken[..] {
            [] => String::new(),
            taken => format!("; nothing newer has {}, which counts", taken.join(", ")),
        };
        format!(
            "item {item}: version {version} is older than {reached}, which item {key:?} has{taken}"
        )
    };
    let mut said: Vec<String> = left.first.iter().map(say).collect();
    let more = left.count.saturating_sub(said.len() as u64);
    if more > 0 {
        said.push(format!(
            "{more} more items are older than those in the data pool"
        ));
    }
    said
}

/// `crm: answered 503 after 3 attempts`
fn failure(sink: &str, given_up: &GivenUp) -> String {
    let reason = &given_up.reason;
    let cut = reason.char_indices().nth(REASON_CHARS_MAX);
    let shown = match cut {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.clone(),
    };
    // Without an attempt there was nothing to try.
    match given_up.attempts {
        0 => format!("{sink}: {shown}"),
        1 => format!("{sink}: {shown} after 1 attempt"),
        attempts => format!("{sink}: {shown} after {attempts} attempts"),
    }
}

/// Older versions logged removals that sinks did not receive.
fn has_payload(report: &Report) -> bool {
    report.row.entry.http_status == 202
}
