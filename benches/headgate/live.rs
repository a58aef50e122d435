//! How soon a change is on the screens, what a screen costs, and what is left out under load.
//!
//! Starts `headgate serve` as a child with its data on the disk under `target/tmp` (or `--dir`), connects up to
//! 10,000 renderers to it over loopback, and submits small keyed items at fixed rates:
//!
//! - **push**: request to 202 and request to each renderer, with none, 1, 100 and 1,000 of them, for both settings
//!   of `storage.durability`; and the server's CPU time for each delivery.
//! - **memory**: of each idle connection, with 1,000 and 10,000, Server-Sent Events and WebSocket.
//! - **intake**: the 202 with and without 10,000 idle renderers.
//! - **polls**: the 202 with and without 500 polls a second of a feed of the same stream, and what they cost.
//! - **filtered**: 10,000 renderers, each with a filter for an item of its own, beside as many unfiltered ones that each
//!   watch a stream with that item alone; and with 200 conditions between them.
//! - **conflation**: the rate from which renderers are shown fewer versions than were accepted.
//!
//! Push and memory are measured on nginx with nchan too, in the same run, if that is installed. It is there to
//! say what the machine and this client allow; it keeps messages in memory only and promises less.
//!
//! How to read it: senders and renderers share the cores with the server. With 1,000 renderers a message is sent
//! 1,000 times and read 1,000 times, so half of that work lies before the median delivery; `last` is when all had
//! it. `after 202` is what the aim is for: the renderer's median less the 202's median of the same round. CPU time
//! is the server process's own; absolute times drift with the machine, so compare within one run. How many instructions a
//! change costs for each renderer says `count`.
//!
//! Called by the command line; owns the order of the measurements. The modules below own one kind of measurement each.
//!
//! **Invariant:** no server outlives the measurement that it was started for, and only one of them has work at any
//! time.

use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;

use crate::options::{self, Rounds};
use crate::{Result, child, disk, step};
use daemon::Durability;
use nchan::Nchan;
use report::Results;

mod aims;
mod conflation;
pub(crate) mod daemon;
mod filtered;
mod idle;
mod intake;
mod item;
mod nchan;
mod polls;
pub(crate) mod push;
mod renderers;
mod report;
mod sender;
pub(crate) mod server;
mod usage;
mod wire;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// The measurements to run, all by default
    #[arg(long = "only", value_name = "NAME,…", value_enum, value_delimiter = ',', default_values_t = Measure::value_variants().to_vec(), hide_default_value = true)]
    measures: Vec<Measure>,
    /// The programs to run them on, both by default; intake, polls, filtered and conflation are of headgate only
    #[arg(long = "server", value_name = "NAME,…", value_enum, value_delimiter = ',', default_values_t = Program::value_variants().to_vec(), hide_default_value = true)]
    programs: Vec<Program>,
    /// Connections of memory, intake and filtered
    #[arg(long, value_name = "N", default_value = "10000", value_parser = options::count(100_000))]
    connections: usize,
}

/// One kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Time to the renderers and CPU for each delivery
    Push,
    /// Memory of idle connections
    Memory,
    /// Intake beside many idle connections
    Intake,
    /// Intake beside many who poll a feed
    Polls,
    /// CPU time and bytes of many filters
    Filtered,
    /// The rate at which versions are left out
    Conflation,
}

/// Which program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// The daemon
    Headgate,
    /// nginx with the module nchan
    Nchan,
}

impl Options {
    /// Whether this measurement is to run.
    fn wants(&self, measure: Measure) -> bool {
        self.measures.contains(&measure)
    }

    /// Whether this program is to be measured.
    fn serves(&self, program: Program) -> bool {
        self.programs.contains(&program)
    }
}

/// Open files for each renderer: a daemon lets renderers have half of its connections.
const FILES_EACH: usize = 2;

/// Open files beside those of the renderers.
const OTHER_FILES: usize = 600;

/// Runs the bench.
pub(crate) fn bench(mut options: Options) -> Result<()> {
    let begun = Instant::now();
    let mut notes = Vec::new();
    if cfg!(debug_assertions) {
        notes.push("built without optimisation: no figure means anything".to_owned());
    }
    // The largest case of push has its own number of renderers.
    let wanted = options.connections.max(push::RENDERERS_MAX) * FILES_EACH + OTHER_FILES;
    let files = child::raise_open_files(wanted)?;
    if files < options.connections * FILES_EACH + OTHER_FILES {
        options.connections = (files.saturating_sub(OTHER_FILES) / FILES_EACH).max(1);
        let text = format!(
            "only {} connections, as no more than {files} files may be open (ulimit -n)",
            options.connections
        );
        loudly(&text);
        notes.push(text);
    }
    let folder = options.rounds.make_folder("live-")?;
    let mut results = measure(&options, folder.path(), notes)?;
    results.note_failures();
    results.print();
    println!("took {:.0} s", begun.elapsed().as_secs_f64());
    options.rounds.write(&results, &results.aims())
}

/// Everything that was chosen, on servers that are started for it.
fn measure(options: &Options, folder: &Path, mut notes: Vec<String>) -> Result<Results> {
    let compares = options.wants(Measure::Push) || options.wants(Measure::Memory);
    let nchan = if compares && options.serves(Program::Nchan) {
        Nchan::find()
            .inspect_err(|error| {
                let text = format!("NOT COMPARED with nchan: {error}");
                loudly(&text);
                notes.push(text);
            })
            .ok()
    } else {
        None
    };
    step("fsync");
    let mut results = Results {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        round_seconds: options.rounds.window.time.as_secs_f64(),
        fsync_ms: disk::measure_again(folder)?,
        nchan: nchan.as_ref().map(|nchan| nchan.version.clone()),
        push: Vec::new(),
        memory: Vec::new(),
        intake: None,
        polls: None,
        filtered: Vec::new(),
        conflation: Vec::new(),
        notes,
    };
    if options.wants(Measure::Push) {
        let mut servers = Vec::new();
        if options.serves(Program::Headgate) {
            servers.push(daemon::start(folder, "push-fsync", Durability::Fsync)?);
            servers.push(daemon::start(folder, "push-os", Durability::Os)?);
        }
        if let Some(nchan) = &nchan {
            servers.push(nchan.start(folder, "push-nchan", options.connections)?);
        }
        results.push = push::measure(options, &servers)?;
    }
    if options.wants(Measure::Memory) {
        results.memory = idle::measure(options, folder, nchan.as_ref())?;
    }
    if options.serves(Program::Headgate) {
        if options.wants(Measure::Intake) {
            results.intake = Some(intake::measure(options, folder)?);
        }
        if options.wants(Measure::Polls) {
            results.polls = Some(polls::measure(options, folder)?);
        }
        if options.wants(Measure::Filtered) {
            results.filtered = filtered::measure(options, folder)?;
        }
        if options.wants(Measure::Conflation) {
            results.conflation = conflation::measure(options, folder)?;
        }
    }
    Ok(results)
}

fn loudly(text: &str) {
    eprintln!("\n!!! {text}\n");
}
