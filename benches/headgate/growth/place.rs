//! A daemon for one point, and load on it until its sinks have everything.
//!
//! Called by the curves whose points are made of requests.
//!
//! **Invariant:** the CPU time of a point is that of its own requests: those before it are in the data pool when it
//! begins, and its own when it ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::curve::Point;
use crate::Result;
use crate::child::{Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};
use crate::http::get_json;
use crate::ingest::load::{Load, Outcome, Source};
use crate::ingest::pool::{PROBE_KEY, PROBE_STREAM, PoolReader, send_mark};
use crate::process::Process;
use crate::times::Times;

/// Longest wait for the sinks.
const SINKS_WAIT: Duration = Duration::from_secs(300);
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A running daemon.
pub(super) struct Place {
    child: Child,
    process: Process,
    service: SocketAddr,
    admin: SocketAddr,
    data_dir: PathBuf,
    start_ms: f64,
    marks: u32,
}

impl Place {
    /// Starts one with its data in `folder`; `tables` are its streams, connectors and sinks beside those of the marks.
    pub(super) fn start(folder: &Path, tables: &str) -> Result<Self> {
        let (service, admin) = (free_address()?, free_address()?);
        let data_dir = folder.join("data");
        let configuration = format!(
            "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
             [storage]\ndata_dir = {data_dir:?}\n\
             [limits]\nrequests_per_second = 10000000\nburst = 10000000\n\
             [[streams]]\nname = \"{PROBE_STREAM}\"\n\
             [[connectors]]\nname = \"marks\"\nkind = \"ingest\"\n\
             keys = [{{ name = \"marks\", stream = \"{PROBE_STREAM}\", secret = \"{PROBE_KEY}\" }}]\n{tables}"
        );
        let command = daemon::command(folder, &configuration)?;
        let begun = Instant::now();
        let mut child = Child::start(command, folder)?;
        child.wait_for(service)?;
        Ok(Self {
            process: Process::new(child.id()),
            child,
            service,
            admin,
            data_dir,
            start_ms: begun.elapsed().as_secs_f64() * 1e3,
            marks: 0,
        })
    }

    /// Sends everything that the sources give once: so many requests of each, and waits until the sinks have it.
    pub(super) fn fill(&mut self, sources: Vec<Source>, requests: u64) -> Result<()> {
        let load = Load {
            requests_max: requests,
            ..Load::new(self.service, SINKS_WAIT)
        };
        self.accepted(&load.run(sources)?)?;
        self.settle()
    }

    /// Load from one connection for each source: first a little that does not count, then for `time`. Costs are shared
    /// among the units of a request.
    pub(super) fn load(
        mut self,
        x: u64,
        time: Duration,
        units: f64,
        sources: impl Fn() -> Vec<Source>,
    ) -> Result<Point> {
        let warm = Load::new(self.service, time / 4).run(sources())?;
        self.accepted(&warm)?;
        self.settle()?;
        let cpu = self.process.cpu_micros()?;
        let outcome = Load::new(self.service, time).run(sources())?;
        self.accepted(&outcome)?;
        self.settle()?;
        let cpu = self.process.cpu_micros()? - cpu;
        let requests = outcome.accepted as f64;
        let seconds = outcome.last_answered.duration_since(outcome.first_sent);
        let micros = outcome.latencies.iter().map(|&micros| f64::from(micros));
        let point = Point {
            x,
            cpu_micros: cpu / requests.max(1.0) / units,
            ms: Times::from_micros(micros),
            per_second: requests / seconds.as_secs_f64().max(1e-9),
            start_ms: Some(self.start_ms),
            ratio: 1.0,
        };
        self.child.stop()?;
        Ok(point)
    }

    /// Fails if there was another answer than a 202.
    fn accepted(&self, outcome: &Outcome) -> Result<()> {
        if outcome.accepted > 0 && outcome.refused.is_empty() && outcome.broken == 0 {
            return Ok(());
        }
        Err(self.child.explain(format!(
            "{} accepted, others by status {:?}, broken {}",
            outcome.accepted, outcome.refused, outcome.broken
        )))
    }

    /// Waits until every sink has everything.
    fn settle(&mut self) -> Result<()> {
        self.marks += 1;
        let mark = format!("mark-{}", self.marks);
        send_mark(self.service, &mark)?;
        PoolReader::open(&self.data_dir)?.wait_for_probe(&mark)?;
        let begun = Instant::now();
        loop {
            let sinks = get_json(self.admin, "/api/admin/sinks", ADMIN_TOKEN)?;
            let sinks = sinks["data"].as_array().map(Vec::as_slice);
            if sinks.is_some_and(|sinks| sinks.iter().all(|sink| sink["lag"] == 0)) {
                return Ok(());
            }
            if begun.elapsed() > SINKS_WAIT {
                return Err(self.child.explain("a sink does not catch up"));
            }
            sleep(LOOK_PAUSE);
        }
    }
}
