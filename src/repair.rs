//! Damaged files: noticed, set aside, and made anew of what can be read.
//!
//! `daemon` calls [`at_start`] before it opens anything, and [`rebuild`] if a file cannot be opened all the same;
//! `headgate repair` calls [`check`] for files that nobody suspects. A file that is neither marked as suspect
//! ([`crate::sqlite::suspect`]) nor has anything in its write-ahead log costs a look at its first page.
//!
//! What is salvaged goes into `<file>.salvaging`. When that is complete and flushed it becomes `<file>.salvaged-<time>`,
//! and from then on the files change places: the old one is renamed to `<file>.damaged-<time>`, its log with it, and the
//! new one takes its name. A start that finds a `.salvaged-` file goes on where the last one ended.
//!
//! **Invariant**: nothing is ever deleted that was not copied or renamed before, and at any moment either the old file
//! or the whole new one is there. The caller holds the lock of the data folder.

mod anew;
mod catalog;
mod image;
mod journal;
mod log;
mod pool;
pub mod report;
mod salvage;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use thiserror::Error;

use crate::catalog::{CatalogError, FILE as CATALOG};
use crate::clock;
use crate::journal::{FILE as JOURNAL, StorageError};
use crate::pool::{FILE as POOL, PoolError};
use crate::sqlite::suspect::mark_of;
use anew::{finish, make_anew};
use image::{Image, PAGE_BYTES};
use report::Repair;
use salvage::{Plan, Salvaged};

/// A file of the data folder, and how it is repaired.
struct Kind {
    name: &'static str,
    format: i64,
    make: fn(&Path) -> Result<(), RepairError>,
    /// Tables whose lost rows are told by their indexes.
    indexed: &'static [&'static str],
    /// Makes what was read a whole again.
    settle: fn(&Path, &Salvaged, &mut Repair) -> Result<(), RepairError>,
}

const FILES: [Kind; 3] = [
    Kind {
        name: CATALOG,
        format: crate::catalog::FORMAT,
        make: |path| Ok(crate::catalog::make(path)?),
        indexed: &["keys", "read_keys"],
        settle: catalog::settle,
    },
    Kind {
        name: POOL,
        format: crate::pool::FORMAT,
        make: |path| Ok(crate::pool::copy::make(path)?),
        indexed: &["items"],
        settle: pool::settle,
    },
    Kind {
        name: JOURNAL,
        format: crate::journal::FORMAT,
        make: |path| Ok(crate::journal::copy::make(path)?),
        indexed: &["requests"],
        settle: journal::settle,
    },
];

/// A second mark so soon after nothing was found means that something is wrong that no check sees.
const AGAIN: Duration = Duration::from_secs(600);
/// From this size on, a file in use is looked through by pages only: all of it takes too long for one reader.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;
/// Copies of logs that are kept for each file.
const LOGS_MAX: usize = 5;

/// Why a file could not be repaired. It is as it was then.
#[derive(Debug, Error)]
pub enum RepairError {
    /// A file cannot be read or written.
    #[error("{} cannot be used for a repair: {reason}; make room on the disk if it is full, and start again", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// The new file cannot be written.
    #[error(
        "what was salvaged cannot be written: {0}; make room on the disk if it is full, and start again"
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
}

impl RepairError {
    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        match self {
            Self::File { reason, .. } => reason.kind() == io::ErrorKind::StorageFull,
            Self::Write(error) => crate::sqlite::is_full(error),
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
            repairs.push(make_anew(data_dir, kind, &reason)?);
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
    if !is_there(&path) || is_newer(&path, kind)? {
        return Ok(false);
    }
    make_anew(data_dir, kind, reason)?;
    Ok(true)
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
        Err(error) if crate::sqlite::damage::may_be_damage(&error) => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    if let Some(problem) = damaged {
        return Ok(Verdict::Damaged(problem));
    }
    if alone {
        let log_path = beside(&path, "-wal");
        let looked = log::look(&log_path, PAGE_BYTES);
        let looked = looked.map_err(|reason| RepairError::file(&log_path, reason))?;
        if let Some(looked) = looked
            && (!looked.mends.is_empty() || looked.bad_frames > 0)
        {
            return Ok(Verdict::Damaged(
                "its write-ahead log is damaged".to_owned(),
            ));
        }
        let misfits = salvage::misfits(&path)?;
        if misfits > 0 {
            return Ok(Verdict::Damaged(format!(
                "{misfits} rows are not what they should be"
            )));
        }
    }
    Ok(Verdict::Sound)
}

fn check_with_sqlite(path: &Path) -> Result<Option<String>, rusqlite::Error> {
    crate::sqlite::damage(&distrustful_reader(path, &Arc::default())?)
}

/// A reader that believes no cell of a page, and is interrupted when `stop` says so.
fn distrustful_reader(path: &Path, stop: &Arc<AtomicBool>) -> Result<Connection, rusqlite::Error> {
    let connection = crate::sqlite::open_reader(path, stop)?;
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
            true => crate::sqlite::damage_of_pages(&connection),
            false => crate::sqlite::damage(&connection),
        }
    });
    match looked {
        Err(error) if crate::sqlite::damage::is_damage(&error) => Ok(Some(error.to_string())),
        looked => looked,
    }
}

/// How many payloads of the journal are in its table `quarantine`, if that can be read.
pub fn quarantined(data_dir: &Path) -> Option<u64> {
    let connection =
        crate::sqlite::open_reader(&data_dir.join(JOURNAL), &std::sync::Arc::default()).ok()?;
    let sql = "SELECT count(*) FROM quarantine";
    let payloads: i64 = connection.query_row(sql, [], |row| row.get(0)).ok()?;
    Some(payloads.unsigned_abs())
}

/// The files that a data folder may hold, in the order in which they are repaired.
pub fn files() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|kind| kind.name)
}

/// A file beside another: the name goes on with `end`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn is_there(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.len() > 0)
}

/// Removes a database of our own making, with what SQLite puts beside it.
fn remove(path: &Path) -> Result<(), RepairError> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RepairError::file(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `20261122T031500Z`, with a number behind it if that is taken.
fn stamp(taken: impl Fn(&str) -> bool) -> String {
    let time = clock::rfc3339(clock::unix_ms());
    let (seconds, _) = time.split_once('.').unwrap_or((&time, ""));
    let base = seconds.replace(['-', ':', 'Z'], "") + "Z";
    let others = (2..).map(|number| format!("{base}.{number}"));
    let mut all = std::iter::once(base.clone()).chain(others);
    all.find(|stamp| !taken(stamp)).unwrap_or(base)
}

/// What is wrong with the beginning of a file, which SQLite believes.
fn beginning(path: &Path, kind: &Kind) -> Result<Option<String>, RepairError> {
    let image = Image::open(path).map_err(|reason| RepairError::file(path, reason))?;
    let Some(first) = image.page(1) else {
        return Ok(Some("its first page cannot be read".to_owned()));
    };
    let number =
        |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    let vacuums = (number(52) > 0, number(64));
    let good = first.starts_with(b"SQLite format 3\0")
        && first[16..18] == (PAGE_BYTES as u16).to_be_bytes()
        && matches!((first[18], first[19]), (1, 1) | (2, 2))
        && first[20..24] == [0, 64, 32, 32]
        && (1..=4).contains(&number(44))
        && number(56) == 1
        && match kind.name {
            JOURNAL => matches!(vacuums, (true, 1) | (false, 0)),
            _ => vacuums == (false, 0),
        };
    Ok((!good).then(|| "its header is damaged".to_owned()))
}

/// A log is mended where that can be done exactly; where it cannot, the file is made anew.
fn look_at_log(data_dir: &Path, kind: &Kind) -> Result<Option<Repair>, RepairError> {
    let path = data_dir.join(kind.name);
    let log_path = beside(&path, "-wal");
    let failed = |reason| RepairError::file(&log_path, reason);
    let Some(looked) = log::look(&log_path, PAGE_BYTES).map_err(failed)? else {
        return Ok(None);
    };
    let (bits, frames) = (looked.mends.len(), looked.bad_frames);
    let mut set_aside = Vec::new();
    if bits > 0 || (looked.is_torn && frames == 0) {
        set_aside.extend(copy_log(data_dir, &log_path)?);
    }
    if bits > 0 {
        log::mend(&log_path, &looked.mends).map_err(failed)?;
    }
    if frames > 0 {
        let reason = format!("{frames} frames of its write-ahead log cannot be read");
        let mut repair = make_anew(data_dir, kind, &reason)?;
        repair.set_aside.extend(set_aside);
        return Ok(Some(repair));
    }
    if bits == 0 && !looked.is_torn {
        return Ok(None);
    }
    let (reason, note) = match bits {
        0 => (
            "its write-ahead log does not end as it should",
            "the last commit is not whole and is left out: so it is after a power cut, which takes what nobody was answered; otherwise it was damaged".to_owned(),
        ),
        1 => ("a bit of its write-ahead log was wrong", "it is mended, and nothing is lost".to_owned()),
        bits => ("bits of its write-ahead log were wrong", format!("{bits} are mended, and nothing is lost")),
    };
    let repair = Repair {
        at: clock::rfc3339(clock::unix_ms()),
        file: kind.name.to_owned(),
        reason: reason.to_owned(),
        set_aside,
        notes: vec![note],
        ..Repair::default()
    };
    tell(data_dir, &repair)?;
    Ok(Some(repair))
}

/// Copies a log aside; its new name. None if there are enough of them.
fn copy_log(data_dir: &Path, log_path: &Path) -> Result<Option<String>, RepairError> {
    let name = log_path.file_name().unwrap_or_default().to_string_lossy();
    let begin = format!("{name}.damaged-");
    let kept = report::set_aside(data_dir);
    let is_like = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&begin))
    };
    if kept.iter().filter(is_like).count() >= LOGS_MAX {
        return Ok(None);
    }
    let stamp = stamp(|stamp| data_dir.join(format!("{begin}{stamp}")).exists());
    let name = format!("{begin}{stamp}");
    let into = data_dir.join(&name);
    std::fs::copy(log_path, &into)
        .and_then(|_| File::open(&into)?.sync_all())
        .and_then(|()| File::open(data_dir)?.sync_all())
        .map_err(|reason| RepairError::file(&into, reason))?;
    Ok(Some(name))
}

/// If somebody met damage in the file, whether and why it is made anew.
fn look_at_mark(path: &Path, kind: &Kind) -> Result<Option<String>, RepairError> {
    let mark = mark_of(path);
    let said = match std::fs::read_to_string(&mark) {
        Ok(text) => text
            .lines()
            .next()
            .unwrap_or("it was marked as suspect")
            .to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RepairError::file(&mark, error)),
    };
    if is_newer(path, kind)? {
        return Ok(None);
    }
    let cleared = beside(path, ".cleared");
    let again = cleared.metadata().and_then(|it| it.modified());
    let again = again.is_ok_and(is_recent);
    let data_dir = path.parent().unwrap_or(Path::new("."));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if let Verdict::Damaged(problem) = check(data_dir, &file, true)? {
        tracing::error!(file = &*file, problem, "the file is damaged");
        return Ok(Some(said));
    }
    if again {
        return Ok(Some(said));
    }
    tracing::warn!(
        file = &*file,
        reason = said,
        "the file was suspected to be damaged, and nothing was found"
    );
    std::fs::rename(&mark, &cleared).map_err(|reason| RepairError::file(&mark, reason))?;
    Ok(None)
}

fn is_recent(at: SystemTime) -> bool {
    at.elapsed().is_ok_and(|age| age < AGAIN)
}

fn is_newer(path: &Path, kind: &Kind) -> Result<bool, RepairError> {
    let image = Image::open(path).map_err(|reason| RepairError::file(path, reason))?;
    let version = image.page(1).map_or(0, |first| {
        i64::from(i32::from_be_bytes([
            first[60], first[61], first[62], first[63],
        ]))
    });
    if version <= kind.format {
        return Ok(false);
    }
    let one_bit = (version ^ kind.format).count_ones() == 1;
    Ok(!one_bit || salvage::is_newer(path, &plan(kind), &beside(path, ".salvaging"))?)
}

fn plan(kind: &Kind) -> Plan<'_> {
    Plan {
        format: kind.format,
        make: &kind.make,
        indexed: kind.indexed,
    }
}

fn tell(data_dir: &Path, repair: &Repair) -> Result<(), RepairError> {
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
