//! The writer thread: takes whatever waits, commits it as one group, then answers.
//!
//! **Invariant**: receipts leave only after COMMIT returned ok. An error other than a full disk ends
//! the writer for good, because what the file then holds is unknown; the next start reads it afresh.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::claims::{Claims, Held};
use super::log::{LogEntry, Outcome};
use super::queue::{Job, Queue};
use super::{Durability, JournalError, Options, Receipt, Shared, Submission};
use crate::batch::Entry;
use crate::{clock, sqlite};

/// How long the writer waits after it was woken, so that requests which arrive together become one
/// group. Longer windows lose throughput, a timer of the runtime is twenty times as coarse.
const WINDOW: Duration = Duration::from_micros(50);
/// How often an idle writer looks for housekeeping.
const IDLE: Duration = Duration::from_secs(1);
/// Payloads deleted in one transaction at the most.
const PRUNE_CHUNK: u64 = 4_096;
/// Log entries deleted in one transaction at the most.
const EXPIRE_CHUNK: u32 = 2_000;
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

const INSERT_REQUEST: &str = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, \
     http_status, items, bytes, key, client, item_key, idempotency_key, duplicate_of, errors) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const INSERT_PAYLOAD: &str = "INSERT INTO payloads (seq, crc32, items) VALUES (?1, ?2, ?3)";

struct Writer {
    connection: Connection,
    options: Options,
    last_seq: u64,
    pruned_to: u64,
    claims: Claims,
    shared: Arc<Shared>,
    expired_at: Instant,
}

/// One submission's way back.
struct Answer {
    to: oneshot::Sender<Result<Receipt, JournalError>>,
    receipt: Receipt,
    /// For the lanes, unless it was a repeat or a test.
    entry: Option<Arc<Entry>>,
}

/// What must be told to whom once the group is committed.
#[derive(Default)]
struct Answers {
    receipts: Vec<Answer>,
    /// Submissions that made the transaction fail.
    refused: Vec<oneshot::Sender<Result<Receipt, JournalError>>>,
    flushes: Vec<oneshot::Sender<()>>,
}

pub(super) fn start(
    connection: Connection,
    options: Options,
    last_seq: u64,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, super::StorageError> {
    let claims = Claims::open(&connection)?;
    let writer = Writer {
        connection,
        options,
        last_seq,
        pruned_to: 0,
        claims,
        shared,
        expired_at: Instant::now(),
    };
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || {
            let fuse = Fuse(Arc::clone(&writer.shared));
            writer.run(&queue);
            drop(fuse);
        })?;
    Ok(thread)
}

/// A writer that panics has failed for good, too.
struct Fuse(Arc<Shared>);

impl Drop for Fuse {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.send_replace(true);
        }
    }
}

impl Writer {
    fn run(mut self, queue: &Queue) {
        let mut jobs = Vec::new();
        while let Some(work) = queue.wait(IDLE) {
            if work {
                if self.options.durability == Durability::Fsync {
                    pause(WINDOW);
                }
                queue.take(&mut jobs);
                self.group(&mut jobs);
            } else {
                self.housekeeping();
            }
            if *self.shared.failed.borrow() {
                // Whoever still waits is told that the journal is closed.
                queue.close();
                queue.take(&mut jobs);
                jobs.clear();
                return;
            }
        }
        // Orderly end: the next start finds a short write-ahead log.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Commits the jobs in one transaction and answers them. When the disk is full the jobs are
    /// refused and the writer goes on.
    fn group(&mut self, jobs: &mut Vec<Job>) {
        let started = Instant::now();
        let size = jobs.len();
        let before = self.last_seq;
        let mut answers = Answers::default();
        match self.transaction(jobs, &mut answers) {
            Ok(()) => {
                self.claims.committed();
                let metrics = &self.shared.metrics;
                metrics.journal_commits.inc();
                metrics.journal_group_size.observe(size as f64);
                metrics
                    .journal_commit_seconds
                    .observe(started.elapsed().as_secs_f64());
                self.publish(answers);
            }
            Err(error) => {
                self.last_seq = before;
                let refusal = self.roll_back(&error);
                let receipts = answers.receipts.into_iter().map(|answer| answer.to);
                for to in receipts.chain(answers.refused) {
                    let _ = to.send(Err(refusal));
                }
                for job in jobs.drain(..) {
                    if let Job::Submit(_, answer) = job {
                        let _ = answer.send(Err(refusal));
                    }
                }
            }
        }
    }

    fn transaction(
        &mut self,
        jobs: &mut Vec<Job>,
        answers: &mut Answers,
    ) -> Result<(), rusqlite::Error> {
        self.execute("BEGIN IMMEDIATE")?;
        let mut waiting = std::mem::take(jobs).into_iter();
        let written = waiting.by_ref().try_for_each(|job| self.job(job, answers));
        jobs.extend(waiting);
        written?;
        self.prune()?;
        self.execute("COMMIT")
    }

    fn job(&mut self, job: Job, answers: &mut Answers) -> Result<(), rusqlite::Error> {
        match job {
            Job::Submit(submission, to) => match self.submission(*submission) {
                Ok((receipt, entry)) => answers.receipts.push(Answer { to, receipt, entry }),
                Err(error) => {
                    answers.refused.push(to);
                    return Err(error);
                }
            },
            Job::Log(entry) => self.insert_log(&entry, None)?,
            Job::Quarantine { seq, reason } => self.quarantine(seq, &reason)?,
            Job::Flush(answer) => answers.flushes.push(answer),
        }
        Ok(())
    }

    fn submission(
        &mut self,
        submission: Submission,
    ) -> Result<(Receipt, Option<Arc<Entry>>), rusqlite::Error> {
        let Submission {
            mut log,
            items,
            claim,
        } = submission;
        if let Some(claim) = &claim {
            let now_ms = clock::unix_ms();
            if let Some(held) = self.claims.find(&self.connection, claim, now_ms)? {
                log.outcome = Outcome::Duplicate;
                if held.payload != claim.payload {
                    log.error =
                        Some("the payload differs from the one that this idempotency key first came with; the first one stands".into());
                }
                self.insert_log(&log, Some(held.request_id))?;
                let receipt = Receipt {
                    request_id: held.request_id,
                    items: held.items,
                    replayed: true,
                };
                return Ok((receipt, None));
            }
            let held = Held {
                request_id: log.request_id,
                items: log.items,
                payload: claim.payload,
                at_ms: now_ms,
            };
            self.claims.insert(&self.connection, claim, held)?;
        }
        self.insert_log(&log, None)?;
        let receipt = Receipt {
            request_id: log.request_id,
            items: log.items,
            replayed: false,
        };
        if log.outcome != Outcome::Accepted {
            return Ok((receipt, None));
        }
        let bytes = items.as_bytes();
        self.connection
            .prepare_cached(INSERT_PAYLOAD)?
            .execute(rusqlite::params![
                self.last_seq.cast_signed(),
                crc32fast::hash(bytes),
                &bytes[..],
            ])?;
        let entry = Entry {
            seq: self.last_seq,
            request_id: log.request_id,
            stream: log.stream,
            received_ms: log.received_ms,
            items,
        };
        Ok((receipt, Some(Arc::new(entry))))
    }

    fn insert_log(
        &mut self,
        log: &LogEntry,
        duplicate_of: Option<uuid::Uuid>,
    ) -> Result<(), rusqlite::Error> {
        self.last_seq += 1;
        self.connection
            .prepare_cached(INSERT_REQUEST)?
            .execute(rusqlite::params![
                self.last_seq.cast_signed(),
                &log.request_id.as_bytes()[..],
                log.received_ms.cast_signed(),
                &*log.connector,
                &*log.stream,
                log.outcome.code(),
                log.endpoint.code(),
                log.http_status,
                log.items,
                log.bytes.cast_signed(),
                &*log.key,
                &*log.client,
                log.item_key.as_deref(),
                log.idempotency_key.as_deref(),
                duplicate_of.as_ref().map(|id| &id.as_bytes()[..]),
                log.error.as_deref(),
            ])?;
        Ok(())
    }

    fn quarantine(&self, seq: u64, reason: &str) -> Result<(), rusqlite::Error> {
        self.connection.execute(
            "INSERT OR IGNORE INTO quarantine (seq, reason, crc32, items) SELECT seq, ?2, crc32, items FROM payloads WHERE seq = ?1",
            rusqlite::params![seq.cast_signed(), reason],
        )?;
        self.connection
            .execute("DELETE FROM payloads WHERE seq = ?1", [seq.cast_signed()])?;
        Ok(())
    }

    /// Deletes payloads that nobody needs any more, a chunk at a time.
    fn prune(&mut self) -> Result<(), rusqlite::Error> {
        let target = self.shared.prune_to.load(Ordering::Relaxed);
        if self.pruned_to == 0 && target > 0 {
            let first: Option<i64> =
                self.connection
                    .query_row("SELECT min(seq) FROM payloads", [], |row| row.get(0))?;
            self.pruned_to = first.map_or(target, |first| first.unsigned_abs() - 1);
        }
        if target <= self.pruned_to {
            return Ok(());
        }
        let target = target.min(self.pruned_to + PRUNE_CHUNK);
        self.connection
            .prepare_cached("DELETE FROM payloads WHERE seq > ?1 AND seq <= ?2")?
            .execute([self.pruned_to.cast_signed(), target.cast_signed()])?;
        self.pruned_to = target;
        Ok(())
    }

    /// What can wait until nobody else does: old claims, old log entries, payloads.
    fn housekeeping(&mut self) {
        let due = self.expired_at.elapsed() >= EXPIRE_EVERY;
        let payloads = self.shared.prune_to.load(Ordering::Relaxed) > self.pruned_to;
        if !due && !payloads {
            return;
        }
        let result = self
            .execute("BEGIN IMMEDIATE")
            .and_then(|()| self.prune())
            .and_then(|()| if due { self.expire() } else { Ok(()) })
            .and_then(|()| self.execute("COMMIT"));
        if let Err(error) = result {
            self.roll_back(&error);
        }
    }

    fn expire(&mut self) -> Result<(), rusqlite::Error> {
        let now_ms = clock::unix_ms();
        self.claims.expire(&self.connection, now_ms)?;
        // The newest entry stays: it carries the highest sequence number over a restart.
        let deleted = self.connection.execute(
            "DELETE FROM requests WHERE seq IN (
                 SELECT seq FROM requests WHERE received_ms < ?1
                     AND seq < (SELECT max(seq) FROM requests)
                     AND seq < coalesce((SELECT min(seq) FROM payloads), 9223372036854775807)
                 ORDER BY seq LIMIT ?2)",
            rusqlite::params![
                now_ms
                    .saturating_sub(self.options.log_retention_ms)
                    .cast_signed(),
                EXPIRE_CHUNK
            ],
        )?;
        // A full chunk means that there is more: the next idle second goes on.
        if deleted < EXPIRE_CHUNK as usize {
            self.expired_at = Instant::now();
        }
        Ok(())
    }

    /// Ends a failed transaction and decides whether the writer can go on.
    fn roll_back(&mut self, error: &rusqlite::Error) -> JournalError {
        let rolled_back = self.connection.is_autocommit()
            || self.execute("ROLLBACK").is_ok() && self.connection.is_autocommit();
        let restored = self.claims.rolled_back(&self.connection).is_ok();
        // What was thought to be pruned may be back.
        self.pruned_to = 0;
        if sqlite::is_full(error) && rolled_back && restored {
            tracing::error!("the disk is full: requests are refused until there is room");
            return JournalError::DiskFull;
        }
        tracing::error!(%error, "the journal cannot be written; the process ends, the next start reads it afresh");
        self.shared.failed.send_replace(true);
        JournalError::Closed
    }

    /// Lanes first, so that they work while the answers travel.
    fn publish(&mut self, mut answers: Answers) {
        let mut newest = None;
        {
            let mut recent = self
                .shared
                .recent
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for answer in &mut answers.receipts {
                if let Some(entry) = answer.entry.take() {
                    newest = Some(entry.seq);
                    recent.push(entry);
                }
            }
        }
        for answer in answers.receipts {
            let _ = answer.to.send(Ok(answer.receipt));
        }
        if let Some(newest) = newest {
            self.shared.newest.send_replace(newest);
        }
        for answer in answers.flushes {
            let _ = answer.send(());
        }
    }

    fn execute(&self, sql: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the writer's own thread: nothing else runs on it"
)]
fn pause(window: Duration) {
    std::thread::sleep(window);
}
