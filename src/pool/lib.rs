//! `pool.db`: the data pool, and how far each sink has come.
//!
//! Delivery hands in [`Settlement`]s; the admin API and renderers read. Plain SQLite clients may
//! read the file at any time: table `items`, and a view for each stream (`pool/views.rs`).
//!
//! **Invariant**: a sink's staged effects and its cursor commit in one transaction, so an item is
//! applied exactly once whatever happens in between. What was settled is on disk: what every sink has
//! behind it ([`Pool::low_water`]) needs nothing of the journal any more. Once the fuse of the files is
//! blown nothing more is written.
#![deny(unsafe_code)]

pub mod acts;
mod apply;
mod change_log;
mod change_set;
pub mod changes;
pub mod copy;
pub mod dead_letters;
mod delivery_status;
mod error;
mod expiry;
mod fills;
mod history;
mod implicit_streams;
mod items;
mod latest;
mod logged;
mod missing;
mod opening;
mod past_values;
mod position;
mod rebuilt;
mod resends;
pub mod retries;
mod rules;
mod schema;
mod search;
mod settlement;
mod sinks;
mod sizes;
mod stale;
mod stale_check;
mod state;
#[cfg(test)]
mod tests;
mod tombstones;
mod transaction;
mod version_column;
mod views;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use base::order::{ChangeSeq, Epoch, Seq};
use replica::Commits;
use settings::OnUpdate;
use sqlite::{FailStop, FileWriter, Readers};

use acts::ActStreams;
use apply::RowNumbers;
use change_log::LogEnds;
use changes::Changes;
pub use dead_letters::{DeadLetter, Undelivered};
pub use delivery_status::{GivenUp, SinkState};
use error::DAMAGE;
pub use error::PoolError;
pub use expiry::Expired;
pub use fills::{Beginning, FillLeft, FillPage, FillStep, Filling};
use implicit_streams::Made;
pub use implicit_streams::{Claim, MADE_MAX, TooManyMade};
pub use items::{Item, Page, PageLimit, SnapshotPage, overridden_in};
pub use latest::{LatestItem, LatestPage, LatestPlace, LatestRead, LatestStep};
use past_values::Recording;
pub use past_values::{PastKind, PastPlace, PastValue};
pub use position::Position;
pub use resends::{Found, LaterChanges, ResendLimits, Selection};
pub use retries::{Call, Part, Retry, Waiting};
pub use schema::{FILE, FORMAT};
pub use search::{LetterHit, LetterHits};
pub use settlement::{Effect, Settlement, Staged};
pub use sinks::Known;
use sizes::Counting;
pub use sizes::{Size, Sizes};
pub use stale::{LeftBehind, Stale};
use tombstones::Removals;
use views::Views;

/// Bytes in the write-ahead log before it is copied back. The largest lever there is for
/// random keys: pages that change often are then written once.
const CHECKPOINT_BYTES: u32 = 40 << 20;
const READERS_MAX: u32 = 4;
/// Of which so many read many items at once, so that short reads always find one.
const LONG_READS_MAX: usize = 2;
/// Everything up to here is behind every sink, waiting retries included.
const LOW_WATER: &str = "SELECT min(coalesce((SELECT min(seq) FROM cursors), 9223372036854775807),
    coalesce((SELECT min(first_seq) FROM retries WHERE resent = 0) - 1, 9223372036854775807))";
/// Views are made for so long when the file is closed. A file at rest may be read by others, and a stop must not take
/// long.
const VIEWS_AT_END: Duration = Duration::from_secs(1);

/// The pool. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Pool {
    writer: Mutex<Writer>,
    reads: Readers,
    /// In a cluster, what [`Pool::read`] reads with until the file is closed.
    reader: Mutex<Option<Connection>>,
    path: PathBuf,
    /// Whether it is one of several copies.
    is_logged: bool,
    /// Of all files of the data folder.
    fail_stop: FailStop,
    /// The latest changes, for who listens.
    changes: Arc<Changes>,
    made: Arc<Made>,
    sizes: Arc<Sizes>,
    /// Number of the last act in each stream since the start. In memory, because a feed asks for it with each request.
    acted: RwLock<HashMap<Arc<str>, ChangeSeq>>,
    /// An [`Epoch`].
    epoch: AtomicU64,
    /// Number of a change; nobody can resume from before it.
    floor: AtomicU64,
    /// Turns to read many items, and those of them that sinks may have which are filled.
    turns: Semaphore,
    fill_turns: Semaphore,
}

#[derive(Debug)]
struct Writer {
    connection: FileWriter,
    commits: Commits,
    views: Views,
    on_update: HashMap<Arc<str>, OnUpdate>,
    /// Number of the last change.
    seq: ChangeSeq,
    /// Up to here numbers are reserved.
    reserved: ChangeSeq,
    removals: Removals,
    acts: ActStreams,
    recording: Recording,
    /// What the transaction changes of the sizes of streams.
    counting: Counting,
    row_numbers: RowNumbers,
    log_ends: LogEnds,
}

impl Pool {
    /// From now on these are the streams of the catalog, and updates of each do this; of those that are not there, the
    /// default.
    pub fn set_on_update(&self, on_update: HashMap<Arc<str>, OnUpdate>) {
        let created: HashSet<Arc<str>> = on_update.keys().cloned().collect();
        self.made.set_created(created);
        self.lock().on_update = on_update;
    }

    /// What positions begin with.
    pub fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch.load(Ordering::Acquire))
    }

    /// The latest changes, to listen to.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// Commits a step of a lane, then wakes who listens; on disk when it returns. Under which ids its retries stand, one for
    /// each. `None`: the retry that it was about has been given up meanwhile, and nothing of the step happened. Blocks:
    /// call it from the lane's own thread.
    ///
    /// # Errors
    /// SQLite's; nothing of the step happened.
    pub fn settle(&self, settlement: &Settlement) -> Result<Option<Vec<i64>>, PoolError> {
        self.write_history()?;
        let done = self.settling(settlement.is_divisible, |writer, pass| {
            writer.apply(settlement, pass)
        })?;
        if done.is_some() {
            self.made.committed(&settlement.staged);
        }
        Ok(done)
    }

    /// Makes some of the views that lack a column, in a transaction of its own; true if there are more. Lanes wait
    /// meanwhile, so call it again after a pause. Blocks.
    pub fn refresh_views(&self) -> Result<bool, PoolError> {
        if !self.lock().views.are_stale() {
            return Ok(false);
        }
        let make = |writer: &mut Writer| writer.views.make(&writer.connection);
        self.write_then(make, |writer, made| {
            writer.views.made(made);
            writer.views.are_stale()
        })
    }

    /// Every sink has what was accepted up to here behind it, waiting retries included: it needs nothing of the journal
    /// any more. Blocks.
    pub fn low_water(&self) -> Result<Seq, PoolError> {
        self.read(low_water)
    }

    /// Has the daemon end, and the next start repair the file, if somebody met damage in it.
    pub fn notice_damage(&self) {
        if DAMAGE.take() {
            self.fail_stop
                .damaged(&self.path, "a damaged page was read");
        }
    }

    /// Gives back the writing connection's cached pages, unless a lane uses it just now.
    pub fn shrink(&self) {
        if let Ok(writer) = self.writer.try_lock() {
            writer.connection.shrink();
        }
    }

    /// Gives the room of the write-ahead log back to a disk that is nearly full. Blocks.
    pub fn give_back(&self) {
        let connection = &mut self.lock().connection;
        if let Err(error) = connection.give_back() {
            connection.classify(&error);
        }
    }

    /// Closes the file with an empty write-ahead log. Blocks.
    pub async fn close(&self) -> Result<(), PoolError> {
        self.reads.close().await;
        // For whoever reads the file while the daemon is away. What is left is made after the next start.
        let begun = Instant::now();
        while begun.elapsed() < VIEWS_AT_END && matches!(self.refresh_views(), Ok(true)) {}
        let (seq, reserved) = {
            let writer = self.lock();
            (writer.seq, writer.reserved)
        };
        if reserved > seq {
            // Numbers that nobody had are free again. If that fails, they are left out.
            let _ = self.write(|writer| history::store(&writer.connection, writer.seq));
        }
        self.keep_place()?;
        self.reader().take();
        Ok(self.lock().connection.close()?)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Option<Connection>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is committed. In a cluster, the writer is locked until it is known what became of its last change, so the
    /// database may keep it locked for as long as it does not answer.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        if let Some(reader) = &*self.reader() {
            // One state, however many statements.
            let state = reader.unchecked_transaction()?;
            return Ok(work(&state)?);
        }
        Ok(work(&self.lock().connection)?)
    }
}

/// The lowest sequence number that every sink has completely behind it, configured or not, waiting retries included. Dead
/// letters that are sent again need nothing of the journal.
fn low_water(connection: &Connection) -> Result<Seq, rusqlite::Error> {
    connection
        .prepare_cached(LOW_WATER)?
        .query_row([], |row| row.get(0).map(Seq::from_column))
}
