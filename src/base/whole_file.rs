//! Files that are whole or not there.
//!
//! Called where a small file takes the place of another one: a token, a list, a component.
//!
//! **Invariant**: after any crash the file is the one before or the one after.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file with these permission bits (less the process's umask), and has the disk keep it and its name. The
/// folder is flushed too, because the new name is in it.
///
/// # Errors
/// The system's. The file is the one before then, and nothing is left beside it.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)?;
        let folder = path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_one_before_where_it_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list.json");
        write(&path, b"one", 0o600).expect("room");
        write(&path, b"two", 0o600).expect("room");
        assert_eq!(std::fs::read(&path).expect("a file"), b"two");
        // A folder stands where the file should be: it cannot be renamed into place.
        let taken = folder.path().join("taken.json");
        std::fs::create_dir(&taken).expect("a folder");
        write(&taken, b"one", 0o600).expect_err("it is a folder");
        let left = std::fs::read_dir(folder.path()).expect("a folder");
        assert_eq!(left.count(), 2);
    }
}
