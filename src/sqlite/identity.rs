//! Whether the files that are open are still those that their paths name.
//!
//! [`FailStop`](super::FailStop) asks it of all files of the data folder, a writer of its own files before each checkpoint.
//!
//! **Invariant**: no file is opened for it: a process that closes a file loses its own locks on it.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::beside;

/// An open file, by device and inode.
#[derive(Debug, Clone)]
pub struct Identity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of a file that is open.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self::from(path.to_owned(), &file.metadata()?))
    }

    /// Of a database that was just opened, and of what belongs to it.
    pub(super) fn of_database(path: &Path) -> Vec<Self> {
        let files = [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")];
        let files = files.into_iter();
        files
            .filter_map(|path| {
                let metadata = path.metadata().ok()?;
                Some(Self::from(path, &metadata))
            })
            .collect()
    }

    fn from(path: PathBuf, metadata: &Metadata) -> Self {
        Self {
            path,
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What happened to the file, if its path no longer names it. A path that cannot be looked at says nothing.
    pub fn lost(&self) -> Option<&'static str> {
        match self.path.metadata() {
            Ok(now) if now.dev() == self.device && now.ino() == self.inode => None,
            Ok(_) => Some("was replaced by another file"),
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
                .then_some("was moved or deleted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_lost_when_its_path_names_nothing_or_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("lock"), folder.path().join("other"));
        let identity = || Identity::of(&path, &File::create(&path).expect("a file"));
        let first = identity().expect("a file");
        assert_eq!(first.lost(), None);
        fs::write(&path, "written in place").expect("a file");
        assert_eq!(first.lost(), None);
        fs::rename(&path, &other).expect("a file");
        assert_eq!(first.lost(), Some("was moved or deleted"));
        let second = identity().expect("a file");
        assert_eq!(first.lost(), Some("was replaced by another file"));
        assert_eq!(second.lost(), None);
        fs::rename(&other, &path).expect("a file");
        assert_eq!(first.lost(), None);
        fs::remove_file(&path).expect("a file");
        assert_eq!(first.lost(), Some("was moved or deleted"));
    }
}
