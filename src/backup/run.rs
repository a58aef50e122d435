//! One backup on its way: is there room, copy, read back.
//!
//! **Invariant**: nothing is written but into the backup's folder, and what is copied is read back before it counts.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};

use super::folder::{Folder, cannot_use, write_failed};
use super::manifest::{self, CopiedFile, Manifest};
use super::{BackupError, FILES, OWN_FOLDER};
use base::clock;
use base::clock::Unix;
use base::order::Seq;
use base::text::hex;
use journal::Hold;

/// One backup on its way, away from the runtime's workers.
pub(super) struct Run {
    pub(super) data_dir: PathBuf,
    pub(super) disk_free_bytes_min: u64,
    pub(super) stop: Arc<AtomicBool>,
    /// As long as this one lives there is no other.
    pub(super) _turn: tokio::sync::OwnedMutexGuard<()>,
    /// As long as this one lives no payload is released.
    pub(super) _hold: Hold,
    /// Payloads of requests after this one were there when the hold began.
    pub(super) kept_after: Seq,
    /// [`journal::Journal::seq_floor`].
    pub(super) seq_floor: Seq,
}

impl Run {
    pub(super) fn into(self, dir: &Path) -> Result<Manifest, BackupError> {
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
        tracing::info!(dir = %dir.display(), bytes = manifest.bytes(), "backup created");
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
                "there is too little free space for {}: {needed} bytes are needed and {free} free, of which {reserved} are kept for requests (storage.min_free_bytes)",
                dir.display()
            )));
        }
        Ok(())
    }

    /// The file is made first, for this user only: SQLite writes into it and keeps its mode.
    pub(super) fn copy(&self, file: &'static str, folder: &Folder) -> Result<(), BackupError> {
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
    pub(super) fn verified(&self, dir: &Path) -> Result<Manifest, BackupError> {
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
        let pool = pool::copy::copy_state(&self.open(dir, pool::FILE)?);
        let pool = pool.map_err(|error| self.failed(pool::FILE, error))?;
        let after = pool.low_water.max(self.kept_after);
        let journal = journal::copy::copy_state(&self.open(dir, journal::FILE)?, after);
        let journal = journal.map_err(|error| self.failed(journal::FILE, error))?;
        if let Some(missing) = journal.missing {
            return Err(BackupError::NotGood {
                file: journal::FILE,
                problem: format!("the payload of request {missing} is not in it"),
            });
        }
        let highest_seq = journal.last_seq.max(self.seq_floor);
        for (sink, cursor) in pool.cursors {
            if cursor > highest_seq {
                return Err(BackupError::NotGood {
                    file: pool::FILE,
                    problem: format!(
                        "the sink {sink} is at {cursor}, and the journal's copy ends at {highest_seq}"
                    ),
                });
            }
        }
        Ok(Manifest {
            layout: manifest::LAYOUT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: clock::rfc3339(Unix::now()),
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

/// Copies a file to `into`; its length, and its SHA-256 in hexadecimal.
pub(super) fn digest(
    path: &Path,
    into: &mut impl Write,
    stop: &AtomicBool,
) -> io::Result<(u64, String)> {
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
    Ok((bytes, hex(&sha256.finalize())))
}
