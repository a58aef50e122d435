//! Other processes that read a file at this moment: what keeps its write-ahead log from being copied back.
//!
//! **Invariant**: nothing of the file is opened: a process that closes a file loses its own locks on it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::beside;

/// The kernel's table of locks.
const LOCKS: &str = "/proc/locks";
/// Bytes of the map of shared memory that readers lock (SQLite's `WAL_READ_LOCK`).
const READ_MARKS: std::ops::RangeInclusive<u64> = 123..=127;

/// Those that can be seen from here: `sqlite3 (process 1234)`. Processes of other containers have no number here.
pub fn of(path: &Path) -> Vec<String> {
    let Ok(metadata) = beside(path, "-shm").metadata() else {
        return Vec::new();
    };
    let locks = std::fs::read_to_string(LOCKS).unwrap_or_default();
    let mut processes: Vec<u32> = locks
        .lines()
        .filter_map(|line| reader(line, metadata.ino()))
        .filter(|process| *process != std::process::id())
        .collect();
    processes.sort_unstable();
    processes.dedup();
    processes.into_iter().map(base::process::named).collect()
}

/// The process that holds a lock on a read mark: `3: POSIX  ADVISORY  READ 14345 fe:00:10559569 123 123`.
fn reader(line: &str, inode: u64) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "POSIX" || fields.next()? != "ADVISORY" || fields.next()? != "READ" {
        return None;
    }
    let process = fields.next()?.parse().ok()?;
    let (_, locked) = fields.next()?.rsplit_once(':')?;
    let first: u64 = fields.next()?.parse().ok()?;
    let is_reader = locked.parse() == Ok(inode) && READ_MARKS.contains(&first) && process > 0;
    is_reader.then_some(process)
}

#[cfg(test)]
mod tests;
