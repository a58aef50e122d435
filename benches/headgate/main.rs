//! What Headgate costs, measured beside the least that the same work could cost.
//!
//! ```text
//! cargo bench -- ingest       # one request, end to end
//! cargo bench -- live         # pushing to renderers
//! cargo bench -- sinks        # the default sink, and guests that read
//! cargo bench -- log          # a long request log
//! cargo bench -- claims       # new idempotency keys beside a million live ones
//! cargo bench -- committers   # the journal in PostgreSQL
//! cargo bench -- senders      # signatures, and strangers beside them
//! cargo bench -- half         # requests beside half connections
//! cargo bench -- growth       # how all of this grows
//! cargo bench -- peers        # the same requests sent to others
//! cargo bench -- count        # instructions, stage by stage
//! cargo bench -- ingest --help
//! ```
//!
//! Called by Cargo; owns the command line. Each bench is a module that says what it measures and how to read it; the
//! other files here are what they share.
//!
//! **Invariant:** an argument that is not understood ends the bench before anything is started.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench waits for other processes and sets up their environment"
)]
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a bench prints what it measures"
)]

use std::future::Future;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod aim;
mod callers;
mod child;
mod claims;
mod committers;
mod count;
mod daemon;
mod disk;
mod growth;
mod half;
mod http;
mod ingest;
mod live;
mod log;
mod options;
mod peers;
mod process;
mod senders;
mod sinks;
mod table;
mod times;

/// Whatever ends a bench.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What every step of a bench returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What Headgate costs, measured beside the least that the same work could cost.
#[derive(Debug, Parser)]
#[command(name = "headgate", bin_name = "cargo bench --")]
struct Arguments {
    /// Cargo's own.
    #[arg(long, global = true, hide = true)]
    bench: bool,
    #[command(subcommand)]
    bench_of: Option<Bench>,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// One request, end to end, beside an empty HTTP handler and a plain SQLite upsert (about three minutes)
    Ingest(ingest::Options),
    /// Pushing to renderers, beside nchan where that is installed (about five minutes)
    Live(live::Options),
    /// The default sink beside the same work without WebAssembly, and what guests pay (about two minutes)
    Sinks(sinks::Options),
    /// Pages of a long request log by every filter, and intake while old entries are deleted (a few minutes)
    Log(log::Options),
    /// New idempotency keys when many others are live (about a minute)
    Claims(claims::Options),
    /// The journal in PostgreSQL: one node and twelve, and new keys when many others are live (about a minute)
    Committers(claims::Live),
    /// Signed requests beside those with a key, and one who signs beside strangers (about a minute)
    Senders(senders::Options),
    /// Requests while half connections are open, with TLS and without it (about six minutes)
    Half(half::Options),
    /// How cost grows with connections, items, streams, keys, sinks, renderers and others (some minutes)
    Growth(growth::Options),
    /// The same requests sent to an empty handler and to what others would take for the job (about five minutes)
    Peers(peers::Options),
    /// Instructions of fixed requests, stage by stage, under valgrind (about a minute)
    Count(count::Options),
    #[command(hide = true)]
    EmptyHandler(ingest::floor::Options),
}

fn main() -> ExitCode {
    // `cargo test --all-targets` starts benches too, and must not wait for them.
    let by_cargo_bench = std::env::args().any(|argument| argument == "--bench");
    let bench = by_cargo_bench
        .then(|| Arguments::parse().bench_of)
        .flatten();
    let Some(bench) = bench else {
        println!("{}", Arguments::command().render_help());
        return ExitCode::SUCCESS;
    };
    let reached = match bench {
        Bench::Ingest(options) => ingest::bench(&options).map(|()| true),
        Bench::Live(options) => live::bench(options).map(|()| true),
        Bench::Sinks(options) => block_on(sinks::bench(&options)).map(|()| true),
        Bench::Log(options) => block_on(log::bench(&options)),
        Bench::Claims(options) => block_on(claims::bench(&options)),
        Bench::Committers(live) => block_on(committers::bench(&live)),
        Bench::Senders(options) => senders::bench(&options),
        Bench::Half(options) => half::bench(&options),
        Bench::Growth(options) => growth::bench(&options).map(|()| true),
        Bench::Peers(options) => peers::bench(&options),
        Bench::Count(options) => count::bench(&options),
        Bench::EmptyHandler(options) => ingest::floor::serve(&options).map(|()| true),
    };
    match reached {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs on one worker beside this thread, as the daemon does on two cores.
fn block_on<T>(bench: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(bench)
}

/// Says what is done now.
fn step(name: &str) {
    eprintln!("… {name}");
}
