//! What an idempotency key costs when a day's worth of others is live.
//!
//! ```text
//! cargo bench --bench claims                                      # a million live keys, about a minute
//! HEADGATE_BENCH_CLAIMS=10000000 cargo bench --bench claims       # about 1.5 GB of disk
//! HEADGATE_BENCH_COLD=1 cargo bench --bench claims                # the file's pages leave the cache all the time
//! ```
//!
//! Runs in one process, without a server, on the disk under `target/tmp`: callers hand requests to a journal, each when
//! it has the receipt of the one before. Round by round in turn: a journal without live keys, requests without a key and
//! with new ones, and a journal with as many as wanted, over 24 hours. `HEADGATE_BENCH_SECONDS` is the length of each
//! (4).
//!
//! How to read it: the callers share the cores with the journal; CPU is the whole process. The aims are ratios of
//! neighbors. Ends with code 1 if an aim is missed.
//!
//! Called by Cargo; owns the order of the measurements.
//!
//! **Invariant:** the journal makes and reads its tables itself; only rows of other hours are filled in.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads its own environment variables"
)]

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aim::Aim;
use headgate::item::ItemsWriter;
use headgate::journal::log::{Client, Endpoint};
use headgate::journal::{Claim, Durability, Journal, LogEntry, Options, Outcome, Submission};
use headgate::metrics::Metrics;
use process::Process;
use rusqlite::Connection;
use table::Table;
use times::{Times, median_of};
use uuid::Uuid;

#[path = "shared/aim.rs"]
mod aim;
#[expect(dead_code, reason = "the other benches use more of it")]
#[path = "shared/process.rs"]
mod process;
#[path = "shared/table.rs"]
mod table;
#[path = "shared/times.rs"]
mod times;

/// Whatever ends the bench.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What every step of the bench returns.
type Result<T> = std::result::Result<T, Error>;

const HELP: &str = "HEADGATE_BENCH_CLAIMS=N HEADGATE_BENCH_COLD=1 HEADGATE_BENCH_SECONDS=N cargo bench --bench claims";
const CLAIMS: u64 = 1_000_000;
const HOURS: u64 = 24;
const SECONDS: u64 = 4;
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

fn main() -> ExitCode {
    // `cargo test --all-targets` starts benches too, and must not wait for this one.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    // One worker beside this thread, as the daemon has on two cores.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let done = runtime
        .map_err(Error::from)
        .and_then(|runtime| runtime.block_on(bench()));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("claims bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(value) => Ok(value.parse().map_err(|error| format!("{name}: {error}"))?),
        Err(_) => Ok(default),
    }
}

async fn bench() -> Result<bool> {
    let claims = variable("HEADGATE_BENCH_CLAIMS", CLAIMS)?;
    let window = Duration::from_secs(variable("HEADGATE_BENCH_SECONDS", SECONDS)?);
    let cold = variable("HEADGATE_BENCH_COLD", 0)? > 0;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
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
    let mut table = Table::new(&["", "requests/s", "CPU us", "p50 ms", "p99 ms"]);
    for (target, rounds) in targets.iter().zip(&rounds) {
        table.row([
            target.name.to_owned(),
            format!("{:.0}", median_of(rounds, |round| round.rate)),
            format!("{:.1}", median_of(rounds, |round| round.cpu_micros)),
            format!("{:.2}", median_of(rounds, |round| round.times.p50)),
            format!("{:.2}", median_of(rounds, |round| round.times.p99)),
        ]);
    }
    table.print();
    let ratios: Vec<f64> = rounds[1]
        .iter()
        .zip(&rounds[2])
        .map(|(none, all)| none.rate / all.rate)
        .collect();
    let limit = if cold { COLD_RATIO_MAX } else { WARM_RATIO_MAX };
    let aim = Aim::at_most(
        "rate with none live beside all",
        median_of(&ratios, |ratio| *ratio),
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
struct Target {
    name: &'static str,
    journal: Arc<Journal>,
    file: std::path::PathBuf,
    keyed: bool,
}

struct Round {
    rate: f64,
    cpu_micros: f64,
    times: Times,
}

impl Target {
    fn new(name: &'static str, journal: Arc<Journal>, file: &Path, keyed: bool) -> Self {
        Self {
            name,
            journal,
            file: file.to_owned(),
            keyed,
        }
    }

    async fn round(&self, window: Duration, cold: bool) -> Result<Round> {
        let process = Process::own();
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, cpu) = (Instant::now(), process.cpu_micros()?);
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                tokio::spawn(call(
                    Arc::clone(&self.journal),
                    self.keyed,
                    Arc::clone(&stop),
                ))
            })
            .collect();
        while begun.elapsed() < window {
            if cold {
                forget(&self.file)?;
            }
            tokio::time::sleep(OFTEN).await;
            self.journal.release(*self.journal.newest().borrow());
        }
        stop.store(true, Ordering::Relaxed);
        let mut micros = Vec::new();
        for caller in callers {
            micros.extend(caller.await??);
        }
        let (seconds, cpu) = (begun.elapsed().as_secs_f64(), process.cpu_micros()? - cpu);
        let times = Times::from_micros(micros);
        Ok(Round {
            rate: times.samples as f64 / seconds,
            cpu_micros: cpu / times.samples as f64,
            times,
        })
    }
}

/// Microseconds of each request.
async fn call(journal: Arc<Journal>, keyed: bool, stop: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let mut micros = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let submission = submission(keyed)?;
        let begun = Instant::now();
        let receipt = journal.submit(submission).await?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
        if receipt.replayed {
            return Err("a new key is taken for a repeat".into());
        }
    }
    Ok(micros)
}

fn submission(keyed: bool) -> Result<Submission> {
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("7", &format!("{{\"text\":\"{}\"}}", "x".repeat(150)))?;
    let claim = keyed.then(|| Claim {
        scope: scope(Uuid::now_v7().as_u128()),
        payload: [0; 8],
    });
    Ok(Submission {
        log: LogEntry {
            request_id: Uuid::now_v7(),
            received_ms: headgate::clock::unix_ms(),
            connector: "shop".into(),
            stream: "orders".into(),
            outcome: Outcome::Accepted,
            endpoint: Endpoint::Ingest,
            http_status: 202,
            items: 1,
            bytes: 188,
            key: "ik_live_a1b2c3d4".into(),
            client: Client::Unix,
            item_key: None,
            idempotency_key: keyed.then(|| "order-0123456789abcdef".into()),
            error: None,
            headers: None,
            sent_again_from: None,
        },
        items: items.into_items(),
        claim,
    })
}

/// As even as a digest, and cheap: SplitMix64 of each half.
fn scope(number: u128) -> [u8; 16] {
    let mix = |half: u64| {
        let mut mixed = half.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let first = mix((number >> 64) as u64 ^ mix(number as u64));
    let second = mix(first ^ number as u64);
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

async fn open(path: &Path) -> Result<Arc<Journal>> {
    let options = Options {
        durability: Durability::Fsync,
        pending_bytes_max: 64 << 20,
        seq_floor: 0,
        log_retention_ms: u64::MAX >> 1,
        log_retention_bytes: u64::MAX >> 1,
    };
    Ok(Journal::open(path, options, Arc::new(Metrics::new()), &Default::default()).await?)
}

/// A journal with claims of the current hour and those before it.
async fn fill(path: &Path, claims: u64) -> Result<()> {
    let journal = open(path).await?;
    journal.submit(submission(true)?).await?;
    journal.close().await;
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA wal_autocheckpoint = 20000",
    )?;
    let (name, sql): (String, String) = connection.query_row(
        "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'claims\\_%' ESCAPE '\\'",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let newest: u64 = name.trim_start_matches("claims_").parse()?;
    for hour in newest - HOURS + 1..=newest {
        let transaction = connection.transaction()?;
        if hour != newest {
            transaction.execute_batch(&sql.replace(&name, &format!("claims_{hour}")))?;
        }
        let mut insert = transaction.prepare(&format!(
            "INSERT INTO claims_{hour} (scope, request_id, items, payload, at_ms) VALUES (?1, ?2, 1, x'0000000000000000', ?3)"
        ))?;
        for number in 0..claims / HOURS {
            let id = u128::from(hour) << 64 | u128::from(number);
            // The newest minutes of the hour: those of the oldest one are still live.
            let at_ms = (hour + 1) * 3_600_000 - 1;
            insert.execute(rusqlite::params![
                &scope(id)[..],
                &id.to_be_bytes()[..],
                at_ms.cast_signed()
            ])?;
        }
        drop(insert);
        transaction.commit()?;
    }
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
async fn at_rest() -> Result<f64> {
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
