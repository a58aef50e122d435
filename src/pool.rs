//! `pool.db`: the data pool, and how far each sink has come.
//!
//! Delivery hands in [`Settlement`]s; the admin API and renderers read. Plain SQLite clients may
//! read the file at any time: table `items`, and a view for each stream (`pool/views.rs`).
//!
//! **Invariant**: a sink's staged effects and its cursor commit in one transaction, so an item is
//! applied exactly once whatever happens in between. The file is not flushed at each commit: what a
//! power cut takes, it takes together with the cursor, and the journal replays it, because
//! [`Pool::durable_through`] rises only after a checkpoint.

mod apply;
pub mod changes;
pub mod copy;
mod history;
mod items;
pub mod letters;
mod removal;
mod resends;
mod schema;
mod state;
#[cfg(test)]
mod tests;
mod views;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use thiserror::Error;

use crate::batch::Batch;
use crate::{clock, sqlite};

use apply::{Pass, Target};
use changes::Changes;
pub use items::{Item, Page, PageLimit, Position};
pub use letters::{DeadLetter, Part, Retry, SinkState, Undelivered};
use removal::Removals;
pub use resends::{Found, Limits, Selection};
pub use schema::FORMAT;
use views::Views;

/// Frames in the write-ahead log before it is copied back (40 MiB). The largest lever there is for
/// random keys: pages that change often are then written once.
const CHECKPOINT_FRAMES: u32 = 10_000;
const READERS_MAX: u32 = 4;

/// What an update does to the fields that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUpdate {
    /// They go.
    #[default]
    Replace,
    /// They stay.
    Merge,
}

/// Why the pool could not be opened, written or read.
#[derive(Debug, Error)]
pub enum PoolError {
    /// SQLite said so, in the writing connection.
    #[error("pool: {0}")]
    Write(#[from] rusqlite::Error),
    /// SQLite said so, in a reading connection.
    #[error("pool: {0}")]
    Read(#[from] sqlx::Error),
    /// The file was written by a newer version.
    #[error(
        "pool: the file has format {found}, this version knows {known}; use the version that wrote it, or a newer one"
    )]
    Newer {
        /// The file's format.
        found: i64,
        /// The format of this version.
        known: i64,
    },
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
}

/// The pool. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Pool {
    writer: Mutex<Writer>,
    reads: sqlx::SqlitePool,
    durable_through: AtomicU64,
    /// The latest changes, for who listens.
    changes: Arc<Changes>,
    epoch: u64,
    /// Nobody can resume from before it.
    floor: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    views: Views,
    on_update: HashMap<Arc<str>, OnUpdate>,
    /// The sinks that hold payloads back.
    sinks: Vec<Arc<str>>,
    /// Something was committed since the last checkpoint.
    dirty: bool,
    /// Number of the last change.
    seq: u64,
    removals: Removals,
}

impl Pool {
    /// Opens or makes `pool.db` at `path`.
    ///
    /// # Errors
    /// The file cannot be opened, is not a pool, or was written by a newer version.
    pub async fn open(
        path: &Path,
        on_update: HashMap<Arc<str>, OnUpdate>,
    ) -> Result<Arc<Self>, PoolError> {
        let connection = schema::open_writer(path)?;
        let history = history::open(&connection)?;
        let views = Views::load(&connection)?;
        let removals = Removals::load(&connection)?;
        let reads = sqlite::open_readers(path, READERS_MAX).await?;
        Ok(Arc::new(Self {
            writer: Mutex::new(Writer {
                connection,
                views,
                on_update,
                sinks: Vec::new(),
                dirty: false,
                seq: history.seq,
                removals,
            }),
            reads,
            durable_through: AtomicU64::new(0),
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

    /// From now on the sink holds payloads back. Returns its cursor; a sink that was never seen starts after `start`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn add_sink(&self, sink: &str, start: u64) -> Result<u64, PoolError> {
        let mut writer = self.lock();
        writer.connection.execute(
            "INSERT OR IGNORE INTO cursors (sink, seq, start) VALUES (?1, ?2, ?2)",
            rusqlite::params![sink, start.cast_signed()],
        )?;
        let seq: i64 = writer.connection.query_row(
            "SELECT seq FROM cursors WHERE sink = ?1",
            [sink],
            |row| row.get(0),
        )?;
        if !writer.sinks.iter().any(|known| **known == *sink) {
            writer.sinks.push(sink.into());
        }
        let cursor = seq.unsigned_abs();
        self.durable_through.fetch_min(cursor, Ordering::Relaxed);
        Ok(cursor)
    }

    /// The sink holds no payloads back any more. What the pool keeps of it stays.
    pub fn remove_sink(&self, sink: &str) {
        self.lock().sinks.retain(|known| **known != *sink);
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

    /// Commits a step of a lane, then wakes who listens. Blocks: call it from the lane's own thread.
    ///
    /// # Errors
    /// SQLite's; nothing of the step happened.
    pub fn settle(&self, settlement: &Settlement) -> Result<(), PoolError> {
        let mut writer = self.lock();
        let mut pass = Pass::new(writer.seq, &self.changes);
        writer.in_transaction(|writer| writer.apply(settlement, &mut pass))?;
        writer.dirty = true;
        if sqlite::frames() >= CHECKPOINT_FRAMES
            && let Err(error) = self.checkpoint_with(&mut writer)
        {
            // What was settled is settled; the next checkpoint comes.
            tracing::error!(%error, "the pool's write-ahead log cannot be copied back");
        }
        self.committed(writer, pass);
        Ok(())
    }

    /// After a commit: keeps what it changed for who listens, lets go of the lock, and wakes them.
    fn committed(&self, mut writer: MutexGuard<'_, Writer>, pass: Pass<'_>) {
        if pass.seq() == writer.seq {
            return;
        }
        writer.seq = pass.seq();
        let changed = self.changes.record(pass.finish(), writer.seq);
        drop(writer);
        self.changes.ring(&changed);
    }

    /// Copies the write-ahead log back and flushes, if anything was committed since the last time.
    /// Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn checkpoint(&self) -> Result<(), PoolError> {
        let mut writer = self.lock();
        if writer.dirty || self.durable_through.load(Ordering::Relaxed) == 0 {
            self.checkpoint_with(&mut writer)?;
        }
        Ok(())
    }

    fn checkpoint_with(&self, writer: &mut Writer) -> Result<(), PoolError> {
        let low_water = writer.low_water()?;
        if sqlite::checkpoint(&writer.connection)? {
            writer.dirty = false;
            self.durable_through.fetch_max(low_water, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives back the writing connection's cached pages, unless a lane uses it just now.
    pub fn shrink(&self) {
        if let Ok(writer) = self.writer.try_lock() {
            let _ = writer.connection.execute_batch("PRAGMA shrink_memory");
        }
    }

    /// What every sink did with entries up to here is on disk.
    pub fn durable_through(&self) -> u64 {
        self.durable_through.load(Ordering::Relaxed)
    }

    /// Closes the file with an empty write-ahead log. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn close(&self) -> Result<(), PoolError> {
        self.reads.close().await;
        let writer = self.lock();
        history::close(&writer.connection)?;
        writer
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Runs `changes` in a transaction of its own: all of them happen, or none.
    fn in_transaction<T>(
        &mut self,
        changes: impl FnOnce(&mut Self) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        sqlite::execute(&self.connection, "BEGIN IMMEDIATE")?;
        let done = changes(self).and_then(|value| {
            sqlite::execute(&self.connection, "COMMIT")?;
            Ok(value)
        });
        if done.is_err() {
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            // Columns that the transaction added are gone again.
            self.views = Views::load(&self.connection)?;
        }
        done
    }

    fn apply(
        &mut self,
        settlement: &Settlement,
        pass: &mut Pass<'_>,
    ) -> Result<(), rusqlite::Error> {
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
            letters::note_progress(&self.connection, &settlement.sink, cursor, now_ms)?;
        }
        letters::store(&self.connection, settlement, now_ms)
    }

    /// The lowest sequence number that every configured sink has completely behind it. Dead letters that
    /// are sent again need nothing of the journal.
    fn low_water(&self) -> Result<u64, rusqlite::Error> {
        let mut lowest = i64::MAX;
        for sink in &self.sinks {
            let through: i64 = self
                .connection
                .prepare_cached(
                    "SELECT min(coalesce((SELECT seq FROM cursors WHERE sink = ?1), 0),
                                coalesce((SELECT min(first_seq) FROM retries WHERE sink = ?1 AND NOT resent) - 1, 9223372036854775807))",
                )?
                .query_row([&**sink], |row| row.get(0))?;
            lowest = lowest.min(through);
        }
        Ok(lowest.unsigned_abs())
    }
}
