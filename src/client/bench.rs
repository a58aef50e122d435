//! `headgate bench`: the capacity of an installation, and what limits it.
//!
//! Called by the command line. It measures the disk (`disk`), requests up to their 202 (`load`) and the latency to a
//! renderer (`push`), all with a separate stream (`site`). It also measures resource use (`meter`), and names the limit
//! (`verdict`, `report`).
//!
//! **Invariant**: everything that it creates is deleted again, even after a failure or a signal. If that fails, it
//! prints what is left and how to delete it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

use self::disk::Disk;
pub use self::load::BenchLoad;
use self::load::Step;
use self::meter::Meter;
use self::report::Report;
use self::site::Site;
use self::times::Times;
use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{json_pretty, note, print, shown};
use super::signals::Signals;
use crate::Running;
use wire::StatusData;

mod disk;
mod load;
mod meter;
pub mod nodes;
mod push;
mod report;
mod site;
mod times;
mod verdict;

/// Sizes of the bodies, in bytes.
const SIZES: [usize; 2] = [200, 2_048];
const CONNECTIONS: [usize; 3] = [1, 8, 64];
/// The share of the time for each part; the rest is for creating and deleting.
const DISK_SHARE: f64 = 0.1;
const LOAD_SHARE: f64 = 0.6;
const PUSH_SHARE: f64 = 0.2;
/// How long it takes, and what the parts need at least, in seconds.
const SECONDS: u32 = 15;
const SECONDS_MIN: u32 = 3;
/// Empty requests that measure the round trip.
const ROUND_TRIPS: usize = 100;

/// Arguments of `headgate bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// About how long it takes [default: 15]; with --nodes, how long each load lasts [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Where the service listens: http://host:port or unix:/path
    #[arg(long, env = "HEADGATE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Measure the disk of this directory [default: the daemon's data directory, if it is on this machine]; with --nodes,
    /// the data directories are made in it [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub disk_dir: Option<PathBuf>,
    /// Keep the default rate limit of the key (limits.requests_per_second), to measure what one sender gets
    #[arg(long)]
    keep_rate: bool,
    /// Run even if sinks other than the data pool receive every stream, and so the benchmark's items
    #[arg(long)]
    all_sinks: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

impl BenchArgs {
    fn part(&self, share: f64) -> Duration {
        Duration::from_secs_f64(f64::from(self.seconds.unwrap_or(SECONDS)) * share)
    }
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer or rejects a call, a signal arrived, or something could not be deleted.
pub fn run(args: BenchArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: BenchArgs) -> Result<(), CliError> {
    if let Some(short) = args.seconds.filter(|seconds| *seconds < SECONDS_MIN) {
        return Err(CliError::wrong_use(format!(
            "--seconds {short} is too short to measure a running daemon: give {SECONDS_MIN}..=600"
        )));
    }
    let mut signals = Signals::new()?;
    let admin = args.admin.client()?;
    let status: StatusData = admin.get("/api/admin/status").await?;
    let mut site = Site::new(&admin, &args.url, args.keep_rate);
    let pool = sinks_allow(&status, site.name(), args.all_sinks)?;
    note(&format!(
        "loading {} for about {} s; Ctrl-C stops and cleans up",
        shown(&args.url),
        args.seconds.unwrap_or(SECONDS)
    ));
    let work = async {
        site.make().await?;
        let mut report = Report::new(&args.url, &status, site.name());
        measure(&args, &site, &status, pool, &mut report).await?;
        Ok::<_, CliError>(report)
    };
    let measured = tokio::select! {
        measured = work => measured,
        () = signals.any() => Err(CliError::failed("stopped by a signal; no measurement is complete")),
    };
    let removed = tokio::select! {
        removed = site.remove() => removed,
        () = signals.any() => Err(CliError::failed(format!("stopped by a second signal; {}", site.left()))),
    };
    if let Ok(report) = &measured {
        match args.json {
            true => print(&json_pretty(report)?)?,
            false => print(&report.to_string())?,
        }
    }
    match (measured, removed) {
        (Err(error), Err(left)) => Err(CliError::failed(format!("{error}\n{left}"))),
        (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
        (Ok(_), Ok(())) => Ok(()),
    }
}

/// Whether the data pool receives the stream; an error if other sinks would receive it too and `--all-sinks` is not
/// set.
fn sinks_allow(status: &StatusData, stream: &str, all: bool) -> Result<bool, CliError> {
    let (mut pool, mut others) = (false, Vec::new());
    for sink in &status.sinks {
        let patterns = settings::Sink {
            streams: sink.streams.clone(),
            except: sink.except.clone(),
            ..settings::Sink::default()
        };
        match patterns.matches(stream) {
            true if sink.plugin == "pool" => pool = true,
            true => others.push(shown(&sink.name).into_owned()),
            false => {}
        }
    }
    if others.is_empty() || all {
        return Ok(pool);
    }
    Err(CliError::wrong_use(format!(
        "the benchmark's items would also reach {}, which {} every stream: to allow that, use --all-sinks, or set \
         except = [\"bench-*\"] for {} in the configuration",
        others.join(", "),
        if others.len() == 1 { "takes" } else { "take" },
        if others.len() == 1 { "it" } else { "them" },
    )))
}

/// Measures all parts in sequence.
async fn measure(
    args: &BenchArgs,
    site: &Site<'_>,
    status: &StatusData,
    pool: bool,
    report: &mut Report,
) -> Result<(), CliError> {
    let local = meter::is_local(&args.url);
    match disk(args, status, local).await {
        Ok(disk) => report.disk = Some(disk),
        Err(why) => report.notes.push(why),
    }
    report.round_trip = round_trips(site.sender()?).await?;
    let time = args.part(LOAD_SHARE / (SIZES.len() * CONNECTIONS.len()) as f64);
    for bytes in SIZES {
        for connections in CONNECTIONS {
            let meter = Meter::begin(site.admin(), local).await;
            let load = BenchLoad {
                connections,
                item_bytes: bytes,
                items: 1,
                time,
            };
            let answers = load::run(std::slice::from_ref(site.sender()?), load).await?;
            let used = meter.end().await;
            report
                .ingest
                .push(Step::new(bytes, connections, answers, used));
        }
    }
    if pool {
        report.behind_ms = Some(site.settle().await?);
        let time = args.part(PUSH_SHARE);
        report.push = Some(push::run(site.reader()?, site.sender()?, site.name(), time).await?);
    } else {
        report.notes.push(
            "no running sink writes this stream to the data pool, so nothing was pushed".to_owned(),
        );
    }
    report.conclude(args.keep_rate);
    Ok(())
}

/// Measures the disk; the error is the reason why it was not measured.
async fn disk(args: &BenchArgs, status: &StatusData, local: bool) -> Result<Disk, String> {
    let folder = match &args.disk_dir {
        Some(folder) => folder.clone(),
        None if local => PathBuf::from(&status.data_dir),
        None => {
            return Err("the daemon is on another machine: its disk was not measured".to_owned());
        }
    };
    disk_of(folder, args.part(DISK_SHARE)).await
}

/// Measures the disk of a directory; the error is the reason why it was not measured.
async fn disk_of(folder: PathBuf, time: Duration) -> Result<Disk, String> {
    let measured = tokio::task::spawn_blocking(move || {
        let named = shown(&folder.to_string_lossy()).into_owned();
        disk::measure(&folder, time).map_err(|error| {
            format!(
                "the disk of {named} was not measured: {error}; run the bench as the user of the daemon, or give \
                 --disk-dir with a folder on the same disk"
            )
        })
    });
    measured
        .await
        .unwrap_or_else(|error| Err(format!("the disk was not measured: {error}")))
}

/// The times of requests for which the daemon does no work.
async fn round_trips(client: &Client) -> Result<Times, CliError> {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let sent = Instant::now();
        client
            .call(Method::GET, "/healthz", HeaderMap::new(), Bytes::new())
            .await?;
        times.push(sent.elapsed());
    }
    // The first request includes connecting.
    Ok(Times::of(times.into_iter().skip(1)))
}

#[cfg(test)]
mod tests;
