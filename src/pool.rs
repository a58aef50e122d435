//! `pool.db`: the data pool, and how far each sink has come.
//!
//! Delivery hands in [`Settlement`]s; the admin API and renderers read. Plain SQLite clients may
//! read the file at any time: table `items`, and a view for each stream (`pool/views.rs`).
//!
//! **Invariant**: a sink's staged effects and its cursor commit in one transaction, so an item is
//! applied exactly once whatever happens in between. What was settled is on disk: what every sink has
//! behind it ([`Pool::low_water`]) needs nothing of the journal any more. Once the fuse of the files is
//! blown nothing more is written.

mod apply;
pub mod changes;
pub mod copy;
pub mod dead_letters;
mod history;
mod items;
mod merge;
mod newer;
mod rebuilt;
mod removal;
mod resends;
mod schema;
mod sinks;
mod state;
#[cfg(test)]
mod tests;
mod views;
pub mod waiting;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use thiserror::Error;

use crate::batch::Batch;
use crate::clock;
use crate::config::OnUpdate;
use crate::sqlite::{self, FileError, FileWriter, Fuse, Notice, Trouble};

use apply::{Pass, Target};
use changes::Changes;
pub use dead_letters::{DeadLetter, GivenUp, Part, Retry, SinkState, Undelivered};
pub use items::{Item, Page, PageLimit, Position};
use removal::Removals;
pub use resends::{Found, Limits, Selection};
pub use schema::{FILE, FORMAT};
pub use sinks::Known;
use views::Views;
pub use waiting::{Call, Waiting};

/// Frames in the write-ahead log before it is copied back (40 MiB). The largest lever there is for
/// random keys: pages that change often are then written once.
const CHECKPOINT_FRAMES: u32 = 10_000;
const READERS_MAX: u32 = 4;
/// Everything up to here is behind every sink, waiting retries included.
const LOW_WATER: &str = "SELECT min(coalesce((SELECT min(seq) FROM cursors), 9223372036854775807),
    coalesce((SELECT min(first_seq) FROM retries WHERE resent = 0) - 1, 9223372036854775807))";
/// Views are made for so long when the file is closed.
const VIEWS_AT_END: Duration = Duration::from_secs(1);

/// Why the pool could not be opened, written or read.
#[derive(Debug, Error)]
pub enum PoolError {
    /// There is no room on the disk. Nothing was written; the same works when there is.
    #[error("pool: the disk is full")]
    Full,
    /// Another process holds the file. Nothing was written; the same works when it lets go.
    #[error("pool: another process holds pool.db")]
    Busy,
    /// A file of the data folder cannot be trusted any more: the daemon is about to end.
    #[error("pool: nothing is written any more")]
    Closed,
    /// The file cannot be opened, read or written.
    #[error("pool: {0}")]
    File(#[source] FileError),
}

/// Damage that anybody met in the file.
static DAMAGE: Notice = Notice::new();

impl<E: Into<FileError>> From<E> for PoolError {
    fn from(error: E) -> Self {
        Self::File(DAMAGE.look_at(error.into()))
    }
}

impl PoolError {
    /// Whether the same works later, without anybody's help but the disk's or the other process's.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Full | Self::Busy)
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full => true,
            Self::File(error) => error.is_full(),
            _ => false,
        }
    }

    /// What is the matter with the file, if that is it.
    pub fn of_file(&self) -> Option<&FileError> {
        match self {
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}

/// What a sink did in one call. It happens together with the cursor, or not at all.
#[derive(Debug, Default)]
pub struct Staged {
    /// Changes of items, in order.
    pub effects: Vec<Effect>,
    /// Batches of whose items renderers are told.
    pub publishes: Vec<Batch>,
    /// Changes of the sink's own state: key, and value or nothing.
    pub state: Vec<(String, Option<Vec<u8>>)>,
}

impl Staged {
    /// What a later call did comes behind what earlier ones did.
    pub fn add(&mut self, mut later: Self) {
        self.effects.append(&mut later.effects);
        self.publishes.append(&mut later.publishes);
        self.state.append(&mut later.state);
    }
}

/// A change of items.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Every item of the batch is upserted.
    Upsert(Batch),
    /// Every item of the batch is removed.
    Delete(Batch),
}

/// Everything that one step of a lane changes, committed together or not at all.
#[derive(Debug, Default)]
pub struct Settlement {
    /// Name of the sink.
    pub sink: Arc<str>,
    /// What the sink did to the pool, to renderers and to its own state.
    pub staged: Staged,
    /// The lane's new cursor, if it moves.
    pub cursor: Option<u64>,
    /// A retry that is over: delivered, given up or replaced.
    pub retry_done: Option<Retry>,
    /// Batches to be tried again.
    pub retries: Vec<Retry>,
    /// Items that the sink refused for good.
    pub dead_letters: Vec<DeadLetter>,
    /// The batch that the sink is about to be called with.
    pub calling: Option<Call>,
    /// The batch that was stored so is over, with `cursor`.
    pub called: bool,
}

/// The pool. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Pool {
    writer: Mutex<Writer>,
    reads: sqlx::SqlitePool,
    path: PathBuf,
    /// Of all files of the data folder.
    fuse: Fuse,
    /// The latest changes, for who listens.
    changes: Arc<Changes>,
    epoch: u64,
    /// Nobody can resume from before it.
    floor: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    connection: FileWriter,
    views: Views,
    on_update: HashMap<Arc<str>, OnUpdate>,
    /// Number of the last change.
    seq: u64,
    removals: Removals,
}

impl Pool {
    /// Opens or makes `pool.db` at `path`. Updates replace, until [`Pool::set_on_update`] says otherwise.
    ///
    /// # Errors
    /// The file cannot be opened, is not a pool, or was written by a newer version.
    pub async fn open(path: &Path, fuse: &Fuse) -> Result<Arc<Self>, PoolError> {
        let connection = schema::open_writer(path)?;
        let connection = FileWriter::new(connection, path, CHECKPOINT_FRAMES, fuse);
        let history = history::open(&connection)?;
        let views = Views::load(&connection)?;
        let removals = Removals::load(&connection)?;
        let reads = sqlite::open_readers(path, READERS_MAX).await?;
        // What was met before is repaired.
        DAMAGE.take();
        Ok(Arc::new(Self {
            writer: Mutex::new(Writer {
                connection,
                views,
                on_update: HashMap::new(),
                seq: history.seq,
                removals,
            }),
            reads,
            path: path.to_owned(),
            fuse: fuse.clone(),
            changes: Arc::new(Changes::starting_at(history.seq)),
            epoch: history.epoch,
            floor: AtomicU64::new(history.floor),
        }))
    }

    /// The highest accepted request that the file knows of: no item is above every cursor.
    ///
    /// # Errors
    /// SQLite's.
    pub fn highest_seq(&self) -> Result<u64, PoolError> {
        let highest: i64 = self.lock().connection.query_row(
            "SELECT coalesce(max(seq), 0) FROM cursors",
            [],
            |row| row.get(0),
        )?;
        Ok(highest.unsigned_abs())
    }

    /// Whether any sink has ever run on this file.
    ///
    /// # Errors
    /// SQLite's.
    pub fn is_new(&self) -> Result<bool, PoolError> {
        let cursors: i64 =
            self.lock()
                .connection
                .query_row("SELECT count(*) FROM cursors", [], |row| row.get(0))?;
        Ok(cursors == 0)
    }

    /// From now on updates of each stream do this; of those that are not there, the default.
    pub fn set_on_update(&self, on_update: HashMap<Arc<str>, OnUpdate>) {
        self.lock().on_update = on_update;
    }

    /// The latest changes, to listen to.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// Commits a step of a lane, then wakes who listens; on disk when it returns. False: the retry that it was about has been
    /// given up meanwhile, and nothing of the step happened. Blocks: call it from the lane's own thread.
    ///
    /// # Errors
    /// SQLite's; nothing of the step happened.
    pub fn settle(&self, settlement: &Settlement) -> Result<bool, PoolError> {
        self.change(|writer, pass| writer.apply(settlement, pass))
    }

    /// Runs what changes items, in a transaction of its own; then keeps what it changed for who listens, and wakes them.
    fn change<T>(
        &self,
        work: impl FnOnce(&mut Writer, &mut Pass<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        let mut writer = self.lock();
        let mut pass = Pass::new(writer.seq, &self.changes);
        let done = self.write_with(&mut writer, |writer| work(writer, &mut pass))?;
        if pass.seq() != writer.seq {
            writer.seq = pass.seq();
            let changed = self.changes.record(pass.finish(), writer.seq);
            drop(writer);
            self.changes.ring(&changed);
        }
        Ok(done)
    }

    /// Runs what changes no items, in a transaction of its own.
    fn write<T>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        self.write_with(&mut self.lock(), work)
    }

    fn write_with<T>(
        &self,
        writer: &mut Writer,
        work: impl FnOnce(&mut Writer) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        if writer.connection.is_stopped() {
            return Err(PoolError::Closed);
        }
        let done = writer.in_transaction(work);
        writer.views.ended(done.is_ok());
        match done {
            Ok(done) => {
                writer.connection.committed();
                Ok(done)
            }
            Err(error) => Err(match writer.connection.failed(&error) {
                Trouble::Full => PoolError::Full,
                Trouble::Busy => PoolError::Busy,
                Trouble::Damaged | Trouble::Failed => PoolError::File(error.into()),
            }),
        }
    }

    /// Makes some of the views that lack a column, in a transaction of its own; true if there are more. Lanes wait
    /// meanwhile, so call it again after a pause. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn refresh_views(&self) -> Result<bool, PoolError> {
        let mut writer = self.lock();
        if !writer.views.are_stale() {
            return Ok(false);
        }
        let made = self.write_with(&mut writer, |writer| writer.views.make(&writer.connection))?;
        writer.views.made(made);
        Ok(writer.views.are_stale())
    }

    /// Every sink has what was accepted up to here behind it, waiting retries included: it needs nothing of the journal
    /// any more. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn low_water(&self) -> Result<u64, PoolError> {
        Ok(low_water(&self.lock().connection)?.unsigned_abs())
    }

    /// Has the daemon end, and the next start repair the file, if somebody met damage in it.
    pub fn notice_damage(&self) {
        if DAMAGE.take() {
            self.fuse.damaged(&self.path, "a damaged page was read");
        }
    }

    /// Gives back the writing connection's cached pages, unless a lane uses it just now.
    pub fn shrink(&self) {
        if let Ok(writer) = self.writer.try_lock() {
            let _ = writer.connection.execute_batch("PRAGMA shrink_memory");
        }
    }

    /// Closes the file with an empty write-ahead log. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn close(&self) -> Result<(), PoolError> {
        self.reads.close().await;
        // For whoever reads the file while the daemon is away. What is left is made after the next start.
        let begun = Instant::now();
        while begun.elapsed() < VIEWS_AT_END && matches!(self.refresh_views(), Ok(true)) {}
        Ok(self.lock().connection.close()?)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Runs `changes` in a transaction of its own, which stays open if anything fails.
    fn in_transaction<T>(
        &mut self,
        changes: impl FnOnce(&mut Self) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        // Who had the connection before may have panicked: one lane's defect is not everybody's.
        if !self.connection.is_autocommit() {
            sqlite::roll_back(&self.connection)?;
            self.views = Views::load(&self.connection)?;
        }
        sqlite::begin(&self.connection)?;
        let done = changes(self)?;
        sqlite::commit(&self.connection)?;
        Ok(done)
    }

    fn apply(
        &mut self,
        settlement: &Settlement,
        pass: &mut Pass<'_>,
    ) -> Result<bool, rusqlite::Error> {
        if let Some(retry) = &settlement.retry_done
            && !waiting::waits(&self.connection, retry)?
        {
            return Ok(false);
        }
        self.removals.begin();
        let mut target = Target {
            connection: &self.connection,
            views: &mut self.views,
            on_update: &self.on_update,
            removals: &mut self.removals,
        };
        let Staged {
            effects,
            publishes,
            state,
        } = &settlement.staged;
        for effect in effects {
            match effect {
                Effect::Upsert(batch) => {
                    let published = publishes.iter().any(|other| other.is(batch));
                    apply::upsert(&mut target, batch, published, pass)?;
                }
                Effect::Delete(batch) => apply::delete(&mut target, batch, pass)?,
            }
        }
        for batch in publishes {
            let told = |effect: &Effect| matches!(effect, Effect::Upsert(other) if other.is(batch));
            if !effects.iter().any(told) {
                apply::publish(&self.connection, batch, pass)?;
            }
        }
        state::store(&self.connection, &settlement.sink, state)?;
        if pass.seq() > self.seq {
            history::store(&self.connection, pass.seq())?;
        }
        let now_ms = clock::unix_ms();
        if let Some(cursor) = settlement.cursor {
            self.connection
                .prepare_cached("UPDATE cursors SET seq = ?2 WHERE sink = ?1")?
                .execute(rusqlite::params![&*settlement.sink, cursor.cast_signed()])?;
            dead_letters::note_progress(&self.connection, &settlement.sink, cursor, now_ms)?;
        }
        if settlement.called {
            waiting::end_call(&self.connection, &settlement.sink)?;
        }
        if let Some(call) = &settlement.calling {
            waiting::note_call(&self.connection, &settlement.sink, call)?;
        }
        dead_letters::store(&self.connection, settlement, now_ms)?;
        self.removals.finish(&self.connection)?;
        self.views.make_few(&self.connection)?;
        Ok(true)
    }
}

/// The lowest sequence number that every sink has completely behind it, configured or not, waiting retries included. Dead
/// letters that are sent again need nothing of the journal.
fn low_water(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection
        .prepare_cached(LOW_WATER)?
        .query_row([], |row| row.get(0))
}
