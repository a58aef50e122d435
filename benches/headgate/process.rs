//! CPU time and memory of a process, as Linux counts them under `/proc`.
//!
//! Called by the rounds, before and after each.
//!
//! **Invariant:** only counters that the kernel adds up are read, nothing is sampled: CPU time of a whole process
//! is exact to 10 ms (`utime` + `stime`, threads that ended included), of a thread to the nanosecond (`schedstat`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Microseconds in one tick of `/proc/PID/stat`: USER_HZ is 100 wherever this runs.
const TICK_MICROS: f64 = 10_000.0;

/// One process, this one or a child.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    folder: PathBuf,
}

/// By thread id: its name and its CPU time in µs.
pub(crate) type Threads = BTreeMap<OsString, (String, f64)>;

/// Memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Resident now (VmRSS).
    pub(crate) resident: u64,
    /// Most that was ever resident, or since the last [`Process::reset_peak`] (VmHWM).
    pub(crate) peak: u64,
}

impl Process {
    /// The process with this id.
    pub(crate) fn new(id: u32) -> Self {
        Self {
            folder: PathBuf::from(format!("/proc/{id}")),
        }
    }

    /// The bench itself.
    pub(crate) fn own() -> Self {
        Self {
            folder: PathBuf::from("/proc/self"),
        }
    }

    /// CPU time so far, in µs, user and system, of all threads.
    pub(crate) fn cpu_micros(&self) -> io::Result<f64> {
        let stat = fs::read_to_string(self.folder.join("stat"))?;
        // The second field is the name in brackets and may hold anything, so count from its end.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let mut tick = || fields.next().and_then(|text| text.parse::<f64>().ok());
        match (tick(), tick()) {
            (Some(user), Some(system)) => Ok((user + system) * TICK_MICROS),
            _ => Err(io::Error::other("failed to read utime and stime")),
        }
    }

    /// CPU time so far of each thread; empty where the kernel has no `schedstat`.
    pub(crate) fn threads(&self) -> Threads {
        let mut threads = Threads::new();
        let entries = fs::read_dir(self.folder.join("task"));
        for task in entries.into_iter().flatten().flatten() {
            let name = fs::read_to_string(task.path().join("comm"));
            let schedstat = fs::read_to_string(task.path().join("schedstat"));
            if let (Ok(name), Ok(schedstat)) = (name, schedstat) {
                let name = name.trim().to_owned();
                threads.insert(task.file_name(), (name, nanos(&schedstat) / 1e3));
            }
        }
        threads
    }

    /// Memory now and at most.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        let status = fs::read_to_string(self.folder.join("status"))?;
        let kilobytes = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
                .ok_or_else(|| io::Error::other(format!("failed to find {name} in status")))
        };
        Ok(Memory {
            resident: kilobytes("VmRSS:")? * 1024,
            peak: kilobytes("VmHWM:")? * 1024,
        })
    }

    /// Begins a new peak. Where the kernel does not allow it the peak stays that of the whole life.
    pub(crate) fn reset_peak(&self) {
        let _ = fs::write(self.folder.join("clear_refs"), "5");
    }
}

/// CPU time of the calling thread in µs, if the kernel has `schedstat`.
pub(crate) fn own_thread_micros() -> Option<f64> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(nanos(&schedstat) / 1e3)
}

fn nanos(schedstat: &str) -> f64 {
    schedstat
        .split_ascii_whitespace()
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Idle and total time of the machine since it started, in ticks over all cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineTime {
    idle: f64,
    total: f64,
}

impl MachineTime {
    /// Reads the first line of `/proc/stat`.
    pub(crate) fn now() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let ticks: Vec<f64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|text| text.parse().ok())
            .collect();
        match ticks[..] {
            [_, _, _, idle, waiting, ..] => Ok(Self {
                idle: idle + waiting,
                total: ticks.iter().sum(),
            }),
            _ => Err(io::Error::other("failed to read /proc/stat")),
        }
    }

    /// Share of all cores that was busy since `earlier`, 0 to 1.
    pub(crate) fn busy_since(self, earlier: Self) -> f64 {
        let total = (self.total - earlier.total).max(1.0);
        1.0 - (self.idle - earlier.idle) / total
    }
}
