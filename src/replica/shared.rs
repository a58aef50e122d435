//! One log for both files of a node: how their writers append to it, and how both follow it.
//!
//! Writers are threads; the [`Log`] belongs to a task. A writer hands over what is to be appended and blocks until it is
//! known what became of that. One that lacks entries lets go of its file and waits for who follows: [`Behind::follow`].
//!
//! **Invariant**: up to the place both files have each entry that concerns them, or are about to commit it under their lock.

mod behind;
mod calls;
mod error;
mod seen;

use std::fmt;
use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use postgres::DatabaseError;
use tokio::sync::{Notify, mpsc};

use crate::log::{AppendError, FollowedEntries, Log};
use crate::{LogEntry, LogPlace, NewerLog, ReplicaFile, Said, part_of};
pub use behind::{Again, Behind};
use calls::{Call, serve};
pub use error::LogError;
use seen::Seen;

/// The log as both files of a node have it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The newest format of the log that this node knows.
    format: i32,
    /// Each file has one call under way at most. So it needs no bound.
    calls: mpsc::UnboundedSender<Call>,
    /// An entry follows on the one before: one after the other. Both files append through it, because each entry names
    /// the digest of the one before.
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
    /// The entry that one of the files has come to, when they were opened. Where the log ends before it, the database
    /// has lost entries, so the copies differ.
    furthest: u64,
    fence: Option<i64>,
    /// Nothing is appended any more.
    ended: Option<LogError>,
    /// Rounds of following that failed, and why the last one did.
    failures: u64,
    failure: Option<LogError>,
}

/// Why an entry was not appended.
#[derive(Debug)]
pub(crate) enum Refusal {
    Behind(Behind),
    Log(LogError),
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

    /// Appends what a file that has come to `file` is about to commit. A file that is ahead of the shared place waits,
    /// because the other file has not followed yet.
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

    /// Writers that wait for entries return with it, otherwise they would wait for their whole time.
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

fn stopping() -> LogError {
    DatabaseError::Away("the node is stopping".to_owned()).into()
}
