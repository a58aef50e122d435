//! The one connection that writes a file, for as long as the daemon runs.
//!
//! The catalog, the journal and the pool own one each.
//!
//! **Invariant**: an error of the connection is judged by the fuse before its transaction is rolled back.

use std::cell::Cell;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error};

use super::{DiskError, FailStop, Identity, WRITER_WAITS_MAX, log_bytes_kept, refused};

/// A write-ahead log that has so many times the frames at which it is copied back is begun anew, readers or not.
const RESTART_FACTOR: u32 = 4;
/// How long beginning anew waits for readers. The daemon's own end within milliseconds.
const READERS_WAITED_FOR: Duration = Duration::from_millis(200);

thread_local! {
    /// Frames in the log that this thread has committed to last, until somebody has asked. SQLite's hook is a function
    /// without data, so it cannot reach the writer.
    static COMMITTED_FRAMES: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The writing connection of a file, which it can be used as, and what is known of its write-ahead log.
#[derive(Debug)]
pub struct FileWriter {
    connection: Connection,
    path: PathBuf,
    fail_stop: FailStop,
    /// The file, its log, and the index of that.
    files: Vec<Identity>,
    /// So many new frames in the log are copied back.
    frames_max: u32,
    /// Frames that the last checkpoint has seen. A reader may keep the log from beginning anew, for as long as it reads:
    /// then a checkpoint after each commit would look through all of them in vain.
    seen: u32,
}

impl Deref for FileWriter {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for FileWriter {
    /// Once nothing may be written any more, closing the connection copies no log back, whichever file it was about.
    /// The next start reads what is really on the disk.
    fn drop(&mut self) {
        if self.is_stopped() {
            let no_copy = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.connection.set_db_config(no_copy, true);
        }
    }
}

impl FileWriter {
    /// Over a connection to the file at `path` that [`open_writer`](super::open_writer) opened. The log is copied back
    /// when about `log_bytes_max` were added to it, on a small disk sooner.
    ///
    /// # Errors
    /// SQLite's.
    pub fn new(
        connection: Connection,
        path: &Path,
        log_bytes_max: u32,
        fail_stop: &FailStop,
    ) -> Result<Self, Error> {
        // `PRAGMA wal_checkpoint(NOOP)` says the same, but is prepared anew each time, which costs more than a short commit.
        connection.wal_hook(Some(|_, frames| {
            COMMITTED_FRAMES.set(u32::try_from(frames).ok());
            Ok(())
        }));
        let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let files = Identity::of_database(path);
        fail_stop.watch_files(files.iter().cloned());
        Ok(Self {
            connection,
            path: path.to_owned(),
            fail_stop: fail_stop.clone(),
            files,
            frames_max: log_bytes_max.min(log_bytes_kept(path)) / page_bytes.max(1),
            seen: 0,
        })
    }

    /// Whether nothing may be written any more.
    pub fn is_stopped(&self) -> bool {
        self.fail_stop.is_blown()
    }

    /// Decides what follows from an error that the connection just gave: [`FailStop::classify`].
    pub fn classify(&self, error: &Error) -> DiskError {
        self.fail_stop.classify(&self.path, &self.connection, error)
    }

    /// The file lacks what others know that it has: nothing may be written any more.
    pub fn fail(&self, reason: &str) {
        self.fail_stop.fail(&self.path, reason);
    }

    /// A transaction is committed: what becomes of its way from the log into the file does not change that.
    pub fn committed(&mut self) {
        if let Err(error) = self.maybe_checkpoint() {
            self.classify(&error);
        }
    }

    /// A transaction failed, and is taken back.
    pub fn failed(&self, error: &Error) -> DiskError {
        let disk_error = self.classify(error);
        self.roll_back();
        disk_error
    }

    /// Takes back what an open transaction did that nothing is wrong with.
    pub fn roll_back(&self) {
        if let Err(error) = super::roll_back(&self.connection) {
            self.classify(&error);
        }
    }

    /// Copies the log back when enough was added to it. Call it after a commit, on its thread, because the frames
    /// that were committed are known to that thread. While others read all the time the log would only grow: when it
    /// is four times as long, the readers are waited for, briefly. What a reader in another process holds open longer
    /// stays.
    ///
    /// # Errors
    /// SQLite's; not judged yet.
    pub fn maybe_checkpoint(&mut self) -> Result<(), Error> {
        let Some(frames) = COMMITTED_FRAMES.take() else {
            return Ok(());
        };
        if frames < self.seen {
            self.seen = 0;
        }
        if frames - self.seen < self.frames_max {
            return Ok(());
        }
        self.seen = frames;
        if frames < RESTART_FACTOR.saturating_mul(self.frames_max) {
            return self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)").map(drop);
        }
        self.wait_and_checkpoint("PRAGMA wal_checkpoint(RESTART)")
    }

    /// Copies the log back and leaves it empty, unless a reader keeps it: for a disk that is nearly full. On a small
    /// disk the daemon's own logs can be most of what is taken.
    ///
    /// # Errors
    /// SQLite's; not judged yet.
    pub fn give_back(&mut self) -> Result<(), Error> {
        self.seen = 0;
        self.wait_and_checkpoint("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Waits for readers, but not long.
    fn wait_and_checkpoint(&self, sql: &'static str) -> Result<(), Error> {
        self.connection.busy_timeout(READERS_WAITED_FOR)?;
        let done = self.checkpoint(sql);
        self.connection.busy_timeout(WRITER_WAITS_MAX)?;
        done.map(drop)
    }

    /// Gives back the pages that are kept in memory.
    pub fn shrink(&self) {
        let _ = self.connection.execute_batch("PRAGMA shrink_memory");
    }

    /// Copies the log back into the file, flushes it, and leaves the log empty, unless somebody reads it. It is the last
    /// that is done with the file; nothing is, if nothing may be written any more.
    pub fn close(&self) -> Result<(), Error> {
        if self.is_stopped() {
            return Ok(());
        }
        let done = self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
        if let Err(error) = &done {
            self.classify(error);
        }
        done.map(drop)
    }

    /// How many frames the log has, after that. A log is copied back into the file that has its name, or not at all.
    fn checkpoint(&self, sql: &'static str) -> Result<u32, Error> {
        if !self.fail_stop.check(&self.files) {
            return Err(refused("nothing may be written any more".to_owned()));
        }
        let mut statement = self.connection.prepare_cached(sql)?;
        let frames: i64 = statement.query_row([], |row| row.get(1))?;
        Ok(u32::try_from(frames).unwrap_or(0))
    }
}
