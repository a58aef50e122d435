//! What a server uses: CPU time between two moments, and memory now.
//!
//! Called by the measurements before and after what they measure.
//!
//! **Invariant:** CPU time is what the kernel added up for the process, never a sample: to the nanosecond where each
//! thread's account is complete, else to 10 ms.

use std::fs;
use std::io;
use std::time::Instant;

use serde::Serialize;

use super::server::Server;
use crate::Result;
use crate::process::{MachineTime, Process, Threads};

/// Accounts of the threads that differ from that of the process by more than this miss a thread that ended.
const DIFFERENCE_MICROS_MAX: f64 = 30_000.0;

/// The counters of one server from a moment on.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    process: &'a Process,
    cpu: f64,
    threads: Threads,
    own_cpu: f64,
    machine: MachineTime,
    at: Instant,
}

/// What was used since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// CPU time of the server, user and system, µs.
    pub(crate) cpu_micros: f64,
    /// CPU time of the senders and renderers, µs.
    pub(crate) own_cpu_micros: f64,
    /// Share of all cores that both took, 0 to 1.
    pub(crate) busy: f64,
    /// Share of all cores that everything else on the machine took, to a few percent.
    pub(crate) others: f64,
}

impl<'a> Meter<'a> {
    /// Begins now.
    pub(crate) fn start(server: &'a Server) -> Result<Self> {
        let process = &server.process;
        Ok(Self {
            process,
            cpu: process.cpu_micros()?,
            threads: process.threads(),
            own_cpu: Process::own().cpu_micros()?,
            machine: MachineTime::now()?,
            at: Instant::now(),
        })
    }

    /// What was used until now.
    pub(crate) fn read(&self) -> Result<Used> {
        let ticks = self.process.cpu_micros()? - self.cpu;
        let exact: f64 = self
            .process
            .threads()
            .iter()
            .map(|(id, (_, micros))| micros - self.threads.get(id).map_or(0.0, |(_, at)| *at))
            .sum();
        let complete = (exact - ticks).abs() < DIFFERENCE_MICROS_MAX;
        let cpu_micros = if complete { exact } else { ticks };
        let own_cpu_micros = Process::own().cpu_micros()? - self.own_cpu;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let micros = self.at.elapsed().as_secs_f64() * 1e6 * cores as f64;
        let busy = (cpu_micros + own_cpu_micros) / micros;
        let all = MachineTime::now()?.busy_since(self.machine);
        Ok(Used {
            cpu_micros,
            own_cpu_micros,
            busy,
            others: (all - busy).max(0.0),
        })
    }
}

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    /// Resident.
    pub(crate) rss: f64,
    /// Resident, pages that are shared with other processes in proportion.
    pub(crate) pss: f64,
}

/// Memory of a server now.
pub(crate) fn memory(server: &Server) -> Result<Memory> {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id()))?;
    let bytes = |name: &str| {
        rollup
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok())
            .map(|kilobytes| kilobytes * 1024.0)
            .ok_or_else(|| io::Error::other(format!("failed to find {name} in smaps_rollup")))
    };
    Ok(Memory {
        rss: bytes("Rss:")?,
        pss: bytes("Pss:")?,
    })
}
