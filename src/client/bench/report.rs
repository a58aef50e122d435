//! The report of the bench.
//!
//! The bench fills it in part by part; `Display` formats it as text, and its fields are those of `--json`.
//!
//! **Invariant**: a value that was not measured is absent, and a note gives the reason.

use std::fmt;

use serde::Serialize;

use super::disk::Disk;
use super::load::Step;
use super::push::Push;
use super::times::Times;
use super::verdict::{Facts, Verdict};
use crate::output::{Table, shown};
use wire::StatusData;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of the daemon.
    version: String,
    /// The URL of the service.
    url: String,
    /// The stream that was created and deleted.
    stream: String,
    /// The durability of the daemon: `fsync` or `os`.
    durability: String,
    cores: usize,
    pub(super) disk: Option<Disk>,
    /// Requests for which the daemon does no work.
    pub(super) round_trip: Times,
    /// Requests up to their 202.
    pub(super) ingest: Vec<Step>,
    /// Time from the last 202 until all items were in the data pool.
    pub(super) behind_ms: Option<f64>,
    /// The latency to a renderer.
    pub(super) push: Option<Push>,
    verdict: Option<Verdict>,
    /// Values that were not measured, and why.
    pub(super) notes: Vec<String>,
}

impl Report {
    /// An empty report for a daemon with this status.
    pub(super) fn new(url: &str, status: &StatusData, stream: &str) -> Self {
        Self {
            version: status.version.clone(),
            url: url.to_owned(),
            stream: stream.to_owned(),
            durability: status.durability.clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            disk: None,
            round_trip: Times::default(),
            ingest: Vec::new(),
            behind_ms: None,
            push: None,
            verdict: None,
            notes: Vec::new(),
        }
    }

    /// Determines the limit; call it last.
    pub(super) fn conclude(&mut self, keep_rate: bool) {
        let facts = Facts {
            keep_rate,
            is_durable: self.durability == "fsync",
            round_trip_ms: self.round_trip.p50_ms,
            fsync_ms: self.disk.as_ref().map(|disk| disk.fsync.p50_ms),
            cores: self.cores,
        };
        self.verdict = Some(Verdict::of(&self.ingest, facts));
        if cfg!(debug_assertions) {
            let note = "this is a debug build of the benchmark, which is slow";
            self.notes.push(note.to_owned());
        }
    }

    fn times(&self) -> Table {
        let mut table = Table::new(&["MS", "P50", "P90", "P99", "MAX", "COUNT"]);
        let mut row = |name: &str, times: &Times| {
            let [p50, p90, p99, max] = times.cells();
            table.row(&[name, &p50, &p90, &p99, &max, &times.count.to_string()]);
        };
        if let Some(disk) = &self.disk {
            row("append of 4 KiB and flush", &disk.fsync);
        }
        row("empty request", &self.round_trip);
        if let Some(push) = &self.push {
            row("from the 202 to a renderer", &push.after_202);
            row("from the request to a renderer", &push.after_request);
        }
        table
    }

    fn requests(&self) -> Table {
        let mut table = Table::new(&[
            "BODY",
            "AT ONCE",
            "REQUESTS/S",
            "202 MS P50",
            "P90",
            "P99",
            "MAX",
            "NOT 202",
            "COMMITS/S",
            "CORES BUSY",
        ]);
        for step in &self.ingest {
            let [p50, p90, p99, max] = step.accepted.cells();
            let not_accepted = step.refused.values().sum::<u64>() + step.broken;
            let used = &step.used;
            let or_none = |text: Option<String>| text.unwrap_or_default();
            table.row(&[
                &format!("{} B", step.body_bytes),
                &step.connections.to_string(),
                &format!("{:.0}", step.requests_per_second),
                &p50,
                &p90,
                &p99,
                &max,
                &not_accepted.to_string(),
                &or_none(used.commits_per_second.map(|rate| format!("{rate:.0}"))),
                &or_none(used.cores_busy.map(|busy| format!("{:.0} %", busy * 100.0))),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, url) = (shown(&self.version), shown(&self.url));
        writeln!(
            f,
            "headgate {version} at {url}, durability {}, {} cores here\n",
            shown(&self.durability),
            self.cores
        )?;
        writeln!(f, "{}", self.times())?;
        writeln!(f, "{}", self.requests())?;
        if let Some(disk) = &self.disk {
            let folder = disk.folder.to_string_lossy();
            match disk.write_bytes_per_second {
                Some(rate) => writeln!(f, "disk of {}: {:.0} MB/s", shown(&folder), rate / 1e6)?,
                None => writeln!(
                    f,
                    "disk of {}: too full to measure its rate",
                    shown(&folder)
                )?,
            }
        }
        if let Some(behind_ms) = self.behind_ms {
            writeln!(
                f,
                "data pool: it had everything {behind_ms:.0} ms after the last 202"
            )?;
        }
        if let Some(missing) = self
            .push
            .map(|push| push.missing)
            .filter(|missing| *missing > 0)
        {
            writeln!(f, "renderer: {missing} changes were not shown within 10 s")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", shown(note))?;
        }
        match &self.verdict {
            Some(verdict) => writeln!(f, "\n{}", verdict.sentence),
            None => Ok(()),
        }
    }
}
