//! A file that only takes up room, so that a start on a full disk has some.
//!
//! A disk that is full has no room for the indexes of write-ahead logs either, without which no file can be opened, and
//! nothing could be deleted to make room. The start gives the ballast up when it needs to; the watch makes it again
//! when there is room.
//!
//! **Invariant**: the ballast holds nothing, and its loss never matters.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

const NAME: &str = "ballast";
/// Room for the indexes of three write-ahead logs, and for deleting something.
const BYTES: u64 = 2 << 20;

/// Makes it, if it is not there. That it cannot be made hurts nobody yet. Its blocks are allocated, because a sparse
/// file would take none.
pub(super) fn keep(data_dir: &Path) {
    let path = data_dir.join(NAME);
    if path.metadata().is_ok_and(|found| found.len() >= BYTES) {
        return;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    let kept = file.is_ok_and(|file| fallocate(&file, FallocateFlags::empty(), 0, BYTES).is_ok());
    if !kept {
        give_up(data_dir);
    }
}

/// Gives its room back; false if there was none.
pub(super) fn give_up(data_dir: &Path) -> bool {
    std::fs::remove_file(data_dir.join(NAME)).is_ok()
}
