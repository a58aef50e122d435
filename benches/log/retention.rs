//! Intake alone, and while the log is brought down to a smaller size.
//!
//! **Invariant:** both sides are the same journal file with the same callers; a round is one side right after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headgate::item::ItemsWriter;
use headgate::journal::log::{Client, Endpoint};
use headgate::journal::{Durability, Journal, LogEntry, Options, Outcome, Submission};
use headgate::metrics::Metrics;
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::aim::Aim;
use crate::table::Table;
use crate::times::{Times, median};
use crate::{Error, Result};

/// What the log shrinks to, of what it was at first.
const ROUNDS: [f64; 3] = [0.85, 0.7, 0.55];
/// Callers that wait for their receipt and then send the next.
const CALLERS: u64 = 8;
const ALONE: Duration = Duration::from_secs(8);
/// A round ends at last after this time.
const DELETING_MAX: Duration = Duration::from_secs(120);
/// Free pages that stay in the file.
const FREE_PAGES: u64 = 4_500;
const RATIO_MAX: f64 = 3.0;

/// Measures all rounds.
pub(crate) async fn bench(path: &Path) -> Result<Vec<Aim>> {
    println!("\nintake while the log is made smaller, ms\n");
    let mut table = Table::new(&[
        "entries/s deleted",
        "alone p50",
        "p99",
        "max",
        "deleting p50",
        "p99",
        "max",
        "requests/s alone",
        "deleting",
        "file MB after",
    ]);
    let size = bytes(path)?;
    let mut ratios = Vec::new();
    let mut over = 0.0_f64;
    for share in ROUNDS {
        let alone = intake(path, u64::MAX).await?;
        let limit = (size as f64 * share) as u64;
        let deleting = intake(path, limit).await?;
        ratios.push(deleting.times.p99 / alone.times.p99);
        over = over.max(bytes(path)? as f64 / limit as f64);
        let shown = |value: f64| format!("{value:.2}");
        table.row([
            format!("{:.0}", deleting.deleted as f64 / deleting.seconds),
            shown(alone.times.p50),
            shown(alone.times.p99),
            shown(alone.max),
            shown(deleting.times.p50),
            shown(deleting.times.p99),
            shown(deleting.max),
            format!("{:.0}", alone.times.samples as f64 / alone.seconds),
            format!("{:.0}", deleting.times.samples as f64 / deleting.seconds),
            (std::fs::metadata(path)?.len() / 1_000_000).to_string(),
        ]);
    }
    table.print();
    Ok(vec![
        Aim::at_most(
            "p99 of intake while deleting",
            median(&ratios),
            RATIO_MAX,
            " x",
        ),
        Aim::at_most("log beside its bound", over, 1.05, " x"),
    ])
}

struct Intake {
    times: Times,
    max: f64,
    seconds: f64,
    /// Entries that went meanwhile.
    deleted: u64,
}

/// Callers at work until the log is as small as wanted and its space is given back.
async fn intake(path: &Path, bytes_max: u64) -> Result<Intake> {
    let options = Options {
        durability: Durability::Fsync,
        pending_bytes_max: 64 << 20,
        seq_floor: 0,
        log_retention_ms: u64::MAX >> 1,
        log_retention_bytes: bytes_max,
    };
    let journal =
        Journal::open(path, options, Arc::new(Metrics::new()), &Default::default()).await?;
    let first = number(path, "SELECT min(seq) FROM requests")?;
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(call(Arc::clone(&journal), Arc::clone(&stop))))
        .collect();
    let release = || journal.release(*journal.newest().borrow());
    if bytes_max == u64::MAX {
        while begun.elapsed() < ALONE {
            tokio::time::sleep(Duration::from_millis(200)).await;
            release();
        }
    } else {
        while begun.elapsed() < DELETING_MAX {
            tokio::time::sleep(Duration::from_millis(200)).await;
            release();
            let path = path.to_owned();
            let done = tokio::task::spawn_blocking(move || {
                let small = bytes(&path)? <= bytes_max + (bytes_max >> 6);
                Ok::<_, Error>(small && number(&path, "PRAGMA freelist_count")? <= FREE_PAGES)
            });
            if done.await?? {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let mut micros = Vec::new();
    for caller in callers {
        micros.extend(caller.await??);
    }
    let deleted = number(path, "SELECT min(seq) FROM requests")? - first;
    journal.close().await;
    Ok(Intake {
        max: micros.iter().copied().fold(0.0, f64::max) / 1e3,
        times: Times::from_micros(micros),
        seconds,
        deleted,
    })
}

/// Microseconds of each request.
async fn call(journal: Arc<Journal>, stop: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let mut micros = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let submission = submission()?;
        let begun = Instant::now();
        journal.submit(submission).await?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(micros)
}

fn submission() -> Result<Submission> {
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("7", &format!("{{\"text\":\"{}\"}}", "x".repeat(150)))?;
    Ok(Submission {
        log: LogEntry {
            request_id: Uuid::now_v7(),
            received_ms: headgate::clock::unix_ms(),
            connector: "big".into(),
            stream: "orders".into(),
            outcome: Outcome::Accepted,
            endpoint: Endpoint::Ingest,
            http_status: 202,
            items: 1,
            bytes: 188,
            key: "ik_live_a1b2c3d4".into(),
            client: Client::Unix,
            item_key: None,
            idempotency_key: None,
            error: None,
            headers: None,
            sent_again_from: None,
        },
        items: items.into_items(),
        claim: None,
    })
}

/// What the journal takes its log to be.
fn bytes(path: &Path) -> Result<u64> {
    number(path, "SELECT sum(bytes) FROM log_spans")
}

fn number(path: &Path, sql: &str) -> Result<u64> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection
        .query_row(sql, [], |row| row.get::<_, i64>(0))?
        .unsigned_abs())
}
