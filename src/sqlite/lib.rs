//! How every SQLite file of the daemon is opened.
//!
//! The storage modules call it. Writers have a thread of their own: a round trip between a runtime
//! and another thread costs more than a statement. Readers have connections of their own
//! ([`Readers`]), on blocking threads of the runtime.
//!
//! **Invariant**: a file is used only with the settings that were asked for, read back from SQLite,
//! and only by an SQLite that is free of the WAL-reset bug (3.51.3 or newer).
#![deny(unsafe_code)]

pub mod damage;
mod disk_error;
mod error;
mod identity;
pub mod readers;
mod reads;
mod sql_text;
pub mod suspect;
mod writer;

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use disk_error::{DiskError, FailStop, WriteState};
pub use error::{FileError, Newer, Notice, is_full};
pub use identity::Identity;
pub use reads::Readers;
pub use sql_text::SqlText;
pub use writer::FileWriter;

/// `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// Flush at checkpoints: a power cut takes the last commits, never the file.
    Normal,
    /// Flush at every commit.
    Full,
}

/// Bytes of a page of a new file. What is written at once are pages: with half of SQLite's own a request that comes alone
/// costs two fifths less of the disk, and one of 2 KB under load a quarter. Files from before have [`PAGE_BYTES_BEFORE`].
pub const PAGE_BYTES: usize = 2_048;
/// Bytes of a page of a file that versions up to 0.1.0 made.
pub const PAGE_BYTES_BEFORE: usize = 4_096;
/// The oldest SQLite that may write.
const VERSION_MIN: i32 = 3_051_003;
/// What is kept of a write-ahead log that has grown larger, at most, and which share of the disk that may be. On a disk
/// of 110 MB, logs of 59 MB once had all requests answered 503.
const WAL_BYTES_KEPT: u32 = 64 << 20;
const WAL_SHARE_KEPT: u64 = 32;
/// How long a writer waits for another process that writes the file: what waits behind it is answered then.
const WRITER_WAITS_MAX: Duration = Duration::from_secs(1);

/// Opens the one writing connection of a file, in WAL mode. There are no automatic checkpoints: the
/// owner of the file has a [`FileWriter`] see to them. It has no mutex, because one thread at a time uses it.
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
    make_private(path);
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(WRITER_WAITS_MAX)?;
    // Of a file that has pages this changes nothing.
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    let level = match synchronous {
        Synchronous::Normal => 1,
        Synchronous::Full => 2,
    };
    let settings: [(&str, String); 8] = [
        ("journal_mode", "wal".to_owned()),
        ("synchronous", level.to_string()),
        // On macOS a flush ends before the disk has it, unless it is asked for in this way; elsewhere it means nothing.
        ("fullfsync", "1".to_owned()),
        ("checkpoint_fullfsync", "1".to_owned()),
        ("wal_autocheckpoint", "0".to_owned()),
        ("journal_size_limit", log_bytes_kept(path).to_string()),
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
    Ok(connection)
}

/// What is kept of a write-ahead log beside this file: on a small disk the logs must not take what requests need.
fn log_bytes_kept(path: &Path) -> u32 {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) {
        // Some file systems name no size.
        Ok(disk) if disk.f_blocks > 0 => share_kept(disk.f_blocks.saturating_mul(disk.f_frsize)),
        _ => WAL_BYTES_KEPT,
    }
}

fn share_kept(disk_bytes: u64) -> u32 {
    u32::try_from(disk_bytes / WAL_SHARE_KEPT)
        .map_or(WAL_BYTES_KEPT, |share| share.min(WAL_BYTES_KEPT))
}

/// From now on SQLite puts what it sorts and does not keep in memory into this folder, instead of a folder of the whole
/// machine. Before anything is opened: it concerns the whole process.
pub fn keep_temporary_files_in(folder: &Path) -> Result<(), rusqlite::Error> {
    let memory = Connection::open_in_memory()?;
    memory.pragma_update(None, "temp_store_directory", folder.to_string_lossy())
}

/// Makes a new file for this user only, whatever the umask is; SQLite gives its write-ahead log the same mode. What keeps
/// it from being made SQLite says itself.
fn make_private(path: &Path) {
    // Never one that is there: closing it would take this process's locks off it.
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    drop(new);
}

/// A file beside another: the name goes on with `end`.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Runs a statement without parameters, prepared once for each connection.
pub fn execute(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Begins a transaction that writes.
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

/// Takes back what an open transaction did, if there is one. What failed is judged before: [`FailStop::classify`].
pub fn roll_back(connection: &Connection) -> Result<(), rusqlite::Error> {
    match connection.is_autocommit() {
        true => Ok(()),
        false => connection.execute_batch("ROLLBACK"),
    }
}

/// Opens a read-only connection whose statements end with an error once `stop` is set.
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
pub fn copy(connection: &Connection, into: &str) -> Result<(), rusqlite::Error> {
    connection.execute("VACUUM INTO ?1", [into])?;
    Ok(())
}

/// The same of a file that this process has not open. What an earlier process left unfinished is taken back first. That
/// takes a connection that may write.
pub fn copy_at_rest(path: &Path, into: &str) -> Result<(), rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(WRITER_WAITS_MAX)?;
    copy(&connection, into)
}

/// How SQLite would run a statement: its steps, one a line. Tests show with it that an index leads to what is wanted.
///
/// # Errors
/// SQLite's.
pub fn plan(connection: &Connection, sql: &str) -> Result<String, rusqlite::Error> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let mut rows = statement.raw_query();
    let mut plan = String::new();
    while let Some(row) = rows.next()? {
        plan += &row.get::<_, String>(3)?;
        plan.push('\n');
    }
    Ok(plan)
}

/// What is wrong with the file, if anything is: the first line of SQLite's integrity check.
pub fn damage(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    verdict(connection, "integrity_check")
}

/// The same without a comparison of indexes with their tables, which takes many times as long in a large file.
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

/// Whether the file has this table.
pub fn has_table(connection: &Connection, name: &str) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1)";
    connection.query_row(sql, [name], |row| row.get(0))
}

/// The format that the file's owner wrote into it.
pub fn format(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// The same of a file that this process has not open, without a change to anything beside it. None: it is missing or
/// empty.
///
/// # Errors
/// It cannot be read.
pub fn format_at_rest(path: &Path) -> Result<Option<i64>, FileError> {
    /// Where the first page has it.
    const AT: usize = 60;
    let log = beside(path, "-wal").metadata();
    if log.is_ok_and(|log| log.len() > 0) {
        // The newest first page may be there.
        return Ok(Some(format(&open_reader(path, &Arc::default())?)?));
    }
    let mut header = [0; AT + 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    Ok(read.ok().map(|()| {
        let [.., a, b, c, d] = header;
        i32::from_be_bytes([a, b, c, d]).into()
    }))
}

fn refused(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some(message),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_a_share_of_a_small_disk_and_no_more_than_64_mib_of_any() {
        for (disk_mib, kept_mib) in [(32, 1), (110, 3), (1_024, 32), (2_048, 64), (1 << 30, 64)] {
            assert_eq!(share_kept(disk_mib << 20) >> 20, kept_mib, "{disk_mib}");
        }
    }
}
