//! The curves of the journal: live idempotency keys, and entries of the request log.
//!
//! Called by the bench's main file. In this process, so that CPU time is that of the callers too.
//!
//! **Invariant:** what is filled in is what `claims` and `log` fill in.

use std::path::Path;
use std::time::{Duration, Instant};

use journal::log::Filter;

use super::curve::Point;
use crate::callers;
use crate::claims::{self, Round, Target};
use crate::process::Process;
use crate::times::Times;
use crate::{Result, log};

/// Pages that are read, and entries of each.
const PAGES: u32 = 500;
const PAGE: u32 = 50;

/// Requests with new keys beside so many live ones.
pub(super) async fn claims(folder: &Path, x: u64, time: Duration) -> Result<Point> {
    let file = folder.join("journal.db");
    if x > 0 {
        claims::fill(&file, x).await?;
    }
    let target = Target::new("claims", claims::open(&file).await?, &file, true);
    claims::at_rest().await?;
    measure(target, x, time).await
}

/// Requests beside a log of so many entries, and its first page if it has any.
pub(super) async fn log(folder: &Path, x: u64, time: Duration) -> Result<Vec<Point>> {
    let data = folder.join("data");
    log::stop(log::start(folder).await?).await?;
    let mut page_of = None;
    if x > 0 {
        log::fill::fill(&data, x)?;
        // Before the intake adds to it.
        page_of = Some(page(folder, x).await?);
    }
    let file = data.join("journal.db");
    let journal = callers::open(&file, u64::MAX >> 1).await?;
    let target = Target::new("log", journal, &file, false);
    claims::at_rest().await?;
    let intake = measure(target, x, time).await?;
    Ok([intake].into_iter().chain(page_of).collect())
}

async fn measure(target: Target, x: u64, time: Duration) -> Result<Point> {
    target.round(time / 4, false).await?;
    let round = target.round(time, false).await?;
    target.journal.close().await;
    let Round {
        rate,
        cpu_micros,
        times,
    } = round;
    Ok(Point {
        x,
        cpu_micros,
        ms: times,
        per_second: rate,
        start_ms: None,
        ratio: 1.0,
    })
}

/// The newest entries, as the admin API reads them.
async fn page(folder: &Path, x: u64) -> Result<Point> {
    let daemon = log::start(folder).await?;
    claims::at_rest().await?;
    let requests = &daemon.operator.requests;
    let process = Process::own();
    let (begun, cpu) = (Instant::now(), process.cpu_micros()?);
    let mut micros = Vec::new();
    for _ in 0..PAGES {
        let asked = Instant::now();
        requests.page(&Filter::default(), &[], PAGE).await?;
        micros.push(asked.elapsed().as_secs_f64() * 1e6);
    }
    let cpu = process.cpu_micros()? - cpu;
    let seconds = begun.elapsed().as_secs_f64();
    log::stop(daemon).await?;
    Ok(Point {
        x,
        cpu_micros: cpu / f64::from(PAGES),
        ms: Times::from_micros(micros),
        per_second: f64::from(PAGES) / seconds,
        start_ms: None,
        ratio: 1.0,
    })
}
