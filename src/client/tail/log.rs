//! `headgate tail --log`: follows the request log.
//!
//! `tail` calls it. It requests the pages of each connector every second, newest first, down to the newest known entry.
//! New entries are always above that one.
//!
//! **Invariant**: an entry is printed once, and none is left out, even after an outage of the daemon. With `--status`,
//! the newest [`WAITING_MAX`] entries of each connector that can still change their status are checked again.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::time::Duration;

use super::super::client::{CallError, Client, Envelope};
use super::super::error::CliError;
use super::super::output::{json_line, shown, when};
use super::super::patience::Patience;
use super::super::requests::{Connector, by_time, connectors, errors, matching};
use super::view::TailOutput;
use base::text::percent_encoded;
use wire::{LoggedRequest, Status};

const EVERY: Duration = Duration::from_secs(1);
/// Earlier entries that are shown.
const BEFORE: usize = 10;
/// Entries of a connector in the first request, each time.
const FIRST_PAGE: usize = 50;
/// Entries of every further page.
const PAGE: usize = 500;
/// Maximum entries of a connector whose status is awaited.
const WAITING_MAX: usize = 1_000;

/// What to follow, and how.
pub(super) struct FollowLog<'a> {
    pub(super) admin: &'a Client,
    /// The name or ID; `None`: all connectors.
    pub(super) connector: Option<String>,
    /// The statuses; empty: all.
    pub(super) statuses: Vec<Status>,
    pub(super) output: TailOutput,
    /// Show some earlier entries.
    pub(super) before: bool,
    /// End after this number of new entries.
    pub(super) count: Option<u64>,
    /// Maximum wait for a daemon that has never answered; `None`: no limit.
    pub(super) absent_max: Option<Duration>,
    pub(super) out: &'a mut dyn Write,
    /// Receives notes for the user.
    pub(super) note: &'a dyn Fn(&str),
}

/// The log of a connector.
#[derive(Default)]
struct Log {
    /// The newest known entry.
    newest: Option<String>,
    /// Known entries that were not shown and can still change their status, newest first.
    waiting: Vec<String>,
}

/// Entries of a connector's log, newest first.
#[derive(Default)]
struct News {
    new: Vec<LoggedRequest>,
    /// Entries that were already known.
    again: Vec<LoggedRequest>,
}

impl FollowLog<'_> {
    /// Follows until enough entries were printed, or an error is permanent.
    pub(super) async fn run(mut self) -> Result<(), CliError> {
        let found = self.first_answer().await?;
        let mut logs = HashMap::new();
        let mut before = Vec::new();
        for connector in matching(found, self.connector.as_deref())? {
            let (new, _) = self.page(&connector.id, FIRST_PAGE, "").await?;
            let mut log = Log::default();
            let news = News {
                new,
                again: Vec::new(),
            };
            before.extend(self.take(&mut log, news));
            logs.insert(connector.id, log);
        }
        before.sort_by(by_time);
        let skipped = match self.before {
            true => before.len().saturating_sub(BEFORE),
            false => before.len(),
        };
        self.print(&before[skipped..])?;

        let mut left = self.count.unwrap_or(u64::MAX);
        let mut lost = false;
        loop {
            tokio::time::sleep(EVERY).await;
            let mut new = Vec::new();
            let looked = self.look(&mut logs, &mut new).await;
            new.sort_by(by_time);
            new.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.print(&new)?;
            left -= new.len() as u64;
            if left == 0 {
                return Ok(());
            }
            match looked {
                Ok(()) if lost => {
                    lost = false;
                    (self.note)("the daemon responds again");
                }
                Ok(()) => {}
                Err(error) if is_final(&error) => return Err(error.into()),
                Err(error) => {
                    if !lost {
                        (self.note)(&format!("{error}; retrying"));
                    }
                    lost = true;
                }
            }
        }
    }

    /// The connectors, from a daemon that may not run yet.
    async fn first_answer(&self) -> Result<Vec<Connector>, CliError> {
        let patience = Patience::new(self.absent_max);
        let mut is_noted = false;
        loop {
            let error = match connectors(self.admin).await {
                Err(error @ CallError::NoAnswer { .. }) => error.to_string(),
                answered => return Ok(answered?),
            };
            let pause = patience.pause(EVERY, &error)?;
            if !std::mem::replace(&mut is_noted, true) {
                (self.note)(&format!("{error}; retrying"));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Adds the entries to print to `new`, even if a later call fails, so that none of them is left out.
    async fn look(
        &self,
        logs: &mut HashMap<String, Log>,
        new: &mut Vec<LoggedRequest>,
    ) -> Result<(), CallError> {
        let found = connectors(self.admin).await?;
        // A deleted connector has no new entries.
        for connector in matching(found, self.connector.as_deref()).unwrap_or_default() {
            let log = logs.entry(connector.id.clone()).or_default();
            match self.news(&connector.id, log).await {
                Ok(news) => new.extend(self.take(log, news)),
                Err(CallError::Refused(refusal)) if refusal.status == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The new entries of a log, and the known ones whose status is awaited.
    async fn news(&self, id: &str, log: &Log) -> Result<News, CallError> {
        let mut waiting: HashSet<&str> = log.waiting.iter().map(String::as_str).collect();
        let mut is_new = true;
        let mut news = News::default();
        let (mut limit, mut cursor) = (FIRST_PAGE, String::new());
        loop {
            let (page, next) = self.page(id, limit, &cursor).await?;
            for entry in page {
                is_new &= log.newest.as_deref() != Some(&*entry.request_id);
                if is_new {
                    news.new.push(entry);
                } else if waiting.remove(&*entry.request_id) {
                    news.again.push(entry);
                }
            }
            match next {
                Some(next) if is_new || !waiting.is_empty() => {
                    limit = PAGE;
                    cursor = format!("&cursor={}", percent_encoded(&next));
                }
                // Entries that are still awaited are older than the log.
                _ => return Ok(news),
            }
        }
    }

    async fn page(
        &self,
        id: &str,
        limit: usize,
        cursor: &str,
    ) -> Result<(Vec<LoggedRequest>, Option<String>), CallError> {
        let path = format!(
            "/api/admin/connectors/{}/requests?limit={limit}{cursor}",
            percent_encoded(id)
        );
        let page: Envelope<Vec<LoggedRequest>> = self.admin.page(&path).await?;
        Ok((page.data, page.next))
    }

    /// Updates the known entries; returns those to print.
    fn take(&self, log: &mut Log, news: News) -> Vec<LoggedRequest> {
        if let Some(newest) = news.new.first() {
            log.newest = Some(newest.request_id.clone());
        }
        log.waiting.clear();
        let mut taken = Vec::new();
        for entry in news.new.into_iter().chain(news.again) {
            if self.wants(&entry.status) {
                taken.push(entry);
            } else if entry.status == Status::Accepted.as_str() && log.waiting.len() < WAITING_MAX {
                log.waiting.push(entry.request_id);
            }
        }
        taken
    }

    fn wants(&self, status: &str) -> bool {
        self.statuses.is_empty() || self.statuses.iter().any(|wanted| wanted.as_str() == status)
    }

    fn print(&mut self, entries: &[LoggedRequest]) -> Result<(), CliError> {
        for entry in entries {
            let line = match self.output {
                TailOutput::Json => json_line(entry)?,
                TailOutput::Table => line(entry),
            };
            let written = self.out.write_all(line.as_bytes());
            if let Err(error) = written.and_then(|()| self.out.flush())
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                return Err(CliError::failed(format!(
                    "cannot write to standard output: {error}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether the error is permanent: the token is invalid, or the server is not Headgate.
fn is_final(error: &CallError) -> bool {
    match error {
        CallError::NoAnswer { .. } => false,
        CallError::Refused(refusal) => refusal.status < 500,
        CallError::Foreign { .. } => true,
    }
}

/// An entry as one line of text.
fn line(entry: &LoggedRequest) -> String {
    let line = format!(
        "{} {:9} {:>3} {:>6} {}/{} {} {}",
        shown(&when(&entry.timestamp)),
        shown(&entry.status),
        entry.http_status,
        entry.items_received,
        shown(&entry.connector),
        shown(&entry.stream),
        shown(&entry.request_id),
        shown(&errors(entry)),
    );
    format!("{}\n", line.trim_end())
}
