//! What the disk under the data folder takes for one durable write.
//!
//! Called at the start of the bench, before the daemon runs, and before each round whose aim depends on the disk:
//! on shared machines the same call takes 0.1 ms in one minute and 4 ms in the next.
//!
//! **Invariant:** measured on the file system that the journal will be on, with the call that a commit waits for.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::times::median;

/// Writes of the measurement at the start.
const WRITES: usize = 500;

/// Writes of a measurement between rounds.
const WRITES_BETWEEN: usize = 200;

/// One measurement ends after this, however slow the disk is.
const TIME_MAX: Duration = Duration::from_secs(3);

/// Median of one append of 4 KiB and fdatasync, in ms.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Fsync {
    /// With nothing else running.
    pub(crate) idle_ms: f64,
    /// With as many spinning threads as there are cores.
    pub(crate) busy_ms: f64,
}

/// Measures in `folder`, idle and with `cores` spinning threads.
pub(crate) fn measure(folder: &Path, cores: usize) -> io::Result<Fsync> {
    let path = folder.join("fsync.probe");
    let idle_ms = append(&path, WRITES)?;
    let stop = AtomicBool::new(false);
    let busy_ms = std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let busy = append(&path, WRITES);
        stop.store(true, Ordering::Relaxed);
        busy
    })?;
    std::fs::remove_file(path)?;
    Ok(Fsync { idle_ms, busy_ms })
}

/// The median in ms, measured again between two rounds.
pub(crate) fn measure_again(folder: &Path) -> io::Result<f64> {
    let path = folder.join("fsync.probe");
    let median_ms = append(&path, WRITES_BETWEEN)?;
    std::fs::remove_file(path)?;
    Ok(median_ms)
}

/// Waits until everything that was written so far is on the disk: pages that are changed from now on count again.
pub(crate) fn flush(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

fn append(path: &Path, writes: usize) -> io::Result<f64> {
    let mut file = File::options().create(true).append(true).open(path)?;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(writes);
    while times.len() < writes && begun.elapsed() < TIME_MAX {
        let write = Instant::now();
        file.write_all(&[b'.'; 4096])?;
        file.sync_data()?;
        times.push(write.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&times))
}
