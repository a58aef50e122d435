//! What the request log costs when it is long: a page by each filter, the search box, and intake while old entries are
//! deleted.
//!
//! Runs in one process, without a server, on the disk under `target/tmp` (about 3 GB). The log is filled in bulk, into
//! the files that the daemon made; then the daemon opens them, and pages of 50 are read as the admin API and the web
//! page read them. "deep" pages begin at random positions. The retention compares requests that are handed to the
//! journal one after the other, by several callers, alone and while entries are deleted.
//!
//! How to read it: times of pages are bounded by the aim; the retention's aim is a ratio of neighbouring windows.
//! Ends with code 1 if an aim is missed.
//!
//! Called by the command line; owns the order of the measurements. `growth` takes its filled logs.
//!
//! **Invariant:** only the crate's own functions read the log.

use std::path::Path;
use std::time::{Duration, Instant};

use headgate::daemon::Daemon;
use journal::log::Filter;
use operate::requests::Status;

use crate::aim::{self, Aim};
use crate::options::TARGET_TMP;
use crate::table::Table;
use crate::times::Times;
use crate::{Result, daemon};
use base::order::Seq;
use fill::Filled;

pub(crate) mod fill;
mod retention;
mod search;

/// Entries of a page.
const PAGE: u32 = 50;
/// Pages of each kind that are read.
const PAGES: u64 = 100;
const PAGE_MS_MAX: f64 = 50.0;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Entries of the log
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    entries: u64,
    /// Items of the data pool
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    items: u64,
}

/// Runs the bench; false if an aim is missed.
pub(crate) async fn bench(options: &Options) -> Result<bool> {
    let entries = options.entries;
    let begun = Instant::now();
    let folder = tempfile::tempdir_in(TARGET_TMP)?;
    let data = folder.path().join("data");
    stop(start(folder.path()).await?).await?;
    let filled = fill::fill(&data, entries)?;
    search::fill(&data, options.items)?;
    let bytes = std::fs::metadata(data.join("journal.db"))?.len();
    println!(
        "{entries} entries, {:.2} GB, {} bytes an entry, filled in {:.0} s",
        bytes as f64 / 1e9,
        bytes / entries,
        begun.elapsed().as_secs_f64()
    );
    let opened = Instant::now();
    let daemon = start(folder.path()).await?;
    println!(
        "taken up by the daemon in {:.1} s\n",
        opened.elapsed().as_secs_f64()
    );
    let mut aims = vec![pages(&daemon, &filled).await?];
    aims.extend(search::bench(&daemon, &filled, options.items).await?);
    stop(daemon).await?;
    aims.extend(retention::bench(&data.join("journal.db")).await?);
    let reached = aim::print(&aims);
    println!("\n{:.0} s", begun.elapsed().as_secs_f64());
    Ok(reached)
}

/// A daemon with its data in `folder`/data, one of whose sinks never starts.
pub(crate) async fn start(folder: &Path) -> Result<Daemon> {
    // What is no component does not start: what its sink has not had waits.
    let stuck = folder.join("stuck.wasm");
    std::fs::write(&stuck, "no component")?;
    let sinks = format!(
        "[[sinks]]\nname = \"pool\"\nplugin = \"pool\"\nstreams = [\"*\"]\n\
         [[sinks]]\nname = \"stuck\"\nplugin = {stuck:?}\nstreams = [\"*\"]\n\
         [[streams]]\nname = \"{}\"\n",
        search::STREAM
    );
    daemon::start_inside(folder, "log_retention_bytes = 1099511627776", &sinks).await
}

/// Ends it in order.
pub(crate) async fn stop(daemon: Daemon) -> Result<()> {
    Ok(daemon.run(std::future::ready(())).await?)
}

/// A kind of page: what it is called, what is asked for.
struct Kind {
    name: &'static str,
    filter: Filter,
    statuses: &'static [Status],
}

fn kinds(filled: &Filled) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let mut add = |name, connector: &str, statuses, change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter {
            connector: (!connector.is_empty()).then(|| connector.into()),
            ..Filter::default()
        };
        change(&mut filter);
        kinds.push(Kind {
            name,
            filter,
            statuses,
        });
    };
    let plain = |_: &mut Filter| {};
    let (middle, hour) = (filled.middle_at, Duration::from_hours(1));
    add("all", "", &[][..], &plain);
    add("connector, 60 %", "big", &[], &plain);
    add("connector, 10 entries", "rare", &[], &plain);
    add("connector, unknown", "nobody", &[], &plain);
    add("accepted (1,000 wait)", "big", &[Status::Accepted], &plain);
    add("processed", "big", &[Status::Processed], &plain);
    add(
        "processed behind refused",
        "broken",
        &[Status::Processed],
        &plain,
    );
    add("failed (3,000)", "big", &[Status::Failed], &plain);
    add("failed, none of them", "broken", &[Status::Failed], &plain);
    add("rejected, 1 %", "big", &[Status::Rejected], &plain);
    add("rejected, of all", "", &[Status::Rejected], &plain);
    add("duplicate", "big", &[Status::Duplicate], &plain);
    add("test, 10 entries", "big", &[Status::Test], &plain);
    add("test, of all", "", &[Status::Test], &plain);
    add("removed, none", "big", &[Status::Removed], &plain);
    let two = &[Status::Rejected, Status::Failed][..];
    add("rejected or failed", "big", two, &plain);
    add("since an hour ago", "big", &[], &|filter| {
        filter.since = Some(filled.last_at - hour);
    });
    add("until the middle", "big", &[], &|filter| {
        filter.until = Some(middle)
    });
    let window = |filter: &mut Filter| {
        filter.since = Some(middle);
        filter.until = Some(middle + Duration::from_secs(10));
    };
    add("10 s in the middle", "big", &[], &window);
    add("10 s in the middle, rare", "rare", &[], &window);
    add(
        "10 s in the middle, failed",
        "big",
        &[Status::Failed],
        &window,
    );
    for (name, text) in [
        ("text in every entry", "127.0.0."),
        ("text in 0.3 %", "has no field"),
        ("text in none", "no entry says this"),
        ("text is a request id", filled.id.as_str()),
    ] {
        add(name, "big", &[], &|filter| {
            filter.text = Some(text.to_owned())
        });
    }
    add(
        "text in none, rejected",
        "big",
        &[Status::Rejected],
        &|filter| {
            filter.text = Some("no entry says this".to_owned());
        },
    );
    kinds
}

/// Pages of every kind; the aim is the slowest.
async fn pages(daemon: &Daemon, filled: &Filled) -> Result<Aim> {
    println!("a page of {PAGE}, ms\n");
    let mut table = Table::new(&["filter", "entries", "first p50", "p99", "deep p50", "p99"]);
    let mut worst = 0.0_f64;
    let mut random = filled.random;
    for kind in kinds(filled) {
        let mut row = vec![kind.name.to_owned()];
        for deep in [false, true] {
            let mut micros = Vec::new();
            for _ in 0..PAGES {
                let mut filter = kind.filter.clone();
                if deep {
                    filter.before = Some(Seq::new(1 + random.below(filled.entries)));
                }
                let begun = Instant::now();
                let page = (daemon.operator.requests)
                    .page(&filter, kind.statuses, PAGE)
                    .await?;
                micros.push(begun.elapsed().as_secs_f64() * 1e6);
                if row.len() == 1 {
                    let more = page
                        .next
                        .is_some_and(|_| page.reports.len() < PAGE as usize);
                    row.push(format!(
                        "{}{}",
                        page.reports.len(),
                        if more { " so far" } else { "" }
                    ));
                }
            }
            let times = Times::from_micros(micros);
            worst = worst.max(times.p99);
            row.push(format!("{:.2}", times.p50));
            row.push(format!("{:.2}", times.p99));
        }
        table.row(row);
    }
    table.print();
    Ok(Aim::at_most(
        "p99 of a page, slowest filter",
        worst,
        PAGE_MS_MAX,
        " ms",
    ))
}
