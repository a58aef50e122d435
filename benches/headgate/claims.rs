//! What an idempotency key costs when a day's worth of others is live.
//!
//! Runs in one process, without a server, on the disk under `target/tmp`: callers hand requests to a journal, each when
//! it has the receipt of the one before. Round by round in turn: a journal without live keys, requests without a key and
//! with new ones, and a journal with as many as wanted, over 23 hours.
//!
//! How to read it: the callers share the cores with the journal; CPU is the whole process. The aims are ratios of
//! neighbors. Ends with code 1 if an aim is missed.
//!
//! Called by the command line; owns the order of the measurements. `growth` takes its journals.
//!
//! **Invariant:** the journal makes and reads its tables itself; only runs are filled in.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::builder::FalseyValueParser;
use journal::Journal;
use rusqlite::Connection;

use crate::Result;
use crate::aim::Aim;
use crate::callers::{self, Callers, scope, submission};
use crate::options::{TARGET_TMP, Window};
use crate::process::Process;
use crate::table::Table;
use crate::times::{Times, median_of};

const HOURS: u64 = 23;
/// As the journal has it.
const RUN_CLAIMS: u64 = 28_000;
const ROUNDS: usize = 3;
/// Callers that wait for their receipt and then send the next.
const CALLERS: usize = 64;
/// How often payloads are released, and pages leave the cache.
const OFTEN: Duration = Duration::from_millis(200);
/// The journal is at rest when the process took less of this time.
const REST: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(300);
/// Of 80 % and half of the rate.
const WARM_RATIO_MAX: f64 = 1.25;
const COLD_RATIO_MAX: f64 = 2.0;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    live: Live,
    /// The file's pages leave the cache all the time
    #[arg(long, env = "HEADGATE_BENCH_COLD", value_parser = FalseyValueParser::new())]
    cold: bool,
}

/// What both benches of claims take.
#[derive(Debug, clap::Args)]
pub(crate) struct Live {
    /// Keys that are live; ten million take about 0.8 GB of disk in a file, and more in PostgreSQL
    #[arg(
        long,
        value_name = "N",
        env = "HEADGATE_BENCH_CLAIMS",
        default_value_t = 1_000_000
    )]
    pub(crate) claims: u64,
    #[command(flatten)]
    pub(crate) window: Window,
}

/// Runs the bench; false if the aim is missed.
pub(crate) async fn bench(options: &Options) -> Result<bool> {
    let (claims, window, cold) = (options.live.claims, options.live.window.time, options.cold);
    let folder = tempfile::tempdir_in(TARGET_TMP)?;
    let (empty, full) = (
        folder.path().join("empty.db"),
        folder.path().join("full.db"),
    );
    fill(&full, claims).await?;
    let bytes = std::fs::metadata(&full)?.len();
    if cold {
        forget(&full)?;
    }
    let begun = Instant::now();
    let journal = open(&full).await?;
    let opened = begun.elapsed();
    let micros = at_rest().await?;
    println!(
        "{claims} live keys, {:.2} GB; opened in {:.2} s, at rest after {:.1} s and {:.1} s of CPU{}\n",
        bytes as f64 / 1e9,
        opened.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
        micros / 1e6,
        if cold { "; cold" } else { "" },
    );
    let targets = [
        Target::new("no key", open(&empty).await?, &empty, false),
        Target::new(
            "new keys, none live",
            open(&folder.path().join("keyed.db")).await?,
            &folder.path().join("keyed.db"),
            true,
        ),
        Target::new("new keys, all live", journal, &full, true),
    ];
    let mut rounds: [Vec<Round>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (target, rounds) in targets.iter().zip(&mut rounds) {
            rounds.push(target.round(window, cold).await?);
        }
    }
    let shown = targets.iter().map(|target| target.name).zip(&rounds);
    print(shown);
    let limit = if cold { COLD_RATIO_MAX } else { WARM_RATIO_MAX };
    let aim = Aim::at_most(
        "rate with none live beside all",
        ratio(&rounds[1], &rounds[2]),
        limit,
        " x",
    );
    println!(
        "\n{}: wanted {}, measured {}",
        aim.name, aim.target, aim.measured
    );
    for target in targets {
        target.journal.close().await;
    }
    Ok(aim.reached == Some(true))
}

/// A journal and what it is handed.
pub(crate) struct Target {
    name: &'static str,
    /// The journal, which whoever opened it closes.
    pub(crate) journal: Arc<Journal>,
    file: std::path::PathBuf,
    keyed: bool,
}

/// What one round showed.
pub(crate) struct Round {
    /// Requests a second.
    pub(crate) rate: f64,
    /// CPU time of each request, of journal and callers, µs.
    pub(crate) cpu_micros: f64,
    /// From handing it in to the receipt.
    pub(crate) times: Times,
}

impl Target {
    /// A journal whose callers send idempotency keys, or do not.
    pub(crate) fn new(name: &'static str, journal: Arc<Journal>, file: &Path, keyed: bool) -> Self {
        Self {
            name,
            journal,
            file: file.to_owned(),
            keyed,
        }
    }

    /// So much time with [`CALLERS`] callers; `cold`: the file's pages leave the cache all the time.
    pub(crate) async fn round(&self, window: Duration, cold: bool) -> Result<Round> {
        let process = Process::own();
        let (begun, cpu) = (Instant::now(), process.cpu_micros()?);
        let callers = Callers::start(&self.journal, CALLERS, self.keyed);
        while begun.elapsed() < window {
            if cold {
                forget(&self.file)?;
            }
            tokio::time::sleep(OFTEN).await;
            self.journal.release(*self.journal.newest().borrow());
        }
        let micros = callers.stop().await?;
        let (seconds, cpu) = (begun.elapsed().as_secs_f64(), process.cpu_micros()? - cpu);
        let times = Times::from_micros(micros);
        Ok(Round {
            rate: times.samples as f64 / seconds,
            cpu_micros: cpu / times.samples as f64,
            times,
        })
    }
}

/// Prints the medians of rounds, a line for each name.
pub(crate) fn print<'a>(rounds: impl Iterator<Item = (&'a str, &'a Vec<Round>)>) {
    let mut table = Table::new(&["", "requests/s", "CPU us", "p50 ms", "p99 ms"]);
    for (name, rounds) in rounds {
        table.row([
            name.to_owned(),
            format!("{:.0}", median_of(rounds, |round| round.rate)),
            format!("{:.1}", median_of(rounds, |round| round.cpu_micros)),
            format!("{:.2}", median_of(rounds, |round| round.times.p50)),
            format!("{:.2}", median_of(rounds, |round| round.times.p99)),
        ]);
    }
    table.print();
}

/// How much faster the first is, by the median of rounds that are neighbors.
pub(crate) fn ratio(one: &[Round], other: &[Round]) -> f64 {
    let pairs = one.iter().zip(other);
    let ratios: Vec<f64> = pairs.map(|(one, other)| one.rate / other.rate).collect();
    median_of(&ratios, |ratio| *ratio)
}

/// Opens a journal that forgets no entry of its log.
pub(crate) async fn open(path: &Path) -> Result<Arc<Journal>> {
    callers::open(path, u64::MAX >> 1).await
}

/// A journal with claims of the last 23 hours, in runs as it makes them.
pub(crate) async fn fill(path: &Path, claims: u64) -> Result<()> {
    let journal = open(path).await?;
    journal.submit(submission(true)?).await?;
    journal.close().await;
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA wal_autocheckpoint = 20000",
    )?;
    let now: i64 = connection.query_row("SELECT at_ms FROM claim_log", [], |row| row.get(0))?;
    let runs = claims.div_ceil(RUN_CLAIMS);
    for run in 1..=runs {
        // The oldest are live for some time yet.
        let age_ms = (runs - run) * HOURS * 3_600_000 / runs;
        let at = now - age_ms.cast_signed();
        let numbers = (run - 1) * RUN_CLAIMS..claims.min(run * RUN_CLAIMS);
        let mut scopes: Vec<_> = numbers.map(|number| scope(number.into())).collect();
        scopes.sort_unstable();
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare(
            "INSERT INTO claims (run, scope, request_id, items, payload, at_ms) VALUES (?1, ?2, ?2, 1, x'0000000000000000', ?3)",
        )?;
        for scope in scopes {
            insert.execute(rusqlite::params![run.cast_signed(), &scope[..], at])?;
        }
        drop(insert);
        transaction.execute(
            "INSERT INTO claim_runs (run, newest_ms, log_through) VALUES (?1, ?2, 0)",
            [run.cast_signed(), at],
        )?;
        transaction.commit()?;
    }
    drop(connection);
    // The filters are made.
    open(path).await?.close().await;
    let connection = Connection::open(path)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    File::open(path)?.sync_all()?;
    Ok(())
}

/// The file's pages leave the system's cache.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Waits until the process does nothing; the time that it took on the way.
pub(crate) async fn at_rest() -> Result<f64> {
    let process = Process::own();
    let (begun, first) = (Instant::now(), process.cpu_micros()?);
    let mut before = first;
    loop {
        tokio::time::sleep(REST).await;
        let now = process.cpu_micros()?;
        if now - before < REST.as_micros() as f64 / 20.0 {
            return Ok(now - first);
        }
        if begun.elapsed() > REST_MAX {
            return Err("the journal does not come to rest".into());
        }
        before = now;
    }
}
