//! CPU time, memory and writes of a process, as Linux counts them under `/proc`.
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

use rustix::process::{Pid, Signal, kill_process};

/// Microseconds in one tick of `/proc/PID/stat`: USER_HZ is 100 wherever this runs.
const TICK_MICROS: f64 = 10_000.0;

/// Fields of `/proc/PID/stat` after the name: the parent, and user time, after which system time and both of the
/// children that were waited for stand.
const PARENT: usize = 1;
const UTIME: usize = 11;

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
        let ticks = self.stat::<2>(UTIME)?;
        Ok(ticks.iter().sum::<f64>() * TICK_MICROS)
    }

    /// The same with every process that this one started, directly or not: those that run, and those that ended and
    /// were waited for.
    pub(crate) fn tree_cpu_micros(&self) -> io::Result<f64> {
        let mut ticks: f64 = self.stat::<4>(UTIME)?.iter().sum();
        for child in self.descendants()? {
            ticks += child.stat::<4>(UTIME).map_or(0.0, |own| own.iter().sum());
        }
        Ok(ticks * TICK_MICROS)
    }

    /// Resident bytes with every process that this one started and that still runs.
    pub(crate) fn tree_resident(&self) -> io::Result<u64> {
        let children = self.descendants()?;
        let children = children.iter().filter_map(|child| child.memory().ok());
        Ok(self.memory()?.resident + children.map(|memory| memory.resident).sum::<u64>())
    }

    /// Ends every process below this one at once.
    pub(crate) fn kill_descendants(&self) {
        for child in self.descendants().unwrap_or_default() {
            if let Some(id) = child.id().and_then(Pid::from_raw) {
                let _ = kill_process(id, Signal::KILL);
            }
        }
    }

    fn id(&self) -> Option<i32> {
        self.folder.file_name()?.to_str()?.parse().ok()
    }

    /// The processes below this one.
    fn descendants(&self) -> io::Result<Vec<Self>> {
        let mut parents = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            // Whatever ended meanwhile has no parent any more.
            if let Some(id) = name.to_str().and_then(|name| name.parse().ok())
                && let Ok([parent]) = Self::new(id).stat::<1>(PARENT)
            {
                parents.push((id, parent));
            }
        }
        let mut found: Vec<u32> = self
            .id()
            .and_then(|id| id.try_into().ok())
            .into_iter()
            .collect();
        let mut next = 0;
        while let Some(&id) = found.get(next) {
            let children = parents
                .iter()
                .filter(|(_, parent)| *parent == f64::from(id));
            found.extend(children.map(|(child, _)| *child));
            next += 1;
        }
        Ok(found.into_iter().skip(1).map(Self::new).collect())
    }

    /// So many numbers of `/proc/PID/stat` from the field `first` on, counted after the name.
    fn stat<const COUNT: usize>(&self, first: usize) -> io::Result<[f64; COUNT]> {
        let stat = fs::read_to_string(self.folder.join("stat"))?;
        // The second field is the name in brackets and may hold anything, so count from its end.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let numbers: Option<Vec<f64>> = fields
            .split_ascii_whitespace()
            .skip(first)
            .take(COUNT)
            .map(|text| text.parse().ok())
            .collect();
        numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| io::Error::other("failed to read /proc/PID/stat"))
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

    /// Bytes that it had written to disk so far: whole pages of files, each counted when it is changed and not when it
    /// reaches the disk, less those of files that were cut before it did. A page that is changed again before it reached
    /// the disk counts once. What the file system writes for itself is not in it. Of a daemon only root may read this.
    pub(crate) fn written_bytes(&self) -> io::Result<u64> {
        let io = fs::read_to_string(self.folder.join("io"))?;
        let bytes = |name: &str| -> io::Result<u64> {
            io.lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|rest| rest.trim().parse().ok())
                .ok_or_else(|| io::Error::other(format!("failed to find {name} in io")))
        };
        Ok(bytes("write_bytes:")?.saturating_sub(bytes("cancelled_write_bytes:")?))
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
