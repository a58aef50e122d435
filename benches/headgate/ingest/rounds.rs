//! One round: a fixed time of load on one server, and everything that is read off it.
//!
//! Called by the bench's main file, which interleaves the rounds of the daemon with those of the floors.
//!
//! **Invariant:** a round of the daemon ends when the pool holds every item that was accepted in it, and its CPU
//! time includes that work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::load::{Load, Outcome, Source};
use super::payload::{ARRAY_ITEMS, Keys, Requests, Revisions, Shape};
use super::pool::{PoolReader, ProbeTimes, probe, send_mark};
use super::server::{Daemon, Server};
use crate::process::{MachineTime, Process, Threads};
use crate::times::Times;
use crate::{Result, disk};

/// Above this share of its time a core, or a thread, counts as used up.
const SATURATED: f64 = 0.9;

/// What one round showed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    /// 202s, or what else a server answers to what it accepts.
    pub(crate) accepted: u64,
    /// Other answers, by status.
    pub(crate) refused: BTreeMap<u16, u64>,
    /// Requests that ended in a broken connection.
    pub(crate) broken: u64,
    /// 202s in a second, first sent to last answered.
    pub(crate) requests_per_second: f64,
    /// Items in a second, first sent to everything in the pool (floor: to last answered).
    pub(crate) items_per_second: f64,
    /// Request to 202.
    pub(crate) accepted_ms: Times,
    /// Request to the item in the pool, of probes on a connection of their own; the floor has no pool.
    pub(crate) pooled_ms: Option<Times>,
    /// Server CPU time for each request, µs.
    pub(crate) cpu_micros_per_request: f64,
    /// Server CPU time for each item, µs.
    pub(crate) cpu_micros_per_item: f64,
    /// The same for each request, by the server's thread names.
    pub(crate) threads: BTreeMap<String, f64>,
    /// Most memory in this round, bytes.
    pub(crate) peak_bytes: u64,
    /// Bytes that the server had written to disk in this round, if that can be read.
    pub(crate) written_bytes: Option<u64>,
    /// Share of all cores that was busy while requests were sent.
    pub(crate) busy: f64,
    /// What was used up, if anything: then CPU is the limit and not the disk.
    pub(crate) saturated: Option<String>,
}

impl Round {
    /// Whether every request was answered 202.
    pub(crate) fn all_accepted(&self) -> bool {
        self.refused.is_empty() && self.broken == 0
    }
}

/// A daemon and where its data is.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The child.
    pub(crate) daemon: &'a Daemon,
    /// The folder of `pool.db`.
    pub(crate) data_dir: &'a Path,
}

/// Load of `shape` on the empty handler.
pub(crate) fn floor_round(
    server: &Server,
    shape: Shape,
    duration: Duration,
    revisions: &Revisions,
) -> Result<Round> {
    let load = Load::new(server.service, duration);
    answered_round(server, shape, load, fresh(shape, revisions))
}

/// Load of `shape` on a server that is done with a request when it answers it.
pub(crate) fn answered_round(
    server: &Server,
    shape: Shape,
    load: Load,
    sources: Vec<Source>,
) -> Result<Round> {
    let meter = Meter::start(&server.process)?;
    let outcome = load.run(sources)?;
    let answered = meter.read()?;
    meter.finish(shape, outcome, None, answered, None)
}

/// Load of `shape` on the daemon, until the pool has everything.
pub(crate) fn daemon_round(
    target: Target<'_>,
    shape: Shape,
    duration: Duration,
    revisions: &Revisions,
    name: &str,
) -> Result<(Round, ProbeTimes)> {
    let service = target.daemon.server.service;
    disk::flush(target.data_dir)?;
    let meter = Meter::start(&target.daemon.server.process)?;
    let sources = fresh(shape, revisions);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let probes = scope.spawn(|| probe(service, target.data_dir, name, &stop));
        let load = Load::new(service, duration);
        let ended = load.run(sources).and_then(|outcome| {
            let answered = meter.read()?;
            Ok((outcome, answered, settle(target, name)?))
        });
        stop.store(true, Ordering::Relaxed);
        let probes = probes.join().map_err(|_| "the probe panicked")?;
        let (outcome, answered, pooled) = ended?;
        let probes = probes?;
        let times = Times::from_micros(probes.pooled.iter().copied());
        let round = meter.finish(shape, outcome, Some(pooled), answered, Some(times))?;
        Ok((round, probes))
    })
}

/// Single requests, one after the other, on a daemon that has nothing else to do.
pub(crate) fn alone(target: Target<'_>, duration: Duration) -> Result<ProbeTimes> {
    let stop = AtomicBool::new(false);
    let service = target.daemon.server.service;
    std::thread::scope(|scope| {
        let probes = scope.spawn(|| probe(service, target.data_dir, "alone", &stop));
        std::thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        probes.join().map_err(|_| "the probe panicked")?
    })
}

/// Sends every key of a shape once, in arrays, so that its rounds only update, as those of the plain upsert do.
pub(crate) fn fill(target: Target<'_>, shape: Shape, revisions: &Revisions) -> Result<()> {
    let requests = Requests::every_key(shape, revisions);
    let load = Load {
        requests_max: shape.keys() / ARRAY_ITEMS as u64,
        ..Load::new(target.daemon.server.service, Duration::from_secs(60))
    };
    let outcome = load.run(vec![Source::Fresh(Box::new(requests))])?;
    if outcome.accepted * (ARRAY_ITEMS as u64) < shape.keys() {
        return Err(format!("failed to fill the pool: {:?}", outcome.refused).into());
    }
    settle(target, &format!("fill-{}", shape.name())).map(|_| ())
}

/// More connections than the daemon can serve at once, each sending as fast as it is answered.
pub(crate) fn overload(
    target: Target<'_>,
    shape: Shape,
    connections: usize,
    duration: Duration,
    revisions: &Revisions,
) -> Result<Round> {
    let mut requests = Requests::new(shape, Keys::of(shape, 0), revisions);
    let bytes: Arc<[u8]> = requests.next().into();
    let sources = (0..connections)
        .map(|_| Source::Same(Arc::clone(&bytes)))
        .collect();
    let name = format!("overload-{}", shape.name());
    pooled_round(target, shape, sources, duration, &name)
}

/// Load of `shape` on the daemon without probes, until the pool has everything.
pub(crate) fn pooled_round(
    target: Target<'_>,
    shape: Shape,
    sources: Vec<Source>,
    duration: Duration,
    name: &str,
) -> Result<Round> {
    let meter = Meter::start(&target.daemon.server.process)?;
    let outcome = Load::new(target.daemon.server.service, duration).run(sources)?;
    let answered = meter.read()?;
    let pooled = settle(target, name)?;
    meter.finish(shape, outcome, Some(pooled), answered, None)
}

/// Waits until everything accepted so far is in the pool: a lane works in order, so an item that is sent last
/// arrives last. Returns when it was seen.
pub(crate) fn settle(target: Target<'_>, name: &str) -> Result<Instant> {
    let mark = format!("{name}-end");
    send_mark(target.daemon.server.service, &mark)?;
    PoolReader::open(target.data_dir)?.wait_for_probe(&mark)
}

fn fresh(shape: Shape, revisions: &Revisions) -> Vec<Source> {
    (0..shape.connections())
        .map(|sender| Requests::new(shape, Keys::of(shape, sender), revisions))
        .map(|requests| Source::Fresh(Box::new(requests)))
        .collect()
}

/// Counters at one moment.
struct Reading {
    cpu: f64,
    written: Option<u64>,
    threads: Threads,
    own_threads: Threads,
    machine: MachineTime,
    at: Instant,
}

impl Reading {
    fn now(process: &Process) -> Result<Self> {
        Ok(Self {
            cpu: process.tree_cpu_micros()?,
            written: process.written_bytes().ok(),
            threads: process.threads(),
            own_threads: Process::own().threads(),
            machine: MachineTime::now()?,
            at: Instant::now(),
        })
    }
}

/// The counters of one server over one round.
struct Meter<'a> {
    process: &'a Process,
    begun: Reading,
}

impl<'a> Meter<'a> {
    fn start(process: &'a Process) -> Result<Self> {
        process.reset_peak();
        let begun = Reading::now(process)?;
        Ok(Self { process, begun })
    }

    fn read(&self) -> Result<Reading> {
        Reading::now(self.process)
    }

    /// Puts the round together. `answered` was read after the last answer, the end is now.
    fn finish(
        &self,
        shape: Shape,
        outcome: Outcome,
        pooled: Option<Instant>,
        answered: Reading,
        pooled_ms: Option<Times>,
    ) -> Result<Round> {
        let ended = self.read()?;
        let accepted = outcome.accepted;
        let requests = accepted.max(1) as f64;
        let items = requests * shape.items() as f64;
        let seconds = |end: Instant| end.duration_since(outcome.first_sent).as_secs_f64();
        let cpu = ended.cpu - self.begun.cpu;
        let written = ended.written.zip(self.begun.written);
        let busy = answered.machine.busy_since(self.begun.machine);
        let mut threads = BTreeMap::new();
        for (name, micros) in spent(&self.begun.threads, &ended.threads) {
            *threads.entry(name.to_owned()).or_default() += micros / requests;
        }
        Ok(Round {
            accepted,
            requests_per_second: accepted as f64 / seconds(outcome.last_answered).max(1e-9),
            items_per_second: accepted as f64 * shape.items() as f64
                / seconds(pooled.unwrap_or(outcome.last_answered)).max(1e-9),
            accepted_ms: Times::from_micros(
                outcome.latencies.iter().map(|&micros| f64::from(micros)),
            ),
            pooled_ms,
            cpu_micros_per_request: cpu / requests,
            cpu_micros_per_item: cpu / items,
            threads,
            peak_bytes: self.process.memory()?.peak,
            written_bytes: written.map(|(after, before)| after.saturating_sub(before)),
            busy,
            saturated: saturated(&self.begun, &answered, busy),
            refused: outcome.refused,
            broken: outcome.broken,
        })
    }
}

/// What used up its time between two readings: all cores, the load generator's thread, or a thread of the server.
fn saturated(begun: &Reading, answered: &Reading, busy: f64) -> Option<String> {
    if busy >= SATURATED {
        return Some(format!("all cores {:.0} % busy", busy * 100.0));
    }
    let micros = answered.at.duration_since(begun.at).as_secs_f64() * 1e6;
    let busiest = |before, after, who: &str| {
        spent(before, after)
            .find(|(_, spent)| spent / micros >= SATURATED)
            .map(|(name, spent)| format!("{who} {name} {:.0} % busy", spent / micros * 100.0))
    };
    busiest(&begun.threads, &answered.threads, "server thread").or_else(|| {
        busiest(
            &begun.own_threads,
            &answered.own_threads,
            "load generator thread",
        )
    })
}

/// Names of the threads that are there at the end, and the µs that each took in between.
fn spent<'a>(before: &Threads, after: &'a Threads) -> impl Iterator<Item = (&'a str, f64)> {
    after.iter().map(|(id, (name, micros))| {
        let earlier = before.get(id).map_or(0.0, |(_, micros)| *micros);
        (name.as_str(), micros - earlier)
    })
}
