//! The files of a sink: one flat folder below a directory that was configured at the start.
//!
//! A plugin whose sink has a `folder` table has a [`Folder`]; `host/files.rs` is the interface to the guest.
//!
//! **Invariant**: no name leads out of the folder: the parts of its path and its files are opened one by one, without
//! following links. When a call succeeds, its data is on the disk. Calls run one at a time, in order: a call that timed
//! out finishes before the next one writes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use tokio::sync::Mutex;

/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 200;
const FILES_MAX: usize = 10_000;
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Other programs read the files, under any user.
const FILE_MODE: Mode = Mode::from_bits_retain(0o644);
const DIR_MODE: Mode = Mode::from_bits_retain(0o755);
/// Name of an incomplete replacement of a file; no guest can use this name. A name of a guest never begins with a dot.
const UNFINISHED: &str = ".unfinished";

/// Directories below which sinks can have folders.
#[derive(Debug, Clone, Default)]
pub struct FolderRoots {
    /// The directory for relative paths; `None`: sinks have no folders.
    files: Option<PathBuf>,
    others: Vec<PathBuf>,
    /// The journal needs the rest of the disk.
    free_bytes_min: u64,
}

impl FolderRoots {
    /// The directories of a daemon. They are read at the start and not at a reload, because the daemon has restricted
    /// its own file access by then.
    pub fn of(data_dir: &Path, settings: &settings::Settings) -> Self {
        Self {
            files: Some(data_dir.join("files")),
            others: settings.plugins.folders.clone(),
            free_bytes_min: settings.storage.min_free_bytes,
        }
    }

    /// The directory for a plugin that is tried.
    pub fn only(folder: Option<&Path>) -> Self {
        Self {
            files: folder.map(Path::to_owned),
            others: folder.map(Path::to_owned).into_iter().collect(),
            free_bytes_min: 0,
        }
    }

    /// The folder with this path; `None` without directories or without a path. Creates and opens nothing.
    ///
    /// # Errors
    /// The path is below no configured directory.
    pub(super) fn folder(&self, path: &str) -> Result<Option<Arc<Folder>>, String> {
        let Some(files) = self.files.as_ref().filter(|_| !path.is_empty()) else {
            return Ok(None);
        };
        let path = Path::new(path);
        let (root, below) = match path.is_absolute() {
            false => (files, path),
            true => {
                let mut found = self.others.iter().filter_map(|root| {
                    let below = path.strip_prefix(root).ok()?;
                    Some((root, below))
                });
                found.next().ok_or_else(|| {
                    format!(
                        "{} lies below no folder of `plugins.folders`; add one there and restart the daemon, or give a relative path, which lies below `files` of the data directory",
                        path.display()
                    )
                })?
            }
        };
        Ok(Some(Arc::new(Folder {
            root: root.clone(),
            below: below.to_owned(),
            free_bytes_min: self.free_bytes_min,
            dir: Arc::default(),
        })))
    }
}

/// The folder of one sink.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    below: PathBuf,
    free_bytes_min: u64,
    /// The folder stays open, so that its parts are not opened again for each call.
    dir: Arc<Mutex<Option<OwnedFd>>>,
}

/// The folder during a call.
pub(super) struct Opened<'a> {
    dir: &'a OwnedFd,
    free_bytes_min: u64,
}

impl Folder {
    /// Runs a function on the folder, on a thread that may block. Creates the folder if it does not exist. The lock is
    /// held by the thread instead of the call, so that a call that timed out still ends before the next.
    pub(super) async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Opened<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let folder = Arc::clone(self);
        let mut dir = Arc::clone(&self.dir).lock_owned().await;
        let acting = move || {
            let opened = match dir.take() {
                Some(opened) => opened,
                None => folder.open()?,
            };
            let done = act(&Opened {
                dir: &opened,
                free_bytes_min: folder.free_bytes_min,
            });
            // One that was moved away meanwhile is looked for again.
            *dir = done.is_ok().then_some(opened);
            done
        };
        let done = tokio::task::spawn_blocking(acting).await;
        let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
        done.map_err(|error| format!("in the folder {}: {error}", self.path().display()))
    }

    fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// Parts below the root are opened one by one, because a link there could lead to any place.
    fn open(&self) -> io::Result<OwnedFd> {
        std::fs::create_dir_all(&self.root)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut dir = fs::open(&self.root, flags, Mode::empty())?;
        for part in &self.below {
            match fs::mkdirat(&dir, part, DIR_MODE) {
                Ok(()) => fs::chmodat(&dir, part, DIR_MODE, AtFlags::empty())?,
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            dir = fs::openat(&dir, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(dir)
    }
}

impl Opened<'_> {
    /// Truncates a file to this size, and appends, so that a call that is repeated after a crash writes no row twice.
    pub(super) fn append(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        named(name)?;
        self.fits(at, bytes)?;
        let found = self.existing(name)?;
        let is_new = found.is_none();
        let file = match found {
            Some(file) => file,
            None if at == 0 => self.made(name, OFlags::EXCL)?,
            None => return Err(io::Error::other(format!("{name} is gone"))),
        };
        if file.metadata()?.len() < at {
            return Err(io::Error::other(format!("{name} was cut by someone")));
        }
        file.set_len(at)?;
        file.write_all_at(bytes, at)?;
        file.sync_data()?;
        if is_new {
            fs::fsync(self.dir)?;
        }
        Ok(())
    }

    /// Replaces a file, unless it already has these bytes. The new content gets the name as a whole, so that a reader
    /// never sees half of it.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        named(name)?;
        if let Some(file) = self.existing(name)? {
            let mut found = vec![0; bytes.len()];
            let is_same = file.metadata()?.len() == bytes.len() as u64
                && file.read_exact_at(&mut found, 0).is_ok()
                && found == bytes;
            if is_same {
                return Ok(());
            }
        }
        self.fits(0, bytes)?;
        let file = self.made(UNFINISHED, OFlags::TRUNC)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        fs::renameat(self.dir, UNFINISHED, self.dir, name)?;
        Ok(fs::fsync(self.dir)?)
    }

    /// Truncates a file to this size, and renames it. A missing file is no error, because a repeated call finds it
    /// renamed already.
    pub(super) fn finish(&self, name: &str, at: u64, to: &str) -> io::Result<()> {
        named(name)?;
        named(to)?;
        let Some(file) = self.existing(name)? else {
            return Ok(());
        };
        if self.existing(to)?.is_some() {
            let message = format!("{name} cannot be finished, because there is a file {to}");
            return Err(io::Error::other(message));
        }
        if file.metadata()?.len() > at {
            file.set_len(at)?;
            file.sync_all()?;
        }
        fs::renameat(self.dir, name, self.dir, to)?;
        Ok(fs::fsync(self.dir)?)
    }

    /// The size of a file; `None` if it does not exist.
    pub(super) fn size(&self, name: &str) -> io::Result<Option<u64>> {
        named(name)?;
        let file = self.existing(name)?;
        file.map(|file| Ok(file.metadata()?.len())).transpose()
    }

    /// The names of all files.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if named(&name).is_ok() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A missing file is no error, so that the call can be repeated.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        named(name)?;
        match fs::unlinkat(self.dir, name, AtFlags::empty()) {
            Ok(()) => Ok(fs::fsync(self.dir)?),
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// An existing file. A link, or anything that is not a file, is an error. It is opened without waiting, because a
    /// pipe would otherwise block the sink.
    fn existing(&self, name: &str) -> io::Result<Option<std::fs::File>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match fs::openat(self.dir, name, flags, Mode::empty()) {
            Ok(file) => std::fs::File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(no_file(name)),
            Err(error) => return Err(error.into()),
        };
        match file.metadata()?.is_file() {
            true => Ok(Some(file)),
            false => Err(no_file(name)),
        }
    }

    /// A file that is new, or emptied. The mode is set again, because the umask of the process would remove rights of
    /// readers.
    fn made(&self, name: &str, how: OFlags) -> io::Result<std::fs::File> {
        if self.names()?.len() >= FILES_MAX {
            let message = format!("there are {FILES_MAX} files, the most; remove some");
            return Err(io::Error::other(message));
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
        let file = fs::openat(self.dir, name, flags, FILE_MODE)?;
        fs::fchmod(&file, FILE_MODE)?;
        Ok(file.into())
    }

    /// The free space is checked first, so that a sink does not take the disk from the journal.
    fn fits(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        if at.saturating_add(len) > FILE_BYTES_MAX {
            return Err(io::Error::other("a file has 1 GiB at most"));
        }
        let disk = fs::fstatvfs(self.dir)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < len.saturating_add(self.free_bytes_min) {
            return Err(io::Error::other(format!(
                "{free} bytes are free, and {} stay free (storage.min_free_bytes)",
                self.free_bytes_min
            )));
        }
        Ok(())
    }
}

fn no_file(name: &str) -> io::Error {
    io::Error::other(format!("{name} is a link, or no file"))
}

fn named(name: &str) -> io::Result<()> {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['/', '\0']);
    match is_plain {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "a name has 1 to {NAME_BYTES_MAX} bytes, no `/`, and no `.` at its beginning; this is {name:?}"
        ))),
    }
}

#[cfg(test)]
mod tests;
