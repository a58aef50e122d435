//! The figures of the bench's own nodes: a table for people, JSON for programs.
//!
//! The command fills in what it has measured; `Display` is the text, and the fields are those of `--json`.
//!
//! **Invariant**: the text has the figures of the JSON and no others; what was not measured is absent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::MeasuredNodes;
use crate::bench::disk::{self, Disk};
use crate::bench::{BenchLoad, disk_of};
use crate::output::{Table, shown};

/// How long the disk is measured.
const DISK_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
pub struct NodesReport {
    /// Version of the program, and so of all nodes.
    version: &'static str,
    cores: usize,
    connections: usize,
    /// About the bytes of an item.
    body_bytes: usize,
    items_per_request: usize,
    /// How long each load lasted.
    seconds: f64,
    /// The directory with the data directories.
    folder: PathBuf,
    disk: Option<Disk>,
    /// What a 202 of the cluster survives: `standby` or `local`; `None`: there was no cluster.
    durability: Option<&'static str>,
    /// One daemon with the embedded engine.
    pub embedded: Option<MeasuredNodes>,
    pub cluster: Option<MeasuredNodes>,
    notes: Vec<String>,
}

/// A line of the table.
struct Row {
    name: &'static str,
    digits: usize,
    of: fn(&MeasuredNodes) -> Option<f64>,
}

const ROWS: [Row; 13] = [
    Row::new("requests/s", 0, |nodes| Some(nodes.requests_per_second)),
    Row::new("items/s", 0, |nodes| Some(nodes.items_per_second)),
    Row::new("202 after, ms, p50", 2, |nodes| Some(nodes.accepted.p50_ms)),
    Row::new("202 after, ms, p99", 2, |nodes| Some(nodes.accepted.p99_ms)),
    Row::new("answers other than 202", 0, |nodes| {
        Some(nodes.not_accepted() as f64)
    }),
    Row::new("CPU of all nodes, µs/request", 0, |nodes| {
        nodes.cpu_micros_per_request
    }),
    Row::new("items/s into the data pool", 0, |nodes| {
        Some(nodes.settled_items_per_second)
    }),
    Row::new("alone: 202 after, ms, p50", 2, |nodes| {
        Some(nodes.alone.accepted.p50_ms)
    }),
    Row::new("alone: 202 after, ms, p99", 2, |nodes| {
        Some(nodes.alone.accepted.p99_ms)
    }),
    Row::new("alone: on a screen after, ms, p50", 2, |nodes| {
        Some(nodes.alone.after_request.p50_ms)
    }),
    Row::new("alone: on a screen after, ms, p99", 2, |nodes| {
        Some(nodes.alone.after_request.p99_ms)
    }),
    Row::new("node lost: sinks run again after, ms", 0, |nodes| {
        nodes.takeover.map(|takeover| takeover.sinks_ms)
    }),
    Row::new("node lost: new item on a screen after, ms", 0, |nodes| {
        nodes.takeover.map(|takeover| takeover.renderer_ms)
    }),
];

impl Row {
    const fn new(name: &'static str, digits: usize, of: fn(&MeasuredNodes) -> Option<f64>) -> Self {
        Self { name, digits, of }
    }

    fn cells(&self, report: &NodesReport) -> [String; 3] {
        let of = |nodes: &Option<MeasuredNodes>| nodes.as_ref().and_then(self.of);
        let (embedded, cluster) = (of(&report.embedded), of(&report.cluster));
        let digits = self.digits;
        let shown = |value: f64| format!("{value:.digits$}");
        let ratio = embedded.zip(cluster).filter(|(one, _)| *one > 0.0);
        [
            embedded.map(shown).unwrap_or_default(),
            cluster.map(shown).unwrap_or_default(),
            ratio.map_or_else(String::new, |(one, all)| format!("{:.2}", all / one)),
        ]
    }
}

impl NodesReport {
    /// Of nodes whose data directories are in this folder, before anything was measured but its disk. `durability` is that of
    /// the cluster, with what follows from it; `None`: there is no cluster.
    pub async fn begin(
        load: BenchLoad,
        folder: &Path,
        durability: Option<(&'static str, &str)>,
    ) -> Self {
        let mut notes = Vec::new();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let disk = match disk_of(folder.to_owned(), DISK_TIME).await {
            Ok(disk) => Some(disk),
            Err(why) => {
                notes.push(why);
                None
            }
        };
        if disk::is_in_memory(folder) {
            notes.push(format!(
                "{} is in memory, where a flush takes no time: name a directory on a disk with --disk-dir",
                folder.display()
            ));
        }
        notes.extend(durability.map(|(_, meaning)| meaning.to_owned()));
        notes.push(format!(
            "the nodes and the load generator share {cores} cores"
        ));
        if cfg!(debug_assertions) {
            notes.push("this is a debug build, which is slow".to_owned());
        }
        Self {
            version: env!("CARGO_PKG_VERSION"),
            cores,
            connections: load.connections,
            body_bytes: load.item_bytes,
            items_per_request: load.items,
            seconds: load.time.as_secs_f64(),
            folder: folder.to_owned(),
            disk,
            durability: durability.map(|(durability, _)| durability),
            embedded: None,
            cluster: None,
            notes,
        }
    }

    /// Adds what follows from the figures; call it last.
    pub fn conclude(&mut self) {
        let measured = [&self.embedded, &self.cluster];
        let measured = measured.into_iter().flatten();
        let missing: usize = measured.map(|nodes| nodes.alone.missing).sum();
        if missing > 0 {
            let note = format!("changes that were not on the screen within 10 s: {missing}");
            self.notes.push(note);
        }
        let cluster = self.cluster.as_ref();
        if cluster.is_some_and(|nodes| nodes.takeover.is_some()) {
            let note = "a node was lost once: repeat the command to see how much its times differ";
            self.notes.push(note.to_owned());
        }
    }
}

impl fmt::Display for NodesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "headgate {}, {} connections for {} s, {} of {} B in a request",
            self.version,
            self.connections,
            self.seconds,
            match self.items_per_request {
                1 => "one item".to_owned(),
                items => format!("{items} items"),
            },
            self.body_bytes
        )?;
        if let Some(disk) = &self.disk {
            let (p50, p99) = (disk.fsync.p50_ms, disk.fsync.p99_ms);
            let folder = self.folder.to_string_lossy();
            writeln!(
                f,
                "disk of {}: an append of 4 KiB and its flush take {p50:.2} ms (p50), {p99:.2} ms (p99)",
                shown(&folder)
            )?;
        }
        let nodes = self.cluster.as_ref().map_or(0, |cluster| cluster.nodes);
        let nodes = match nodes {
            1 => "1 NODE".to_owned(),
            nodes => format!("{nodes} NODES"),
        };
        let mut table = Table::new(&["", "EMBEDDED", &nodes, "RATIO"]);
        for row in &ROWS {
            let cells = row.cells(self);
            if cells.iter().any(|cell| !cell.is_empty()) {
                table.row(&[row.name, &cells[0], &cells[1], &cells[2]]);
            }
        }
        writeln!(f, "\n{table}")?;
        for note in &self.notes {
            writeln!(f, "note: {}", shown(note))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
