//! How every SQLite file of the daemon is opened.
//!
//! The storage modules call it. Writers use the synchronous binding on a thread of their own: a
//! round trip between a runtime and another thread costs more than a statement. Readers go through
//! sqlx, which shares the same SQLite.
//!
//! **Invariant**: a file is used only with the settings that were asked for, read back from SQLite,
//! and only by an SQLite that is free of the WAL-reset bug (3.51.3 or newer).

pub mod damage;
mod error;
pub mod holders;
pub mod suspect;
mod trouble;

use std::cell::Cell;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

pub use error::{FileError, Newer, Notice, is_full};
pub use trouble::{Fuse, State, Trouble};

/// `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// Flush at checkpoints: a power cut takes the last commits, never the file.
    Normal,
    /// Flush at every commit.
    Full,
}

/// The oldest SQLite that may write.
const VERSION_MIN: i32 = 3_051_003;
/// What is kept of a write-ahead log that has grown larger.
const WAL_BYTES_KEPT: u32 = 64 << 20;
/// How long a writer waits for another process that writes the file: what waits behind it is answered then.
const WRITER_WAITS_MAX: Duration = Duration::from_secs(1);
/// A write-ahead log that has so many times the frames at which it is copied back is begun anew, readers or not.
const RESTART_FACTOR: u32 = 4;
/// How long beginning anew waits for readers. The daemon's own end within milliseconds.
const READERS_WAITED_FOR: Duration = Duration::from_millis(200);

/// Opens the one writing connection of a file, in WAL mode. There are no automatic checkpoints: the
/// owner of the file has a [`WriteAheadLog`] looked after when it has committed.
///
/// # Errors
/// SQLite's; also when a setting did not take.
pub fn open_writer(path: &Path, synchronous: Synchronous) -> Result<Connection, rusqlite::Error> {
    if rusqlite::version_number() < VERSION_MIN {
        return Err(refused(format!(
            "SQLite {} is too old: 3.51.3 or newer is needed",
            rusqlite::version()
        )));
    }
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(WRITER_WAITS_MAX)?;
    let level = match synchronous {
        Synchronous::Normal => 1,
        Synchronous::Full => 2,
    };
    let settings: [(&str, String); 6] = [
        ("journal_mode", "wal".to_owned()),
        ("synchronous", level.to_string()),
        ("wal_autocheckpoint", "0".to_owned()),
        ("journal_size_limit", WAL_BYTES_KEPT.to_string()),
        ("temp_store", "2".to_owned()),
        // Deep queues are read from memory; a larger cache only costs.
        ("cache_size", "-4000".to_owned()),
    ];
    for (name, wanted) in settings {
        connection.pragma_update(None, name, &wanted)?;
        let found: rusqlite::types::Value =
            connection.pragma_query_value(None, name, |row| row.get(0))?;
        let found = match found {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != wanted {
            return Err(refused(format!(
                "SQLite did not accept {name} = {wanted} (it says {found})"
            )));
        }
    }
    connection.set_prepared_statement_cache_capacity(64);
    connection.wal_hook(Some(count_frames));
    Ok(connection)
}

/// Runs a statement without parameters, prepared once for each connection.
///
/// # Errors
/// SQLite's.
pub fn execute(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Begins a transaction that writes.
///
/// # Errors
/// SQLite's.
pub fn begin(connection: &Connection) -> Result<(), rusqlite::Error> {
    execute(connection, "BEGIN IMMEDIATE")
}

/// Commits it.
///
/// # Errors
/// SQLite's; the transaction may be open still.
pub fn commit(connection: &Connection) -> Result<(), rusqlite::Error> {
    execute(connection, "COMMIT")
}

/// Takes back what an open transaction did, if there is one. What failed is judged before: [`Fuse::judge`].
///
/// # Errors
/// SQLite's.
pub fn roll_back(connection: &Connection) -> Result<(), rusqlite::Error> {
    match connection.is_autocommit() {
        true => Ok(()),
        false => connection.execute_batch("ROLLBACK"),
    }
}

thread_local! {
    /// Frames in the write-ahead log after the last commit on this thread.
    static FRAMES: Cell<u32> = const { Cell::new(0) };
}

fn count_frames(_: &rusqlite::hooks::Wal, frames: std::ffi::c_int) -> Result<(), rusqlite::Error> {
    FRAMES.set(frames.unsigned_abs());
    Ok(())
}

/// What the writer of a file knows of its write-ahead log.
#[derive(Debug, Default)]
pub struct WriteAheadLog {
    /// Frames that the last checkpoint has seen. A reader may keep the log from beginning anew, for as long as it reads:
    /// then a checkpoint after each commit would look through all of them in vain.
    seen: u32,
}

impl WriteAheadLog {
    /// Copies the log back when `frames_max` were added to it. Call it after a commit, on the same thread. While others
    /// read all the time the log would only grow: when it is four times as long, the readers are waited for,
    /// briefly. What a reader in another process holds open longer stays.
    ///
    /// # Errors
    /// SQLite's.
    pub fn tend(
        &mut self,
        connection: &Connection,
        frames_max: u32,
    ) -> Result<(), rusqlite::Error> {
        let frames = FRAMES.get();
        if frames < self.seen {
            self.seen = 0;
        }
        if frames - self.seen < frames_max {
            return Ok(());
        }
        self.seen = frames;
        if frames < RESTART_FACTOR.saturating_mul(frames_max) {
            return checkpoint(connection, "PASSIVE");
        }
        connection.busy_timeout(READERS_WAITED_FOR)?;
        let done = checkpoint(connection, "RESTART");
        connection.busy_timeout(WRITER_WAITS_MAX)?;
        done
    }
}

/// Copies the write-ahead log back into the file, flushes it, and leaves the log empty, unless somebody reads it.
///
/// # Errors
/// SQLite's.
pub fn empty_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    checkpoint(connection, "TRUNCATE")
}

fn checkpoint(connection: &Connection, mode: &str) -> Result<(), rusqlite::Error> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

/// Opens a read-only connection whose statements end with an error once `stop` is set.
///
/// # Errors
/// SQLite's.
pub fn open_reader(path: &Path, stop: &Arc<AtomicBool>) -> Result<Connection, rusqlite::Error> {
    /// Steps of SQLite's machine between two looks at `stop`.
    const STEPS: i32 = 10_000;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    let stop = Arc::clone(stop);
    connection.progress_handler(STEPS, Some(move || stop.load(Ordering::Relaxed)))?;
    Ok(connection)
}

/// How large a copy of the file is at most, in bytes.
///
/// # Errors
/// SQLite's.
pub fn copy_bytes(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let number = |pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| {
            row.get::<_, i64>(0).map(i64::unsigned_abs)
        })
    };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    Ok(pages * number("page_size")?)
}

/// Copies the file as it is at one moment into `into`, which is missing or empty. Others go on reading and writing
/// meanwhile. What is written is not flushed.
///
/// # Errors
/// SQLite's.
pub fn copy(connection: &Connection, into: &str) -> Result<(), rusqlite::Error> {
    connection.execute("VACUUM INTO ?1", [into])?;
    Ok(())
}

/// What is wrong with the file, if anything is: the first line of SQLite's integrity check.
///
/// # Errors
/// SQLite's.
pub fn damage(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    verdict(connection, "integrity_check")
}

/// The same without a comparison of indexes with their tables, which takes many times as long in a large file.
///
/// # Errors
/// SQLite's.
pub fn damage_of_pages(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    verdict(connection, "quick_check")
}

fn verdict(connection: &Connection, check: &str) -> Result<Option<String>, rusqlite::Error> {
    let verdict: String =
        connection.query_row(&format!("PRAGMA {check}(1)"), [], |row| row.get(0))?;
    let problem = verdict.trim_start_matches("*** in database main ***\n");
    Ok((problem != "ok").then(|| problem.to_owned()))
}

/// Brings a file to the format `known`; `from[n]` are the statements that lead there from format `n`, of an empty file
/// from 0. They happen together or not at all.
///
/// # Errors
/// SQLite's, and [`Newer`].
pub fn upgrade(connection: &Connection, known: i64, from: &[&str]) -> Result<(), FileError> {
    let found = format(connection)?;
    if found == known {
        return Ok(());
    }
    let statements = usize::try_from(found)
        .ok()
        .and_then(|found| from.get(found));
    let statements = statements.ok_or(Newer { found, known })?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {statements} PRAGMA user_version = {known}; COMMIT;"
    ))?;
    Ok(())
}

/// The format that the file's owner wrote into it.
///
/// # Errors
/// SQLite's.
pub fn format(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Opens read-only connections of a file that a writer has already made.
///
/// # Errors
/// sqlx's.
pub async fn open_readers(
    path: &Path,
    connections_max: u32,
) -> Result<sqlx::SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::from_str("sqlite://")?
        .filename(path)
        .read_only(true)
        .busy_timeout(Duration::from_secs(10))
        .pragma("cache_size", "-1000");
    SqlitePoolOptions::new()
        .min_connections(0)
        .max_connections(connections_max)
        .connect_with(options)
        .await
}

fn refused(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some(message),
    )
}
