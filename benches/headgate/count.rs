//! Instructions of fixed requests, stage by stage: the same on a busy machine as on a quiet one.
//!
//! Starts `headgate serve` under valgrind's callgrind, sends it a few requests of each kind one after the other (the next
//! one when a renderer has shown the last), and adds up what was executed in the function of each stage, with all that it
//! called. What stays the same from run to run within a percent is compared with [`ACCEPTED`]; more than [`GROWTH_MAX`]
//! in each of [`RUNS_MAX`] runs ends the bench with an error, unless `--accept` writes what was counted there.
//!
//! Counts are compared in development builds, which the check has anyway: `cargo bench --profile dev -- count`. In them
//! SQLite is optimized, and the daemon's own code is not, so they say that a stage grew and not what it costs. What it
//! costs says an optimized program with symbols, of which the budget of a request in the documentation is made:
//!
//! ```text
//! CARGO_PROFILE_RELEASE_STRIP=none cargo build --release
//! cargo bench --profile dev -- count --program target/release/headgate --budget src/budget.md
//! ```
//!
//! How to read it: instructions of the daemon itself, not of the kernel; an fsync counts nothing. What is sent to a renderer
//! is counted in one function for each request, and in all functions by difference: the same changes are sent to one
//! renderer and to 65, and what the daemon executes more is divided by 64 and by the changes.
//!
//! Called by the command line; owns the stages.
//!
//! **Invariant:** a stage whose function is not found is an error, never zero.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::aim;
use crate::table::Table;
use crate::{Result, step};
use tally::Tally;
use watched::Watched;
use work::Work;

mod budget;
mod tally;
mod watched;
mod work;

/// What a stage of a kind of request may take: instructions of one request.
const ACCEPTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/headgate/count/accepted.json"
);

/// From here on growth is an error.
const GROWTH_MAX: f64 = 0.03;

/// How often everything is counted before a stage has grown: how many requests a group of the journal has, and how often a
/// renderer is woken for nothing, is up to the machine. The least of these runs is compared.
const RUNS_MAX: usize = 5;

/// How often everything is counted before it is accepted. The most of these runs is written: with the least of them, the
/// next check would fail by chance.
const RUNS_ACCEPTED: usize = 3;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write what was counted as what is accepted from now on
    #[arg(long)]
    accept: bool,
    /// The budget of a request, stage by stage, of this program: an optimized one with symbols
    #[arg(long, value_name = "FILE", conflicts_with = "accept")]
    program: Option<PathBuf>,
    /// Write it into this file
    #[arg(long, value_name = "FILE", requires = "program")]
    budget: Option<PathBuf>,
}

/// Functions that no other stage calls, and what is done in them.
const STAGES: [(&str, &str, &[Work]); 8] = [
    (
        "accepted, up to the journal's job",
        "headgate_http::ingest::submit::{{closure}}",
        &[Work::Small, Work::Keyed, Work::Medium, Work::Array],
    ),
    (
        "verified and accepted",
        "headgate_http::ingest::submit::{{closure}}",
        &[Work::Signed],
    ),
    (
        "flattened",
        "headgate_item::flatten::flatten_by",
        &[Work::Small, Work::Medium, Work::Array],
    ),
    (
        "signature verified",
        "headgate_ingest::address::<impl headgate_ingest::Ingest>::prove",
        &[Work::Signed],
    ),
    (
        "committed in the journal",
        "headgate_journal::file::group::Group::write",
        &[Work::Small, Work::Keyed, Work::Medium, Work::Array],
    ),
    (
        "written in a group of the journal",
        GROUP,
        &[Work::Together],
    ),
    (
        "settled in the pool",
        "headgate_pool::Pool::settle",
        &[Work::Small, Work::Medium, Work::Array],
    ),
    (
        "sent to a renderer",
        "headgate_live::subscription::Subscription::next::{{closure}}",
        &[Work::Small, Work::Array],
    ),
];

/// What is done for each request of a group of the journal.
const GROUP: &str = "headgate_journal::file::group::Group::job";

/// The stage of [`for_each_renderer`].
const SENT: &str = "sent to 64 renderers, for each, in all functions";

/// Instructions of one request, by kind of request and stage.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Runs the bench; false if a stage has grown.
pub(crate) fn bench(options: &Options) -> Result<bool> {
    let tallies = count(options.program.as_deref())?;
    if options.program.is_some() {
        let page = budget::page(&tallies)?;
        match &options.budget {
            Some(file) => std::fs::write(file, page)?,
            None => print!("{page}"),
        }
        aim::print(&budget::aims(&tallies)?);
        return Ok(true);
    }
    let mut counts = counts(&tallies)?;
    if !cfg!(debug_assertions) {
        print(&counts, &Counts::new());
        return Ok(true);
    }
    if options.accept {
        for _ in 1..RUNS_ACCEPTED {
            let again = self::counts(&count(None)?)?;
            counts = merged(counts, &again, u64::max);
        }
        let mut text = serde_json::to_string_pretty(&counts)?;
        text.push('\n');
        std::fs::write(ACCEPTED, text)?;
        print(&counts, &Counts::new());
        println!("\naccepted from now on: {ACCEPTED}");
        return Ok(true);
    }
    let accepted = std::fs::read_to_string(ACCEPTED)
        .map_err(|error| format!("{ACCEPTED}: {error}; --accept writes it"))?;
    let accepted: Counts = serde_json::from_str(&accepted)?;
    print(&counts, &accepted);
    for _ in 1..RUNS_MAX {
        if grown_stages(&counts, &accepted).is_empty() {
            break;
        }
        // All kinds, because a daemon that has just started does other work for some time.
        step("once more: a stage has grown");
        let again = self::counts(&count(None)?)?;
        counts = merged(counts, &again, u64::min);
        print(&counts, &accepted);
    }
    let grown = grown_stages(&counts, &accepted);
    if !grown.is_empty() {
        println!(
            "\ngrown by more than {:.0} %: find out why (callgrind_annotate names the functions), or, if it is worth it,\n\
             accept it: cargo bench --profile dev -- count --accept, and say in the commit what it bought",
            GROWTH_MAX * 100.0
        );
    }
    for (work, stage, growth) in &grown {
        println!("  {work}, {stage}: {:.1} %", growth * 100.0);
    }
    Ok(grown.is_empty())
}

/// What each of these kinds of work came to, in a daemon that does no other.
fn count(program: Option<&Path>) -> Result<Vec<(Work, Tally)>> {
    let folder = tempfile::tempdir_in(crate::options::TARGET_TMP)?;
    step("start under valgrind");
    let mut daemon = Watched::start(folder.path(), program)?;
    // What a request costs when the next one follows at once is what people ask of an optimized program.
    let mut load = work::Load::connect(daemon.service(), program.is_none())?;
    let mut tallies = Vec::new();
    for work in Work::ALL {
        step(work.title());
        load.connect_for(work)?;
        load.send(work, work.requests() / 4 + 1)?;
        let mut least = daemon.count(|| load.send(work, work.requests()))?;
        for _ in 1..work.rounds() {
            let again = daemon.count(|| load.send(work, work.requests()))?;
            if again.inside(GROUP)? < least.inside(GROUP)? {
                least = again;
            }
        }
        tallies.push((work, least));
    }
    daemon.stop()?;
    Ok(tallies)
}

fn counts(tallies: &[(Work, Tally)]) -> Result<Counts> {
    let mut counts = Counts::new();
    for (stage, function, works) in STAGES {
        for (work, tally) in tallies.iter().filter(|(work, _)| works.contains(work)) {
            let count = tally.inside(function)? / work.requests() as u64;
            let stages = counts.entry(work.title().to_owned()).or_default();
            stages.insert(stage.to_owned(), count);
        }
    }
    if let Some(count) = for_each_renderer(tallies) {
        let stages = counts.entry(Work::Pushed.title().to_owned()).or_default();
        stages.insert(SENT.to_owned(), count);
    }
    Ok(counts)
}

/// What a change costs more for each renderer beyond the first, in all functions.
fn for_each_renderer(tallies: &[(Work, Tally)]) -> Option<u64> {
    let total = |wanted| {
        let found = tallies.iter().find(|(work, _)| *work == wanted);
        found.map(|(_, tally)| tally.total)
    };
    let more = total(Work::Pushed)?.saturating_sub(total(Work::PushedToOne)?);
    Some(more / (work::RENDERERS * Work::Pushed.requests()) as u64)
}

/// The stages that have grown, with the kind of request and by what share.
fn grown_stages(counts: &Counts, accepted: &Counts) -> Vec<(String, String, f64)> {
    let mut grown = Vec::new();
    for (work, stages) in counts {
        for (stage, &count) in stages {
            let accepted = accepted.get(work).and_then(|stages| stages.get(stage));
            if let Some(growth) = growth(count, accepted.copied()).filter(|by| *by > GROWTH_MAX) {
                grown.push((work.clone(), stage.clone(), growth));
            }
        }
    }
    grown
}

/// By what share a count is larger than what is accepted, if something is.
fn growth(count: u64, accepted: Option<u64>) -> Option<f64> {
    accepted.map(|accepted| count as f64 / accepted.max(1) as f64 - 1.0)
}

/// One count of each stage, of those of two runs.
fn merged(mut counts: Counts, others: &Counts, choose: fn(u64, u64) -> u64) -> Counts {
    for (work, stages) in &mut counts {
        for (stage, count) in stages {
            let other = others.get(work).and_then(|stages| stages.get(stage));
            *count = other.map_or(*count, |&other| choose(*count, other));
        }
    }
    counts
}

fn print(counts: &Counts, accepted: &Counts) {
    let mut table = Table::new(&["request", "stage", "instructions", "accepted", "grown"]);
    for (work, stages) in counts {
        for (stage, &count) in stages {
            let before = accepted.get(work).and_then(|stages| stages.get(stage));
            let grown = growth(count, before.copied());
            table.row([
                work.clone(),
                stage.clone(),
                count.to_string(),
                before.map(u64::to_string).unwrap_or_default(),
                grown.map_or(String::new(), |grown| format!("{:.1} %", grown * 100.0)),
            ]);
        }
    }
    table.print();
}
