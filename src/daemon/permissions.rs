//! Who may read the data folder: this user, and others `pool.db` if `storage.pool_mode` says so.
//!
//! A folder may have been there before, and earlier versions made files as the umask said.
//!
//! **Invariant**: only what is the daemon's own is touched. A folder that holds other things too keeps its mode, and a
//! symbolic link is not followed.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use backup::restore::MARK;
use settings::PoolMode;

/// What there is beside the databases.
const OTHERS: &[&str] = &[
    "admin.token",
    "admin.unfinished",
    "backups",
    "ballast",
    "demo.toml",
    "lock",
    "lost+found",
    "pages",
    "plugin-cache",
    "plugins",
    "repairs.json",
    MARK,
];
/// Those of them that others may put there, and that are no secret.
const LEFT: &[&str] = &["lost+found", "pages", "plugins"];
/// The files that any SQLite client needs to read the pool.
const POOL_ENDS: &[&str] = &["", "-wal", "-shm"];
/// What a mode says of others than the owner.
const OF_OTHERS: u32 = 0o077;

/// Takes from other users what they may do with the folder and what is in it, and says so.
pub(super) fn close(data_dir: &Path, pool_mode: PoolMode) {
    let mut found = Found::default();
    if let Err(error) = look(data_dir, pool_mode, &mut found) {
        found.left.push(format!("{} ({error})", data_dir.display()));
    }
    let data_dir = data_dir.display();
    if !found.closed.is_empty() {
        tracing::warn!(
            %data_dir,
            "other users could read these files of the data directory; their access was removed: {}",
            found.closed.join(", ")
        );
    }
    if !found.left.is_empty() {
        tracing::warn!(
            %data_dir,
            "other users may be able to read these files of the data directory, and their mode cannot be changed: {}",
            found.left.join(", ")
        );
    }
    if found.shared {
        tracing::warn!(
            %data_dir,
            "the data directory contains other files too, so its mode is unchanged; a separate directory would be closed to other users"
        );
    }
}

/// Gives the files of the pool their mode. SQLite gives those beside it, whenever it makes them, the mode of the first.
pub(super) fn open_pool(data_dir: &Path, pool_mode: PoolMode) {
    let mut found = Found::default();
    for end in POOL_ENDS {
        let name = format!("{}{end}", pool::FILE);
        found.give(&data_dir.join(&name), &name, pool_mode.of_others());
    }
    for file in found.left {
        tracing::warn!("storage.pool_mode cannot be given to {file}");
    }
}

#[derive(Default)]
struct Found {
    /// What others could read.
    closed: Vec<String>,
    /// What they can read still, and why.
    left: Vec<String>,
    /// Others can see names in the folder, which is not the daemon's alone.
    shared: bool,
}

impl Found {
    /// Gives what others may do with a file or folder. What is not there is nobody's to read.
    fn give(&mut self, path: &Path, name: &str, of_others: u32) {
        let Ok(metadata) = path.symlink_metadata() else {
            return;
        };
        let mode = metadata.mode() & 0o7777;
        let wanted = mode & !OF_OTHERS | of_others;
        if metadata.is_symlink() || mode == wanted {
            return;
        }
        let permissions = std::fs::Permissions::from_mode(wanted);
        match std::fs::set_permissions(path, permissions) {
            Ok(()) if mode & !wanted != 0 => self.closed.push(name.to_owned()),
            Ok(()) => {}
            Err(error) => self.left.push(format!("{name} ({error})")),
        }
    }
}

fn look(data_dir: &Path, pool_mode: PoolMode, found: &mut Found) -> io::Result<()> {
    let mut is_shared = false;
    for entry in data_dir.read_dir()? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let mut databases = [catalog::FILE, journal::FILE, pool::FILE].into_iter();
        let is_pool = (POOL_ENDS.iter()).any(|end| name.strip_prefix(pool::FILE) == Some(end));
        if is_pool {
            found.give(&data_dir.join(&*name), &name, pool_mode.of_others());
        } else if databases.any(|file| name.starts_with(file)) || OTHERS.contains(&&*name) {
            if !LEFT.contains(&&*name) {
                found.give(&data_dir.join(&*name), &name, 0);
            }
        } else {
            is_shared = true;
        }
    }
    let of_others = pool_mode.of_others_in_folder();
    match is_shared {
        true => found.shared = data_dir.metadata()?.mode() & OF_OTHERS & !of_others != 0,
        false => found.give(data_dir, "the directory itself", of_others),
    }
    Ok(())
}
