//! The results of a whole run, and the tables that are printed of them.
//!
//! Called by the bench's main file when everything is measured.
//!
//! **Invariant:** every figure in the tables is the median over the rounds of one server; counts of refusals are
//! sums, so that none is lost.

use serde::Serialize;

use super::paced::{self, Paced};
use super::payload::Shape;
use super::rounds::Round;
use super::upsert::UpsertRound;
use crate::aim;
use crate::disk::Fsync;
use crate::table::Table;
use crate::times::{Times, median, median_of};

pub(crate) const MEGABYTE: f64 = 1_000_000.0;
pub(crate) const KILOBYTE: f64 = 1_000.0;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Cores that the bench may use.
    pub(crate) cores: usize,
    /// Seconds of load in one round of single objects.
    pub(crate) round_seconds: f64,
    /// The disk under the data folder.
    pub(crate) fsync: Fsync,
    /// The shapes that ran.
    pub(crate) shapes: Vec<ShapeResult>,
    /// Single requests with nothing else running.
    pub(crate) alone: Alone,
    /// Requests one by one, but many a second.
    pub(crate) paced: Paced,
    /// Times of start and stop.
    pub(crate) starts: Starts,
    /// Memory at rest.
    pub(crate) memory: AtRest,
    /// Rounds with too many connections.
    pub(crate) overloads: Vec<Overload>,
    /// What the reader must know about this run.
    pub(crate) notes: Vec<String>,
}

/// The rounds of one shape.
#[derive(Debug, Serialize)]
pub(crate) struct ShapeResult {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    #[serde(skip)]
    pub(crate) shape: Shape,
    /// Bytes of one body.
    pub(crate) body_bytes: usize,
    /// The disk just before each of the daemon's rounds, ms, where an aim depends on it.
    pub(crate) fsync_ms: Vec<f64>,
    /// The empty handler's rounds.
    pub(crate) floor: Vec<Round>,
    /// The plain upsert's, for arrays.
    pub(crate) upsert: Vec<UpsertRound>,
    /// The daemon's.
    pub(crate) daemon: Vec<Round>,
}

/// Single requests on an idle daemon.
#[derive(Debug, Serialize)]
pub(crate) struct Alone {
    /// To the 202.
    pub(crate) accepted_ms: Times,
    /// To the item in the pool.
    pub(crate) pooled_ms: Times,
    /// Median time between two looks into the pool, alone and under load: the resolution of every time to the pool.
    pub(crate) look_gap_ms: f64,
}

/// Starting and stopping.
#[derive(Debug, Serialize)]
pub(crate) struct Starts {
    /// First start on an empty folder: plugins are compiled.
    pub(crate) cold_ms: f64,
    /// Later starts: compiled code is cached.
    pub(crate) warm_ms: Vec<f64>,
    /// Start on the folder that all rounds went to.
    pub(crate) loaded_ms: f64,
    /// SIGTERM to exit, of all stops.
    pub(crate) stop_ms: Vec<f64>,
}

/// Resident memory with no load.
#[derive(Debug, Serialize)]
pub(crate) struct AtRest {
    /// The empty handler after its start.
    pub(crate) floor_bytes: u64,
    /// The daemon after its start.
    pub(crate) started_bytes: u64,
    /// The daemon after the ordinary rounds.
    pub(crate) loaded_bytes: u64,
    /// The daemon after the overload.
    pub(crate) overloaded_bytes: u64,
}

/// One overload round.
#[derive(Debug, Serialize)]
pub(crate) struct Overload {
    /// Its shape's name.
    pub(crate) name: &'static str,
    /// What the table calls it.
    pub(crate) title: &'static str,
    /// Connections that sent at once.
    pub(crate) connections: usize,
    /// What came of it.
    pub(crate) round: Round,
}

impl Results {
    /// Prints everything.
    pub(crate) fn print(&self) {
        println!(
            "\n{} cores, load generator beside the server on them; rounds of {} s (arrays half), medians of {}",
            self.cores,
            self.round_seconds,
            self.shapes.first().map_or(0, |result| result.daemon.len()),
        );
        println!(
            "fsync (append 4 KiB + fdatasync, p50): {:.3} ms idle, {:.3} ms with all cores busy\n",
            self.fsync.idle_ms, self.fsync.busy_ms
        );
        self.print_rounds();
        self.print_threads();
        let alone = &self.alone;
        println!(
            "\nalone: to the 202 p50 {:.2} p99 {:.2} ms, to the pool p50 {:.2} p99 {:.2} ms ({} probes; resolution of \
             times to the pool {:.2} ms)",
            alone.accepted_ms.p50,
            alone.accepted_ms.p99,
            alone.pooled_ms.p50,
            alone.pooled_ms.p99,
            alone.pooled_ms.samples,
            alone.look_gap_ms,
        );
        println!(
            "one by one, {:.0} of {} requests/s: {} KB to disk for each of {}",
            self.paced.per_second,
            paced::PER_SECOND,
            kilobytes(self.paced.written_each()),
            self.paced.accepted,
        );
        let starts = &self.starts;
        println!(
            "start to first 202: {:.0} ms cold (plugins compiled), {:.0} ms warm, {:.0} ms with all the data of this \
             run; SIGTERM to exit {:.0} ms",
            starts.cold_ms,
            median(&starts.warm_ms),
            starts.loaded_ms,
            median(&starts.stop_ms),
        );
        let memory = &self.memory;
        println!(
            "resident at rest, MB: empty handler {:.1}; headgate {:.1} started, {:.1} after load, {:.1} after overload",
            memory.floor_bytes as f64 / MEGABYTE,
            memory.started_bytes as f64 / MEGABYTE,
            memory.loaded_bytes as f64 / MEGABYTE,
            memory.overloaded_bytes as f64 / MEGABYTE,
        );
        for overload in &self.overloads {
            let count = |status| overload.round.refused.get(&status).copied().unwrap_or(0);
            let other: u64 = overload.round.refused.values().sum::<u64>() - count(503) - count(429);
            println!(
                "overload, {} connections of {}: peak {:.0} MB; {} x 202, {} x 503, {} x 429, {other} others, {} broken",
                overload.connections,
                overload.title,
                overload.round.peak_bytes as f64 / MEGABYTE,
                overload.round.accepted,
                count(503),
                count(429),
                overload.round.broken,
            );
        }
        aim::print(&self.aims());
        for note in &self.notes {
            println!("note: {note}");
        }
    }

    fn print_rounds(&self) {
        let mut table = Table::new(&[
            "body x connections",
            "server",
            "requests/s",
            "items/s",
            "CPU us/request",
            "CPU us/item",
            "202 p50 ms",
            "p99",
            "pool p50 ms",
            "p99",
            "probes",
            "peak MB",
            "disk KB/request",
            "cores busy",
            "not 202",
        ]);
        for result in &self.shapes {
            let title = format!("{} x {}", result.shape.title(), result.shape.connections());
            table.row(round_row(&title, "empty handler", &result.floor));
            if !result.upsert.is_empty() {
                let rate: Vec<f64> = result
                    .upsert
                    .iter()
                    .map(|round| round.items_per_second)
                    .collect();
                let cpu: Vec<f64> = result
                    .upsert
                    .iter()
                    .filter_map(|round| round.cpu_micros_per_item)
                    .collect();
                let mut row = vec![String::new(); 15];
                row[1] = "plain upsert".to_owned();
                row[3] = format!("{:.0}", median(&rate));
                row[5] = format!("{:.2}", median(&cpu));
                table.row(row);
            }
            table.row(round_row("", "headgate", &result.daemon));
        }
        table.print();
    }

    /// Where the daemon's CPU time goes, by thread, in the median round.
    fn print_threads(&self) {
        println!("\nheadgate's CPU by thread, us/request:");
        for result in &self.shapes {
            let Some(last) = result.daemon.last() else {
                continue;
            };
            let mut threads: Vec<(&String, f64)> = last
                .threads
                .keys()
                .map(|name| {
                    let spent = |round: &Round| round.threads.get(name).copied().unwrap_or(0.0);
                    (name, median_of(&result.daemon, spent))
                })
                .filter(|(_, micros)| *micros >= 0.05)
                .collect();
            threads.sort_by(|left, right| right.1.total_cmp(&left.1));
            let texts: Vec<String> = threads
                .iter()
                .map(|(name, micros)| format!("{name} {micros:.1}"))
                .collect();
            println!("  {}: {}", result.shape.title(), texts.join(", "));
        }
    }
}

/// Bytes written for each request, over all rounds; `None` where they cannot be read.
pub(crate) fn written_each(rounds: &[Round]) -> Option<f64> {
    let written: Option<u64> = rounds.iter().map(|round| round.written_bytes).sum();
    let accepted: u64 = rounds.iter().map(|round| round.accepted).sum();
    Some(written? as f64 / accepted.max(1) as f64)
}

fn kilobytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("{:.2}", bytes / KILOBYTE))
}

fn round_row(title: &str, server: &str, rounds: &[Round]) -> Vec<String> {
    let of = |value: fn(&Round) -> f64| median_of(rounds, value);
    let pooled = |value: fn(&Times) -> f64| {
        let values: Vec<f64> = rounds
            .iter()
            .filter_map(|round| round.pooled_ms.as_ref().map(value))
            .collect();
        if values.is_empty() {
            String::new()
        } else {
            format!("{:.2}", median(&values))
        }
    };
    let probes: usize = rounds
        .iter()
        .filter_map(|round| round.pooled_ms.map(|times| times.samples))
        .sum();
    let not_accepted: u64 = rounds
        .iter()
        .map(|round| round.refused.values().sum::<u64>() + round.broken)
        .sum();
    vec![
        title.to_owned(),
        server.to_owned(),
        format!("{:.0}", of(|round| round.requests_per_second)),
        format!("{:.0}", of(|round| round.items_per_second)),
        format!("{:.1}", of(|round| round.cpu_micros_per_request)),
        format!("{:.2}", of(|round| round.cpu_micros_per_item)),
        format!("{:.2}", of(|round| round.accepted_ms.p50)),
        format!("{:.2}", of(|round| round.accepted_ms.p99)),
        pooled(|times| times.p50),
        pooled(|times| times.p99),
        if probes == 0 {
            String::new()
        } else {
            probes.to_string()
        },
        format!("{:.1}", of(|round| round.peak_bytes as f64 / MEGABYTE)),
        kilobytes(written_each(rounds)),
        format!("{:.0} %", of(|round| round.busy * 100.0)),
        not_accepted.to_string(),
    ]
}
