//! One log for both files of a node: how their writers append to it, and how both follow it.
//!
//! Writers are threads; the [`Log`] belongs to a task. A writer hands over what is to be appended and blocks until it is
//! known what became of that. One that lacks entries lets go of its file and waits for who follows: [`Behind::follow`].
//!
//! **Invariant**: up to the place both files have each entry that concerns them, or are about to commit it under their lock.

mod seen;

use std::fmt;
use std::future::Future;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres::DatabaseError;
use thiserror::Error;
use tokio::sync::{Notify, mpsc};

use crate::log::{AppendError, FollowedEntries, Log, NewEntry};
use crate::{LogEntry, LogPlace, NewerLog, ReplicaFile, Said, part_of};
use seen::Seen;

/// A writer waits so long for entries that it lacks.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);
/// Work that is behind runs so often.
const TIMES_MAX: u32 = 50;

/// The log as both files of a node have it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The newest format of the log that this node knows.
    format: i32,
    /// Each file has one call under way at most.
    calls: mpsc::UnboundedSender<Call>,
    /// An entry follows on the one before: one after the other.
    turn: Mutex<()>,
    state: Mutex<State>,
    moved: Condvar,
    lacking: Notify,
    seen: Seen,
}

#[derive(Debug, Default)]
struct State {
    /// None: no file is open yet.
    place: Option<LogPlace>,
    /// The entry that one of the files has come to, when they were opened.
    furthest: u64,
    fence: Option<i64>,
    /// Nothing is appended any more.
    ended: Option<LogError>,
    /// Rounds of following that failed, and why the last one did.
    failures: u64,
    failure: Option<LogError>,
}

/// Why a file cannot commit. Nothing of the work happened, but of [`LogError::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogError {
    /// It cannot be reached, or has no room. The same works when it is back.
    #[error("{0}; nothing was changed. Retry when the database is back")]
    Database(DatabaseError),
    /// Entries of other nodes cannot be applied just now. The same works when they can.
    #[error("the changes of other nodes cannot be applied: {0}; nothing was changed. Retry later")]
    NotFollowed(String),
    /// This node does not run the sinks, or no longer.
    #[error("another node runs the sinks; nothing was changed. Stop the sinks of this node")]
    NotTheOwner,
    /// The files have another entry than the log.
    #[error(
        "the copy of this node differs from the log; nothing was changed. Restart the node: it takes a new copy"
    )]
    Differs,
    /// A newer version has written.
    #[error("{0}; nothing was changed")]
    Newer(NewerLog),
    /// The change is larger than an entry may be: 64 MiB of work that can be done in parts, otherwise 512 MiB.
    #[error(
        "a change of {bytes} bytes is too large for the log, which takes {bytes_max} at once; nothing was changed. Send fewer items in a request, or lower the history of the stream"
    )]
    TooLarge {
        /// What the file has changed.
        bytes: usize,
        /// What it may.
        bytes_max: usize,
    },
    /// The answer was lost, and what could tell is kept no longer. The work may have happened: it must not be done again
    /// without a look.
    #[error(
        "the database was away for too long: nobody knows whether this was changed. Look before you retry"
    )]
    Unknown,
}

impl LogError {
    /// Whether the same works later, without anybody's help but the database's.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Database(_) | Self::NotFollowed(_))
    }

    /// Whether the database does not answer.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::Away(_)))
    }

    /// Whether nobody knows if it happened.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl From<DatabaseError> for LogError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Entries are missing: [`follow`](Behind::follow), and do the work again.
#[derive(Debug)]
pub struct Behind {
    log: SharedLog,
    /// The file had come here.
    n: u64,
}

/// How often a piece of work ran that was behind. Lets others append again when it ends.
#[derive(Debug, Default)]
pub struct Again {
    times: u32,
    reserved: Option<SharedLog>,
}

impl Drop for Again {
    fn drop(&mut self) {
        if let Some(log) = &self.reserved {
            let _ = log.0.calls.send(Call::Release);
        }
    }
}

/// Why an entry was not appended.
#[derive(Debug)]
pub(crate) enum Refusal {
    Behind(Behind),
    Log(LogError),
}

#[derive(Debug)]
enum Call {
    Append {
        fence: Option<i64>,
        before: LogPlace,
        change: Vec<u8>,
        said: Said,
        answer: SyncSender<Result<LogPlace, AppendError>>,
    },
    /// Nobody else appends until this node does. Answers how far the log is.
    Reserve(SyncSender<Result<u64, DatabaseError>>),
    Release,
}

impl SharedLog {
    /// Over a log that is only appended with and has the format `format`, which both files have, too. The future is the task
    /// that owns the log: it ends when nobody has the other part any more. Writers block, so nothing that it needs may run on
    /// their threads.
    pub fn over(log: Log, format: i32) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (calls, called) = mpsc::unbounded_channel();
        let shared = Self(Arc::new(Shared {
            format,
            calls,
            turn: Mutex::default(),
            state: Mutex::default(),
            moved: Condvar::new(),
            lacking: Notify::new(),
            seen: Seen::default(),
        }));
        (shared, serve(log, called, format))
    }

    /// The number of the claim under which this node runs the sinks; none: it does not. Take another one only when nothing
    /// of the last one settles any more.
    pub fn set_fence(&self, fence: Option<i64>) {
        self.state().fence = fence;
    }

    /// The format that both files have.
    pub(crate) fn format(&self) -> i32 {
        self.0.format
    }

    /// Where both files are.
    pub fn place(&self) -> LogPlace {
        self.state().place.unwrap_or_default()
    }

    /// Ends when a writer lacks entries: follow now.
    pub async fn lacking(&self) {
        self.0.lacking.notified().await;
    }

    /// Why nothing is appended any more.
    pub fn ended(&self) -> Option<LogError> {
        self.state().ended.clone()
    }

    /// Nothing is appended from now on, and nobody waits any more.
    pub fn end(&self, why: LogError) {
        self.state().ended.get_or_insert(why);
        self.0.moved.notify_all();
    }

    /// What another log of this node has behind both files, for [`apply`](Self::apply). Both are open.
    ///
    /// # Errors
    /// The database's; [`LogError::Differs`]: the files are of no use; [`LogError::Newer`]: so is this version.
    pub async fn read(&self, log: &mut Log) -> Result<FollowedEntries, LogError> {
        let (place, furthest) = {
            let state = self.state();
            (state.place.unwrap_or_default(), state.furthest)
        };
        let followed = log.follow(place).await.map_err(LogError::from);
        let followed = followed.inspect_err(|error| self.failed(error.clone()))?;
        if let Some(newer) = NewerLog::of(&followed.head, self.0.format) {
            self.end(LogError::Newer(newer.clone()));
            return Err(LogError::Newer(newer));
        }
        if !followed.fits || followed.head.place.n < furthest {
            self.end(LogError::Differs);
            return Err(LogError::Differs);
        }
        Ok(followed)
    }

    /// Hands on each entry that the files may lack, with the place before it: to the catalog first, then to the pool. Blocks.
    ///
    /// # Errors
    /// Those of the files. Read again then: what was applied before is applied.
    pub fn apply<E: fmt::Display>(
        &self,
        followed: &FollowedEntries,
        mut to: impl FnMut(LogPlace, &LogEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for entry in &followed.entries {
            let before = self.place();
            if entry.place.n <= before.n {
                continue;
            }
            if let Err(error) = to(before, &entry.entry()) {
                self.failed(LogError::NotFollowed(error.to_string()));
                return Err(error);
            }
            self.reached(entry.place);
            if !matches!(part_of(&entry.change, ReplicaFile::Catalog), Ok(None)) {
                self.catalog_is_seen(entry.place.n);
            }
        }
        if self.place().n >= followed.head.place.n {
            self.catalog_is_seen(followed.head.catalog);
        }
        Ok(())
    }

    /// A file is opened that has come here.
    pub(crate) fn open_at(&self, place: LogPlace) {
        let mut state = self.state();
        let lower = state.place.filter(|other| other.n <= place.n);
        state.place = Some(lower.unwrap_or(place));
        state.furthest = state.furthest.max(place.n);
    }

    /// Appends what a file that has come to `file` is about to commit.
    pub(crate) fn append(
        &self,
        file: LogPlace,
        change: Vec<u8>,
        said: Said,
    ) -> Result<LogPlace, Refusal> {
        let _turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, fence) = {
            let state = self.state();
            if let Some(why) = &state.ended {
                return Err(Refusal::Log(why.clone()));
            }
            if said.is_settlement && state.fence.is_none() {
                return Err(Refusal::Log(LogError::NotTheOwner));
            }
            let before = state.place.unwrap_or_default();
            (before, state.fence.filter(|_| said.is_settlement))
        };
        if file.n > before.n {
            return Err(self.behind(file.n - 1));
        }
        let (answer, answered) = sync_channel(1);
        let call = Call::Append {
            fence,
            before,
            change,
            said,
            answer,
        };
        if self.0.calls.send(call).is_err() {
            return Err(Refusal::Log(stopping()));
        }
        match answered.recv() {
            Ok(Ok(place)) => {
                self.reached(place);
                Ok(place)
            }
            Ok(Err(refused)) => Err(self.refused(before, refused)),
            Err(_) => Err(Refusal::Log(LogError::Unknown)),
        }
    }

    /// What becomes of work whose entry was not appended behind `before`.
    fn refused(&self, before: LogPlace, refused: AppendError) -> Refusal {
        let error = match refused {
            AppendError::Behind => return self.behind(before.n),
            // What it had reserved took too long: it is done again, and nothing need be followed for that.
            AppendError::Database(DatabaseError::Conflict(_)) => {
                return self.behind(before.n.saturating_sub(1));
            }
            AppendError::NotTheOwner => LogError::NotTheOwner,
            AppendError::Newer(newer) => LogError::Newer(newer),
            AppendError::Differs => LogError::Differs,
            AppendError::Unknown => LogError::Unknown,
            AppendError::Malformed(malformed) => LogError::NotFollowed(malformed.to_string()),
            AppendError::Database(error) => LogError::Database(error),
        };
        if matches!(error, LogError::Differs | LogError::Newer(_)) {
            self.end(error.clone());
        }
        Refusal::Log(error)
    }

    fn behind(&self, n: u64) -> Refusal {
        let log = self.clone();
        Refusal::Behind(Behind { log, n })
    }

    fn reached(&self, place: LogPlace) {
        let mut state = self.state();
        if state.place.is_none_or(|known| known.n < place.n) {
            state.place = Some(place);
        }
        self.0.moved.notify_all();
    }

    fn failed(&self, why: LogError) {
        let mut state = self.state();
        state.failures += 1;
        state.failure = Some(why);
        self.0.moved.notify_all();
    }

    fn reserve(&self) -> Result<u64, LogError> {
        let (answer, answered) = sync_channel(1);
        let sent = self.0.calls.send(Call::Reserve(answer));
        sent.map_err(|_| stopping())?;
        let head = answered.recv().map_err(|_| stopping())?;
        Ok(head?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Behind {
    /// Waits until both files have what was missing. Blocks; the file must not be locked. From the second time on nobody
    /// else appends meanwhile: a node that appends all the time would win for ever.
    ///
    /// # Errors
    /// It cannot be read or applied, or not soon. See [`LogError`].
    pub fn follow(self, again: &mut Again) -> Result<(), LogError> {
        let Self { log, n } = self;
        let mut until = n + 1;
        again.times += 1;
        if again.times > TIMES_MAX {
            return Err(LogError::NotFollowed("other nodes were faster".to_owned()));
        }
        if again.times > 1 {
            match log.reserve() {
                Ok(head) => until = head,
                // Another node has done so: it is its turn.
                Err(LogError::Database(DatabaseError::Conflict(_))) => {}
                Err(error) => return Err(error),
            }
            again.reserved = Some(log.clone());
        }
        let mut state = log.state();
        let failures = state.failures;
        log.0.lacking.notify_one();
        loop {
            if state.place.is_some_and(|place| place.n >= until) {
                return Ok(());
            }
            if let Some(why) = &state.ended {
                return Err(why.clone());
            }
            if state.failures > failures
                && let Some(why) = &state.failure
            {
                return Err(why.clone());
            }
            let waited = log.0.moved.wait_timeout(state, FOLLOWED_WITHIN);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            if time.timed_out() {
                return Err(DatabaseError::silent(FOLLOWED_WITHIN).into());
            }
            state = next;
        }
    }
}

async fn serve(mut log: Log, mut called: mpsc::UnboundedReceiver<Call>, format: i32) {
    while let Some(call) = called.recv().await {
        match call {
            Call::Append {
                fence,
                before,
                change,
                said,
                answer,
            } => {
                let entry = NewEntry {
                    fence,
                    before,
                    change: &change,
                    seq: said.seq,
                    low_water: said.low_water,
                    format,
                };
                let _ = answer.send(log.append(&entry).await);
            }
            Call::Reserve(answer) => {
                let _ = answer.send(log.reserve().await);
            }
            Call::Release => log.release().await,
        }
    }
    log.close().await;
}

fn stopping() -> LogError {
    DatabaseError::Away("the node is stopping".to_owned()).into()
}
