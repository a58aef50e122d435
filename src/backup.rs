//! Backups: a consistent copy of the data folder's files while the daemon runs, and how a copy becomes a data folder.
//!
//! The admin API makes them ([`Backups::make`]); `headgate restore` takes them back ([`restore::restore`]).
//!
//! The catalog is copied first, then the pool, then the journal. What the pool's copy does not have yet is in the journal's copy, because
//! no payload is released in between ([`crate::journal::Hold`]). Everything that got a 202 before a backup began is in
//! one of the two.
//!
//! **Invariant**: the manifest is written last, when every copy was read back and found good: a folder without one is
//! no backup. A backup that fails takes away what it wrote.

pub mod manifest;
pub mod restore;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::journal::{self, Hold, Journal, StorageError};
use crate::{catalog, clock, pool, sqlite};
use manifest::{CopiedFile, Manifest};

/// The catalog's file.
const CATALOG: &str = "catalog.db";
/// The pool's file; it is copied before the journal.
const POOL: &str = "pool.db";
/// The journal's file.
const JOURNAL: &str = "journal.db";
/// The files of a backup, in the order in which they are copied, with the format that this version writes. The admin
/// token is not among them, and neither are plugins.
const FILES: &[(&str, i64)] = &[
    (CATALOG, catalog::FORMAT),
    (POOL, pool::FORMAT),
    (JOURNAL, journal::FORMAT),
];

/// Where backups go that are given no folder, below the data folder.
const OWN_FOLDER: &str = "backups";
/// Entries of a folder that are looked at for backups.
const LISTED_MAX: usize = 1_000;

const MANIFEST: &str = "manifest.json";
/// A manifest that is being written.
const UNFINISHED: &str = "manifest.json.unfinished";

/// Why there is no backup.
#[derive(Debug, Error)]
pub enum BackupError {
    /// Another one is being made.
    #[error("another backup is being made; try again when it is done")]
    Running,
    /// The folder cannot be used.
    #[error("{0}")]
    Folder(String),
    /// There is something in the folder.
    #[error("{} is not empty; name a folder that is missing or empty", .0.display())]
    NotEmpty(PathBuf),
    /// There is not enough room.
    #[error("{0}; nothing of the backup is left")]
    DiskFull(String),
    /// The daemon is stopping.
    #[error("the service is stopping; nothing of the backup is left")]
    Stopped,
    /// SQLite could not copy or read a file.
    #[error("{file} cannot be copied: {reason}; nothing of the backup is left")]
    Copy {
        /// Its name.
        file: &'static str,
        /// What SQLite says.
        #[source]
        reason: rusqlite::Error,
    },
    /// A copy is not good.
    #[error("the copy of {file} is not good: {problem}; nothing of the backup is left")]
    NotGood {
        /// Its name.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The folder could not be written.
    #[error("{} cannot be written: {reason}; nothing of the backup is left", .path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] StorageError),
}

/// Makes the backups of one daemon.
#[derive(Debug)]
pub struct Backups {
    journal: Arc<Journal>,
    data_dir: PathBuf,
    /// What must stay free on the disk of the data folder.
    disk_free_bytes_min: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
    stop: Arc<AtomicBool>,
    /// Folders that backups of this life were made in.
    folders: Mutex<BTreeSet<PathBuf>>,
}

/// One backup on its way, away from the runtime's workers.
struct Run {
    data_dir: PathBuf,
    disk_free_bytes_min: u64,
    stop: Arc<AtomicBool>,
    /// As long as this one lives there is no other.
    _turn: tokio::sync::OwnedMutexGuard<()>,
    /// As long as this one lives no payload is released.
    _hold: Hold,
    /// Payloads of requests after this one were there when the hold began.
    kept_after: u64,
    /// [`Journal::seq_floor`].
    seq_floor: u64,
}

impl Backups {
    /// For the files in `data_dir`, which `journal` is one of.
    pub fn new(journal: &Arc<Journal>, data_dir: &Path, disk_free_bytes_min: u64) -> Self {
        Self {
            journal: Arc::clone(journal),
            data_dir: data_dir.to_owned(),
            disk_free_bytes_min,
            turn: Arc::default(),
            stop: Arc::default(),
            folders: Mutex::new(BTreeSet::from([data_dir.join(OWN_FOLDER)])),
        }
    }

    /// A folder for a backup that is made now: `backups/20250301T120000Z` in the data folder.
    pub fn suggested(&self) -> PathBuf {
        let time = clock::rfc3339(clock::unix_ms());
        let (seconds, _) = time.split_once('.').unwrap_or((&time, ""));
        let name = seconds.replace(['-', ':', 'Z'], "") + "Z";
        self.data_dir.join(OWN_FOLDER).join(name)
    }

    /// The backups that are found where this daemon makes them, the newest first: those in the data folder, and those
    /// beside the ones that were made since it started. Reads files.
    pub fn found(&self) -> Vec<(PathBuf, Manifest)> {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = folders.clone();
        let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
        let entries = entries.flat_map(|entries| entries.flatten().take(LISTED_MAX));
        let found = entries.filter_map(|entry| {
            let path = entry.path();
            let manifest = Manifest::read(&path).ok()?;
            Some((path, manifest))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|(a_path, a), (b_path, b)| (&b.made_at, b_path).cmp(&(&a.made_at, a_path)));
        found
    }

    /// Makes a backup in `dir`, an absolute path to a folder that is missing or empty, and tells what is in it. It is
    /// made to its end also if nobody waits for it any more.
    ///
    /// # Errors
    /// See [`BackupError`]; nothing of the backup is left then.
    pub async fn make(&self, dir: PathBuf) -> Result<Manifest, BackupError> {
        if !dir.is_absolute() {
            return Err(BackupError::Folder(
                "dir must be an absolute path, on the daemon's machine".to_owned(),
            ));
        }
        let run = self.begin().await?;
        let parent = dir.parent().map(Path::to_owned);
        match tokio::task::spawn_blocking(move || run.into(&dir)).await {
            Ok(made) => {
                if let (Ok(_), Some(parent)) = (&made, parent) {
                    let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
                    folders.insert(parent);
                }
                made
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => Err(BackupError::Stopped),
            },
        }
    }

    async fn begin(&self) -> Result<Run, BackupError> {
        let turn = Arc::clone(&self.turn).try_lock_owned();
        let turn = turn.map_err(|_| BackupError::Running)?;
        let hold = self.journal.hold();
        let newest = *self.journal.newest().borrow();
        let oldest = self.journal.oldest_kept().await?;
        Ok(Run {
            data_dir: self.data_dir.clone(),
            disk_free_bytes_min: self.disk_free_bytes_min,
            stop: Arc::clone(&self.stop),
            _turn: turn,
            _hold: hold,
            kept_after: oldest
                .map_or(newest, |oldest| oldest - 1)
                .max(self.journal.released()),
            seq_floor: self.journal.seq_floor(),
        })
    }

    /// Ends the backup that is being made, and refuses others. There is no way back.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Run {
    fn into(self, dir: &Path) -> Result<Manifest, BackupError> {
        let own = self.data_dir.join(OWN_FOLDER);
        if dir.parent() == Some(&own) {
            match DirBuilder::new().mode(0o700).create(&own) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot_use(&own, &error));
                }
                _ => {}
            }
        }
        let folder = Folder::claim(dir)?;
        self.check_room(dir)?;
        for &(file, _) in FILES {
            self.copy(file, &folder)?;
        }
        let manifest = self.verified(dir)?;
        folder.finish(&manifest)?;
        tracing::info!(dir = %dir.display(), bytes = manifest.bytes(), "a backup was made");
        Ok(manifest)
    }

    fn check_room(&self, dir: &Path) -> Result<(), BackupError> {
        let mut needed = 0;
        for &(file, _) in FILES {
            let size = sqlite::open_reader(&self.data_dir.join(file), &self.stop)
                .and_then(|connection| sqlite::copy_bytes(&connection));
            needed += size.map_err(|error| self.failed(file, error))?;
        }
        // On the disk of the data folder a backup must not take the room that requests need.
        let same_disk = || Some(dir.metadata().ok()?.dev() == self.data_dir.metadata().ok()?.dev());
        let reserved = match same_disk() {
            Some(false) => 0,
            _ => self.disk_free_bytes_min,
        };
        let Ok(disk) = rustix::fs::statvfs(dir) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < needed.saturating_add(reserved) {
            return Err(BackupError::DiskFull(format!(
                "there is too little room for {}: {needed} bytes are needed and {free} free, of which {reserved} are kept for requests (storage.min_free_bytes)",
                dir.display()
            )));
        }
        Ok(())
    }

    fn copy(&self, file: &'static str, folder: &Folder) -> Result<(), BackupError> {
        let path = folder.path.join(file);
        let failed = |reason| write_failed(&path, reason);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        // What JSON and the command line bring is UTF-8.
        let text = path.to_str().unwrap_or_default();
        sqlite::open_reader(&self.data_dir.join(file), &self.stop)
            .and_then(|connection| sqlite::copy(&connection, text))
            .map_err(|error| self.failed(file, error))?;
        made.sync_all().map_err(failed)
    }

    /// Reads the copies back; what they hold, if they are good and belong together.
    fn verified(&self, dir: &Path) -> Result<Manifest, BackupError> {
        let mut files = Vec::new();
        for &(file, format) in FILES {
            let not_good = |problem| BackupError::NotGood { file, problem };
            let failed = |error| self.failed(file, error);
            let copy = self.open(dir, file)?;
            if let Some(damage) = sqlite::damage(&copy).map_err(failed)? {
                return Err(not_good(damage));
            }
            let found = sqlite::format(&copy).map_err(failed)?;
            if found != format {
                return Err(not_good(format!("it has format {found}, not {format}")));
            }
            let path = dir.join(file);
            let digest = digest(&path, &mut io::sink(), &self.stop);
            let (bytes, sha256) = digest.map_err(|reason| match self.stopping() {
                true => BackupError::Stopped,
                false => write_failed(&path, reason),
            })?;
            files.push(CopiedFile {
                name: file.to_owned(),
                format,
                bytes,
                sha256,
            });
        }
        let pool = pool::copy::standing(&self.open(dir, POOL)?);
        let pool = pool.map_err(|error| self.failed(POOL, error))?;
        let after = pool.low_water.max(self.kept_after);
        let journal = journal::copy::standing(&self.open(dir, JOURNAL)?, after);
        let journal = journal.map_err(|error| self.failed(JOURNAL, error))?;
        if let Some(missing) = journal.missing {
            return Err(BackupError::NotGood {
                file: JOURNAL,
                problem: format!("the payload of request {missing} is not in it"),
            });
        }
        let highest_seq = journal.last_seq.max(self.seq_floor);
        for (sink, cursor) in pool.cursors {
            if cursor > highest_seq {
                return Err(BackupError::NotGood {
                    file: POOL,
                    problem: format!(
                        "the sink {sink} is at {cursor}, and the journal's copy ends at {highest_seq}"
                    ),
                });
            }
        }
        Ok(Manifest {
            layout: manifest::LAYOUT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: clock::rfc3339(clock::unix_ms()),
            epoch: pool.epoch,
            highest_seq,
            files,
        })
    }

    fn open(&self, dir: &Path, file: &'static str) -> Result<rusqlite::Connection, BackupError> {
        sqlite::open_reader(&dir.join(file), &self.stop).map_err(|error| self.failed(file, error))
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn failed(&self, file: &'static str, reason: rusqlite::Error) -> BackupError {
        if self.stopping() {
            BackupError::Stopped
        } else if sqlite::is_full(&reason) {
            BackupError::DiskFull(format!("the disk is full: {file} could not be copied"))
        } else {
            BackupError::Copy { file, reason }
        }
    }
}

/// The folder of a backup; emptied again if it is dropped before [`Folder::finish`].
struct Folder {
    path: PathBuf,
    /// It was made here and goes with what is in it.
    made: bool,
    finished: bool,
}

impl Folder {
    fn claim(path: &Path) -> Result<Self, BackupError> {
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let entries = std::fs::read_dir(path).map_err(|error| cannot_use(path, &error))?;
                if entries.count() > 0 {
                    return Err(BackupError::NotEmpty(path.to_owned()));
                }
                false
            }
            Err(error) => return Err(cannot_use(path, &error)),
        };
        Ok(Self {
            path: path.to_owned(),
            made,
            finished: false,
        })
    }

    /// Writes the manifest, whole or not at all.
    fn finish(mut self, manifest: &Manifest) -> Result<(), BackupError> {
        let (unfinished, path) = (self.path.join(UNFINISHED), self.path.join(MANIFEST));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(manifest.to_json()?.as_bytes())?;
            file.sync_all()?;
            // The copies' entries are on disk before the manifest's.
            File::open(&self.path)?.sync_all()?;
            std::fs::rename(&unfinished, &path)?;
            File::open(&self.path)?.sync_all()?;
            if let (true, Some(parent)) = (self.made, self.path.parent()) {
                File::open(parent)?.sync_all()?;
            }
            Ok(())
        };
        write().map_err(|reason| write_failed(&path, reason))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        for file in [MANIFEST, UNFINISHED] {
            let _ = std::fs::remove_file(self.path.join(file));
        }
        for (file, _) in FILES {
            // SQLite leaves its journal behind where a copy fails.
            for end in ["", "-journal"] {
                let _ = std::fs::remove_file(self.path.join(format!("{file}{end}")));
            }
        }
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn cannot_use(path: &Path, error: &io::Error) -> BackupError {
    BackupError::Folder(format!(
        "cannot use the folder {}: {error}; the folder above it must be there, and the daemon must be allowed to write to it",
        path.display()
    ))
}

fn write_failed(path: &Path, reason: io::Error) -> BackupError {
    match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BackupError::DiskFull(
            format!("the disk is full: {} could not be written", path.display()),
        ),
        _ => BackupError::Write {
            path: path.to_owned(),
            reason,
        },
    }
}

/// Copies a file to `into`; its length, and its SHA-256 in hexadecimal.
fn digest(path: &Path, into: &mut impl Write, stop: &AtomicBool) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut sha256 = Sha256::new();
    let mut piece = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        sha256.update(&piece[..read]);
        into.write_all(&piece[..read])?;
        bytes += read as u64;
    }
    let digest: [u8; 32] = sha256.finalize().into();
    Ok((bytes, digest.map(|byte| format!("{byte:02x}")).concat()))
}

#[cfg(test)]
mod tests;
