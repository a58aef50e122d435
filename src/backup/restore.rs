//! A backup becomes a data folder.
//!
//! `headgate restore` calls it, with the lock of the new data folder in its hands.
//!
//! The restored life gives nothing out again that the other one may have given out since the backup: positions of
//! renderers and the pool's `seq` ([`pool::copy::begin_anew`]), and the numbers of requests
//! ([`journal::copy::begin_anew`]). Ids of dead letters and retries are: they are for people. By the ids of batches
//! receivers know repeats: they are made of ids of requests, and the same in every life.
//!
//! **Invariant**: until everything is in place the folder holds [`MARK`], and no daemon starts in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use thiserror::Error;

use super::FILES;
use super::manifest::{CopiedFile, Manifest};
use super::run::digest;
use base::order::Epoch;
use journal::StorageError;
use pool::PoolError;

/// The file in a data folder whose restore has not come to its end.
pub const MARK: &str = "restore-unfinished";

/// Why a backup could not be restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The backup cannot be used.
    #[error("the backup {} cannot be restored: {problem}", .dir.display())]
    Backup {
        dir: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The data folder cannot be written.
    #[error("{} cannot be written: {reason}", .path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        #[source]
        reason: io::Error,
    },
    /// The pool cannot be made a pool of its own.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The same for the journal.
    #[error(transparent)]
    Journal(#[from] StorageError),
}

#[derive(Debug)]
pub struct Restored {
    /// What the backup says of itself.
    pub manifest: Manifest,
    /// The epoch of the restored pool's positions.
    pub epoch: Epoch,
}

/// Copies the backup in `backup` into `data_dir`, which is empty but for its lock.
///
/// # Errors
/// See [`RestoreError`]; nothing that was written here is left then.
pub fn restore(backup: &Path, data_dir: &Path) -> Result<Restored, RestoreError> {
    let not_good = |problem| RestoreError::Backup {
        dir: backup.to_owned(),
        problem,
    };
    let manifest = Manifest::read(backup).map_err(not_good)?;
    check(&manifest).map_err(not_good)?;
    let mark = data_dir.join(MARK);
    let failed = |reason| RestoreError::Write {
        path: mark.clone(),
        reason,
    };
    new_file(&mark)
        .and_then(|file| file.sync_all())
        .and_then(|()| flush_folder(data_dir))
        .map_err(failed)?;
    let written = write(&manifest, backup, data_dir);
    if written.is_err() {
        for (file, _) in FILES {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(data_dir.join(format!("{file}{end}")));
            }
        }
    }
    std::fs::remove_file(&mark)
        .and_then(|()| flush_folder(data_dir))
        .map_err(failed)?;
    Ok(Restored {
        epoch: written?,
        manifest,
    })
}

/// Whether the manifest names what this version needs and knows.
fn check(manifest: &Manifest) -> Result<(), String> {
    for (needed, _) in FILES {
        if manifest.files.iter().all(|file| file.name != *needed) {
            return Err(format!("{needed} is not in its manifest"));
        }
    }
    for CopiedFile { name, format, .. } in &manifest.files {
        let by = &manifest.version;
        match FILES.iter().find(|(known, _)| known == name) {
            Some((_, known)) if format <= known => {}
            Some((_, known)) => {
                return Err(format!(
                    "{name} has format {format}, this version knows {known}; restore it with version {by} or a newer one"
                ));
            }
            None => {
                return Err(format!(
                    "its manifest names {name:?}, which this version does not know; restore it with version {by} or a newer one"
                ));
            }
        }
    }
    Ok(())
}

/// Writes every file; the epoch of the pool. Each is compared with its digest, because the backup may have been damaged
/// since.
fn write(manifest: &Manifest, backup: &Path, data_dir: &Path) -> Result<Epoch, RestoreError> {
    for file in &manifest.files {
        let path = data_dir.join(&file.name);
        let failed = |reason| RestoreError::Write {
            path: path.clone(),
            reason,
        };
        let mut copy = new_file(&path).map_err(failed)?;
        let source = backup.join(&file.name);
        if let Err(error) = File::open(&source) {
            return Err(RestoreError::Backup {
                dir: backup.to_owned(),
                problem: format!("{} cannot be read: {error}", file.name),
            });
        }
        let found = digest(&source, &mut copy, &AtomicBool::new(false)).map_err(failed)?;
        if found != (file.bytes, file.sha256.clone()) {
            return Err(RestoreError::Backup {
                dir: backup.to_owned(),
                problem: format!(
                    "{} is damaged: it is not what the manifest says, by its SHA-256; use another backup",
                    file.name
                ),
            });
        }
        copy.sync_all().map_err(failed)?;
    }
    let epoch = pool::copy::begin_anew(&data_dir.join(pool::FILE))?;
    journal::copy::begin_anew(&data_dir.join(journal::FILE), manifest.highest_seq)?;
    let flush = |file| File::open(data_dir.join(file))?.sync_all();
    flush(pool::FILE)
        .and_then(|()| flush(journal::FILE))
        .and_then(|()| flush_folder(data_dir))
        .map_err(|reason| RestoreError::Write {
            path: data_dir.to_owned(),
            reason,
        })?;
    Ok(epoch)
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn flush_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
