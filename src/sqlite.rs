//! How every SQLite file of the daemon is opened.
//!
//! The storage modules call it. Writers use the synchronous binding on a thread of their own: a
//! round trip between a runtime and another thread costs more than a statement. Readers go through
//! sqlx, which shares the same SQLite.
//!
//! **Invariant**: a file is used only with the settings that were asked for, read back from SQLite,
//! and only by an SQLite that is free of the WAL-reset bug (3.51.3 or newer).

use std::path::Path;
use std::str::FromStr;

use rusqlite::{Connection, OpenFlags};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// No flush at all.
    Off,
    /// Flush at checkpoints.
    Normal,
    /// Flush at every commit.
    Full,
}

/// The oldest SQLite that may write.
const VERSION_MIN: i32 = 3_051_003;

/// Opens the one writing connection of a file, in WAL mode.
///
/// # Errors
/// SQLite's; also when a setting did not take.
pub fn open_writer(
    path: &Path,
    synchronous: Synchronous,
    checkpoint_pages: i64,
) -> Result<Connection, rusqlite::Error> {
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
        Synchronous::Off => 0,
        Synchronous::Normal => 1,
        Synchronous::Full => 2,
    };
    let settings: [(&str, String); 5] = [
        ("journal_mode", "wal".to_owned()),
        ("synchronous", level.to_string()),
        ("wal_autocheckpoint", checkpoint_pages.to_string()),
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

/// Whether the error means that there is no room on the disk.
pub fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

fn refused(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some(message),
    )
}
