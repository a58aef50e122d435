//! The daemon at a glance.
//!
//! **Invariant**: what is wrong is named, not only coloured: `problems` is empty exactly when
//! everything works.

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;

use super::super::Parts;
use super::super::envelope::{self, ErrorBody, Success};
use super::sinks::{CRASHED, SinkData, sinks};
use crate::clock;
use crate::delivery::LaneState;

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
    /// The sinks.
    sinks: Vec<SinkData>,
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
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let parts = &self.0;
        let sinks = match sinks(parts).await {
            Ok(sinks) => sinks,
            Err(error) => return envelope::internal(req, res, &error),
        };
        let metrics = &parts.metrics;
        let status = StatusData {
            version: env!("CARGO_PKG_VERSION"),
            profile: parts.about.profile.clone(),
            data_dir: parts.about.data_dir.clone(),
            durability: parts.about.durability,
            started_at: clock::rfc3339(parts.about.started_ms),
            uptime_seconds: clock::unix_ms().saturating_sub(parts.about.started_ms) / 1_000,
            problems: problems(parts),
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
            sinks,
        };
        envelope::ok(res, status);
    }
}

/// What does not work, in sentences.
pub(in crate::http) fn problems(parts: &Parts) -> Vec<String> {
    let mut problems = Vec::new();
    if let Err(error) = parts.gate.check() {
        problems.push(error.to_string());
    }
    problems.extend(parts.configuration.problem());
    for lane in parts.delivery.lanes() {
        let name = lane.name();
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
    }
    problems
}
