//! Intake alone, and while the log is brought down to a smaller size.
//!
//! **Invariant:** both sides are the same journal file with the same callers; a round is one side right after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::aim::Aim;
use crate::callers::{self, Callers};
use crate::table::Table;
use crate::times::{Times, median};
use crate::{Error, Result};

/// What the log shrinks to, of what it was at first.
const ROUNDS: [f64; 3] = [0.85, 0.7, 0.55];
/// Callers that wait for their receipt and then send the next.
const CALLERS: usize = 8;
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
    let journal = callers::open(path, bytes_max).await?;
    let first = number(path, "SELECT min(seq) FROM requests")?;
    let begun = Instant::now();
    let callers = Callers::start(&journal, CALLERS, false);
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
    let micros = callers.stop().await?;
    let deleted = number(path, "SELECT min(seq) FROM requests")? - first;
    journal.close().await;
    Ok(Intake {
        max: micros.iter().copied().fold(0.0, f64::max) / 1e3,
        times: Times::from_micros(micros),
        seconds,
        deleted,
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
