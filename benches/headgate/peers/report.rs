//! The results of a whole run, and the table that is printed of them.
//!
//! Called by the bench's main file when everything is measured.
//!
//! **Invariant:** every figure is the median over the rounds of one server; whoever is not in the table is named below
//! it, with the reason.

use serde::Serialize;

use super::killed::Killed;
use super::peer::Peer;
use crate::ingest::report::MEGABYTE;
use crate::ingest::rounds::Round;
use crate::table::Table;
use crate::times::median_of;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Cores that the bench may use.
    pub(crate) cores: usize,
    /// Seconds of load in one round of single objects.
    pub(crate) round_seconds: f64,
    /// The disk under the data folders, ms for one append and fdatasync.
    pub(crate) fsync_ms: f64,
    /// Each server.
    pub(crate) measured: Vec<Measured>,
    /// Who could not be installed, and why.
    pub(crate) left_out: Vec<String>,
    /// Who did not do what it says, and what that was.
    pub(crate) failed: Vec<String>,
}

/// One server.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it promises.
    pub(crate) promise: &'static str,
    /// Rounds of single objects.
    pub(crate) small: Vec<Round>,
    /// Rounds of arrays.
    pub(crate) arrays: Vec<Round>,
    /// Resident after the rounds.
    pub(crate) resident_bytes: u64,
    /// What a kill left.
    pub(crate) killed: Killed,
}

impl Measured {
    fn cpu(&self) -> f64 {
        median_of(&self.small, |round| round.cpu_micros_per_request)
    }

    fn cpu_of_item(&self) -> f64 {
        median_of(&self.arrays, |round| round.cpu_micros_per_item)
    }
}

impl Results {
    /// Prints everything.
    pub(crate) fn print(&self) {
        println!(
            "\n{} cores, load generator beside the server on them; rounds of {} s (arrays half), medians of {}",
            self.cores,
            self.round_seconds,
            self.measured.first().map_or(0, |server| server.small.len()),
        );
        println!(
            "fsync (append 4 KiB + fdatasync, p50): {:.3} ms\n",
            self.fsync_ms
        );
        let mut table = Table::new(&[
            "200 B x 64, 1 MB x 8",
            "requests/s",
            "CPU us/request",
            "x headgate",
            "2xx p50 ms",
            "p99",
            "limit",
            "items/s",
            "CPU us/item",
            "x headgate",
            "limit",
            "resident MB",
            "2xx before kill -9",
            "lost",
        ]);
        let headgate = Peer::Headgate.name();
        let headgate = self.measured.iter().find(|server| server.name == headgate);
        for server in &self.measured {
            let of = |rounds: &[Round], value: fn(&Round) -> f64, digits: usize| {
                format!("{:.digits$}", median_of(rounds, value))
            };
            let over = |value: fn(&Measured) -> f64| {
                headgate.map_or_else(String::new, |headgate| {
                    format!("{:.2}", value(server) / value(headgate))
                })
            };
            table.row([
                server.name.to_owned(),
                of(&server.small, |round| round.requests_per_second, 0),
                format!("{:.1}", server.cpu()),
                over(Measured::cpu),
                of(&server.small, |round| round.accepted_ms.p50, 2),
                of(&server.small, |round| round.accepted_ms.p99, 2),
                limit(&server.small),
                of(&server.arrays, |round| round.items_per_second, 0),
                format!("{:.2}", server.cpu_of_item()),
                over(Measured::cpu_of_item),
                limit(&server.arrays),
                format!("{:.1}", server.resident_bytes as f64 / MEGABYTE),
                server.killed.acknowledged.to_string(),
                server.killed.lost.to_string(),
            ]);
        }
        table.print();
        println!("\nwhat a 2xx promises:");
        for server in &self.measured {
            println!("  {}: {}", server.name, server.promise);
        }
        if cfg!(debug_assertions) {
            println!("note: built without optimisation: no figure of headgate means anything");
        }
        for text in &self.left_out {
            println!("left out: {text}");
        }
        for text in &self.failed {
            println!("FAILED: {}", text.lines().next().unwrap_or_default());
        }
    }
}

/// What was used up in most rounds: all cores, one thread of the server, or that of the load generator.
fn limit(rounds: &[Round]) -> String {
    let of = |start: &str| {
        let texts = rounds.iter().filter_map(|round| round.saturated.as_deref());
        2 * texts.filter(|text| text.starts_with(start)).count() > rounds.len()
    };
    let kinds = [
        ("all cores", "cores"),
        ("server", "one thread"),
        ("load", "generator"),
    ];
    let found = kinds.iter().find(|(start, _)| of(start));
    found.map_or("", |(_, name)| name).to_owned()
}
