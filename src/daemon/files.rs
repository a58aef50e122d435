//! The data folder and its lock.
//!
//! **Invariant**: one daemon at a time uses a data folder.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{getegid, geteuid};
use tokio_util::sync::CancellationToken;

use super::DaemonError;
use base::clock;
use plugin::store::Store;
use sqlite::{FailStop, Identity};

/// Makes the folder if it is missing, for this user only.
pub(super) fn open_folder(path: &Path) -> Result<PathBuf, DaemonError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.and_then(|()| std::fs::canonicalize(path))
        .map_err(|error| {
            DaemonError::DataFolder(format!(
                "cannot create the data directory {}: {error}; choose another one with storage.data_dir",
                path.display()
            ))
        })
}

/// How long a lock is waited for: a process that was killed, or began another one, may have it for a moment more.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Locks a file, unless somebody has it for longer. The system releases the lock with the process, so that a kill
/// leaves none.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing has begun before the lock is there"
)]
fn locked(file: &File) -> bool {
    let deadline = Instant::now() + LOCK_WAIT;
    while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOCK_WAIT / 20);
    }
    true
}

/// The lock on a data folder; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// The file is locked before its content is replaced, so that it names the process that has the lock.
    pub(super) fn take(data_dir: &Path) -> Result<Self, DaemonError> {
        let path = data_dir.join("lock");
        let failed = |error: std::io::Error| {
            let next = match error.kind() {
                ErrorKind::PermissionDenied => who_must_write(data_dir),
                _ => String::new(),
            };
            DaemonError::DataFolder(format!("cannot open {}: {error}{next}", path.display()))
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        if !locked(&file) {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            return Err(DaemonError::DataFolder(format!(
                "the data directory is in use by another headgate (process {}): {}; stop that process, or set a different storage.data_dir",
                holder.trim(),
                data_dir.display()
            )));
        }
        // For people: a disk that is full must not keep the daemon from starting.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { path, file })
    }

    /// The file that is locked. It is watched, because a second daemon could lock a new file in its place.
    pub(super) fn identity(&self) -> Option<Identity> {
        Identity::of(&self.path, &self.file).ok()
    }
}

/// Whose the data folder must be, for who may not write there.
fn who_must_write(data_dir: &Path) -> String {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    format!(
        "; {} must belong to the user {user} of this process, or to its group {group} with mode 0770",
        data_dir.display()
    )
}

/// Looks each second whether the files that are open are those of the data folder, until it is stopped.
pub(super) async fn keep_watch(fail_stop: FailStop, stop: CancellationToken) {
    loop {
        fail_stop.check_files();
        let due = tokio::time::sleep_until(clock::next_second().into());
        if stop.run_until_cancelled(due).await.is_none() {
            return;
        }
    }
}

/// A folder that was empty, locked for what becomes of it. Left as it was found, unless it is kept. The lock keeps a
/// daemon from starting on what is not complete.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Its absolute path.
    pub(super) path: PathBuf,
    made: bool,
    keep: bool,
    _lock: Lock,
}

impl Claimed {
    pub(super) fn empty(path: &Path) -> Result<Self, DaemonError> {
        let made = !path.exists();
        let path = open_folder(path)?;
        let entries = std::fs::read_dir(&path)
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .map_err(|error| {
                DaemonError::DataFolder(format!("cannot read {}: {error}", path.display()))
            })?;
        if entries.iter().any(|entry| entry.file_name() == "lock") {
            // Whoever uses it is named.
            Lock::take(&path)?;
        }
        // A file system of its own may have brought that.
        if entries
            .iter()
            .any(|entry| entry.file_name() != "lost+found")
        {
            return Err(DaemonError::DataFolder(format!(
                "the directory {} is not empty; name one that is missing or empty",
                path.display()
            )));
        }
        Ok(Self {
            _lock: Lock::take(&path)?,
            path,
            made,
            keep: false,
        })
    }

    pub(super) fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let _ = std::fs::remove_file(self.path.join("lock"));
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Makes the folder of plugins if there is none, and finishes what was interrupted in it.
pub(super) fn open_plugins(folder: &Path) -> Result<(), DaemonError> {
    open_folder(folder)?;
    if let Err(error) = Store::of(folder).recover() {
        tracing::warn!(%error, "an interrupted change of the plugins cannot be finished; sinks use the files as they are");
    }
    Ok(())
}
