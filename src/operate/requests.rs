//! Statuses of requests: the request log joined with the state of the sinks.
//!
//! Operators read all, and senders read their own requests.
//!
//! **Invariant**: a status is computed on request, from cursors, retries and dead letters; no stored value is updated
//! for a request.

mod report;

use std::sync::Arc;

use uuid::Uuid;

use base::clock::Unix;
use base::order::Seq;
use delivery::{Delivery, ReadError};
use journal::Journal;
use journal::log::Filter;
use journal::page::Budget;
use pool::Pool;
pub use report::{Report, Status};

/// A page of reports, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub reports: Vec<Report>,
    /// The beginning of the next page, if there may be one.
    pub next: Option<Seq>,
    /// Of a page that is not full although there is a next one: the arrival of the oldest entry that was searched, Unix
    /// time in milliseconds.
    pub looked_back_to: Option<Unix>,
}

impl Page {
    /// Whether the page is empty, and no page follows.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.next.is_none()
    }

    /// Adds the reports with the statuses, up to the limit; returns whether the limit is reached.
    fn is_full_with(&mut self, reports: Vec<Report>, status: Status, limit: u32) -> bool {
        let room = (limit as usize).saturating_sub(self.reports.len());
        let fitting = reports.into_iter().filter(|report| report.status == status);
        self.reports.extend(fitting.take(room));
        self.next = self.reports.last().map(|report| report.row.seq);
        self.reports.len() >= limit as usize
    }
}

/// Entries whose statuses are computed together.
const CHUNK: u32 = 200;

/// The request log, with the results of the sinks.
#[derive(Debug, Clone)]
pub struct Requests {
    journal: Arc<Journal>,
    pool: Arc<Pool>,
    delivery: Arc<Delivery>,
}

impl Requests {
    /// For these files and lanes.
    pub fn new(journal: &Arc<Journal>, pool: &Arc<Pool>, delivery: &Arc<Delivery>) -> Self {
        Self {
            journal: Arc::clone(journal),
            pool: Arc::clone(pool),
            delivery: Arc::clone(delivery),
        }
    }

    /// One request.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn find(&self, request_id: Uuid) -> Result<Option<Report>, ReadError> {
        let row = self.journal.log_get(request_id).await?;
        let mut reports = self.complete(row.into_iter().collect()).await?;
        self.explain(&mut reports).await?;
        Ok(reports.into_iter().next())
    }

    /// A page of the log. Empty `statuses`: all. [`Filter::outcome`] is ignored. If the text is the id of a request
    /// that matches the filter, the page has that request; otherwise the text is searched. Without an index, a page
    /// searches a part of the log: it may be shorter than `limit`, or empty, although there is a next one. Each index
    /// would cost every request.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn page(
        &self,
        filter: &Filter,
        statuses: &[Status],
        limit: u32,
    ) -> Result<Page, ReadError> {
        // In this order: what changes from accepted to another status meanwhile is seen twice rather than never.
        let wanted: Vec<Status> = (Status::ALL.into_iter())
            .filter(|status| statuses.contains(status))
            .collect();
        if let Some(report) = self.named(filter).await?
            && (wanted.is_empty() || wanted.contains(&report.status))
        {
            return Ok(Page {
                reports: vec![report],
                ..Page::default()
            });
        }
        let mut page = if wanted.is_empty() || wanted.len() == Status::ALL.len() {
            let filter = Filter {
                outcome: None,
                ..filter.clone()
            };
            self.plain_page(&filter, limit, Budget::of(1)).await?
        } else {
            let mut pages = Vec::with_capacity(wanted.len());
            let parts = u32::try_from(wanted.len()).unwrap_or(1);
            for status in wanted {
                let filter = Filter {
                    outcome: Some(report::outcome(status)),
                    ..filter.clone()
                };
                let budget = Budget::of(parts);
                pages.push(match status {
                    Status::Accepted | Status::Processed => {
                        self.accepted_page(filter, status, limit, budget).await?
                    }
                    Status::Stale | Status::Failed | Status::Discarded => {
                        self.given_up_page(filter, status, limit, budget).await?
                    }
                    _ => self.plain_page(&filter, limit, budget).await?,
                });
            }
            merged(pages, limit)
        };
        self.explain(&mut page.reports).await?;
        if let Some(next) = page.next
            && page.reports.len() < limit as usize
        {
            page.looked_back_to = self.journal.log_time(next).await?;
        }
        Ok(page)
    }

    /// The request with the filter's text as its id, if it matches the rest of the filter.
    async fn named(&self, filter: &Filter) -> Result<Option<Report>, ReadError> {
        let id = (filter.text.as_deref()).and_then(|text| Uuid::try_parse(text).ok());
        let report = match id {
            Some(id) => self.find(id).await?,
            None => None,
        };
        Ok(report.filter(|report| {
            let entry = &report.row.entry;
            let received_at = entry.received_at;
            (filter.connector.as_ref()).is_none_or(|connector| *connector == entry.connector)
                && filter.before.is_none_or(|before| report.row.seq < before)
                && filter.since.is_none_or(|since| received_at >= since)
                && filter.until.is_none_or(|until| received_at <= until)
        }))
    }

    /// All entries that the log finds.
    async fn plain_page(
        &self,
        filter: &Filter,
        limit: u32,
        mut budget: Budget,
    ) -> Result<Page, ReadError> {
        let found = self.journal.log_page(filter, limit, &mut budget).await?;
        Ok(Page {
            reports: self.complete(found.rows).await?,
            next: found.next,
            looked_back_to: None,
        })
    }

    /// The accepted requests with the status, which is not `failed`. The first read is no larger than the page. The
    /// next ones are larger, because few entries have the status then.
    async fn accepted_page(
        &self,
        mut filter: Filter,
        status: Status,
        limit: u32,
        mut budget: Budget,
    ) -> Result<Page, ReadError> {
        let mut page = Page::default();
        if status == Status::Processed {
            let lanes = self.delivery.shown();
            let takes_all = lanes.iter().filter(|lane| lane.sink().takes_all());
            if let Some(cursor) = takes_all.map(|lane| lane.cursor()).min() {
                // What is behind the cursor of a sink that wants everything still waits.
                lower(&mut filter, cursor);
            }
        }
        let mut chunk = limit.min(CHUNK);
        loop {
            if status == Status::Accepted {
                // What every lane has passed waits only for a retry.
                let passed = self.delivery.shown_passed();
                if filter.before.is_some_and(|before| before <= passed + 1)
                    || *self.journal.newest().borrow() <= passed
                {
                    let before = filter.before.unwrap_or(passed + 1).min(passed + 1);
                    match self.pool.highest_retried(before).await? {
                        Some(seq) => lower(&mut filter, seq),
                        None => return Ok(page),
                    }
                }
            }
            let found = self.journal.log_page(&filter, chunk, &mut budget).await?;
            budget.spend(found.rows.len());
            if page.is_full_with(self.complete(found.rows).await?, status, limit) {
                return Ok(page);
            }
            page.next = found.next;
            filter.before = found.next;
            if found.next.is_none() || budget.is_spent() {
                return Ok(page);
            }
            chunk = CHUNK;
        }
    }

    /// Requests with dead letters, with discarded ones, or with items that changed nothing. The data pool has their
    /// positions; the log has them as accepted.
    async fn given_up_page(
        &self,
        mut filter: Filter,
        status: Status,
        limit: u32,
        mut budget: Budget,
    ) -> Result<Page, ReadError> {
        let mut page = Page::default();
        let mut chunk = limit.min(CHUNK);
        loop {
            page.next = None;
            let Some(range) = self.journal.log_range(&filter).await? else {
                return Ok(page);
            };
            let seqs = match status {
                Status::Discarded => self.pool.discarded_seqs(range.end, chunk).await?,
                Status::Stale => self.pool.stale_seqs(range.end, chunk).await?,
                _ => self.pool.failed_seqs(range.end, chunk).await?,
            };
            let rows = self.journal.log_at(&filter, &seqs).await?;
            budget.spend(seqs.len());
            if page.is_full_with(self.complete(rows).await?, status, limit) {
                return Ok(page);
            }
            let lowest = seqs.last().copied();
            page.next =
                lowest.filter(|lowest| seqs.len() == chunk as usize && *lowest > range.start);
            filter.before = page.next;
            if page.next.is_none() || budget.is_spent() {
                return Ok(page);
            }
            chunk = CHUNK;
        }
    }
}

/// Limits the search to entries up to this position.
fn lower(filter: &mut Filter, highest: Seq) {
    let before = highest + 1;
    filter.before = Some(filter.before.map_or(before, |old| old.min(before)));
}

/// One page from several searches, each of which has other entries of the same log.
fn merged(pages: Vec<Page>, limit: u32) -> Page {
    // Down to here all of them have looked.
    let looked = pages.iter().filter_map(|page| page.next).max();
    let mut reports: Vec<Report> = pages.into_iter().flat_map(|page| page.reports).collect();
    reports.retain(|report| looked.is_none_or(|looked| report.row.seq >= looked));
    reports.sort_by_key(|report| std::cmp::Reverse(report.row.seq));
    reports.dedup_by_key(|report| report.row.seq);
    let more = reports.len() > limit as usize;
    reports.truncate(limit as usize);
    let last = reports.last().map(|report| report.row.seq);
    Page {
        next: if more { last } else { looked },
        reports,
        looked_back_to: None,
    }
}
