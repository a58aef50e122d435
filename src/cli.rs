//! The command line: a verb, a file.
//!
//! `main` calls [`main`]. `serve` and `demo` run the daemon; the other verbs work without one or talk
//! to one over its APIs.
//!
//! **Invariant**: exit codes are 0 done, 1 failed, 2 wrong use or configuration, 70 storage failure, 78 a cluster that needs
//! a newer version.

pub mod audit;
pub mod backup;
pub mod bench;
pub mod check;
pub mod cluster;
mod compile_plugin;
pub mod completions;
pub mod config;
mod confine;
pub mod demo;
pub mod licenses;
mod logging;
pub mod man;
pub mod migrate;
pub mod plugin;
mod port;
pub mod preset;
pub mod repair;
pub mod screen;
pub mod serve;
mod stream_names;

use ::client::{
    client, connector, error, export, healthcheck, item, key, operate_key, output, problems,
    read_key, requests, resource, screens, search, send, session, sign_in, signals, sink, status,
    stream, tail, trigger, zone,
};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::daemon::cache_dir;
pub use ::client::configuration::{ConfigArgs, load, load_with, tentative, unusable};
use ::plugin::{GuestLimits, Plugins};
use error::CliError;
use observe::lines;
use settings::{Loaded, Problem, Problems};

/// The profile that this program was built with, and the commit that it was made of where that is known.
const BUILD: &str = env!("BUILT_AS");

/// Data ingestion daemon: accepts JSON over HTTP, stores it durably, and pushes changes to screens.
#[derive(Debug, Parser)]
#[command(
    name = "headgate",
    version,
    long_version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILT_AS"), ")"),
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Print times in UTC; otherwise they are in the time zone of this machine
    #[arg(long, global = true)]
    utc: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the daemon
    Serve(serve::ServeArgs),
    /// Start a demo daemon with sample data
    Demo(demo::DemoArgs),
    /// Validate the configuration and plugins, and list all errors
    Check(check::CheckArgs),
    /// Show the effective configuration and the source of each value
    Config(config::ConfigVerbArgs),
    /// Show problems, sinks and screens of a running daemon; exit code 1 if there is a problem
    Status(status::StatusArgs),
    /// List the problems of a running daemon, and since when they exist
    Problems(problems::ProblemsArgs),
    /// Find items, requests, dead letters and names in a running daemon
    Search(search::SearchArgs),
    /// Create, change and delete streams of a running daemon
    Stream(Box<stream::StreamArgs>),
    /// Show or remove an item of a running daemon
    Item(item::ItemArgs),
    /// Create, change and delete connectors of a running daemon
    Connector(Box<connector::ConnectorArgs>),
    /// Create, rotate and revoke ingest keys; make keys for a configuration file
    Key(key::KeyArgs),
    /// Create and revoke read keys, for renderers
    ReadKey(read_key::ReadKeyArgs),
    /// Create and revoke operate keys, which override and hold what screens show
    OperateKey(operate_key::OperateKeyArgs),
    /// Create pages for screens, print their URLs, and list screens
    Screen(Box<screen::ScreenArgs>),
    /// Send JSON or NDJSON from a file or from standard input
    Send(send::SendArgs),
    /// Print a one-time link that signs in to the admin pages
    SignIn(sign_in::SignInArgs),
    /// List and end admin page sessions
    Session(session::SessionArgs),
    /// Show or verify the audit log of a running daemon
    Audit(audit::AuditArgs),
    /// Send a signed sample event to a connector
    Trigger(trigger::TriggerArgs),
    /// Follow streams: print each change as it happens
    Tail(tail::TailArgs),
    /// Write all items of a stream as a table: CSV, TSV, JSON or NDJSON
    Export(export::ExportArgs),
    /// Create, check and test plugins, without a daemon
    Plugin(plugin::PluginArgs),
    /// List, print and test presets, the built-in settings for providers
    Preset(preset::PresetArgs),
    /// Show the request log of a running daemon
    Requests(requests::RequestsArgs),
    /// Show the state of sinks; retry or discard undelivered items
    Sink(Box<sink::SinkArgs>),
    /// Show the nodes that share one database
    Cluster(cluster::ClusterArgs),
    /// Move a data directory into a cluster, or a cluster into a data directory
    Migrate(migrate::MigrateArgs),
    /// Load-test a running daemon and find its bottleneck, or measure daemons that it starts itself
    Bench(Box<bench::BenchVerbArgs>),
    /// Back up the data of a running daemon to a new directory
    Backup(backup::BackupArgs),
    /// Create a data directory from a backup
    Restore(backup::RestoreArgs),
    /// Check the files of a data directory and recover readable data from damaged ones
    Repair(repair::RepairArgs),
    /// Check whether the daemon accepts requests (for container health checks)
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Write manual pages
    Man(man::ManArgs),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
    /// List the dependencies of this program and their licenses
    Licenses(licenses::LicensesArgs),
}

/// Parses the command line, runs the verb, returns the exit code.
pub fn main() -> ExitCode {
    // No verb for people: it stands in no help and no completion.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if_eq(compile_plugin::VERB).is_some() {
        return exit_code(compile_plugin::run(arguments));
    }
    if arguments.next_if_eq(bench::NODE_VERB).is_some() {
        return exit_code(bench::run_node(arguments));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return wrong_use(&error),
    };
    if cli.utc {
        zone::use_utc();
    }
    let done = match cli.verb {
        Verb::Serve(args) => serve::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Config(args) => config::run(&args),
        Verb::Status(args) => short(status::run(args)),
        Verb::Problems(args) => short(problems::run(args)),
        Verb::Search(args) => short(search::run(args)),
        Verb::Item(args) => short(item::run(args)),
        Verb::Stream(args) => short(stream::run(*args)),
        Verb::Connector(args) => short(connector::run(*args)),
        Verb::Key(args) => short(key::run(args)),
        Verb::ReadKey(args) => short(read_key::run(args)),
        Verb::OperateKey(args) => short(operate_key::run(args)),
        Verb::Screen(args) => short(Box::pin(screen::run(*args))),
        Verb::Send(args) => short(send::run(args)),
        Verb::SignIn(args) => short(sign_in::run(args)),
        Verb::Session(args) => short(session::run(args)),
        Verb::Audit(args) => short(Box::pin(audit::run(args))),
        Verb::Trigger(args) => short(trigger::run(args)),
        Verb::Tail(args) => short(tail::run(args)),
        Verb::Export(args) => short(export::run(args)),
        Verb::Plugin(args) => short(Box::pin(plugin::run(args))),
        Verb::Preset(args) => short(Box::pin(preset::run(args))),
        Verb::Requests(args) => short(requests::run(args)),
        Verb::Sink(args) => short(sink::run(*args)),
        Verb::Cluster(args) => short(Box::pin(cluster::run(args))),
        Verb::Migrate(args) => short(Box::pin(migrate::run(args))),
        Verb::Bench(args) => bench::run(*args),
        Verb::Backup(args) => short(Box::pin(backup::backup(args))),
        Verb::Restore(args) => backup::restore(&args),
        Verb::Repair(args) => repair::run(&args),
        Verb::Healthcheck(args) => short(healthcheck::run(args)),
        Verb::Man(args) => man::run(&args, Cli::command()),
        Verb::Completions(args) => short(Box::pin(completions::run(args, Cli::command()))),
        Verb::Licenses(args) => licenses::run(&args),
    };
    exit_code(done)
}

fn exit_code(done: Result<(), CliError>) -> ExitCode {
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::note(&output::shown_lines(&format!("error: {error}")));
            ExitCode::from(error.code)
        }
    };
    lines::flush();
    code
}

/// Says what is wrong with the arguments, or prints the help that they ask for.
fn wrong_use(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match output::shown_lines(&text) {
        // With the arguments as they were given, and in colours.
        Cow::Borrowed(_) => drop(error.print()),
        Cow::Owned(shown) => output::note(shown.trim_end()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs a verb that is a client: one thread is enough.
fn short(verb: Pin<Box<dyn Future<Output = Result<(), CliError>> + '_>>) -> Result<(), CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start: {error}")))?
        .block_on(verb)
}

/// The executable of this process, also where another version has taken its place on disk meanwhile.
fn program() -> Result<PathBuf, CliError> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
        .map_err(|error| CliError::failed(format!("cannot find this program's file: {error}")))
}

/// The plugins, with what was compiled of them by a daemon of this data folder, or for one: it is compiled once for all.
fn plugins(data_dir: &Path, limits: GuestLimits) -> Result<Plugins, CliError> {
    let program = program()?;
    let made = match data_dir.is_dir() {
        true => Plugins::beside(&cache_dir(data_dir), Some(&program), limits),
        false => Plugins::new(None, Some(&program), limits),
    };
    made.map_err(|error| CliError::failed(error.to_string()))
}

/// A configuration whose sinks have settings that their built-in plugins take, and whose new streams have names of their
/// own: what a daemon starts with.
fn with_fitting_sinks(loaded: Loaded) -> Result<Loaded, CliError> {
    let sinks = 0..loaded.settings.sinks.len();
    let mut problems: Vec<Problem> = sinks
        .flat_map(|index| invalid_sinks(&loaded, index))
        .collect();
    problems.extend(stream_names::invalid_names(&loaded));
    match problems.is_empty() {
        true => Ok(loaded),
        false => Err(unusable(Problems(problems))),
    }
}

/// What does not fit of the settings of a sink, by its place among all.
fn invalid_sinks(loaded: &Loaded, index: usize) -> Vec<Problem> {
    let invalid_sinks = ::plugin::invalid_config(&loaded.settings.sinks[index]).into_iter();
    let problem = |(place, said)| loaded.problem(&format!("sinks[{index}].{place}"), said);
    invalid_sinks.map(problem).collect()
}
