//! Backups: a consistent copy of the data folder's files while the daemon runs, and how a copy becomes a data folder.
//!
//! The admin API makes them ([`Backups::make`]); `headgate restore` takes them back ([`restore::restore`]).
//!
//! The catalog is copied first, then the pool, then the journal. What the pool's copy does not have yet is in the journal's copy, because
//! no payload is released in between ([`journal::Hold`]). Everything that got a 202 before a backup began is in
//! one of the two.
//!
//! **Invariant**: the manifest is written last, when every copy was read back and found good: a folder without one is
//! no backup. A backup that fails takes away what it wrote.
#![deny(unsafe_code)]

mod folder;
pub mod manifest;
pub mod restore;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

use journal::{Journal, StorageError};
use manifest::Manifest;
use run::Run;

/// The files of a backup, in the order in which they are copied, with the format that this version writes. The admin
/// token is not among them, and neither are plugins.
const FILES: &[(&str, i64)] = &[
    (catalog::FILE, catalog::FORMAT),
    (pool::FILE, pool::FORMAT),
    (journal::FILE, journal::FORMAT),
];

/// Where backups go that are given no folder, below the data folder.
const OWN_FOLDER: &str = "backups";
/// Entries of a folder that are looked at for backups.
const LISTED_MAX: usize = 1_000;

const MANIFEST: &str = "manifest.json";

/// Why there is no backup.
#[derive(Debug, Error)]
pub enum BackupError {
    /// Another one is being made.
    #[error("another backup is being made; try again when it is done")]
    Running,
    /// The node is one of a cluster.
    #[error(
        "a node of a cluster makes no backups: its pool.db and catalog.db are copies, and the requests are in PostgreSQL; back up the database with pg_dump, or with a base backup of PostgreSQL"
    )]
    OfCluster,
    /// The folder cannot be used.
    #[error("{0}")]
    Folder(String),
    /// There is something in the folder.
    #[error("{} is not empty; name a directory that is missing or empty", .0.display())]
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
        file: &'static str,
        #[source]
        reason: rusqlite::Error,
    },
    #[error("the copy of {file} is not good: {problem}; nothing of the backup is left")]
    NotGood {
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The folder could not be written.
    #[error("{} cannot be written: {reason}; nothing of the backup is left", .path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
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
    /// Folders in which backups are made.
    dirs: Vec<PathBuf>,
    /// What must stay free on the disk of the data folder.
    disk_free_bytes_min: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
    stop: Arc<AtomicBool>,
    /// Folders that backups of this life were made in.
    folders: Mutex<BTreeSet<PathBuf>>,
}

impl Backups {
    /// For the files in `data_dir`, which `journal` is one of. Backups are made in its own folder, and in `dirs`.
    pub fn new(
        journal: &Arc<Journal>,
        data_dir: &Path,
        dirs: &[PathBuf],
        disk_free_bytes_min: u64,
    ) -> Self {
        let own = data_dir.join(OWN_FOLDER);
        let dirs = [&own].into_iter().chain(dirs).cloned().collect();
        Self {
            journal: Arc::clone(journal),
            data_dir: data_dir.to_owned(),
            dirs,
            disk_free_bytes_min,
            turn: Arc::default(),
            stop: Arc::default(),
            folders: Mutex::new(BTreeSet::from([own])),
        }
    }

    /// A folder for a backup that is made now, which is missing: `backups/20250301T120000Z` in the data folder, or the same
    /// with a number.
    pub fn suggested(&self) -> PathBuf {
        let dir = self.data_dir.join(OWN_FOLDER).join(base::clock::stamp());
        let numbered = (2_u32..).map(|number| PathBuf::from(format!("{}-{number}", dir.display())));
        let mut free = std::iter::once(dir.clone())
            .chain(numbered)
            .filter(|dir| !dir.exists());
        free.next().unwrap_or(dir)
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
        if !self.is_allowed(&dir) {
            let dirs: Vec<String> = (self.dirs.iter())
                .map(|dir| dir.display().to_string())
                .collect();
            return Err(BackupError::Folder(format!(
                "backups are created in {}, and {} is elsewhere; add its parent directory to admin.backup_dirs in the configuration and restart the daemon",
                dirs.join(", "),
                dir.display()
            )));
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

    /// Whether a folder is, or lies in, one of those for backups, wherever links lead.
    fn is_allowed(&self, dir: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let place = match (dir.canonicalize(), dir.parent(), dir.file_name()) {
            (Ok(place), ..) => place,
            // It is not there yet, and lies where the folder above it is.
            (Err(_), Some(parent), Some(name)) => real(parent).join(name),
            _ => return false,
        };
        let is_plain = !place.components().any(|part| part == Component::ParentDir);
        is_plain && self.dirs.iter().any(|dir| place.starts_with(real(dir)))
    }

    /// The hold begins before the numbers are read, so that no payload is released in between.
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
