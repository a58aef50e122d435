//! The speed of a disk: the time of a flush, and the rate of a sequential write.
//!
//! The bench calls it on a thread that can block.
//!
//! **Invariant**: its file is removed at the end and after a failure, and uses only a small share of the free space.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::times::Times;

/// The data before each flush: a page of a database, roughly as much as a small commit writes.
const PAGE: [u8; 4_096] = [b'.'; 4_096];
const CHUNK_BYTES: usize = 1 << 20;
/// The maximum of written bytes, and the free bytes that each of them requires.
const BYTES_MAX: u64 = 256 << 20;
const FREE_FOR_EACH: u64 = 16;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Disk {
    pub(super) folder: PathBuf,
    /// An append of 4 KiB, including its flush.
    pub(super) fsync: Times,
    /// Rate of a sequential write, including the flush at its end; `None`: too little free space.
    pub(super) write_bytes_per_second: Option<f64>,
}

/// A file that is removed when the probe is dropped.
struct Probe {
    path: PathBuf,
    file: File,
}

impl Probe {
    fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("bench-{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Measures in a directory for `time`.
pub(super) fn measure(folder: &Path, time: Duration) -> io::Result<Disk> {
    let mut probe = Probe::create(folder)?;
    let begun = Instant::now();
    let mut flushes = Vec::new();
    while flushes.is_empty() || begun.elapsed() < time / 2 {
        let flush = Instant::now();
        probe.file.write_all(&PAGE)?;
        probe.file.sync_data()?;
        flushes.push(flush.elapsed());
    }
    let bytes = BYTES_MAX.min(free_bytes(folder)? / FREE_FOR_EACH);
    Ok(Disk {
        folder: folder.to_owned(),
        fsync: Times::of(flushes),
        write_bytes_per_second: write(&mut probe.file, bytes, time / 2)?,
    })
}

fn write(file: &mut File, bytes_max: u64, time: Duration) -> io::Result<Option<f64>> {
    let chunk = vec![b'.'; CHUNK_BYTES];
    let (begun, mut written) = (Instant::now(), 0);
    while written + CHUNK_BYTES as u64 <= bytes_max && begun.elapsed() < time {
        file.write_all(&chunk)?;
        written += CHUNK_BYTES as u64;
    }
    file.sync_data()?;
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    Ok((written > 0).then(|| written as f64 / seconds))
}

/// Whether a directory is in memory, where a flush costs nothing; `false` where the system does not report it.
pub(super) fn is_in_memory(folder: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        const TMPFS: rustix::fs::FsWord = 0x0102_1994;
        rustix::fs::statfs(folder).is_ok_and(|system| system.f_type == TMPFS)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        false
    }
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_nothing_stays_on_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = measure(folder.path(), Duration::from_millis(20)).expect("a disk");
        assert!(disk.fsync.count > 0 && disk.fsync.max_ms > 0.0, "{disk:?}");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0);
        let missing = folder.path().join("missing");
        assert!(measure(&missing, Duration::ZERO).is_err());
    }

    #[test]
    fn without_room_no_rate_is_made_up() {
        let mut file = tempfile::tempfile().expect("a file");
        let rate = write(&mut file, CHUNK_BYTES as u64 - 1, Duration::from_secs(1));
        assert_eq!(rate.expect("a disk"), None);
    }
}
