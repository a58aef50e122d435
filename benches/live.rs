//! How soon a change is on the screens, what a screen costs, and what is left out under load.
//!
//! ```text
//! cargo bench --bench live                                # about five minutes, prints tables
//! cargo bench --bench live -- --json results.json         # and writes every round
//! HEADGATE_BENCH_SECONDS=1 cargo bench --bench live -- --only push --rounds 1
//! ```
//!
//! Starts `headgate serve` as a child with its data on the disk under `target/tmp` (or `--dir`), connects up to
//! 10,000 renderers to it over loopback, and submits small keyed items at fixed rates:
//!
//! - **push**: request to 202 and request to each renderer, with none, 1, 100 and 1,000 of them, for both settings
//!   of `storage.durability`; and the server's CPU time for each delivery.
//! - **memory**: of each idle connection, with 1,000 and 10,000, Server-Sent Events and WebSocket.
//! - **intake**: the 202 with and without 10,000 idle renderers.
//! - **conflation**: the rate from which renderers are shown fewer versions than were accepted.
//!
//! Push and memory are measured on nginx with nchan too, in the same run, if that is installed. It is there to
//! say what the machine and this client allow; it keeps messages in memory only and promises less.
//!
//! How to read it: senders and renderers share the cores with the server. With 1,000 renderers a message is sent
//! 1,000 times and read 1,000 times, so half of that work lies before the median delivery; `last` is when all had
//! it. `after 202` is what the aim is for: the renderer's median less the 202's median of the same round. CPU time
//! is the server process's own; absolute times drift with the machine, so compare within one run.
//!
//! Called by Cargo; owns the order of the measurements. The modules below own one kind of measurement each.
//!
//! **Invariant:** no server outlives the measurement that it was started for, and only one of them has work at any
//! time.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench waits for other processes and reads its own environment variables"
)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use daemon::Durability;
use nchan::Nchan;
use options::{Measure, Options, Program};
use report::Results;

#[path = "shared/aim.rs"]
mod aim;
#[path = "live/aims.rs"]
mod aims;
#[path = "live/child.rs"]
mod child;
#[path = "live/conflation.rs"]
mod conflation;
#[path = "live/daemon.rs"]
mod daemon;
#[expect(
    dead_code,
    reason = "shared with the bench ingest, which uses the rest"
)]
#[path = "shared/disk.rs"]
mod disk;
#[expect(
    dead_code,
    reason = "shared with the bench ingest, which uses the rest"
)]
#[path = "shared/http.rs"]
mod http;
#[path = "live/idle.rs"]
mod idle;
#[path = "live/intake.rs"]
mod intake;
#[path = "live/item.rs"]
mod item;
#[path = "live/nchan.rs"]
mod nchan;
#[path = "live/options.rs"]
mod options;
#[expect(
    dead_code,
    reason = "shared with the bench ingest, which uses the rest"
)]
#[path = "shared/process.rs"]
mod process;
#[path = "live/push.rs"]
mod push;
#[path = "live/renderers.rs"]
mod renderers;
#[path = "live/report.rs"]
mod report;
#[path = "live/sender.rs"]
mod sender;
#[path = "live/server.rs"]
mod server;
#[path = "shared/table.rs"]
mod table;
#[path = "shared/times.rs"]
mod times;
#[path = "live/usage.rs"]
mod usage;
#[path = "live/wire.rs"]
mod wire;

/// Whatever ends the bench.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What every step of the bench returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Open files beside those of the renderers.
const OTHER_FILES: usize = 500;

fn main() -> ExitCode {
    let done = Options::read().and_then(|options| match options {
        Some(options) => bench(options),
        None => {
            println!("{}", options::HELP);
            Ok(())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(mut options: Options) -> Result<()> {
    let begun = Instant::now();
    let mut notes = Vec::new();
    if cfg!(debug_assertions) {
        notes.push("built without optimisation: no figure means anything".to_owned());
    }
    // The largest case of push has its own number of renderers.
    let wanted = options.connections.max(push::RENDERERS_MAX) + OTHER_FILES;
    let files = child::raise_open_files(wanted)?;
    if files < options.connections + OTHER_FILES {
        options.connections = files.saturating_sub(OTHER_FILES).max(1);
        let text = format!(
            "only {} connections, as no more than {files} files may be open (ulimit -n)",
            options.connections
        );
        loudly(&text);
        notes.push(text);
    }
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::Builder::new()
        .prefix("live-")
        .tempdir_in(&options.folder)?;
    let mut results = measure(&options, folder.path(), notes)?;
    results.note_failures();
    results.print();
    println!("took {:.0} s", begun.elapsed().as_secs_f64());
    if let Some(path) = &options.json {
        let all = serde_json::json!({ "results": results, "aims": results.aims() });
        std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
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
        round_seconds: options.round.as_secs_f64(),
        fsync_ms: disk::measure_again(folder)?,
        nchan: nchan.as_ref().map(|nchan| nchan.version.clone()),
        push: Vec::new(),
        memory: Vec::new(),
        intake: None,
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
        if options.wants(Measure::Conflation) {
            results.conflation = conflation::measure(options, folder)?;
        }
    }
    Ok(results)
}

fn step(name: &str) {
    eprintln!("… {name}");
}

fn loudly(text: &str) {
    eprintln!("\n!!! {text}\n");
}
