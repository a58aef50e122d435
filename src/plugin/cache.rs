//! Cache of compiled plugins on disk, so that the second start compiles nothing. Code is mapped and not read, so the
//! daemon's memory holds only the used part.
//!
//! **Invariant**: a file is loaded only if this module wrote it, its directory is writable only by this user, and its
//! checksum is correct. Therefore the unsafe calls are sound.
#![expect(unsafe_code, reason = "loading compiled code; argued at the calls")]

use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use base::text::hex;

/// A SHA-256.
pub(super) type Digest = [u8; DIGEST_BYTES];

const DIGEST_BYTES: usize = 32;
/// Suffix of the name of an incomplete file. The next start finds and removes what a kill left.
const UNFINISHED: &str = "unfinished";

#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Engine version, settings and processor features. It is part of the name, so that code of another version is
    /// never loaded.
    compatibility: u64,
    /// A temporary directory of this process. Its code stays mapped when the directory is removed.
    temporary: bool,
    /// Locks the directory for this process: two processes that write a file with the same name would mix its bytes. A
    /// shared directory has no lock: its complete files never change, and an incomplete file has a unique name.
    _lock: Option<File>,
}

impl Cache {
    /// Opens the cache in its own directory, unless another process uses it. What others could have written is removed,
    /// because loaded code is trusted.
    pub(super) fn open(folder: &Path, engine: &Engine) -> io::Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let metadata = std::fs::symlink_metadata(folder)?;
        if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(
                "the directory for compiled plugins does not belong to this user; remove it",
            ));
        }
        if metadata.mode() & 0o022 != 0 {
            // Others could write here: what lies in it may be theirs.
            std::fs::remove_dir_all(folder)?;
            std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        let cache = Self::new(folder.to_owned(), engine, false)?;
        for file in std::fs::read_dir(folder)? {
            // What a process left behind that was killed.
            let path = file?.path();
            if path.extension().is_some_and(|end| end == UNFINISHED) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(cache)
    }

    /// The path of the cache below a directory that a user names. It needs its own directory there, because a cache
    /// removes unknown files.
    ///
    /// # Errors
    /// Other users can write there, and could replace the directory.
    pub(super) fn within(folder: &Path) -> io::Result<PathBuf> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        if std::fs::metadata(folder)?.mode() & 0o022 != 0 {
            return Err(io::Error::other(
                "other users can write to it; use a directory that only you can write to (chmod go-w)",
            ));
        }
        Ok(folder.join("plugin-cache"))
    }

    /// Creates a cache for this process in a new directory, which is removed at its end. The name is random and must be
    /// new, so that nobody can prepare the directory.
    pub(super) fn temporary(engine: &Engine) -> io::Result<Self> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let folder = std::env::temp_dir().join(format!("headgate-{number:016x}"));
        // Fails where there is something already, whoever put it there.
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Self::new(folder, engine, true)
    }

    /// Opens the cache of a daemon, which may be locked. It is only read; [`adopt`](Self::adopt) adds files. A
    /// directory of another user is refused, because that user could replace the code.
    pub(super) fn shared(folder: &Path, engine: &Engine) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let data_dir = folder.parent().unwrap_or(folder);
        if std::fs::metadata(data_dir)?.uid() != user {
            return Err(io::Error::other("it is not a folder of this user"));
        }
        let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
        made.or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
        let metadata = std::fs::symlink_metadata(folder)?;
        if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is not a folder of this user alone"));
        }
        Ok(Self::of(folder.to_owned(), engine, false, None))
    }

    /// Moves a file from a cache of this process. No other process uses this name before the file is complete.
    pub(super) fn adopt(&self, other: &Self, source: &Digest) -> io::Result<()> {
        let path = self.path(source);
        let unfinished = path.with_extension(format!("of-{}.{UNFINISHED}", std::process::id()));
        let copied = std::fs::copy(other.path(source), &unfinished)
            .and_then(|_| std::fs::rename(&unfinished, &path));
        if copied.is_err() {
            // The folder may be full; whoever opens the cache removes it otherwise.
            let _ = std::fs::remove_file(&unfinished);
        }
        copied
    }

    fn new(folder: PathBuf, engine: &Engine, temporary: bool) -> io::Result<Self> {
        let lock = File::open(&folder)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::other("another process uses it; use a different directory")
            }
            TryLockError::Error(error) => error,
        })?;
        Ok(Self::of(folder, engine, temporary, Some(lock)))
    }

    fn of(folder: PathBuf, engine: &Engine, temporary: bool, lock: Option<File>) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self {
            folder,
            compatibility: hasher.finish(),
            temporary,
            _lock: lock,
        }
    }

    /// The compiled component with this source digest, if it is in the cache. The checksum is compared before each
    /// load, because a damaged file would run as code.
    pub(super) fn get(&self, engine: &Engine, source: &Digest) -> Option<Component> {
        let path = self.path(source);
        let mut file = File::open(&path).ok()?;
        let len = file.metadata().ok()?.len();
        let code_len = len.checked_sub(DIGEST_BYTES as u64)?;
        if digest(&mut file, code_len).ok()? != trailer(&mut file).ok()? {
            return None;
        }
        // SAFETY: `deserialize_file` trusts the file to be what `Engine::precompile_component` or
        // `Component::serialize` wrote, and to stay so while it is mapped. It lies in a folder of mode
        // 0700 that belongs to this user, under a name made of the digest of the source and of the
        // engine's compatibility. Only `Unfinished` below and `adopt`, which copies what that made, put
        // files there, by renaming complete ones into place and never writing to one again; what it was given is the output of this module's
        // parent in this process or of the same program, started by it, that reported success. The
        // checksum was just compared, so neither a torn write nor a damaged disk has changed it. The
        // digest at its end lies behind all sections and is not looked at.
        let mapped = unsafe { Component::deserialize_file(engine, &path) };
        if let Ok(component) = mapped {
            return Some(component);
        }
        // A file system without executable files takes no mapping; a copy in memory does.
        let mut code = Vec::new();
        file.rewind().ok()?;
        file.take(code_len).read_to_end(&mut code).ok()?;
        // SAFETY: as above, of the same bytes; the file is open since before the comparison.
        let copied = unsafe { Component::deserialize(engine, code) };
        copied.ok()
    }

    /// Creates a file for the compiled code of a source. Each has a number, because two lanes may compile the same
    /// component at one time.
    pub(super) fn begin(&self, source: &Digest) -> io::Result<Unfinished> {
        let path = self.path(source);
        // Two lanes may compile the same.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{number}.{UNFINISHED}"));
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?;
        Ok(Unfinished {
            file,
            unfinished,
            path,
        })
    }

    fn path(&self, source: &Digest) -> PathBuf {
        let name = format!("{}-{:016x}.cwasm", hex(source), self.compatibility);
        self.folder.join(name)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if self.temporary {
            // What is mapped stays.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A file that is not in the cache until [`finish`](Self::finish) is called.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    /// The file for the compiled code.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Adds the checksum and moves the file into the cache. The file gets its name last, so that no process loads half
    /// of it.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let digest = digest(&mut self.file, len)?;
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(&digest)?;
        std::fs::rename(&self.unfinished, &self.path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Where it was finished there is nothing left of this name.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// The checksum of the first `len` bytes.
fn digest(file: &mut File, len: u64) -> io::Result<Digest> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    io::copy(&mut file.take(len), &mut hasher)?;
    Ok(hasher.finalize().into())
}

/// The last bytes of a file.
fn trailer(file: &mut File) -> io::Result<Digest> {
    let mut trailer = [0; DIGEST_BYTES];
    file.seek(SeekFrom::End(-(DIGEST_BYTES as i64)))?;
    file.read_exact(&mut trailer)?;
    Ok(trailer)
}
