//! What others do with the same requests, and what they promise for it.
//!
//! Starts, one after the other, an empty salvo handler, `headgate serve`, and the peers in `benches/peers`: a service
//! written with Node.js (fastify, better-sqlite3), one with Python (FastAPI, uvicorn, sqlite3), Datasette with its JSON
//! write API, and nginx with nchan. Each is sent objects of 200 B with 100 recurring keys from 64 keep-alive
//! connections, then arrays of 5,000 items just under 1 MB from 8. After that each is killed with SIGKILL in the middle
//! of load, with a key of its own in each request, started again, and searched for what it had answered 2xx.
//!
//! The peers are installed into `target/peers` first, as the lock file of each says. One that cannot be installed is
//! left out, in so many words.
//!
//! How to read it: load generator and server share the cores, so requests/s is what both reach together. **CPU
//! us/request** is the CPU time of the server's process and of all that it started, to 10 ms in seconds of load, and is
//! the figure to compare. Headgate's includes everything until the item is in the pool, and its items/s count until
//! then; the others are done when they answer. Where `limit` is
//! the generator, the server could do more than it was sent. A kill tells what was written, not what was flushed: for that see what
//! each promises.
//!
//! Called by the command line; owns the order of the measurements.
//!
//! **Invariant:** no figure is printed of a server that answered other than it says it does, or that does not hold what
//! it was sent; then the bench fails. It fails too if what promises to keep requests lost one when it was killed.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::ingest::load::{Load, Source};
use crate::ingest::payload::{Keys, Revisions, Shape};
use crate::ingest::rounds::Round;
use crate::options::Rounds;
use crate::{Result, disk, step};
use peer::{Peer, STREAMS};
use report::{Measured, Results};
use running::Running;

mod killed;
mod peer;
mod report;
mod running;
mod store;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Who is measured, all by default
    #[arg(long = "only", value_name = "NAME,…", value_enum, value_delimiter = ',', default_values_t = Peer::value_variants().to_vec(), hide_default_value = true)]
    peers: Vec<Peer>,
}

/// Longest time for sending every key once.
const FILL_WAIT: Duration = Duration::from_secs(60);

/// Rest before memory is read.
const REST: Duration = Duration::from_secs(2);

/// Runs the bench; false if a server failed at what it says it does.
pub(crate) fn bench(options: &Options) -> Result<bool> {
    let begun = Instant::now();
    let folder = options.rounds.make_folder("peers-")?;
    let mut results = Results {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        round_seconds: options.rounds.window.time.as_secs_f64(),
        fsync_ms: disk::measure_again(folder.path())?,
        measured: Vec::new(),
        left_out: Vec::new(),
        failed: Vec::new(),
    };
    for &peer in &options.peers {
        let name = peer.name();
        step(&format!("{name}: installing"));
        if let Some(why) = peer.install()? {
            results.left_out.push(format!("{name}: {why}"));
            eprintln!("\n!!! left out: {name}: {why}\n");
            continue;
        }
        match measure(options, folder.path(), peer) {
            Ok(measured) => {
                let lost = measured.killed.lost;
                if lost > 0 && peer.keeps() {
                    eprintln!("\n!!! FAILED: {name}: lost {lost} acknowledged requests\n");
                    let text = format!("{name}: lost {lost} acknowledged requests");
                    results.failed.push(text);
                }
                results.measured.push(measured);
            }
            Err(error) => {
                eprintln!("\n!!! FAILED: {name}: {error}\n");
                results.failed.push(format!("{name}: {error}"));
            }
        }
    }
    results.print();
    println!("took {:.0} s", begun.elapsed().as_secs_f64());
    options.rounds.write(&results, &[])?;
    Ok(results.failed.is_empty())
}

/// Everything of one server.
fn measure(options: &Options, parent: &Path, peer: Peer) -> Result<Measured> {
    let folder = parent.join(peer.name());
    let running = Running::start(peer, &folder)?;
    let mut load = Rising {
        running: &running,
        revisions: Revisions::new(),
        accepted: [0; STREAMS.len()],
        number: 0,
    };
    let rounds = load
        .rounds(options)
        .and_then(|rounds| load.check().map(|()| rounds))
        .map_err(|error| running.explain(error))?;
    std::thread::sleep(REST);
    let resident_bytes = running.server().process.tree_resident()?;
    drop(running);
    let [small, arrays] = rounds;
    Ok(Measured {
        name: peer.name(),
        promise: peer.promise(),
        small,
        arrays,
        resident_bytes,
        killed: killed::measure(options.rounds.window.time, parent, peer)?,
    })
}

/// The load on one server, and what it has accepted so far.
struct Rising<'a> {
    running: &'a Running,
    revisions: Revisions,
    accepted: [u64; STREAMS.len()],
    number: usize,
}

impl Rising<'_> {
    /// The rounds of each stream, after one that warms up.
    fn rounds(&mut self, options: &Options) -> Result<[Vec<Round>; STREAMS.len()]> {
        let mut all = [const { Vec::new() }; STREAMS.len()];
        let time = options.rounds.window.time;
        for (place, shape) in STREAMS.into_iter().enumerate() {
            let time = if shape.is_array() { time / 2 } else { time };
            let (name, title) = (self.running.peer.name(), shape.title());
            step(&format!("{name}: {title}: warm-up"));
            self.fill(place, shape)?;
            self.round(place, shape, time / 4)?;
            for number in 1..=options.rounds.count {
                let count = options.rounds.count;
                step(&format!("{name}: {title}: round {number} of {count}"));
                all[place].push(self.round(place, shape, time)?);
            }
        }
        Ok(all)
    }

    /// Sends every key once: a slow server is not sent all of them in the rounds.
    fn fill(&mut self, place: usize, shape: Shape) -> Result<()> {
        let keys = Keys::every(shape);
        let load = Load {
            requests_max: shape.keys() / shape.items() as u64,
            ..self.running.load(FILL_WAIT)
        };
        let requests = self.running.requests(shape, keys, &self.revisions);
        let outcome = load.run(vec![Source::Fresh(Box::new(requests))])?;
        if outcome.accepted != load.requests_max {
            let (refused, broken) = (outcome.refused, outcome.broken);
            return Err(format!("failed to send every key: {refused:?}, broken {broken}").into());
        }
        self.accepted[place] += outcome.accepted;
        Ok(())
    }

    fn round(&mut self, place: usize, shape: Shape, time: Duration) -> Result<Round> {
        self.number += 1;
        let sources = (0..shape.connections())
            .map(|sender| {
                let keys = Keys::of(shape, sender);
                let requests = self.running.requests(shape, keys, &self.revisions);
                Source::Fresh(Box::new(requests))
            })
            .collect();
        let round = self.running.round(shape, sources, time, self.number)?;
        if !round.all_accepted() {
            let (refused, broken) = (&round.refused, round.broken);
            return Err(
                format!("other answers than it promises: {refused:?}, broken {broken}").into(),
            );
        }
        self.accepted[place] += round.accepted;
        Ok(round)
    }

    /// What was sent must be there.
    fn check(&self) -> Result<()> {
        let store = self.running.store()?;
        for (shape, accepted) in STREAMS.into_iter().zip(self.accepted) {
            store.check(shape, shape.keys(), accepted)?;
        }
        store.check_messages(self.accepted.iter().sum())
    }
}
