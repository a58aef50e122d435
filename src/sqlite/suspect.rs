//! Marks beside files that are damaged, or may be.
//!
//! Whoever meets damage while the daemon runs leaves one; the next start looks at the file before it uses it.
//!
//! **Invariant**: a mark is on disk when [`mark`] returns, or the damage will be met again.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::beside;

/// Where the mark of a file stands: `journal.db.suspect`.
pub fn mark_of(path: &Path) -> PathBuf {
    beside(path, ".suspect")
}

/// Marks a file, with what was met.
pub fn mark(path: &Path, reason: &str) {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(mark_of(path))?;
        writeln!(file, "{reason}")?;
        file.sync_all()?;
        path.parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    if let Err(error) = write() {
        tracing::warn!(file = %path.display(), %error, "a damaged file could not be marked");
    }
}

/// Whether any file in the folder is marked.
pub fn any_in(data_dir: &Path) -> bool {
    let entries = data_dir.read_dir().into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().ends_with(".db.suspect"))
}
