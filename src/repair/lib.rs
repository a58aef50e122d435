//! Detects damaged files, renames them, and rebuilds them from the readable data.
//!
//! `daemon` calls [`at_start`] before it opens anything, and [`rebuild`] if a file cannot be opened all the same;
//! `headgate repair` calls [`check`] for files that nobody suspects. A file that is neither marked as suspect
//! ([`sqlite::suspect`]) nor has anything in its write-ahead log costs a look at its first page.
//!
//! What is salvaged goes into `<file>.salvaging`. When that is complete and flushed it becomes `<file>.salvaged-<time>`,
//! and from then on the files change places: the old one is renamed to `<file>.damaged-<time>`, its log with it, and the
//! new one takes its name. A start that finds a `.salvaged-` file goes on where the last one ended.
//!
//! **Invariant**: nothing is ever deleted that was not copied or renamed before, and at any moment either the old file
//! or the whole new one is there. The caller holds the lock of the data folder.
#![deny(unsafe_code)]

mod catalog;
mod detect;
mod image;
mod journal;
mod objects;
mod page;
mod pool;
mod rebuild;
mod record;
pub mod report;
mod salvage;
mod target;
#[cfg(test)]
mod tests;
mod wal;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rusqlite::Connection;
use thiserror::Error;

use ::catalog::{CatalogError, FILE as CATALOG};
use ::journal::{FILE as JOURNAL, StorageError};
use ::pool::{FILE as POOL, PoolError};
use detect::{beginning, look_at_log, look_at_mark};
use rebuild::{finish, rebuild_file, remove_if_there};
use report::Repair;
use salvage::Salvaged;
use sqlite::beside;

/// A file of the data folder, and how it is repaired.
struct Kind {
    name: &'static str,
    format: i64,
    make: fn(&Path) -> Result<(), RepairError>,
    /// Makes the tables that a file gets when they are first needed.
    make_later: fn(&Connection) -> Result<(), rusqlite::Error>,
    /// Tables whose lost rows are told by their indexes.
    indexed: &'static [&'static str],
    /// Makes what was read a whole again.
    settle: fn(&Path, &Salvaged, &mut Repair) -> Result<(), RepairError>,
}

/// The journal is looked at last: how far the sinks have come stands in the pool.
const FILES: [Kind; 3] = [
    Kind {
        name: CATALOG,
        format: ::catalog::FORMAT,
        make: |path| Ok(::catalog::make(path)?),
        make_later: ::catalog::make_later,
        indexed: &["keys", "read_keys"],
        settle: catalog::settle,
    },
    Kind {
        name: POOL,
        format: ::pool::FORMAT,
        make: |path| Ok(::pool::copy::make(path)?),
        make_later: ::pool::copy::make_later,
        indexed: &["items"],
        settle: pool::settle,
    },
    Kind {
        name: JOURNAL,
        format: ::journal::FORMAT,
        make: |path| Ok(::journal::copy::make(path)?),
        make_later: ::journal::copy::make_later,
        indexed: &["requests"],
        settle: journal::settle,
    },
];

/// From this size on, a file in use is looked through by pages only: all of it takes too long for one reader.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;
/// Why a file could not be repaired. It is as it was then.
#[derive(Debug, Error)]
pub enum RepairError {
    /// A file cannot be read or written.
    #[error("{} cannot be used for a repair: {reason}; free some disk space if the disk is full, and start again", .path.display())]
    File {
        path: PathBuf,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// The new file cannot be written.
    #[error(
        "what was salvaged cannot be written: {0}; free some disk space if the disk is full, and start again"
    )]
    Write(#[from] rusqlite::Error),
    /// An empty catalog cannot be made.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The same for a pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The same for a journal.
    #[error(transparent)]
    Journal(#[from] StorageError),
}

impl RepairError {
    fn file(path: &Path, reason: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            reason,
        }
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::File { reason, .. } => reason.kind() == io::ErrorKind::StorageFull,
            Self::Write(error) => sqlite::is_full(error),
            _ => false,
        }
    }
}

/// What a check of a file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is none.
    Absent,
    /// Nothing is wrong.
    Sound,
    /// Something is.
    Damaged(String),
}

/// Ends what the last start did not, and repairs the files that are known to be damaged. What was done is logged, and
/// remembered in the data folder.
///
/// # Errors
/// See [`RepairError`].
pub fn at_start(data_dir: &Path) -> Result<Vec<Repair>, RepairError> {
    let mut repairs = Vec::new();
    for kind in &FILES {
        let path = data_dir.join(kind.name);
        finish(data_dir, kind)?;
        remove(&beside(&path, ".salvaging"))?;
        if !is_there(&path) {
            continue;
        }
        if let Some(repair) = look_at_log(data_dir, kind)? {
            repairs.push(repair);
        }
        let reason = match beginning(&path, kind)? {
            Some(reason) => Some(reason),
            None => look_at_mark(&path, kind)?,
        };
        if let Some(reason) = reason {
            repairs.push(rebuild_file(data_dir, kind, &reason)?);
        }
    }
    Ok(repairs)
}

/// Repairs a file that cannot be opened. False if it is not damaged, but newer than this version.
///
/// # Errors
/// See [`RepairError`].
pub fn rebuild(data_dir: &Path, file: &str, reason: &str) -> Result<bool, RepairError> {
    let Some(kind) = FILES.iter().find(|kind| kind.name == file) else {
        return Ok(false);
    };
    let path = data_dir.join(file);
    if !is_there(&path) || detect::is_newer(&path, kind)? {
        return Ok(false);
    }
    rebuild_file(data_dir, kind, reason)?;
    Ok(true)
}

/// Whether a file has a format above the one of this version because a newer one wrote it, and not because it is damaged.
///
/// # Errors
/// See [`RepairError`].
pub fn is_newer(data_dir: &Path, file: &str) -> Result<bool, RepairError> {
    match FILES.iter().find(|kind| kind.name == file) {
        Some(kind) => {
            let path = data_dir.join(file);
            Ok(beginning(&path, kind)?.is_none() && detect::is_newer(&path, kind)?)
        }
        None => Ok(false),
    }
}

/// Looks a file through, whole. Nobody else may be using it if `alone`; otherwise only what SQLite sees is looked at.
///
/// # Errors
/// The file cannot be read.
pub fn check(data_dir: &Path, file: &str, alone: bool) -> Result<Verdict, RepairError> {
    let path = data_dir.join(file);
    if !is_there(&path) {
        return Ok(Verdict::Absent);
    }
    let damaged = match check_with_sqlite(&path) {
        Ok(None) => None,
        Ok(Some(problem)) => Some(problem),
        Err(error) if sqlite::damage::may_be_damage(&error) => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    if let Some(problem) = damaged {
        return Ok(Verdict::Damaged(problem));
    }
    if alone {
        let log_path = beside(&path, "-wal");
        let looked = image::read_log(&path);
        let looked = looked.map_err(|reason| RepairError::file(&log_path, reason))?;
        if let Some(looked) = looked
            && (!looked.mends.is_empty() || looked.bad_frames > 0)
        {
            return Ok(Verdict::Damaged(
                "its write-ahead log is damaged".to_owned(),
            ));
        }
        let invalid_rows = salvage::invalid_rows(&path)?;
        if invalid_rows > 0 {
            return Ok(Verdict::Damaged(format!(
                "{invalid_rows} rows are not what they should be"
            )));
        }
    }
    Ok(Verdict::Sound)
}

fn check_with_sqlite(path: &Path) -> Result<Option<String>, rusqlite::Error> {
    sqlite::damage(&distrustful_reader(path, &Arc::default())?)
}

/// A reader that believes no cell of a page, and is interrupted when `stop` says so.
fn distrustful_reader(path: &Path, stop: &Arc<AtomicBool>) -> Result<Connection, rusqlite::Error> {
    let connection = sqlite::open_reader(path, stop)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// What is wrong with a file that others read and write meanwhile, until `stop` says so. In a large file, indexes are not
/// compared with their tables.
///
/// # Errors
/// SQLite's, also if it was stopped.
pub fn look_beside(
    data_dir: &Path,
    file: &str,
    stop: &Arc<AtomicBool>,
) -> Result<Option<String>, rusqlite::Error> {
    let path = data_dir.join(file);
    let looked = distrustful_reader(&path, stop).and_then(|connection| {
        connection.pragma_update(None, "cache_size", -1_000)?;
        match path.metadata().is_ok_and(|it| it.len() > LARGE_BYTES) {
            true => sqlite::damage_of_pages(&connection),
            false => sqlite::damage(&connection),
        }
    });
    match looked {
        Err(error) if sqlite::damage::is_damage(&error) => Ok(Some(error.to_string())),
        looked => looked,
    }
}

/// How many payloads of the journal are in its table `quarantine`, if that can be read.
pub fn quarantined(data_dir: &Path) -> Option<u64> {
    let connection =
        sqlite::open_reader(&data_dir.join(JOURNAL), &std::sync::Arc::default()).ok()?;
    let sql = "SELECT count(*) FROM quarantine";
    let payloads: i64 = connection.query_row(sql, [], |row| row.get(0)).ok()?;
    Some(payloads.unsigned_abs())
}

/// The files that a data folder may hold, in the order in which they are repaired.
pub fn files() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|kind| kind.name)
}

fn is_there(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.len() > 0)
}

/// Removes a database of our own making, with what SQLite puts beside it.
fn remove(path: &Path) -> Result<(), RepairError> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        remove_if_there(&path).map_err(|reason| RepairError::file(&path, reason))?;
    }
    Ok(())
}

/// `20261122T031500Z`, with a number behind it if that is taken.
fn stamp(taken: impl Fn(&str) -> bool) -> String {
    let base = base::clock::stamp();
    let others = (2..).map(|number| format!("{base}.{number}"));
    let mut all = std::iter::once(base.clone()).chain(others);
    all.find(|stamp| !taken(stamp)).unwrap_or(base)
}

fn log_repair(data_dir: &Path, repair: &Repair) -> Result<(), RepairError> {
    tracing::error!(
        set_aside = repair.set_aside.join(", "),
        "{}",
        repair.sentence()
    );
    report::remember(data_dir, repair)
}

fn exists(
    connection: &Connection,
    sql: &str,
    value: impl rusqlite::ToSql,
) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached(sql)?
        .query_row([value], |row| row.get(0))
}
