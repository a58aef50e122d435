//! The durable record of accepted requests. Request log, queue and idempotency index at once; and, for a while, the bodies
//! of refused webhook requests.
//!
//! [`Journal::submit`] is the moment of truth of an ingest request; delivery reads entries back with
//! [`Journal::read_after`]; the admin API reads the [`log`]. Where it is stored is the engine's: `journal.db` in the data
//! folder (`journal/file.rs`), or a PostgreSQL server (`journal/postgres.rs`). Both take their work from one queue, and both
//! hand the newest entries to the lanes from memory.
//!
//! **Invariant**: a receipt is given only after the transaction that holds log entry, payload and
//! idempotency claim is committed (and, with `fsync`, on disk). Once the fuse of the files is blown no
//! further receipt is ever given.
#![deny(unsafe_code)]

mod arrivals;
mod condition;
mod endpoint;
mod file;
pub mod log;
mod measure;
pub mod moving;
mod origin;
pub mod page;
mod postgres;
mod queue;
mod reader;
mod recent;
mod rejected_bodies;
mod retention;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use base::clock::Lived;
use base::order::Seq;
use item::Items;
use observe::metrics::Metrics;
use sqlite::{FailStop, FileError};

pub use condition::{Condition, Named, Pin};
pub use file::copy;
pub use file::schema::{FILE, FORMAT};
pub use log::{LogEntry, Outcome};
pub use measure::LogMinute;
pub use origin::Origin;
pub use postgres::PostgresOptions;
use queue::{Job, Queue};
pub use reader::{ReadRequest, Taken};
use recent::Recent;
pub use rejected_bodies::RejectedBody;
pub use retention::Retention;
pub use settings::Durability;

/// What the journal is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// What a receipt promises: with `Fsync` every group of requests is flushed to the device before its receipts are given.
    pub durability: Durability,
    /// Bytes of requests that may wait for the writer; beyond it [`JournalError::Overloaded`].
    pub pending_bytes_max: usize,
    /// Sequence numbers start above this, whatever the file says: what a sink has already seen is
    /// never given out twice, even if the file lost its end in a power cut.
    pub seq_floor: Seq,
    /// How long log entries are kept.
    pub log_retention: Duration,
    /// Bytes that log entries may take in the file, about; the oldest go first.
    pub log_retention_bytes: u64,
}

/// A request that passed every check.
#[derive(Debug)]
pub struct Submission {
    /// The log entry, with the outcome [`Outcome::Accepted`], [`Outcome::Removed`] or [`Outcome::Test`].
    pub log: LogEntry,
    /// When it arrived, in time lived.
    pub arrived: Lived,
    /// Its operations, in the order in which they were sent.
    pub items: Items,
    /// The idempotency claim, if the caller sent a key.
    pub claim: Option<Claim>,
    /// Another one: whichever is held makes it a repeat.
    pub second: Option<Claim>,
    /// Whether it is still admitted, where other nodes can change that; none: nothing can.
    pub recheck: Option<Recheck>,
}

/// Whether a submission is still admitted. It is asked about right before it is stored, and again when the catalog has changed
/// meanwhile.
pub struct Recheck(Box<dyn Fn() -> bool + Send + Sync>);

impl Recheck {
    pub fn new(is_admitted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Box::new(is_admitted))
    }

    fn is_admitted(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Recheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recheck").finish_non_exhaustive()
    }
}

/// An idempotency claim: who may not submit the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Digest of connector, stream and idempotency key.
    pub scope: [u8; 16],
    /// Digest of the body, to tell a repeat from a different payload under the same key.
    pub payload: [u8; 8],
}

/// What a submission came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The request that was accepted: this one, or the first of its repeats.
    pub request_id: Uuid,
    /// Number of items of that request.
    pub items: u32,
    /// Whether this was a repeat.
    pub replayed: bool,
}

/// Why the journal did not take a submission. Nothing of it was stored, unless the disk itself failed:
/// then the next start finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JournalError {
    /// Too many bytes wait for the writer.
    #[error("too many requests wait for the disk")]
    Overloaded,
    /// The disk is full. Goes on when there is room again.
    #[error("the disk is full")]
    DiskFull,
    /// Another process holds the file. Goes on when it lets go.
    #[error("another process has locked journal.db")]
    Busy,
    /// An operation on one of the items is accepted and not settled, or nobody can tell. Goes on when it is settled.
    #[error("an operation that is not settled names the same item")]
    Unsettled,
    /// The key was revoked, or what it may do was changed, while the request waited.
    #[error("the key was changed while the request waited")]
    NotAdmitted,
    /// The database did not say in time that it is stored. It may be: nobody can tell yet.
    #[error("the database did not confirm the request in time")]
    Unconfirmed,
    /// The database cannot be reached. Goes on when it can.
    #[error("the database cannot be reached")]
    Unreachable,
    /// The writer has stopped: shutting down, or failed for good.
    #[error("the journal is closed")]
    Closed,
}

/// Why the journal could not be opened or read.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The file cannot be opened, read or written.
    #[error("journal: {0}")]
    File(#[source] FileError),
    /// The database did not answer, or refused.
    #[error("journal: {0}")]
    Database(#[source] ::postgres::DatabaseError),
    /// A row is not what it should be.
    #[error("journal: {0}")]
    Row(String),
    /// The writer thread could not be started.
    #[error("journal: cannot start the writer thread: {0}")]
    Thread(#[source] std::io::Error),
}

impl<E: Into<FileError>> From<E> for StorageError {
    fn from(error: E) -> Self {
        Self::File(file::DAMAGE.look_at(error.into()))
    }
}

impl StorageError {
    /// What is the matter with the file, if that is it.
    pub fn of_file(&self) -> Option<&FileError> {
        match self {
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}

/// The journal. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    engine: Engine,
    /// How many want every payload to stay.
    holds: Mutex<u32>,
    seq_floor: Seq,
}

/// Where it is stored.
#[derive(Debug)]
enum Engine {
    File(Box<file::File>),
    Postgres(Arc<postgres::Node>),
}

/// As long as it lives no payload is released that was not released before.
#[derive(Debug)]
pub struct Hold(Arc<Journal>);

impl Drop for Hold {
    fn drop(&mut self) {
        *self.0.lock_holds() -= 1;
    }
}

/// What the writer and everybody else both see.
#[derive(Debug)]
struct Shared {
    /// The newest entries, so that lanes that keep up never read the store.
    recent: Mutex<Recent>,
    /// Sequence number of the newest accepted entry; lanes wait on it.
    newest: watch::Sender<Seq>,
    /// How many bodies of refused requests are kept; none: that was not said yet, all stay and none is added.
    bodies: Mutex<Option<Retention>>,
    /// Payloads up to here are needed by nobody any more.
    prune_to: AtomicU64,
    /// The disk is nearly full: the writer gives back what it can, once.
    give_back: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Shared {
    fn new(recent: Recent, newest: Seq, metrics: Arc<Metrics>) -> Self {
        Self {
            recent: Mutex::new(recent),
            newest: watch::Sender::new(newest),
            bodies: Mutex::new(None),
            prune_to: AtomicU64::new(0),
            give_back: AtomicBool::new(false),
            metrics,
        }
    }

    /// Payloads up to here are needed by nobody any more.
    fn released(&self) -> Seq {
        Seq::new(self.prune_to.load(Ordering::Relaxed))
    }

    fn lock_recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Opens or makes `journal.db` at `path`, starts the writer thread, and has time lived go on from where it stood.
    ///
    /// # Errors
    /// The file cannot be opened, is not a journal, or was written by a newer version.
    pub async fn open(
        path: &Path,
        options: Options,
        metrics: Arc<Metrics>,
        fail_stop: &FailStop,
    ) -> Result<Arc<Self>, StorageError> {
        let seq_floor = options.seq_floor;
        let (file, shared, queue) = file::File::open(path, options, metrics, fail_stop).await?;
        Ok(Self::over(
            Engine::File(Box::new(file)),
            shared,
            queue,
            seq_floor,
        ))
    }

    fn over(engine: Engine, shared: Arc<Shared>, queue: Arc<Queue>, seq_floor: Seq) -> Arc<Self> {
        Arc::new(Self {
            queue,
            shared,
            engine,
            holds: Mutex::new(0),
            seq_floor,
        })
    }

    /// The engine of a test of the file.
    #[cfg(test)]
    fn file(&self) -> &file::File {
        match &self.engine {
            Engine::File(file) => file,
            Engine::Postgres(_) => panic!("not in a file"),
        }
    }

    /// Makes a request durable and answers when it is. Dropping the future does not take the
    /// request back.
    ///
    /// # Errors
    /// See [`JournalError`]; nothing was stored.
    pub async fn submit(&self, submission: Submission) -> Result<Receipt, JournalError> {
        let (answer, receipt) = oneshot::channel();
        let bytes = submission.items.byte_len();
        self.queue
            .push(Job::Submit(Box::new(submission), answer), bytes)?;
        receipt.await.unwrap_or(Err(JournalError::Closed))
    }

    /// Whether a request with one of these claims would be a repeat.
    ///
    /// # Errors
    /// See [`JournalError`]: nobody can tell.
    pub async fn has_claim(&self, claims: [Option<Claim>; 2]) -> Result<bool, JournalError> {
        if claims == [None; 2] {
            return Ok(false);
        }
        let (answer, held) = oneshot::channel();
        self.queue.push(Job::Ask(claims, answer), 0)?;
        held.await.map_err(|_| JournalError::Closed)
    }

    /// Logs a request that was not accepted, without waiting. When too much waits for the disk,
    /// the entry is dropped and counted.
    pub fn record(&self, entry: LogEntry) {
        self.record_refused(entry, None);
    }

    /// The same for a refused request, whose body is kept for a while; see [`Journal::keep_bodies`].
    pub fn record_refused(&self, entry: LogEntry, body: Option<RejectedBody>) {
        let body = body.filter(|body| self.shared.keeps(body));
        let bytes = entry.byte_len() + body.as_ref().map_or(0, RejectedBody::byte_len);
        let job = Job::Log(Box::new(entry), body.map(Box::new));
        if self.queue.push(job, bytes).is_err() {
            self.shared.metrics.log_entries_dropped.inc();
        }
    }

    /// Answers when everything handed in before is committed.
    ///
    /// # Errors
    /// [`JournalError::Closed`].
    pub async fn flush(&self) -> Result<(), JournalError> {
        let (answer, done) = oneshot::channel();
        self.queue.push(Job::Flush(answer), 0)?;
        done.await.map_err(|_| JournalError::Closed)
    }

    /// Gives the room of the write-ahead log and of free pages back to a disk that is nearly full. Answers when that is
    /// done as far as it can be.
    pub async fn give_back(&self) {
        self.shared.give_back.store(true, Ordering::Relaxed);
        // The first wakes the writer, the second is answered behind what it did then.
        for _ in 0..2 {
            let _ = self.flush().await;
        }
    }

    /// Moves a payload that cannot be read into the table `quarantine`, for a person to look at.
    ///
    /// # Errors
    /// See [`JournalError`]: then the lane must not pass the entry yet.
    pub fn quarantine(&self, seq: Seq, reason: String) -> Result<(), JournalError> {
        self.queue.push(Job::Quarantine { seq, reason }, 0)
    }

    /// The sequence number of the newest accepted entry, and its changes.
    pub fn newest(&self) -> watch::Receiver<Seq> {
        self.shared.newest.subscribe()
    }

    /// Has the daemon end, and the next start repair the file, if somebody met damage in it.
    pub fn notice_damage(&self) {
        match &self.engine {
            Engine::File(file) => file.notice_damage(),
            Engine::Postgres(_) => {}
        }
    }

    /// Every lane has entries up to and including `seq` behind it: they leave the memory.
    pub fn passed(&self, seq: Seq) {
        self.shared.lock_recent().forget_through(seq);
    }

    /// What every lane did with payloads up to and including `seq` is on disk: they may be deleted, unless
    /// somebody holds them.
    pub fn release(&self, seq: Seq) {
        let holds = self.lock_holds();
        if *holds == 0 {
            self.shared.prune_to.fetch_max(seq.get(), Ordering::Relaxed);
        }
    }

    /// From now on every payload stays that was not released before.
    pub fn hold(self: &Arc<Self>) -> Hold {
        *self.lock_holds() += 1;
        Hold(Arc::clone(self))
    }

    fn lock_holds(&self) -> MutexGuard<'_, u32> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries lie after `cursor`, up to the newest accepted one.
    pub fn lag(&self, cursor: Seq) -> u64 {
        match &self.engine {
            Engine::File(file) => file.lag(cursor),
            Engine::Postgres(database) => database.lag(cursor),
        }
    }

    /// Whether other nodes store into it as well.
    pub fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Postgres(_))
    }

    /// [`Options::seq_floor`].
    pub fn seq_floor(&self) -> Seq {
        self.seq_floor
    }

    /// Up to here entries may have been deleted since the start.
    pub fn released(&self) -> Seq {
        self.shared.released()
    }

    /// Commits what waits, stops the writer, closes the store. Later submissions are refused.
    pub async fn close(&self) {
        self.queue.close();
        match &self.engine {
            Engine::File(file) => file.close().await,
            Engine::Postgres(database) => database.close().await,
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue.close();
    }
}
