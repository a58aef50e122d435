//! What became of requests: the request log joined with the state of the sinks.
//!
//! The admin API and `GET /api/requests/{request_id}` read it.
//!
//! **Invariant**: a status is computed when it is asked for, from cursors, retries and dead letters;
//! nothing is updated for each request.

use uuid::Uuid;

use super::Delivery;
use crate::journal::log::{Filter, LogEntry, LogRow};
use crate::journal::{Outcome, StorageError};
use crate::pool::{PoolError, SinkState};

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Stored, not yet in every sink.
    Accepted,
    /// In every sink that wants its stream.
    Processed,
    /// Some sink gave up on some of its items.
    Failed,
    /// Refused.
    Rejected,
    /// A repeat.
    Duplicate,
    /// Came with a test key.
    Test,
    /// Removed an item.
    Removed,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 7] = [
        Status::Accepted,
        Status::Processed,
        Status::Failed,
        Status::Rejected,
        Status::Duplicate,
        Status::Test,
        Status::Removed,
    ];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Processed => "processed",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
            Self::Test => "test",
            Self::Removed => "removed",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// How it stands in the log.
    fn outcome(self) -> Outcome {
        match self {
            Self::Accepted | Self::Processed | Self::Failed => Outcome::Accepted,
            Self::Rejected => Outcome::Rejected,
            Self::Duplicate => Outcome::Duplicate,
            Self::Test => Outcome::Test,
            Self::Removed => Outcome::Removed,
        }
    }
}

/// One request with everything that is known of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its log entry.
    pub row: LogRow,
    /// What became of it.
    pub status: Status,
    /// When the last sink had it: Unix time in milliseconds.
    pub processed_ms: Option<u64>,
    /// The sinks that want its stream, by name; not those that were added later.
    pub sinks: Vec<(String, SinkState)>,
}

/// A page of reports, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The requests.
    pub reports: Vec<Report>,
    /// Where the next page begins, if there may be one.
    pub next: Option<u64>,
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The log cannot be read.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The state of the sinks cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Rows looked at in one go when the status must be computed.
const CHUNK: u32 = 200;
/// Chunks looked at for one page: a rare status gives short pages with a cursor to go on.
const CHUNKS_MAX: usize = 20;

impl Delivery {
    /// One request.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn report(&self, request_id: Uuid) -> Result<Option<Report>, ReportError> {
        match self.journal.log_get(request_id).await? {
            Some(row) => Ok(Some(self.complete(row).await?)),
            None => Ok(None),
        }
    }

    /// A page of the log. `statuses` empty: all. `text`: only what has it in its error, idempotency key, key, or
    /// address, in any case of letters. A page may be shorter than `limit` although there is a next one.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn report_page(
        &self,
        mut filter: Filter,
        statuses: &[Status],
        text: Option<&str>,
        limit: u32,
    ) -> Result<Page, ReportError> {
        let text = text.map(str::to_lowercase);
        let every = statuses.is_empty() && text.is_none();
        let mut outcomes: Vec<Outcome> = statuses.iter().map(|one| one.outcome()).collect();
        outcomes.dedup();
        if let [outcome] = outcomes[..] {
            filter.outcome = Some(outcome);
        }
        let only_failed = statuses == [Status::Failed];
        let mut page = Page::default();
        for _ in 0..CHUNKS_MAX {
            let mut before = None;
            if only_failed {
                let from = filter.before.unwrap_or(u64::MAX >> 1);
                let seqs = self.pool.failed_seqs(from, CHUNK).await?;
                if seqs.is_empty() {
                    page.next = None;
                    return Ok(page);
                }
                before = seqs.last().copied();
                filter.seqs = Some(seqs);
            }
            let wanted = if every { limit } else { CHUNK };
            let rows = self.journal.log_page(&filter, wanted).await?;
            let complete = !only_failed && rows.len() < wanted as usize;
            for row in rows {
                if !only_failed {
                    before = Some(row.seq);
                }
                page.next = Some(row.seq);
                if text
                    .as_deref()
                    .is_some_and(|text| !has_text(&row.entry, text))
                {
                    continue;
                }
                let report = self.complete(row).await?;
                if statuses.is_empty() || statuses.contains(&report.status) {
                    page.reports.push(report);
                    if page.reports.len() >= limit as usize {
                        return Ok(page);
                    }
                }
            }
            if complete {
                page.next = None;
                return Ok(page);
            }
            filter.before = before;
            page.next = before;
        }
        Ok(page)
    }

    async fn complete(&self, row: LogRow) -> Result<Report, ReportError> {
        let status = match row.entry.outcome {
            Outcome::Accepted => Status::Accepted,
            Outcome::Rejected => Status::Rejected,
            Outcome::Duplicate => Status::Duplicate,
            Outcome::Test => Status::Test,
            Outcome::Removed => Status::Removed,
        };
        let mut report = Report {
            row,
            status,
            processed_ms: None,
            sinks: Vec::new(),
        };
        if status != Status::Accepted {
            return Ok(report);
        }
        let mut waiting = false;
        for lane in self.lanes() {
            if !lane.sink().matches(&report.row.entry.stream) {
                continue;
            }
            let state = self.pool.sink_state(lane.name(), report.row.seq);
            let Some(state) = state.await? else {
                continue;
            };
            match state {
                SinkState::Done(at_ms) => report.processed_ms = report.processed_ms.max(at_ms),
                SinkState::Failed => report.status = Status::Failed,
                SinkState::Waiting | SinkState::Retrying => waiting = true,
            }
            report.sinks.push((lane.name().to_string(), state));
        }
        if waiting {
            report.processed_ms = None;
        } else if report.status == Status::Accepted {
            report.status = Status::Processed;
        }
        Ok(report)
    }
}

/// Whether an entry has a text, in lower case, where people would look for it.
fn has_text(entry: &LogEntry, text: &str) -> bool {
    let client = entry.client.to_string();
    let places = [
        entry.error.as_deref(),
        entry.idempotency_key.as_deref(),
        Some(&*entry.key),
        Some(&*client),
    ];
    let mut places = places.into_iter().flatten();
    places.any(|place| place.to_lowercase().contains(text))
}
