//! `headgate tail`: follows streams or the request log, in the terminal or in a pipe, until it is stopped.
//!
//! Called by the command line. It connects and reconnects (`follow`), reads the event stream (`sse`) and its messages
//! (`message`), and prints them (`view`).
//!
//! With a read key, it calls only the service. Without one, it is for operators: the admin API issues a ticket for each
//! connection. With `--log`, it calls only the admin API (`log`).
//!
//! **Invariant**: each change is printed once and in order, even after an outage, as long as the service can resume
//! from the position. Otherwise all items are printed again, and a note says so.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use self::follow::{Follow, Timing, position};
use self::log::FollowLog;
use self::view::{TailOutput, View, ViewOptions};
use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{closed, note};
use super::patience::WaitArgs;
use crate::Running;
use base::key::{self, KeyFormError};
use wire::Status;

mod follow;
mod log;
pub(crate) mod message;
pub mod sse;
mod view;

/// Arguments of `headgate tail`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  headgate tail orders
  HEADGATE_READ_KEY=rk_live_… headgate tail orders customers --url https://gate.example
  headgate tail orders --output json | jq .items
  headgate tail orders --no-snapshot --count 1
  headgate tail --log --connector shop --status rejected,failed

A line is a change: time, stream (if there are several), what happened, key, fields.
  =  the item when tail starts
  ~  the item is new or has changed; its current fields
  -  the item was removed
Without a read key, tail asks the admin API for access, which needs the admin token.
After an outage, tail reconnects automatically and continues where it stopped. If the daemon does not answer at all,
tail exits after 10 seconds, unless --wait is given.

With --log, a line is a request: time, status, HTTP status, items, connector/stream, request, errors.
It is printed when it first appears; with --status, when it first has one of these statuses.")]
pub struct TailArgs {
    /// The streams to follow
    #[arg(required_unless_present = "log", value_name = "STREAM")]
    streams: Vec<String>,
    /// Follow the request log instead, over the admin API
    #[arg(long, conflicts_with_all = ["streams", "where", "fields", "since", "max_rate", "heartbeats"])]
    log: bool,
    /// Only items that meet these conditions, such as `status:paid,total>=100`
    #[arg(long, value_name = "CONDITIONS")]
    r#where: Option<String>,
    /// Only these fields, in this order, such as `id,customer.*` or `-note`
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// With --log: only requests of this connector, by name or id
    #[arg(
        long,
        value_name = "NAME",
        requires = "log",
        conflicts_with = "streams"
    )]
    connector: Option<String>,
    /// With --log: only requests with one of these statuses
    #[arg(
        long,
        value_parser = super::requests::status(),
        value_delimiter = ',',
        requires = "log",
        conflicts_with = "streams"
    )]
    status: Vec<Status>,
    /// Where the service listens: http://host:port or unix:/path
    #[arg(long, env = "HEADGATE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Read key; prefer the environment variable or a file
    #[arg(long, env = "HEADGATE_READ_KEY", hide_env_values = true)]
    key: Option<String>,
    /// File that contains the read key; overrides --key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Output format [default: table on a terminal, else json]
    #[arg(long, value_enum)]
    output: Option<TailOutput>,
    /// Omit existing items, or the last entries of the log
    #[arg(long)]
    no_snapshot: bool,
    /// Exit after this number of changes or requests; existing items do not count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Start with the changes after this position, the `id` of a message
    #[arg(long, value_name = "EPOCH:SEQ", value_parser = position)]
    since: Option<String>,
    /// Largest number of flushes per second from the service; changes in between are merged
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_rate: Option<u16>,
    /// With JSON: print heartbeats too
    #[arg(long)]
    heartbeats: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Omits the key.
impl fmt::Debug for TailArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TailArgs")
            .field("streams", &self.streams)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Runs the verb. Ctrl-C or a closed pipe (`| head`) ends it, and neither is a failure.
pub fn run(args: TailArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: TailArgs) -> Result<(), CliError> {
    if args.log {
        return follow_log(args).await;
    }
    let (service, admin) = match read_key(&args)? {
        Some(key) => (Client::new(&args.url, &key)?, None),
        None => {
            let admin = args.admin.client().map_err(|error| {
                let instead = "or set a read key with --key-file or HEADGATE_READ_KEY";
                CliError {
                    message: format!("{error}; {instead}"),
                    ..error
                }
            })?;
            (Client::without_secret(&args.url)?, Some(admin))
        }
    };
    let mut streams = args.streams;
    let mut seen = std::collections::HashSet::new();
    streams.retain(|stream| seen.insert(stream.clone()));
    let to_terminal = io::stdout().is_terminal();
    let options = ViewOptions {
        output: args.output.unwrap_or_else(|| default_output(to_terminal)),
        heartbeats: args.heartbeats,
        first_snapshot: !args.no_snapshot,
        count: args.count,
    };
    let follow = Follow {
        service: &service,
        tickets: admin.as_ref(),
        streams: &streams,
        filter: [("where", args.r#where), ("fields", args.fields)],
        max_rate: args.max_rate,
        since: args.since,
        timing: Timing {
            absent_max: args.wait.absent_max(),
            ..Timing::default()
        },
        view: View::new(options, &streams, move || to_terminal.then(columns)),
        out: &mut io::stdout(),
        note: &note,
    };
    until_left(follow.run()).await
}

/// Follows until the user stops it, or the reader of the output closes it.
async fn until_left(follow: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    tokio::select! {
        done = follow => done,
        Ok(()) = tokio::signal::ctrl_c() => Ok(()),
        () = closed() => Ok(()),
    }
}

async fn follow_log(args: TailArgs) -> Result<(), CliError> {
    let follow = FollowLog {
        admin: &args.admin.client()?,
        connector: args.connector,
        statuses: args.status,
        output: (args.output).unwrap_or_else(|| default_output(io::stdout().is_terminal())),
        before: !args.no_snapshot,
        count: args.count,
        absent_max: args.wait.absent_max(),
        out: &mut io::stdout(),
        note: &note,
    };
    until_left(follow.run()).await
}

fn default_output(to_terminal: bool) -> TailOutput {
    if to_terminal {
        TailOutput::Table
    } else {
        TailOutput::Json
    }
}

/// The read key, if given.
fn read_key(args: &TailArgs) -> Result<Option<String>, CliError> {
    let key = match (&args.key_file, &args.key) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|error| {
            CliError::wrong_use(format!(
                "cannot read the key file {}: {error}",
                path.display()
            ))
        })?,
        (None, Some(key)) => key.clone(),
        (None, None) => return Ok(None),
    };
    let key = key.trim();
    if key.is_empty() && args.key_file.is_none() {
        return Ok(None);
    }
    if key.is_empty() {
        return Err(CliError::wrong_use("the key file is empty"));
    }
    if key.starts_with("ik_") {
        return Err(CliError::wrong_use(
            "this is an ingest key, which cannot read: a read key begins with rk_",
        ));
    }
    if key::check_form(key) == Err(KeyFormError::Checksum) {
        note("warning: the key's checksum does not match: was it mistyped?");
    }
    Ok(Some(key.to_owned()))
}

/// The width of the output terminal.
#[cfg(unix)]
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    // A terminal without a known width gets whole lines.
    if columns == 0 { usize::MAX } else { columns }
}

#[cfg(not(unix))]
fn columns() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests;
