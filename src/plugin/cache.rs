//! Compiled plugins on disk, so that the second start compiles nothing.
//!
//! **Invariant**: only files that this module wrote, in a folder that only this user can write, and
//! whose checksum holds, are ever loaded. This is what makes the one unsafe call sound.
#![expect(unsafe_code, reason = "loading compiled code; argued at the call")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

const DIGEST_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Engine version, settings and processor features.
    compatibility: u64,
}

impl Cache {
    pub(super) fn open(folder: &Path, engine: &Engine) -> io::Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let metadata = std::fs::symlink_metadata(folder)?;
        if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(
                "the folder for compiled plugins is not a folder of this user; remove it",
            ));
        }
        if metadata.mode() & 0o022 != 0 {
            // Others could write here: what lies in it may be theirs.
            std::fs::remove_dir_all(folder)?;
            std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self {
            folder: folder.to_owned(),
            compatibility: hasher.finish(),
        })
    }

    pub(super) fn get(&self, engine: &Engine, source: &[u8]) -> Option<Component> {
        let file = std::fs::read(self.path(source)).ok()?;
        let (digest, compiled) = file.split_at_checked(DIGEST_BYTES)?;
        if Sha256::digest(compiled)[..] != *digest {
            return None;
        }
        // SAFETY: `deserialize` trusts its input to be what `Component::serialize` wrote. The file
        // lies in a folder of mode 0700 that belongs to this user, under a name made of the digest
        // of the source and of the engine's compatibility; only `put` below writes there, by
        // renaming complete files into place; and its checksum was just compared, so neither a torn
        // write nor a damaged disk can have changed it.
        let component = unsafe { Component::deserialize(engine, compiled) };
        component.ok()
    }

    pub(super) fn put(&self, source: &[u8], compiled: &[u8]) -> io::Result<()> {
        let path = self.path(source);
        let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&Sha256::digest(compiled))?;
        file.write_all(compiled)?;
        std::fs::rename(&unfinished, &path)
    }

    fn path(&self, source: &[u8]) -> PathBuf {
        let mut name = String::with_capacity(96);
        for byte in Sha256::digest(source) {
            name.push_str(&format!("{byte:02x}"));
        }
        self.folder
            .join(format!("{name}-{:016x}.cwasm", self.compatibility))
    }
}
