//! The pool as one of several copies: it commits to the log, and follows what other nodes have appended.
//!
//! What memory has of the file is loaded anew where an entry has touched it. Readers and listeners see an entry when it is
//! committed; the catalog's part of it, and of all before, is committed by then: [`replica::SharedLog::apply`].
//!
//! **Invariant**: an entry of another node leaves memory as opening the file anew would.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use rusqlite::Connection;

use super::acts::ActStreams;
use super::changes::{Changes, StreamChanges};
use super::history::{self, History};
use super::sizes::{Size, Sizes};
use super::views::Views;
use super::{Pool, PoolError, Writer};
use base::clock::{self, Unix};
use base::order::{ChangeSeq, Epoch};
use replica::{LogEntry, LogPlace, SharedLog, TouchedTable};
use sqlite::FailStop;

/// Rows of these are what renderers see of a stream, which is the first column of their keys.
const SHOWN: [&str; 3] = ["items", "removed", "shown"];
/// Rows of these are what acts have made of it.
const ACTED: [&str; 5] = ["writes", "holds", "kept", "kept_of", "shown"];
const NEWEST_DATA: &str = "SELECT max(updated_at) FROM (
        SELECT DISTINCT one.value AS key FROM change_log, json_each(change_log.keys) AS one
        WHERE change_log.stream = ?1 AND change_log.seq > ?2) AS changed
    CROSS JOIN items WHERE items.stream = ?1 AND items.key = changed.key";

/// What memory has of the tables that an entry has touched, as it is after it.
struct Derived {
    history: History,
    sizes: Vec<(Arc<str>, Size)>,
    changed: Vec<StreamChanges>,
    acts: Option<(ActStreams, Vec<Arc<str>>)>,
    views: Option<Views>,
    is_recorded: bool,
    is_removed: bool,
}

impl Pool {
    /// The same as [`Pool::open`] of a copy, which commits to a log. Follow the log next, with the catalog, and then
    /// [`begin`](Pool::begin). It begins no epoch, because another node may have begun it already.
    ///
    /// # Errors
    /// See [`Pool::open`].
    pub async fn open_logged(
        path: &Path,
        fail_stop: &FailStop,
        log: &SharedLog,
    ) -> Result<Arc<Self>, PoolError> {
        Self::over(path, fail_stop, Some(log)).await
    }

    /// The first epoch begins, unless it has on another node. Blocks.
    ///
    /// # Errors
    /// The log's, or SQLite's; call it again.
    pub fn begin(&self) -> Result<(), PoolError> {
        self.write_then(
            |writer| history::open(&writer.connection),
            |_, history| self.epoch.store(history.epoch.get(), Ordering::Release),
        )
    }

    /// Positions have this epoch from now on, because the log has lost changes: renderers receive everything anew. Nothing if
    /// they have it. Blocks.
    ///
    /// # Errors
    /// The log's, or SQLite's; call it again.
    pub fn begin_epoch(&self, epoch: Epoch) -> Result<(), PoolError> {
        if self.epoch() == epoch {
            return Ok(());
        }
        self.write_then(
            |writer| {
                history::begin_epoch(&writer.connection, epoch)?;
                history::read(&writer.connection)
            },
            |writer, history| {
                (writer.seq, writer.reserved) = (history.seq, history.seq);
                self.epoch.store(history.epoch.get(), Ordering::Release);
                self.changes.record(Vec::new(), history.seq);
            },
        )?;
        self.changes.wake_all();
        Ok(())
    }

    /// Applies an entry of the log that follows on `before`, if the file lacks it; then wakes who listens. Blocks.
    ///
    /// # Errors
    /// SQLite's, or [`replica::LogError::Differs`] and [`replica::LogError::Newer`]; the file is as before.
    pub fn follow_entry(&self, before: LogPlace, entry: &LogEntry<'_>) -> Result<(), PoolError> {
        let mut guard = self.lock();
        let writer = &mut *guard;
        if writer.connection.is_stopped() {
            return Err(PoolError::Closed);
        }
        writer.clear()?;
        let Some(file) = writer.commits.logged() else {
            return Ok(());
        };
        if !file.lacks(before, entry).map_err(PoolError::Log)? {
            return Ok(());
        }
        let (connection, seq) = (&writer.connection, writer.seq);
        let derive =
            |tables: &[TouchedTable]| Derived::load(connection, tables, seq, &self.changes);
        let derived = match file.apply(connection, before, entry, derive) {
            Ok(derived) => derived,
            Err(error) => return Err(writer.failed(error)),
        };
        writer.connection.committed();
        let before = self.epoch();
        let changed = self.derive(writer, derived)?;
        drop(guard);
        match self.epoch() == before {
            true => self.changes.wake(&changed),
            // Who listens to other streams has to begin anew, too.
            false => self.changes.wake_all(),
        }
        Ok(())
    }

    /// Memory is as the file is now.
    fn derive(&self, writer: &mut Writer, derived: Derived) -> Result<Vec<Arc<str>>, PoolError> {
        let history = derived.history;
        (writer.seq, writer.reserved) = (history.seq, history.seq);
        writer.log_ends.forget();
        self.epoch.store(history.epoch.get(), Ordering::Release);
        self.floor.store(history.floor.get(), Ordering::Release);
        self.sizes.set(derived.sizes);
        if let Some(views) = derived.views {
            self.made.add(views.streams().cloned().collect());
            writer.views = views;
        }
        if let Some((acts, streams)) = derived.acts {
            writer.acts = acts;
            let mut acted = self.acted.write().unwrap_or_else(PoisonError::into_inner);
            acted.extend(streams.into_iter().map(|stream| (stream, history.seq)));
        }
        writer.removals.is_outdated |= derived.is_removed;
        if derived.is_recorded {
            writer.recording.load_anew(&writer.connection)?;
        }
        Ok(self.changes.record(derived.changed, history.seq))
    }

    /// Stores which entry the file has come to, where only the catalog has changed since. Call it once a second. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn keep_place(&self) -> Result<(), PoolError> {
        let mut guard = self.lock();
        let writer = &mut *guard;
        if writer.connection.is_stopped() {
            return Ok(());
        }
        writer.clear()?;
        let Some(file) = writer.commits.logged() else {
            return Ok(());
        };
        let kept = file.keep_place(&writer.connection);
        kept.map_err(|error| writer.failed(error.into()))
    }
}

impl Derived {
    /// Of the open transaction that has applied an entry; before it the last change had the number `before`.
    fn load(
        connection: &Connection,
        tables: &[TouchedTable],
        before: ChangeSeq,
        changes: &Changes,
    ) -> Result<Self, rusqlite::Error> {
        let is_touched = |names: &[&str]| tables.iter().any(|one| names.contains(&&*one.name));
        let streams = |names: &[&str]| -> BTreeSet<Arc<str>> {
            let touched = tables.iter().filter(|one| names.contains(&&*one.name));
            let scopes = touched.flat_map(|one| &one.scopes);
            scopes.map(|stream| stream.as_str().into()).collect()
        };
        let sizes = streams(&["items"]).into_iter().map(|stream| {
            let size = Sizes::read(connection, &stream)?;
            Ok((stream, size))
        });
        let changed = streams(&SHOWN).into_iter();
        let changed = changed.map(|stream| read_from_file(connection, stream, before, changes));
        let acts = match is_touched(&ACTED) {
            true => Some((
                ActStreams::load(connection)?,
                streams(&ACTED).into_iter().collect(),
            )),
            false => None,
        };
        let views = match is_touched(&["views", "view_fields"]) {
            true => Some(Views::load(connection)?),
            false => None,
        };
        Ok(Self {
            history: history::read(connection)?,
            sizes: sizes.collect::<Result<_, rusqlite::Error>>()?,
            changed: changed.collect::<Result<_, _>>()?,
            acts,
            views,
            is_recorded: is_touched(&["recorded_streams"]),
            is_removed: is_touched(&["removed"]),
        })
    }
}

/// Listeners read from the file what changed of a stream. An entry has rows and no JSON for renderers, so memory would
/// have to make it for each.
fn read_from_file(
    connection: &Connection,
    stream: Arc<str>,
    before: ChangeSeq,
    changes: &Changes,
) -> Result<StreamChanges, rusqlite::Error> {
    let mut updated_at = Unix::MIN;
    if changes.wants(&stream) {
        let newest = connection
            .prepare_cached(NEWEST_DATA)?
            .query_row((&*stream, before.to_column()), |row| {
                row.get::<_, Option<String>>(0)
            })?;
        let newest = newest.as_deref().and_then(clock::parse_rfc3339);
        updated_at = newest.unwrap_or(updated_at);
    }
    Ok(StreamChanges {
        stream,
        changes: None,
        updated_at,
    })
}
