//! The daemon at a glance.
//!
//! **Invariant**: what is wrong is named, not only coloured: `problems` is empty exactly when
//! everything works.

use salvo_core::Router;
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Serialize;

use super::sinks::{SinkData, sinks};
use base::clock;
use base::order::Seq;
use http::envelope::{self, Success};
use operate::Operator;
use operate::limits::LimitUse;

/// The status.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("status")
        .oapi_tag("status")
        .get(GetStatus(operator.clone()))
}

/// The daemon at a glance.
#[derive(Debug, Serialize, ToSchema)]
struct StatusData {
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
    #[salvo(schema(value_type = u64))]
    newest_seq: Seq,
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
    /// Limits, with what is used of them.
    limits: Vec<LimitData>,
}

/// A limit.
#[derive(Debug, Serialize, ToSchema)]
struct LimitData {
    /// The setting, or what it is where nobody can set it.
    name: &'static str,
    /// `connections`, `bytes` or `items`.
    unit: &'static str,
    /// How much is used; where the limit is for each of several, by the one that is nearest to it.
    used: u64,
    /// Of so much; null: there is no limit.
    max: Option<u64>,
    /// Who that is, or, of what all share, who has most; null: nobody in particular.
    holder: Option<String>,
}

impl From<LimitUse> for LimitData {
    fn from(limit: LimitUse) -> Self {
        Self {
            name: limit.name,
            unit: limit.unit,
            used: limit.used,
            max: limit.max,
            holder: limit.holder,
        }
    }
}

/// A file of the data folder.
#[derive(Debug, Serialize, ToSchema)]
struct FileData {
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
struct RequestCounts {
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

struct GetStatus(Operator);

/// The daemon at a glance.
#[endpoint(
    operation_id = "status",
    responses((status_code = 200, body = Success<StatusData>, description = "How it is.")),
)]
impl GetStatus {
    async fn handle(&self) -> Success<StatusData> {
        let operator = &self.0;
        let condition = operator.condition().await;
        let amounts = operator.amounts(&condition).await;
        let (about, metrics) = (&operator.about, &operator.metrics);
        envelope::ok(StatusData {
            version: env!("CARGO_PKG_VERSION"),
            profile: about.profile.clone(),
            data_dir: about.data_dir.clone(),
            durability: about.durability,
            started_at: clock::rfc3339(about.started_at),
            uptime_seconds: about.started.elapsed().as_secs(),
            problems: operator.problems(&condition),
            newest_seq: *operator.journal.newest().borrow(),
            disk_free_bytes: metrics.disk_free_bytes.get(),
            requests: RequestCounts {
                accepted: metrics.accepted.get(),
                duplicate: metrics.duplicates.get(),
                test: metrics.tests.get(),
                rejected: metrics.invalid.get()
                    + metrics.stream_not_found.get()
                    + metrics.too_large.get()
                    + metrics.rate_limited.get()
                    + metrics.stream_full.get(),
                unauthorized: metrics.unauthorized.get(),
                unavailable: metrics.unavailable.get(),
            },
            log_bytes: amounts.log_bytes,
            payload_bytes: amounts.payload_bytes,
            quarantined_payloads: condition.quarantined,
            files: condition.files.iter().map(FileData::from).collect(),
            sinks: sinks(&condition, &amounts),
            limits: operator
                .limits(&amounts)
                .into_iter()
                .map(LimitData::from)
                .collect(),
        })
    }
}
