//! How every SQLite file of the daemon is opened.
//!
//! The storage modules call it. Writers use the synchronous binding on a thread of their own: a
//! round trip between a runtime and another thread costs more than a statement. Readers go through
//! sqlx, which shares the same SQLite.
//!
//! **Invariant**: a file is used only with the settings that were asked for, read back from SQLite,
//! and only by an SQLite that is free of the WAL-reset bug (3.51.3 or newer).

use std::cell::Cell;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, OpenFlags};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

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

/// Opens the one writing connection of a file, in WAL mode. There are no automatic checkpoints: the
/// owner of the file looks at [`frames`] after a commit and calls [`checkpoint`].
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
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
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

thread_local! {
    /// Frames in the write-ahead log after the last commit on this thread.
    static FRAMES: Cell<u32> = const { Cell::new(0) };
    /// How many there were at the last checkpoint. A reader may keep the log from beginning anew, for as long as it
    /// reads: then a checkpoint after each commit would look through all of them in vain.
    static CHECKPOINTED: Cell<u32> = const { Cell::new(0) };
}

/// Frames that the last checkpoint of this thread has not seen, in the write-ahead log of the file that it committed to
/// last.
pub fn frames() -> u32 {
    FRAMES.get() - CHECKPOINTED.get()
}

fn count_frames(_: &rusqlite::hooks::Wal, frames: std::ffi::c_int) -> Result<(), rusqlite::Error> {
    let frames = frames.unsigned_abs();
    FRAMES.set(frames);
    if frames < CHECKPOINTED.get() {
        CHECKPOINTED.set(0);
    }
    Ok(())
}

/// Copies the write-ahead log back into the file and flushes it. True if all of it was copied; false
/// if a reader still needs some of it: then the next call reaches further.
///
/// # Errors
/// SQLite's.
pub fn checkpoint(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let (busy, frames, copied): (i64, i64, i64) =
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let seen = u32::try_from(frames).unwrap_or(0);
    FRAMES.set(seen);
    CHECKPOINTED.set(seen);
    Ok(busy == 0 && frames == copied)
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
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
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
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((verdict != "ok").then_some(verdict))
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
        .busy_timeout(std::time::Duration::from_secs(10))
        .pragma("cache_size", "-1000");
    SqlitePoolOptions::new()
        .min_connections(0)
        .max_connections(connections_max)
        .connect_with(options)
        .await
}

/// Whether the error means that there is no room on the disk: for the file, or for the index of its
/// write-ahead log.
pub fn is_full(error: &rusqlite::Error) -> bool {
    match error.sqlite_error() {
        Some(error) => {
            error.code == rusqlite::ErrorCode::DiskFull
                || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
        }
        None => false,
    }
}

fn refused(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some(message),
    )
}
