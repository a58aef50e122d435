//! Who uses a spool: one batcher of one program, whatever its language.
//!
//! **Invariant**: an owner is taken away only if it is dead for certain.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, code};
use crate::spool::private;
use crate::transport::wall_clock;
use crate::{lock, uuid};

/// How often an owner checks that the directory is still its own.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(10);
/// How long nothing changes in a directory that another machine has left.
const QUIET_MIN: Duration = Duration::from_secs(600);
/// After how long an owner that cannot be read was never finished.
const UNREADABLE_MIN: Duration = Duration::from_secs(60);

/// The directories of this process.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// What `.owner` says. What the system does not have is null.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OwnerFile {
    host: Option<String>,
    boot: Option<String>,
    pid: u32,
    started: Option<String>,
    /// Whether `.lock` is held, too.
    lock: bool,
    id: String,
}

pub(crate) struct Owner {
    folder: PathBuf,
    id: String,
    /// None where there is no lock, or it was left.
    lock: Mutex<Option<File>>,
    has_lock: bool,
}

fn in_use(folder: &Path, by: &str) -> Error {
    let folder = folder.display();
    Error::new(
        code::SPOOL_IN_USE,
        format!("the spool {folder} is used by {by}; give each its own directory"),
    )
}

impl Owner {
    /// Makes this process the owner of a directory.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let mut ours = lock(&IN_USE);
        if ours.contains(folder) {
            return Err(in_use(folder, "another batcher of this program"));
        }
        let wrong = |error: io::Error| {
            let folder = folder.display();
            Error::usage(format!("can't use the spool {folder}: {error}"))
        };
        let mut options = private();
        let file = options.create(true).truncate(false);
        let file = file.open(folder.join(".lock")).map_err(wrong)?;
        let held = match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => return Err(in_use(folder, "another program")),
            // A file system without locks: `.owner` is left.
            Err(TryLockError::Error(_)) => None,
        };
        let owner = Self {
            folder: folder.to_owned(),
            id: format!("{:016x}{:016x}", uuid::random(), uuid::random()),
            has_lock: held.is_some(),
            lock: Mutex::new(held),
        };
        let written = owner.write().map_err(wrong);
        if !matches!(written, Ok(true)) {
            drop(ours); // which an owner that is dropped asks for
            return written.and(Err(in_use(folder, "another program")));
        }
        ours.insert(folder.to_owned());
        Ok(owner)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(".owner")
    }

    /// Writes `.owner`; false if another program has it.
    fn write(&self) -> io::Result<bool> {
        let pid = std::process::id();
        let own = OwnerFile {
            host: text_of("/proc/sys/kernel/hostname"),
            boot: text_of("/proc/sys/kernel/random/boot_id"),
            pid,
            started: started(pid),
            lock: self.has_lock,
            id: self.id.clone(),
        };
        let text = serde_json::to_vec(&own)?;
        for _ in 0..3 {
            match private().create_new(true).open(self.path()) {
                Ok(mut file) => {
                    file.write_all(&text)?;
                    file.sync_data()?;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let Ok(found) = fs::read(self.path()) else {
                continue; // it went
            };
            if !self.is_dead(&found, &own) || !self.clear(&found) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether the owner of that text is certain to use the directory no more.
    fn is_dead(&self, text: &[u8], own: &OwnerFile) -> bool {
        let its: OwnerFile = match serde_json::from_slice(text) {
            Ok(its) => its,
            Err(_) => return is_older(&self.path(), UNREADABLE_MIN),
        };
        let same_boot = its.boot == own.boot;
        if same_boot && its.boot.is_some() && its.lock && self.has_lock {
            return true;
        }
        if its.host != own.host {
            return self.is_quiet();
        }
        // This process has no batcher for the directory.
        if its.boot.is_some() && !same_boot || its.pid == own.pid || is_gone(its.pid) {
            return true;
        }
        let now = started(its.pid);
        its.started.is_some() && now.is_some() && its.started != now
    }

    /// Nothing in the directory is younger than ten minutes.
    fn is_quiet(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return false;
        };
        entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                entry.file_name() == ".lock" || is_older(&entry.path(), QUIET_MIN)
            })
        })
    }

    /// Takes a dead owner away: under another name, where it is read again, for another program may be as fast.
    fn clear(&self, read: &[u8]) -> bool {
        let aside = self.folder.join(format!(".owner.{}", self.id));
        if fs::rename(self.path(), &aside).is_err() {
            return true; // it went
        }
        let is_right = fs::read(&aside).is_ok_and(|found| found == read);
        if !is_right {
            drop(fs::hard_link(&aside, self.path()));
        }
        drop(fs::remove_file(&aside));
        is_right
    }

    /// Whether the directory is still this one's. An owner that somebody deleted is written again.
    pub(crate) fn holds(&self) -> bool {
        match fs::read(self.path()) {
            Ok(text) => {
                let its: Result<OwnerFile, _> = serde_json::from_slice(&text);
                its.is_ok_and(|its| its.id == self.id)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.write().unwrap_or(true),
            Err(_) => true,
        }
    }

    /// Gives the directory back.
    pub(crate) fn leave(&self) {
        if lock(&IN_USE).remove(&self.folder) {
            let text = fs::read(self.path()).unwrap_or_default();
            let its: Result<OwnerFile, _> = serde_json::from_slice(&text);
            if its.is_ok_and(|its| its.id == self.id) {
                drop(fs::remove_file(self.path()));
            }
        }
        drop(lock(&self.lock).take());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.leave();
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| {
        wall_clock()
            .duration_since(modified)
            .is_ok_and(|old| old > age)
    })
}

fn text_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// When a process began, in the ticks of the system: field 22, counted behind its name, which may have blanks.
fn started(pid: u32) -> Option<String> {
    let text = text_of(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

/// Certain only where the system says which processes there are.
fn is_gone(pid: u32) -> bool {
    Path::new("/proc/self/stat").exists() && !Path::new(&format!("/proc/{pid}")).exists()
}
