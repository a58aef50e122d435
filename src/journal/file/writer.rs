//! The writer thread: takes whatever waits, commits it as one group, then answers.
//!
//! What one group writes is in `journal/file/group.rs`; what is pruned between groups in `journal/file/prune.rs`.
//!
//! **Invariant**: receipts leave only after COMMIT returned ok. A full disk, or another process that holds
//! the file, costs the group and nothing else; any other error blows the fuse of all files, and whoever
//! finds it blown, here or elsewhere, writes nothing more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::claims::Claims;
use super::group::Group;
use super::payloads::Joined;
use super::prune::{self, Pruner, Work};
use super::rejected_bodies::Bodies;
use super::segments::Segments;
use super::timeline::Timeline;
use crate::queue::{self, Job, Queue};
use crate::{Durability, JournalError, Options, Receipt, Shared, StorageError};
use base::clock::Lived;
use base::order::Seq;
use item::batch::Entry;
use sqlite::{DiskError, FailStop, FileWriter};

/// How often an idle writer looks whether there is something to prune.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes in the write-ahead log before it is copied back.
const CHECKPOINT_BYTES: u32 = 16 << 20;

struct Writer {
    connection: FileWriter,
    options: Options,
    last_seq: Seq,
    claims: Claims,
    spans: Segments,
    bodies: Bodies,
    payloads: Joined,
    pruner: Pruner,
    timeline: Timeline,
    shared: Arc<Shared>,
}

/// One submission's way back.
pub(super) struct Answer {
    pub(super) to: oneshot::Sender<Result<Receipt, JournalError>>,
    pub(super) receipt: Receipt,
    /// For the lanes, unless it was a repeat or a test.
    pub(super) entry: Option<Arc<Entry>>,
}

/// What must be told to whom once the group is committed.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) receipts: Vec<Answer>,
    /// Submissions that made the transaction fail. They are answered with the group, because the rollback takes them
    /// all.
    pub(super) refused: Vec<oneshot::Sender<Result<Receipt, JournalError>>>,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
}

pub(super) fn start(
    connection: Connection,
    (path, fail_stop): (&Path, &FailStop),
    options: Options,
    last_seq: Seq,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, StorageError> {
    // First, for it sets the clock that the others ask.
    let timeline = Timeline::open(&connection, last_seq)?;
    let claims = Claims::open(&connection)?;
    let spans = Segments::open(&connection)?;
    let writer = Writer {
        connection: FileWriter::new(connection, path, CHECKPOINT_BYTES, fail_stop)?,
        timeline,
        spans,
        pruner: Pruner::new(options.log_retention, options.log_retention_bytes),
        options,
        last_seq,
        claims,
        bodies: Bodies::new(Arc::clone(&shared)),
        payloads: Joined::default(),
        shared,
    };
    let on_panic = OnPanic(path.to_owned(), fail_stop.clone());
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || {
            writer.run(&queue);
            drop(on_panic);
        });
    thread.map_err(StorageError::Thread)
}

/// A writer that panics has failed for good, too. Nobody knows what it had done, so no file is written any more.
struct OnPanic(PathBuf, FailStop);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.fail(&self.0, "the writer panicked");
        }
    }
}

impl Writer {
    fn run(mut self, queue: &Queue) {
        let mut jobs = Vec::new();
        let mut has_pages = false;
        while let Some(work) = queue.wait(self.pruner.pause().unwrap_or(IDLE)) {
            if work {
                has_pages = true;
                if self.options.durability == Durability::Fsync {
                    queue::gather(queue);
                }
                queue.take(&mut jobs);
                self.group(&mut jobs);
            }
            if !self.connection.is_stopped() {
                self.between_groups(!work);
            }
            if !work && has_pages && self.pruner.pause().is_none() {
                has_pages = false;
                self.connection.shrink();
            }
            if self.connection.is_stopped() {
                // Whoever still waits is told that the journal is closed.
                queue.close();
                queue.take(&mut jobs);
                jobs.clear();
                return;
            }
        }
        // Orderly end: time goes on from here, and the next start finds a short write-ahead log.
        let _ = self.timeline.noted(&self.connection, self.last_seq);
        let _ = self.connection.close();
    }

    /// Commits the jobs in one transaction and answers them. When the disk is full, or another process
    /// holds the file, the jobs are refused and the writer goes on.
    fn group(&mut self, jobs: &mut Vec<Job>) {
        if self.connection.is_stopped() {
            return self.refuse(Answers::default(), jobs, JournalError::Closed);
        }
        let started = Instant::now();
        let size = jobs.len();
        let mut answers = Answers::default();
        let mut group = Group::new(
            &self.connection,
            &mut self.claims,
            &mut self.bodies,
            self.last_seq,
            &mut self.spans,
            &mut self.payloads,
            &self.shared,
        );
        let written = group.write(jobs, &mut answers);
        let last_seq = group.last_seq();
        match written {
            Ok(()) => {
                self.last_seq = last_seq;
                let metrics = &self.shared.metrics;
                metrics.journal_commits.inc();
                metrics.journal_group_size.observe(size as f64);
                metrics
                    .journal_commit_seconds
                    .observe(started.elapsed().as_secs_f64());
                self.publish(answers);
                self.claims.committed(Lived::now());
            }
            Err(error) => {
                let refusal = self.roll_back(&error);
                self.refuse(answers, jobs, refusal);
            }
        }
    }

    /// Nothing of the group was stored.
    fn refuse(&self, answers: Answers, jobs: &mut Vec<Job>, refusal: JournalError) {
        let receipts = answers.receipts.into_iter().map(|answer| answer.to);
        for to in receipts.chain(answers.refused) {
            let _ = to.send(Err(refusal));
        }
        for job in jobs.drain(..) {
            match job {
                Job::Submit(_, to) | Job::SubmitIf(_, _, to) => {
                    let _ = to.send(Err(refusal));
                }
                Job::Log(..) => {
                    self.shared.metrics.log_entries_dropped.inc();
                }
                // The lane meets the payload again; whoever flushes or asks sees that nobody answers.
                Job::Quarantine { .. } | Job::Flush(_) | Job::Ask(..) => {}
            }
        }
    }

    /// What no caller waits for: copying the write-ahead log back, deleting what is not needed. It comes after the
    /// answers, so that no caller waits for it.
    fn between_groups(&mut self, idle: bool) {
        if self.shared.give_back.swap(false, Ordering::Relaxed)
            && let Err(error) = self.give_back()
        {
            self.roll_back(&error);
            return;
        }
        let pruned = self.connection.maybe_checkpoint().and_then(|()| {
            self.pruner.run(Work {
                connection: &self.connection,
                claims: &mut self.claims,
                spans: &self.spans,
                bodies: &mut self.bodies,
                timeline: &mut self.timeline,
                shared: &self.shared,
                last_seq: self.last_seq,
                idle,
            })
        });
        if let Err(error) = pruned {
            self.roll_back(&error);
        }
    }

    /// Makes the file and its log as small as they can be in a second. Twice, because moving pages writes them into the
    /// log, which is then copied back once more.
    fn give_back(&mut self) -> Result<(), rusqlite::Error> {
        const TIME_MAX: Duration = Duration::from_secs(1);
        let started = Instant::now();
        // First, for the pages that are moved go through the log.
        self.connection.give_back()?;
        while prune::give_space_back(&self.connection, 0, Instant::now())?
            && started.elapsed() < TIME_MAX
        {}
        self.connection.give_back()
    }

    /// Ends a failed transaction and decides whether the writer can go on.
    fn roll_back(&mut self, error: &rusqlite::Error) -> JournalError {
        let disk_error = self.connection.classify(error);
        let restored = sqlite::roll_back(&self.connection);
        self.claims.rolled_back();
        self.bodies.rolled_back();
        self.spans.rolled_back();
        self.pruner.rolled_back();
        if let Err(error) = restored {
            self.connection.classify(&error);
        }
        if self.connection.is_stopped() {
            return JournalError::Closed;
        }
        match disk_error {
            DiskError::Busy => {
                tracing::warn!(
                    "another process has locked journal.db: requests are answered 503 until it releases the lock"
                );
                JournalError::Busy
            }
            _ => {
                tracing::error!(
                    "the disk is full: requests are answered 503 until there is free space"
                );
                JournalError::DiskFull
            }
        }
    }

    /// Answers the callers, then wakes the lanes. Entries are in memory before the answers leave, because a caller may
    /// look for its request at once.
    fn publish(&mut self, mut answers: Answers) {
        let mut newest = None;
        {
            let mut recent = self.shared.lock_recent();
            for answer in &mut answers.receipts {
                if let Some(entry) = answer.entry.take() {
                    newest = Some(entry.seq);
                    recent.push(entry);
                }
            }
        }
        // Whoever has a receipt finds the entry counted; the lanes are woken when the answers are out.
        if let Some(newest) = newest {
            self.shared.newest.send_if_modified(|shown| {
                *shown = newest;
                false
            });
        }
        for answer in answers.receipts {
            let _ = answer.to.send(Ok(answer.receipt));
        }
        if newest.is_some() {
            self.shared.newest.send_modify(|_| ());
        }
        for answer in answers.flushes {
            let _ = answer.send(());
        }
    }
}
