//! The folder of a backup while it is made.
//!
//! **Invariant**: the manifest is written last and whole, or what was written is taken away.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::manifest::Manifest;
use super::{BackupError, FILES, MANIFEST};

/// A manifest that is being written.
const UNFINISHED: &str = "manifest.json.unfinished";

/// The folder of a backup; emptied again if it is dropped before [`Folder::finish`].
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// It was made here and goes with what is in it.
    made: bool,
    finished: bool,
}

impl Folder {
    pub(super) fn claim(path: &Path) -> Result<Self, BackupError> {
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
    pub(super) fn finish(mut self, manifest: &Manifest) -> Result<(), BackupError> {
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

pub(super) fn cannot_use(path: &Path, error: &io::Error) -> BackupError {
    BackupError::Folder(format!(
        "cannot use the folder {}: {error}; the folder above it must be there, and the daemon must be allowed to write to it",
        path.display()
    ))
}

pub(super) fn write_failed(path: &Path, reason: io::Error) -> BackupError {
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
