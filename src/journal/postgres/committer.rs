//! The thread that stores: takes whatever waits, has it committed as one group, then answers.
//!
//! A call whose answer does not come is never given up, for its commit may wait for a standby: callers are answered 503, and
//! the group is called again, under its number, until the database says what became of it. Until then nothing else is sent.
//!
//! **Invariant**: receipts leave only after the database said that the group is committed, and a group has one number and one
//! content, however often it is called.

mod call;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::PostgresOptions;
use super::feed::Feed;
use super::group::{Columns, Group, Placed, Waiting};
use super::in_time;
use super::text::stored;
use crate::queue::{self, Job, Queue};
use crate::{Claim, Condition, JournalError, Receipt, Shared, Submission};
use ::postgres::{DatabaseCall, DatabaseError, refusal};
use base::clock::Lived;
use base::order::Seq;
use call::{Outcome, Sent, Session};
use replica::SharedLog;

/// How often a thread without work looks after what is in doubt.
const IDLE: Duration = Duration::from_secs(1);
/// Between two calls of a group.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Callers wait so long for what is in doubt before they are refused. Longer, and each caller would wait for a database
/// that does not answer.
const SETTLED_WITHIN: Duration = Duration::from_millis(200);

/// Who stores.
pub(super) struct Committer {
    options: PostgresOptions,
    feed: Arc<Feed>,
    shared: Arc<Shared>,
    /// This life of the node, and whether the database knows it.
    node: Uuid,
    has_joined: bool,
    /// Of the last group that is committed. By the next number, the server knows a group that is called again.
    last_group: i64,
    session: Option<Session>,
    /// Nothing else is sent meanwhile, because the number of a group says whether it is there.
    doubt: Option<Sent>,
}

impl Committer {
    pub(super) fn new(options: PostgresOptions, feed: Arc<Feed>, shared: Arc<Shared>) -> Self {
        Self {
            options,
            feed,
            shared,
            node: Uuid::new_v4(),
            has_joined: false,
            last_group: 0,
            session: None,
            doubt: None,
        }
    }

    /// Works until the queue is closed and empty. Blocks its thread. What is in doubt is settled at the end, because
    /// the next life has another ID and cannot ask.
    pub(super) fn run(mut self, queue: &Queue, runtime: &Handle) {
        let mut jobs = Vec::new();
        while let Some(work) = queue.wait(IDLE) {
            if work {
                queue::gather(queue);
                queue.take(&mut jobs);
            }
            runtime.block_on(self.work(jobs.drain(..).collect()));
        }
        // The next start has another life, and cannot ask: whatever is committed is in the log.
        runtime.block_on(self.settle(self.options.commit_wait));
    }

    async fn work(&mut self, mut jobs: VecDeque<Job>) {
        if !self.settle(SETTLED_WITHIN).await {
            return self.refuse_all(jobs, JournalError::Unreachable);
        }
        while let Some(job) = jobs.pop_front() {
            let mut group = Group::default();
            match group.add(job) {
                Ok(()) => {
                    while let Some(job) = jobs.pop_front() {
                        if let Err(job) = group.add(job) {
                            jobs.push_front(job);
                            break;
                        }
                    }
                    self.store(group).await;
                    if self.doubt.is_some() {
                        return self.refuse_all(jobs, JournalError::Unreachable);
                    }
                }
                Err(job) => self.alone(job).await,
            }
        }
    }

    /// A job that is not stored with others.
    async fn alone(&mut self, job: Job) {
        match job {
            Job::SubmitIf(submission, condition, to) => {
                let _ = to.send(self.place(*submission, condition).await);
            }
            Job::Ask(claims, to) => match in_time(self.holds(claims)).await {
                Ok(held) => _ = to.send(held),
                // Whoever asks sees that nobody answers.
                Err(error) => self.lost(&error),
            },
            Job::Quarantine { seq, reason } => {
                if let Err(error) = in_time(self.quarantine(seq, &reason)).await {
                    tracing::warn!(%error, "cannot set a payload aside; the sink meets it again");
                    self.lost(&error);
                }
            }
            Job::Flush(to) => _ = to.send(()),
            other @ (Job::Submit(..) | Job::Log(..)) => {
                self.refuse_all([other].into(), JournalError::Overloaded);
            }
        }
    }

    /// Nothing of these was stored.
    fn refuse_all(&self, jobs: VecDeque<Job>, refusal: JournalError) {
        for job in jobs {
            match job {
                Job::Submit(_, to) | Job::SubmitIf(_, _, to) => _ = to.send(Err(refusal)),
                Job::Log(..) => _ = self.shared.metrics.log_entries_dropped.inc(),
                // Everything before is answered, one way or the other.
                Job::Flush(to) => _ = to.send(()),
                Job::Quarantine { .. } | Job::Ask(..) => {}
            }
        }
    }

    /// Has a group committed, and answers who waits. The catalog's number is read before the keys are checked, so that
    /// no newer one is claimed.
    async fn store(&mut self, mut group: Group) {
        let started = Instant::now();
        let deadline = started + self.options.commit_wait;
        let (sent, outcome) = loop {
            // In this order: what is admitted is so by the catalog that is compared.
            let catalog = self.catalog();
            group.refuse_changed();
            if group.waiting.is_empty() {
                return;
            }
            let mut sent = Sent {
                columns: Arc::new(std::mem::take(&mut group.columns)),
                number: self.last_group + 1,
                catalog,
                is_doubtful: false,
                call: None,
            };
            let outcome = self.call(&mut sent, deadline).await;
            if !matches!(outcome, Outcome::CatalogChanged)
                || !self.follow_catalog(catalog, deadline).await
            {
                break (sent, outcome);
            }
            match Arc::try_unwrap(sent.columns) {
                Ok(columns) => group.columns = columns,
                Err(columns) => {
                    sent.columns = columns;
                    break (sent, outcome);
                }
            }
        };
        let waiting = std::mem::take(&mut group.waiting);
        let size = sent.columns.len();
        let refusal = match outcome {
            Outcome::Committed(rows) => {
                let metrics = &self.shared.metrics;
                metrics.journal_commits.inc();
                metrics.journal_group_size.observe(size as f64);
                (metrics.journal_commit_seconds).observe(started.elapsed().as_secs_f64());
                return self.answer(&sent.columns, waiting, &rows);
            }
            Outcome::Refused(refusal) => refusal,
            Outcome::CatalogChanged => JournalError::Unreachable,
            Outcome::Unknown => {
                self.doubt = Some(sent);
                JournalError::Unconfirmed
            }
        };
        for waiting in waiting {
            match waiting.to {
                Some(to) => _ = to.send(Err(refusal)),
                None => _ = self.shared.metrics.log_entries_dropped.inc(),
            }
        }
    }

    fn answer(&self, columns: &Columns, waiting: Vec<Waiting>, rows: &[PgRow]) {
        let committed = match columns.committed(rows) {
            Ok(committed) => committed,
            Err(error) => {
                tracing::error!(%error, "the database's answer to a group of requests cannot be read");
                Vec::new()
            }
        };
        let entries = committed.iter().filter(|one| one.is_entry);
        self.feed.committed(entries.map(|one| one.seq));
        // What has no answer is dropped: its caller is told that the journal is closed.
        for (one, waiting) in committed.into_iter().zip(waiting) {
            if let Some(to) = waiting.to {
                let _ = to.send(Ok(one.receipt));
            }
        }
    }

    /// The catalog that lookups of this node include, by the number of its entry.
    fn catalog(&self) -> u64 {
        let log = self.options.log.as_ref();
        log.map_or(0, SharedLog::catalog)
    }

    /// Whether lookups include a newer catalog than this one, in time.
    async fn follow_catalog(&self, catalog: u64, deadline: Instant) -> bool {
        let Some(log) = &self.options.log else {
            return false;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        log.catalog_after(catalog, left).await
    }

    /// Whether nothing is in doubt any more.
    async fn settle(&mut self, within: Duration) -> bool {
        let Some(mut sent) = self.doubt.take() else {
            return true;
        };
        self.look_for(&mut sent).await;
        match self.call(&mut sent, Instant::now() + within).await {
            Outcome::Committed(rows) => {
                tracing::info!(
                    requests = sent.columns.len(),
                    "requests that were answered 503 are stored: the database has confirmed them"
                );
                self.answer(&sent.columns, Vec::new(), &rows);
                true
            }
            // The newest attempt has waited for all before it: nothing was stored.
            Outcome::Refused(_) | Outcome::CatalogChanged => true,
            Outcome::Unknown => {
                self.doubt = Some(sent);
                false
            }
        }
    }

    /// Stores a request alone, if its condition holds. Nobody reads meanwhile, so that its place stays behind all that
    /// was read.
    async fn place(
        &mut self,
        submission: Submission,
        condition: Condition,
    ) -> Result<Receipt, JournalError> {
        let feed = Arc::clone(&self.feed);
        let placing = feed.while_nobody_reads(async |seq| {
            let submission = {
                let recent = self.shared.lock_recent();
                condition.apply(submission, &recent, std::iter::empty())
            };
            let placed = Placed {
                submission: submission.ok_or(JournalError::Unsettled)?,
                seq,
            };
            self.call_placed(&placed).await
        });
        placing.await.map_err(|error| refusal_of(&error))?
    }

    async fn call_placed(&mut self, placed: &Placed) -> Result<Receipt, JournalError> {
        let deadline = Instant::now() + self.options.commit_wait;
        loop {
            let node = self.options.node;
            let timer = self.options.database.timer(DatabaseCall::Place);
            let calling = async { placed.call(self.session().await?, node).await };
            let called = in_time(calling).await;
            drop(timer);
            let Err(error) = called else {
                return Ok(placed.receipt());
            };
            match error {
                // Its place says whether it is there, whenever it is called.
                DatabaseError::Away(_) if Instant::now() < deadline => self.lost(&error),
                DatabaseError::Conflict(_) if Instant::now() < deadline => {}
                // An attempt before this one was still under way.
                _ if error.is(refusal::UNIQUE) && Instant::now() < deadline => {}
                _ if error.is(refusal::PLACE_TAKEN) => return Err(JournalError::Unsettled),
                _ => {
                    self.lost(&error);
                    return Err(refusal_of(&error));
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Whether a request with one of these claims would be a repeat.
    async fn holds(&mut self, claims: [Option<Claim>; 2]) -> Result<bool, DatabaseError> {
        let scopes = claims.iter().flatten();
        let scopes: Vec<Uuid> = scopes.map(|claim| Uuid::from_bytes(claim.scope)).collect();
        let held = sqlx::query_scalar("SELECT has_claim($1, $2)")
            .bind(scopes)
            .bind(Lived::now().to_column())
            .fetch_one(self.session().await?)
            .await?;
        Ok(held)
    }

    /// Moves a payload into the table `quarantine`.
    async fn quarantine(&mut self, seq: Seq, reason: &str) -> Result<(), DatabaseError> {
        let sql = "WITH aside AS (DELETE FROM payloads WHERE seq = $1 RETURNING *)
            INSERT INTO quarantine (seq, reason, stream, outcome, crc32, items)
            SELECT seq, $2, stream, outcome, crc32, items FROM aside ON CONFLICT DO NOTHING";
        sqlx::query(sql)
            .bind(seq.to_column())
            .bind(stored(reason))
            .execute(self.session().await?)
            .await?;
        Ok(())
    }
}

fn refusal_of(error: &DatabaseError) -> JournalError {
    match error {
        DatabaseError::Full(_) => JournalError::DiskFull,
        _ if error.is(refusal::CLAIMS_MEET) => JournalError::Overloaded,
        _ => JournalError::Unreachable,
    }
}
