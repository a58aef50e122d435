//! The aims: what is compared with what, and whether it was reached.
//!
//! Called by the report.
//!
//! **Invariant:** a ratio is taken between neighbours of one run, round by round, and the median of those ratios
//! is what is compared with its aim; absolute times are compared only where the aim is one.

use super::payload::Shape;
use super::report::{self, KILOBYTE, MEGABYTE, Overload, Results, ShapeResult};
use super::rounds::Round;
use crate::aim::Aim;
use crate::times::{median, median_of};

impl ShapeResult {
    /// Whether every request of every round was answered 202: refusals cost less than requests.
    fn comparable(&self) -> bool {
        self.daemon
            .iter()
            .chain(&self.floor)
            .all(Round::all_accepted)
    }

    /// Median over the rounds of the daemon's value divided by that of the floor's round before it.
    fn against_floor(&self, value: fn(&Round) -> f64) -> f64 {
        let pairs = self.daemon.iter().zip(&self.floor);
        let ratios: Vec<f64> = pairs
            .map(|(daemon, floor)| value(daemon) / value(floor))
            .collect();
        median(&ratios)
    }

    /// The same against the plain upsert.
    fn against_upsert(&self) -> f64 {
        let pairs = self.daemon.iter().zip(&self.upsert);
        let ratios: Vec<f64> = pairs
            .map(|(daemon, upsert)| daemon.items_per_second / upsert.items_per_second)
            .collect();
        median(&ratios)
    }

    fn cpu_aim(&self, limit: f64) -> Aim {
        let title = self.shape.title();
        let name = format!("CPU of a durable request / empty handler: {title}");
        let ratio = self.against_floor(|round| round.cpu_micros_per_request);
        Aim::at_most(name, ratio, limit, "")
    }

    fn written_aim(&self, limit: f64) -> Aim {
        written_aim(
            self.shape.title(),
            report::written_each(&self.daemon),
            limit,
        )
    }
}

/// What is written to disk for each request, bytes, against a limit in KB; nothing is said where it cannot be read.
fn written_aim(title: &str, bytes: Option<f64>, limit: f64) -> Aim {
    let name = format!("written to disk for each request: {title}");
    let each = bytes.unwrap_or(f64::NAN) / KILOBYTE;
    let mut aim = Aim::at_most(name, each, limit, " KB");
    if bytes.is_none() {
        aim.reached = None;
        aim.measured = "only root may read it".to_owned();
    }
    aim
}

impl Overload {
    /// Most memory while more 1 MB bodies are sent than there is room for.
    fn peak_aim(&self) -> Option<Aim> {
        let name = format!("peak memory, {} x 1 MB at once", self.connections);
        let peak = self.round.peak_bytes as f64 / MEGABYTE;
        let is_large = self.name == Shape::Recurring.name();
        is_large.then(|| Aim::at_most(name, peak, 200.0, " MB"))
    }
}

impl Results {
    /// The aims that this run can tell something about.
    pub(crate) fn aims(&self) -> Vec<Aim> {
        let mut aims = Vec::new();
        for result in &self.shapes {
            let mut of_shape = self.shape_aims(result);
            if !result.comparable() {
                for aim in &mut of_shape {
                    aim.reached = None;
                    aim.measured += " (rounds with answers other than 202)";
                }
            }
            aims.append(&mut of_shape);
        }
        let each = self.paced.written_each();
        aims.push(written_aim("200 B, one by one", each, 10.0));
        let megabytes = |bytes| bytes as f64 / MEGABYTE;
        let started = megabytes(self.memory.started_bytes);
        let loaded = megabytes(self.memory.loaded_bytes);
        let first = median(&self.starts.warm_ms);
        aims.push(Aim::at_most("idle memory, started", started, 28.0, " MB"));
        aims.push(Aim::at_most("idle memory, after load", loaded, 36.0, " MB"));
        aims.extend(self.overloads.iter().filter_map(Overload::peak_aim));
        aims.push(Aim::at_most("first 202, warm cache", first, 100.0, " ms"));
        aims
    }

    fn shape_aims(&self, result: &ShapeResult) -> Vec<Aim> {
        match result.shape {
            Shape::Small => vec![
                result.cpu_aim(2.5),
                result.written_aim(1.0),
                self.disk_aim(result),
            ],
            Shape::Many => vec![result.cpu_aim(3.0), result.written_aim(2.5)],
            Shape::Medium => vec![result.cpu_aim(3.5), result.written_aim(4.0)],
            Shape::Recurring => {
                let name = "items/s, recurring keys / plain upsert";
                vec![Aim::at_least(name, result.against_upsert(), 0.90)]
            }
            Shape::Random => {
                let name = "items/s, random keys / plain upsert";
                vec![Aim::at_least(name, result.against_upsert(), 0.95)]
            }
        }
    }

    /// What the disk allows is one answer for each connection in each fsync; it is the limit only where neither
    /// the cores nor one thread are.
    fn disk_aim(&self, result: &ShapeResult) -> Aim {
        let connections = result.shape.connections() as f64;
        let share_of = |fsync_ms: f64, round: &Round| {
            round.requests_per_second / (connections * 1e3 / fsync_ms)
        };
        let pairs = result.daemon.iter().zip(&result.fsync_ms);
        let shares: Vec<f64> = pairs.map(|(round, &ms)| share_of(ms, round)).collect();
        let name = format!("requests/s at {connections} connections / what fsync allows");
        let mut aim = Aim::at_least(name, median(&shares), 0.80);
        let cpu_bound: Vec<&str> = result
            .daemon
            .iter()
            .filter_map(|round| round.saturated.as_deref())
            .collect();
        if 2 * cpu_bound.len() > result.daemon.len() {
            aim.reached = None;
            let busy = median_of(&result.daemon, |round| share_of(self.fsync.busy_ms, round));
            aim.measured = format!(
                "{} ({:.0} % at the fsync with busy cores); CPU is the limit: {}",
                aim.measured,
                busy * 100.0,
                cpu_bound[0]
            );
        }
        aim
    }
}
