//! Opens the pool, alone or as the copy of a node.
//!
//! **Invariant**: nobody has the pool before its tables, views and numbers are loaded.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::Semaphore;

use super::acts::ActStreams;
use super::apply::RowNumbers;
use super::change_log::LogEnds;
use super::changes::Changes;
use super::error::{DAMAGE, PoolError};
use super::implicit_streams::Made;
use super::past_values::Recording;
use super::sizes::{self, Counting, Sizes};
use super::tombstones::Removals;
use super::views::Views;
use super::{CHECKPOINT_BYTES, LONG_READS_MAX, Pool, READERS_MAX, Writer, history, schema};
use base::order::Seq;
use replica::{Commits, ReplicaFile, SharedLog};
use sqlite::{FailStop, FileWriter, Readers};

impl Pool {
    /// Opens or makes `pool.db` at `path`. Updates replace, until [`Pool::set_on_update`] says otherwise.
    ///
    /// # Errors
    /// The file cannot be opened, is not a pool, or was written by a newer version.
    pub async fn open(path: &Path, fail_stop: &FailStop) -> Result<Arc<Self>, PoolError> {
        Self::over(path, fail_stop, None).await
    }

    pub(super) async fn over(
        path: &Path,
        fail_stop: &FailStop,
        log: Option<&SharedLog>,
    ) -> Result<Arc<Self>, PoolError> {
        let connection = schema::open_writer(path)?;
        let connection = FileWriter::new(connection, path, CHECKPOINT_BYTES, fail_stop)?;
        sizes::listen(&connection)?;
        let sizes = Arc::new(Sizes::load(&connection)?);
        let history = match log {
            Some(_) => history::read(&connection)?,
            None => history::open(&connection)?,
        };
        let views = Views::load(&connection)?;
        let made = Made::of(views.streams());
        let removals = Removals::load(&connection)?;
        let acts = ActStreams::load(&connection)?;
        let recording = Recording::load(&connection)?;
        let commits = match log {
            Some(log) => Commits::to(log, &connection, ReplicaFile::Pool)?,
            None => Commits::Alone,
        };
        let reads = Readers::open(path, READERS_MAX)?;
        let reader = match log {
            Some(_) => Some(sqlite::open_reader(path, &Arc::default())?),
            None => None,
        };
        // What was met before is repaired.
        DAMAGE.take();
        Ok(Arc::new(Self {
            writer: Mutex::new(Writer {
                connection,
                commits,
                views,
                on_update: HashMap::new(),
                seq: history.seq,
                reserved: history.seq,
                removals,
                acts,
                recording,
                counting: Counting::default(),
                row_numbers: RowNumbers::default(),
                log_ends: LogEnds::default(),
            }),
            reads,
            reader: Mutex::new(reader),
            path: path.to_owned(),
            is_logged: log.is_some(),
            fail_stop: fail_stop.clone(),
            changes: Arc::new(Changes::starting_at(history.seq)),
            made,
            sizes,
            acted: RwLock::default(),
            epoch: AtomicU64::new(history.epoch.get()),
            floor: AtomicU64::new(history.floor.get()),
            turns: Semaphore::new(LONG_READS_MAX),
            fill_turns: Semaphore::new(LONG_READS_MAX / 2),
        }))
    }

    /// The highest accepted request that the file knows of: no item is above every cursor.
    pub fn highest_seq(&self) -> Result<Seq, PoolError> {
        let highest: i64 = self.lock().connection.query_row(
            "SELECT coalesce(max(seq), 0) FROM cursors",
            [],
            |row| row.get(0),
        )?;
        Ok(Seq::from_column(highest))
    }

    /// Whether any sink has ever run on this file.
    pub fn is_new(&self) -> Result<bool, PoolError> {
        let cursors: i64 =
            self.lock()
                .connection
                .query_row("SELECT count(*) FROM cursors", [], |row| row.get(0))?;
        Ok(cursors == 0)
    }
}
