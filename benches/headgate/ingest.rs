//! What one request costs, end to end, beside the least that it could cost.
//!
//! Starts `headgate serve` as a child with its data on the disk under `target/tmp` (or `--dir`), and sends real
//! requests over loopback: objects of 200 B (with 100 keys, and drawn from 100,000) and of 2 KB from 64 keep-alive
//! connections, arrays of 5,000 items just under 1 MB from 8. Every item has an item key and a revision that was never
//! sent before, so each one is a real update. In the same run, round by round in turn, the floors: an empty salvo handler that reads the same bodies
//! and answers 202 (`empty handler`), and the same rows written into SQLite by one prepared statement, a
//! transaction for each array (`plain upsert`). Up to about 5 GB of
//! disk is used while it runs, and given back at the end.
//!
//! How to read it: the load generator shares the cores with the server, so requests/s is what both reach together;
//! **CPU us/request** is the server process's own CPU time (`utime` + `stime`, all threads, exact to 10 ms in
//! seconds of load), from the first request until the pool holds the last item, and is the figure to compare.
//! `items/s` counts until everything is in the pool. **disk KB/request** is what the server process had written in the
//! same time (`write_bytes` less `cancelled_write_bytes` of `/proc/PID/io`, which only root may read of a daemon): whole
//! pages of files as they are changed, those of the journal, of the pool and of their logs, and their copies into the
//! files. Before each round all that was changed is flushed, so that a page that is changed again counts again. As logs are
//! copied back a few times in a round, it is the sum of all rounds over all their requests. The same is counted of a
//! daemon that gets 200 requests a second, one by one, until it has ended, when its logs are copied back. Times to the pool are those of single probes on a connection
//! of their own, seen by looking into `pool.db` every quarter of a millisecond; the printed resolution says what
//! that came to. Absolute times drift with the machine, so the aims are ratios between neighbouring rounds.
//! `not applicable` beside an aim means that this run cannot tell: CPU and not the disk was the limit in most rounds,
//! or requests were refused.
//!
//! Called by the command line; owns the order of the measurements. The modules below own one kind of measurement each.
//!
//! **Invariant:** nothing of a round of the daemon is left undone when the next round begins, and no figure is
//! printed if the pool does not hold what was sent.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::options::Rounds;
use crate::times::{Times, median};
use crate::{Result, disk, step};
use payload::{Keys, Requests, Revisions, Shape};
use pool::PoolReader;
use report::{Alone, AtRest, Overload, Results, ShapeResult, Starts};
use rounds::Target;
use server::{Daemon, Home, Server};
use upsert::PlainPool;

mod aims;
pub(crate) mod floor;
pub(crate) mod load;
mod paced;
pub(crate) mod payload;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod server;
mod upsert;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// The shapes to run, all by default
    #[arg(long = "only", value_name = "SHAPE,…", value_enum, value_delimiter = ',', default_values_t = Shape::value_variants().to_vec(), hide_default_value = true)]
    shapes: Vec<Shape>,
}

impl Options {
    /// Load in one round of `shape`: array shapes get half of it, as their pool needs more time afterwards.
    fn round_of(&self, shape: Shape) -> Duration {
        let whole = self.rounds.window.time;
        if shape.is_array() { whole / 2 } else { whole }
    }
}

/// Starts on the same folder whose median is the warm start.
const WARM_STARTS: usize = 5;

/// Rest before memory at rest is read.
const REST: Duration = Duration::from_secs(2);

/// Connections of the overload rounds, and their length.
const OVERLOAD_CONNECTIONS: usize = 512;
const OVERLOAD_TIME: Duration = Duration::from_secs(5);

/// Runs the bench.
pub(crate) fn bench(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let folder = options.rounds.make_folder("ingest-")?;
    let home = Home::create(folder.path().join("home"))?;
    let results = measure(options, folder.path(), &home).map_err(|error| home.explain(error))?;
    results.print();
    println!("took {:.0} s", begun.elapsed().as_secs_f64());
    options.rounds.write(&results, &results.aims())
}

/// Everything, in the order in which it disturbs the rest least.
fn measure(options: &Options, folder: &Path, home: &Home) -> Result<Results> {
    step("fsync");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fsync = disk::measure(folder, cores)?;

    step("starts");
    let (daemon, mut starts) = start_often(home)?;
    let started_bytes = resident_at_rest(&daemon.server)?;
    let data_dir = home.data_dir();
    let target = Target {
        daemon: &daemon,
        data_dir: &data_dir,
    };

    let revisions = Revisions::new();
    step(&format!("{} requests/s", paced::PER_SECOND));
    let paced_time = options.rounds.window.time * u32::try_from(options.rounds.count)?;
    let paced = paced::measure(folder, paced_time, &revisions)?;

    step("single requests");
    let alone = rounds::alone(target, options.rounds.window.time)?;

    let floor = Server::start_floor(folder)?;
    let floor_bytes = resident_at_rest(&floor)?;
    let mut run = Run {
        options,
        folder,
        target,
        floor,
        revisions,
        look_gaps: alone.look_gaps,
        notes: Vec::new(),
    };
    if cfg!(debug_assertions) {
        run.note("built without optimisation: no figure means anything");
    }
    let shapes = run.shapes()?;
    let loaded_bytes = resident_at_rest(&daemon.server)?;
    let overloads = run.overloads()?;
    let overloaded_bytes = resident_at_rest(&daemon.server)?;
    let Run {
        look_gaps, notes, ..
    } = run;

    step("start with all the data");
    starts.with_all_data(home, daemon)?;

    Ok(Results {
        cores,
        round_seconds: options.rounds.window.time.as_secs_f64(),
        fsync,
        shapes,
        alone: Alone {
            accepted_ms: Times::from_micros(alone.accepted),
            pooled_ms: Times::from_micros(alone.pooled),
            look_gap_ms: median(&look_gaps) / 1e3,
        },
        paced,
        starts,
        memory: AtRest {
            floor_bytes,
            started_bytes,
            loaded_bytes,
            overloaded_bytes,
        },
        overloads,
        notes,
    })
}

/// Starts on an empty folder, then several times on what that left; the last one keeps running.
fn start_often(home: &Home) -> Result<(Daemon, Starts)> {
    let mut daemon = home.start()?;
    let mut starts = Starts {
        cold_ms: millis(daemon.first_accepted),
        warm_ms: Vec::new(),
        loaded_ms: f64::NAN,
        stop_ms: Vec::new(),
    };
    for _ in 0..WARM_STARTS {
        starts.stop_ms.push(millis(daemon.stop()?));
        daemon = home.start()?;
        starts.warm_ms.push(millis(daemon.first_accepted));
    }
    Ok((daemon, starts))
}

impl Starts {
    /// Stops the daemon, starts another on what it has left, and stops that too.
    fn with_all_data(&mut self, home: &Home, daemon: Daemon) -> Result<()> {
        self.stop_ms.push(millis(daemon.stop()?));
        let daemon = home.start()?;
        self.loaded_ms = millis(daemon.first_accepted);
        self.stop_ms.push(millis(daemon.stop()?));
        Ok(())
    }
}

/// The measurements under load, on one daemon and one empty handler.
struct Run<'a> {
    options: &'a Options,
    folder: &'a Path,
    target: Target<'a>,
    floor: Server,
    revisions: Revisions,
    /// Times between two looks into the pool, µs.
    look_gaps: Vec<f64>,
    /// What the reader must know.
    notes: Vec<String>,
}

impl Run<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn shapes(&mut self) -> Result<Vec<ShapeResult>> {
        let mut results = Vec::new();
        let mut plain = None;
        for &shape in &self.options.shapes {
            if shape.is_filled() {
                step(&format!("{}: filling the pool", shape.title()));
                rounds::fill(self.target, shape, &self.revisions)?;
            }
            if shape.is_array() && plain.is_none() {
                let path = self.folder.join("plain.db");
                plain = Some(PlainPool::create(&path, &self.revisions)?);
            }
            let result = self.shape(shape, plain.as_mut().filter(|_| shape.is_array()))?;
            self.check_pool(shape)?;
            self.check_answers(&result);
            results.push(result);
        }
        Ok(results)
    }

    /// The rounds of one shape: floors and daemon in turn.
    fn shape(&mut self, shape: Shape, mut plain: Option<&mut PlainPool>) -> Result<ShapeResult> {
        let time = self.options.round_of(shape);
        let mut result = ShapeResult {
            name: shape.name(),
            shape,
            body_bytes: Requests::new(shape, Keys::every(shape), &self.revisions).body_len(),
            fsync_ms: Vec::new(),
            floor: Vec::new(),
            upsert: Vec::new(),
            daemon: Vec::new(),
        };
        step(&format!("{}: warm-up", shape.title()));
        rounds::floor_round(&self.floor, shape, time / 4, &self.revisions)?;
        let name = format!("{}-warm", shape.name());
        rounds::daemon_round(self.target, shape, time / 4, &self.revisions, &name)?;
        let rounds = self.options.rounds.count;
        for number in 1..=rounds {
            step(&format!("{}: round {number} of {rounds}", shape.title()));
            let round = rounds::floor_round(&self.floor, shape, time, &self.revisions)?;
            result.floor.push(round);
            if let Some(plain) = plain.as_deref_mut() {
                let round = plain.round(shape, time, &self.revisions)?;
                result.upsert.push(round);
            }
            if shape == Shape::Small {
                result.fsync_ms.push(disk::measure_again(self.folder)?);
            }
            let name = format!("{}-{number}", shape.name());
            let (round, probes) =
                rounds::daemon_round(self.target, shape, time, &self.revisions, &name)?;
            self.look_gaps.extend(probes.look_gaps);
            result.daemon.push(round);
        }
        Ok(result)
    }

    fn overloads(&self) -> Result<Vec<Overload>> {
        let time = OVERLOAD_TIME.min(self.options.rounds.window.time * 2);
        let mut overloads = Vec::new();
        for shape in [Shape::Small, Shape::Recurring] {
            step(&format!("overload, {}", shape.title()));
            let connections = OVERLOAD_CONNECTIONS;
            let round = rounds::overload(self.target, shape, connections, time, &self.revisions)?;
            overloads.push(Overload {
                name: shape.name(),
                title: shape.title(),
                connections,
                round,
            });
        }
        Ok(overloads)
    }

    /// The pool must hold the fields that were sent, every key of a filled shape, and nothing may wait.
    fn check_pool(&mut self, shape: Shape) -> Result<()> {
        let (name, title) = (shape.name(), shape.title());
        let pool = PoolReader::open(self.target.data_dir)?;
        let key = payload::key_text(0);
        let found = pool
            .fields(name, &key)?
            .ok_or_else(|| format!("{name} has no item {key} in the pool"))?;
        let found: serde_json::Value = serde_json::from_str(&found)?;
        let expected = payload::expected_fields(shape, 0, &found)?;
        if found != expected {
            return Err(format!("the pool holds {found}\ninstead of {expected}").into());
        }
        let (count, keys) = (pool.count(name)?, shape.keys());
        if shape.is_filled() && count != keys {
            return Err(format!("{name} has {count} items in the pool instead of {keys}").into());
        }
        match settled_lag(self.target.daemon) {
            Ok(0) => {}
            Ok(lag) => self.note(format!(
                "{title}: the pool has everything, but its sink says lag {lag}"
            )),
            Err(error) => {
                self.note(format!("{title}: failed to read the sink's lag: {error}"));
            }
        }
        Ok(())
    }

    /// Names the rounds that are not to be compared.
    fn check_answers(&mut self, result: &ShapeResult) {
        for (server, rounds) in [
            ("empty handler", &result.floor),
            ("headgate", &result.daemon),
        ] {
            for round in rounds {
                if !round.all_accepted() {
                    self.note(format!(
                        "{}, {server}: answers other than 202 {:?}, broken {}: this round is not comparable",
                        result.shape.title(),
                        round.refused,
                        round.broken
                    ));
                }
            }
        }
    }
}

/// The lag of the pool's sink once it is 0, or after [`REST`].
fn settled_lag(daemon: &Daemon) -> Result<u64> {
    let begun = Instant::now();
    loop {
        let lag = daemon.pool_lag()?;
        if lag == 0 || begun.elapsed() > REST {
            return Ok(lag);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Resident bytes after [`REST`] without load.
fn resident_at_rest(server: &Server) -> Result<u64> {
    std::thread::sleep(REST);
    Ok(server.process.memory()?.resident)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
