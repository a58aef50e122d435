//! `headgate send`: submits a JSON or NDJSON file, or standard input, in batches.
//!
//! Called by the command line. It reads on a separate thread (`batch`, `split`), sends in order (`deliver`, `upload`),
//! and reports the result (`report`). With `--spool`, the client library for Rust sends (`spool`).
//!
//! Running the same command with the same input again within 24 hours creates no duplicates: the idempotency key of a
//! batch is made of the options and its content. The consequence: content that returned to an earlier state is a
//! duplicate too, unless `--idempotency-prefix` differs. Therefore the report counts duplicates.
//!
//! **Invariant**: batch n+1 is sent only after batch n was accepted, and the report counts only batches that were
//! answered with 202.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::batch::{BatchLimits, Batcher};
use self::deliver::{Delivery, Feed, stopped};
use self::report::Report;
use self::split::ITEM_BYTES_MAX;
use self::upload::{Pauses, Upload, UploadOptions};
use super::client::Client;
use super::error::CliError;
use super::output::{json_pretty, note, print, shown};
use super::patience::WaitArgs;
use crate::Running;
use base::key::{self, KeyFormError};

pub mod batch;
mod deliver;
pub mod report;
pub mod split;
mod spool;
pub mod upload;

/// Batches that are read ahead of the one that is being sent.
const READ_AHEAD: usize = 2;

/// Arguments of `headgate send`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  headgate send orders.json --key-file shop.key --item-key order.id
  HEADGATE_KEY=ik_live_… headgate send readings.ndjson --item-key sensor --stream sensors
  zcat export.ndjson.gz | headgate send --item-key id --output json
  headgate send --spool /var/lib/shop/spool --key-file shop.key

The input is one JSON object, an array of objects, or objects one after another (NDJSON).
Running the same command on the same input again within 24 hours creates no duplicates. To send the
same content again, set another --idempotency-prefix.
Without an item key, items are identified by their position in their batch.")]
pub struct SendArgs {
    /// A JSON or NDJSON file; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Send the batches that a client library left in this directory, and delete those that are accepted
    #[arg(long, value_name = "FOLDER",
          conflicts_with_all = ["file", "item_key", "idempotency_prefix", "batch_bytes", "batch_items"])]
    spool: Option<PathBuf>,
    /// First resend the rejected batches in the directory `rejected` of the spool
    #[arg(long, requires = "spool", conflicts_with = "dry_run")]
    again: bool,
    /// List the rejected batches in the directory `rejected` of the spool, and send nothing
    #[arg(long, requires = "spool", conflicts_with_all = ["again", "dry_run"])]
    rejected: bool,
    /// Where the service listens: http://host:port or unix:/path
    #[arg(long, env = "HEADGATE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Ingest key; prefer the environment variable or a file
    #[arg(long, env = "HEADGATE_KEY", hide_env_values = true)]
    key: Option<String>,
    /// File that contains the ingest key; overrides --key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Field that identifies each item, such as order.id
    #[arg(long, value_name = "FIELD")]
    item_key: Option<String>,
    /// Stream that the key must belong to; otherwise the request is rejected
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Prefix for the idempotency keys of this run; set it to send the same input again
    #[arg(long, value_name = "TEXT")]
    idempotency_prefix: Option<String>,
    /// Largest body of a request with several items
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=ITEM_BYTES_MAX as u64))]
    batch_bytes: u64,
    /// Largest number of items in a request; 1 sends each item as soon as it is read
    #[arg(long, value_name = "N")]
    batch_items: Option<NonZeroU64>,
    /// Largest number of retries of a request
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    #[command(flatten)]
    wait: WaitArgs,
    /// Read and check the input, send nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: SendOutput,
}

/// Omits the key.
impl fmt::Debug for SendArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendArgs")
            .field("file", &self.file)
            .field("url", &self.url)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SendOutput {
    Text,
    Json,
}

/// Runs the verb. Ctrl-C stops after the current request; a second Ctrl-C stops immediately.
pub fn run(args: SendArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: SendArgs) -> Result<(), CliError> {
    if let (Some(folder), true) = (&args.spool, args.rejected) {
        return spool::print_rejected(folder, args.output);
    }
    let stop = CancellationToken::new();
    let key = match args.dry_run {
        true => None,
        false => Some(ingest_key(&args)?),
    };
    let (source, screen) = match &args.spool {
        Some(_) => (None, Screen::new(None)),
        None => {
            let (input, len) = open(&args.file)?;
            (Some(read_batches(input, args.limits())?), Screen::new(len))
        }
    };
    let mut report = Report {
        dry_run: args.dry_run,
        ..Report::default()
    };
    let started = Instant::now();
    let key = key.as_deref();
    let done = {
        let work = async {
            match (source, &args.spool) {
                (Some(feed), _) => send_input(&args, key, feed, &stop, &screen, &mut report).await,
                (None, Some(folder)) => {
                    let note = |text: &str| screen.note(text);
                    spool::run(&args, folder, key, &stop, &note, &mut report).await
                }
                (None, None) => Ok(()),
            }
        };
        until_stopped(work, &stop, &screen).await
    };
    report.seconds = started.elapsed().as_secs_f64();
    screen.clear();
    match args.output {
        SendOutput::Text => print(&format!("{report}\n"))?,
        SendOutput::Json => print(&json_pretty(&report)?)?,
    }
    done
}

/// Ends at the second Ctrl-C, whatever the state of the work.
async fn until_stopped(
    work: impl Future<Output = Result<(), CliError>>,
    stop: &CancellationToken,
    screen: &Screen,
) -> Result<(), CliError> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            signal = tokio::signal::ctrl_c() => {
                if signal.is_err() || stop.is_cancelled() {
                    return Err(CliError::failed("stopped; the request in flight may have arrived"));
                }
                stop.cancel();
                screen.note("stopping after the request in flight; Ctrl-C again to stop at once");
            }
        }
    }
}

async fn send_input(
    args: &SendArgs,
    key: Option<&str>,
    feed: Feed,
    stop: &CancellationToken,
    screen: &Screen,
    report: &mut Report,
) -> Result<(), CliError> {
    let options = UploadOptions {
        stream: args.stream.clone(),
        item_key: args.item_key.clone(),
        prefix: args.idempotency_prefix.clone(),
        retries_max: args.retries,
    };
    let client = key.map(|key| Client::new(&args.url, key)).transpose()?;
    let pauses = Pauses {
        absent_max: args.wait.absent_max(),
        ..Pauses::default()
    };
    let upload = client
        .as_ref()
        .map(|client| Upload::new(client, &options, pauses, stop))
        .transpose()?;
    let delivery = Delivery {
        upload: upload.as_ref(),
        positional: options.item_key.is_none(),
        stop,
        note: &|text| screen.note(text),
        progress: &|input_bytes| screen.progress(input_bytes),
        report,
    };
    delivery.run(feed).await
}

impl SendArgs {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            bytes_max: self.batch_bytes as usize,
            items_max: self.batch_items.map_or(u64::MAX, NonZeroU64::get),
        }
    }
}

/// Reads on a thread, because files and pipes block. The thread ends with its input, or with the process.
fn read_batches(input: Box<dyn Read + Send>, limits: BatchLimits) -> Result<Feed, CliError> {
    let (sender, feed) = mpsc::channel(READ_AHEAD);
    let reader = move || {
        let mut batcher = Batcher::new(input, limits);
        while let Some(event) = batcher.next_event().transpose() {
            let last = event.is_err();
            if sender.blocking_send(event).is_err() || last {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("read".to_owned())
        .spawn(reader)
        .map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    Ok(feed)
}

/// Opens the input; returns its length if it is a regular file.
fn open(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), CliError> {
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            note("reading JSON from the terminal; end it with Ctrl-D");
        }
        return Ok((Box::new(io::stdin()), None));
    }
    let wrong = |reason: String| {
        let path = path.to_string_lossy();
        CliError::wrong_use(format!("cannot read {}: {reason}", shown(&path)))
    };
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if metadata.is_dir() {
        return Err(wrong("it is a directory".to_owned()));
    }
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

fn ingest_key(args: &SendArgs) -> Result<String, CliError> {
    let key = match (&args.key_file, &args.key) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|error| {
            CliError::wrong_use(format!(
                "cannot read the key file {}: {error}",
                path.display()
            ))
        })?,
        (None, Some(key)) => key.clone(),
        (None, None) => String::new(),
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(CliError::wrong_use(
            "no ingest key: set --key-file, or HEADGATE_KEY in the environment, or --key",
        ));
    }
    if key.starts_with("rk_") {
        return Err(CliError::wrong_use(
            "this is a read key, which cannot send items: an ingest key begins with ik_",
        ));
    }
    if key::check_form(key) == Err(KeyFormError::Checksum) {
        note("warning: the key's checksum does not match: was it mistyped?");
    }
    Ok(key.to_owned())
}

/// Progress and notes on standard error; a progress bar only on a terminal.
struct Screen {
    bar: Option<ProgressBar>,
}

impl Screen {
    fn new(input_bytes: Option<u64>) -> Screen {
        if !io::stderr().is_terminal() {
            return Screen { bar: None };
        }
        let (bar, form) = match input_bytes {
            Some(len) => (
                ProgressBar::new(len),
                "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {bytes}, {bytes_per_sec}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        Screen { bar: Some(bar) }
    }

    fn progress(&self, input_bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(input_bytes);
        }
    }

    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests;
