//! The budget of a request: its instructions, stage by stage, as a page of the documentation, and what is aimed at.
//!
//! **Invariant:** the stages of a column add up to its total.

use std::fmt::Write;

use super::tally::Tally;
use super::work::{self, Work};
use crate::Result;
use crate::aim::Aim;

const CONNECTION: &str = "<hyper::server::conn::http1::UpgradeableConnection<I,S> as core::future::future::Future>::poll";
const SUBMIT: &str = "headgate_http::ingest::submit::{{closure}}";
const ADMIT: &str = "headgate_ingest::Ingest::admit";
const FLATTEN: &str = "headgate_item::flatten::flatten_by";
const LOG: &str = "headgate_journal::file::group::Group::log";
const GROUP: &str = "headgate_journal::file::group::Group::write";
const SETTLE: &str = "headgate_pool::Pool::settle";

/// What a stage is called, the functions that make it up, and those in them that are a stage of their own.
const STAGES: [(&str, &[&str], &[&str]); 7] = [
    (
        "HTTP: connections, head, route, answer, a renderer's message",
        &[CONNECTION],
        &[SUBMIT],
    ),
    ("key, rate, limits", &[ADMIT], &[]),
    ("flattening", &[FLATTEN], &[]),
    (
        "the rest up to the journal's job, and the receipt",
        &[SUBMIT],
        &[ADMIT, FLATTEN],
    ),
    ("journal: row of the request log", &[LOG], &[]),
    ("journal: payload and commit", &[GROUP], &[LOG]),
    ("pool: items, their numbers, commit", &[SETTLE], &[]),
];

/// What a column is called, what was counted for it, in how many parts, and the most that all of a part may take.
const COLUMNS: [(&str, Work, u64, Option<u64>); 4] = [
    ("200 B, alone", Work::Small, 1, Some(140_000)),
    ("200 B, 32 at once", Work::Together, 1, Some(75_000)),
    ("2 KB, alone", Work::Medium, 1, None),
    ("an item of 5,000 in 1 MB", Work::Array, 5_000, Some(22_000)),
];

/// The most that a change may take more for each renderer.
const RENDERER_MAX: u64 = 4_000;

/// The page.
pub(super) fn page(tallies: &[(Work, Tally)]) -> Result<String> {
    let mut columns = Vec::new();
    for (title, work, parts, _) in COLUMNS {
        let tally = find(tallies, work)?;
        columns.push((title, column(tally, work.requests() as u64 * parts)?));
    }
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut page = String::from(
        "Instructions of the daemon for one request with one renderer connected, counted by callgrind: what the kernel does, such as an\n\
         fsync, is not in it. Written by a program (`benches/headgate/count/budget.rs`).\n\n",
    );
    writeln!(page, "| | {} |", titles.join(" | "))?;
    writeln!(page, "|---{}|", "|--:".repeat(titles.len()))?;
    let names = STAGES.iter().map(|(name, ..)| *name);
    let names = names.chain(["lane, plugin, runtime, copying back", "**all**"]);
    for (row, name) in names.enumerate() {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, rows)| thousands(rows[row]))
            .collect();
        writeln!(page, "| {name} | {} |", cells.join(" | "))?;
    }
    writeln!(
        page,
        "\nWith {} renderers connected instead of one, a change takes {} more for each of them.",
        work::RENDERERS + 1,
        thousands(for_each_renderer(tallies)?)
    )?;
    Ok(page)
}

/// What is aimed at, of what was counted.
pub(super) fn aims(tallies: &[(Work, Tally)]) -> Result<Vec<Aim>> {
    let mut aims = Vec::new();
    for (title, work, parts, limit) in COLUMNS {
        if let Some(limit) = limit {
            let count = find(tallies, work)?.total / (work.requests() as u64 * parts);
            aims.push(aim(title, count, limit));
        }
    }
    let count = for_each_renderer(tallies)?;
    aims.push(aim("a change to a renderer", count, RENDERER_MAX));
    Ok(aims)
}

fn aim(title: &str, count: u64, limit: u64) -> Aim {
    Aim {
        name: format!("instructions: {title}"),
        target: format!("<= {}", thousands(limit)),
        measured: thousands(count),
        reached: Some(count <= limit),
    }
}

fn find(tallies: &[(Work, Tally)], work: Work) -> Result<&Tally> {
    let found = tallies.iter().find(|(known, _)| *known == work);
    let (_, tally) = found.ok_or("a kind of request was not counted")?;
    Ok(tally)
}

fn for_each_renderer(tallies: &[(Work, Tally)]) -> Result<u64> {
    Ok(super::for_each_renderer(tallies).ok_or("nothing was sent to many renderers")?)
}

/// Instructions of each stage, of what is left, and of all, for each of so many.
fn column(tally: &Tally, count: u64) -> Result<Vec<u64>> {
    let sum = |names: &[&str]| -> Result<u64> { names.iter().map(|name| tally.inside(name)).sum() };
    let mut rows = Vec::new();
    for (_, functions, inner) in STAGES {
        rows.push((sum(functions)?).saturating_sub(sum(inner)?) / count);
    }
    let all = tally.total / count;
    rows.push(all.saturating_sub(rows.iter().sum()));
    rows.push(all);
    Ok(rows)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
