//! The thread that stores: takes whatever waits, has it committed as one group, then answers.
//!
//! A call whose answer does not come is never given up, for its commit may wait for a standby: callers are answered 503, and
//! the group is called again, under its number, until the database says what became of it. Until then nothing else is sent.
//!
//! **Invariant**: receipts leave only after the database said that the group is committed, and a group has one number and one
//! content, however often it is called.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::PostgresOptions;
use super::feed::Feed;
use super::group::{Columns, Group, Placed, To};
use super::in_time;
use super::text::stored;
use crate::queue::{self, Job, Queue};
use crate::{Claim, Condition, JournalError, Receipt, Shared, Submission};
use ::postgres::{DatabaseError, arrive, refusal};
use base::clock::Lived;
use base::order::Seq;

/// How often a thread without work looks after what is in doubt.
const IDLE: Duration = Duration::from_secs(1);
/// Between two calls of a group.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Callers wait so long for what is in doubt before they are refused.
const SETTLED_WITHIN: Duration = Duration::from_millis(200);
/// A call that took so long is looked for at the server.
const LOOKED_FOR_AFTER: Duration = Duration::from_secs(10);

/// A call under way.
type Answer = Pin<Box<dyn Future<Output = (Session, Result<Vec<PgRow>, DatabaseError>)> + Send>>;

/// A connection, with the server's process that works for it.
struct Session {
    connection: PgConnection,
    process: i32,
}

/// A group that is to be committed.
struct Sent {
    columns: Arc<Columns>,
    number: i64,
    /// It may be committed already.
    is_doubtful: bool,
    call: Option<Call>,
}

struct Call {
    answer: Answer,
    process: i32,
    looked_for: Instant,
}

/// What became of a group.
enum Outcome {
    Committed(Vec<PgRow>),
    /// Nothing of it was stored.
    Refused(JournalError),
    /// Nobody knows yet.
    Unknown,
}

/// Who stores.
pub(super) struct Committer {
    options: PostgresOptions,
    feed: Arc<Feed>,
    shared: Arc<Shared>,
    /// This life of the node, and whether the database knows it.
    node: Uuid,
    has_joined: bool,
    /// Of the last group that is committed.
    last_group: i64,
    session: Option<Session>,
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

    /// Works until the queue is closed and empty. Blocks its thread.
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
                if let Err(error) = in_time(self.put_aside(seq, &reason)).await {
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

    /// Has a group committed, and answers who waits.
    async fn store(&mut self, group: Group) {
        let started = Instant::now();
        let Group { columns, waiting } = group;
        let size = columns.len();
        let mut sent = Sent {
            columns: Arc::new(columns),
            number: self.last_group + 1,
            is_doubtful: false,
            call: None,
        };
        let outcome = self
            .call(&mut sent, started + self.options.commit_wait)
            .await;
        let refusal = match outcome {
            Outcome::Committed(rows) => {
                let metrics = &self.shared.metrics;
                metrics.journal_commits.inc();
                metrics.journal_group_size.observe(size as f64);
                (metrics.journal_commit_seconds).observe(started.elapsed().as_secs_f64());
                return self.answer(&sent.columns, waiting, &rows);
            }
            Outcome::Refused(refusal) => refusal,
            Outcome::Unknown => {
                self.doubt = Some(sent);
                JournalError::Unconfirmed
            }
        };
        for to in waiting {
            match to {
                Some(to) => _ = to.send(Err(refusal)),
                None => _ = self.shared.metrics.log_entries_dropped.inc(),
            }
        }
    }

    fn answer(&self, columns: &Columns, waiting: Vec<Option<To>>, rows: &[PgRow]) {
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
        for (one, to) in committed.into_iter().zip(waiting) {
            if let Some(to) = to {
                let _ = to.send(Ok(one.receipt));
            }
        }
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
            Outcome::Refused(_) => true,
            Outcome::Unknown => {
                self.doubt = Some(sent);
                false
            }
        }
    }

    /// Gives up a call of which the server knows nothing any more: its answer was lost on the way.
    async fn look_for(&self, sent: &mut Sent) {
        let Some(call) = &mut sent.call else {
            return;
        };
        if call.looked_for.elapsed() < LOOKED_FOR_AFTER {
            return;
        }
        call.looked_for = Instant::now();
        let works = async {
            let mut connection = self.options.database.connect().await?;
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
            let found: i64 = sqlx::query_scalar(sql)
                .bind(call.process)
                .fetch_one(&mut connection)
                .await?;
            let _ = connection.close().await;
            Ok::<_, DatabaseError>(found > 0)
        };
        if in_time(works).await == Ok(false) {
            sent.call = None;
        }
    }

    /// Calls a group until something is known of it.
    async fn call(&mut self, sent: &mut Sent, deadline: Instant) -> Outcome {
        loop {
            let call = match &mut sent.call {
                Some(call) => call,
                none => match self.begin(&sent.columns, sent.number).await {
                    Ok(call) => none.insert(call),
                    Err(error) => {
                        self.lost(&error);
                        if !sent.is_doubtful {
                            return Outcome::Refused(refusal_of(&error));
                        }
                        if Instant::now() >= deadline {
                            return Outcome::Unknown;
                        }
                        tokio::time::sleep(AGAIN_AFTER).await;
                        continue;
                    }
                },
            };
            let answered = tokio::time::timeout_at(deadline.into(), &mut call.answer).await;
            let Ok((session, answer)) = answered else {
                sent.is_doubtful = true;
                return Outcome::Unknown;
            };
            sent.call = None;
            let error = match answer {
                Ok(rows) => {
                    self.session = Some(session);
                    self.last_group = sent.number;
                    return Outcome::Committed(rows);
                }
                Err(error) => error,
            };
            match error {
                DatabaseError::Away(_) => {
                    self.lost(&error);
                    sent.is_doubtful = true;
                    if Instant::now() >= deadline {
                        return Outcome::Unknown;
                    }
                }
                DatabaseError::Conflict(_) => {
                    self.session = Some(session);
                    if Instant::now() >= deadline {
                        return Outcome::Refused(JournalError::Overloaded);
                    }
                }
                _ if error.is(refusal::UNKNOWN_NODE) || error.is(refusal::OTHER_GROUP) => {
                    // It was not committed and will not be: this life of the node is over.
                    self.session = Some(session);
                    self.node = Uuid::new_v4();
                    self.has_joined = false;
                    sent.number = 1;
                }
                _ => {
                    self.session = Some(session);
                    self.lost(&error);
                    return Outcome::Refused(refusal_of(&error));
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Sends a group.
    async fn begin(&mut self, columns: &Arc<Columns>, number: i64) -> Result<Call, DatabaseError> {
        in_time(self.session()).await?;
        let Some(mut session) = self.session.take() else {
            return Err(DatabaseError::Away("there is no connection".to_owned()));
        };
        let (columns, node, process) = (Arc::clone(columns), self.node, session.process);
        let answer = Box::pin(async move {
            let answer = columns.call(&mut session.connection, node, number).await;
            (session, answer)
        });
        Ok(Call {
            answer,
            process,
            looked_for: Instant::now(),
        })
    }

    /// A connection of a node that the database knows.
    async fn session(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let database = &self.options.database;
                let mut connection = database.connect().await?;
                arrive(&mut connection, database.durability()).await?;
                let process = sqlx::query_scalar("SELECT pg_backend_pid()")
                    .fetch_one(&mut connection)
                    .await?;
                none.insert(Session {
                    connection,
                    process,
                })
            }
        };
        if !self.has_joined {
            sqlx::query("INSERT INTO writers (node, joined_lived_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(self.node)
                .bind(Lived::now().to_column())
                .execute(&mut session.connection)
                .await?;
            // Whoever stores runs the sinks: there is one node.
            sqlx::query("UPDATE log_head SET owner = $1, fence = fence + 1, beat = beat + 1")
                .bind(self.node)
                .execute(&mut session.connection)
                .await?;
            self.has_joined = true;
        }
        Ok(&mut session.connection)
    }

    /// What follows from an error of the connection.
    fn lost(&mut self, error: &DatabaseError) {
        match error {
            DatabaseError::Away(_) => {
                self.session = None;
                if self.feed.is_reachable() {
                    tracing::warn!(%error, "requests are answered 503 until the database can be used");
                    self.feed.set_reachable(false);
                }
            }
            DatabaseError::Full(_) => {
                tracing::error!(%error, "requests are answered 503 until the database has room");
            }
            error => tracing::error!(%error, "the database refuses what this version sends"),
        }
    }

    /// Stores a request alone, if its condition holds.
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
        let placed = placing.await.map_err(|error| refusal_of(&error))?;
        if placed.is_ok() {
            // It is counted when it is read, which is at once.
            self.shared.newest.send_modify(|_| ());
        }
        placed
    }

    async fn call_placed(&mut self, placed: &Placed) -> Result<Receipt, JournalError> {
        let deadline = Instant::now() + self.options.commit_wait;
        loop {
            let node = self.node;
            let calling = async { placed.call(self.session().await?, node).await };
            let called = in_time(calling).await;
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
        let sql = "SELECT EXISTS (SELECT FROM claims k, cluster c WHERE k.scope = ANY ($1)
            AND k.g BETWEEN c.g - 5 AND c.g AND k.lived_ms > greatest($2, c.lived_ms) - 86460000)";
        let held = sqlx::query_scalar(sql)
            .bind(scopes)
            .bind(Lived::now().to_column())
            .fetch_one(self.session().await?)
            .await?;
        Ok(held)
    }

    /// Moves a payload into the table `quarantine`.
    async fn put_aside(&mut self, seq: Seq, reason: &str) -> Result<(), DatabaseError> {
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
