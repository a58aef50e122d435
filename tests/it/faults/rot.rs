//! One flipped bit, or one page of zeros, anywhere in the files while the daemon is away.
//!
//! **Invariant**: the daemon starts, takes a request, delivers it, and keeps all that the damaged page did not hold; if
//! something is gone it says so in `problems`.

use std::path::Path;
use std::time::Duration;

use super::STREAM;
use super::bench::{self, exhaustive, load, pause, rounds, warm, workers};
use super::judge::Files;
use super::producer::Worker;
use super::verdict::Verdict;
use crate::app::Random;
use crate::process::{BY_ID, Client};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually_within};

const PAGE: usize = 2_048;
const CONNECTIONS: u64 = 2;
/// Acknowledged before the damage.
const ENOUGH: u64 = 100;
const LOAD: Duration = Duration::from_millis(600);
/// Pages of each file in the short run.
const PAGES: u64 = 3;
/// Items whose rows, or places in a tree, lie in one page.
const PAGE_ITEMS_MAX: usize = 200;

/// What is done to a page.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Bit(usize),
    Zeros,
}

impl Damage {
    fn do_to(self, file: &Path, page: usize) {
        let mut bytes = std::fs::read(file).expect("a file");
        let end = bytes.len().min((page + 1) * PAGE);
        let page = &mut bytes[page * PAGE..end];
        match self {
            Self::Bit(bit) => {
                let bit = bit % (page.len() * 8);
                page[bit / 8] ^= 1 << (bit % 8);
            }
            Self::Zeros => page.fill(0),
        }
        std::fs::write(file, bytes).expect("room");
    }
}

/// Whether the journal still has every payload: then a damaged pool loses nothing.
fn whole(payloads_kept: bool) -> Setup {
    let minutes = if payloads_kept { 600 } else { 0 };
    bench::folder().set("storage.payload_retention_minutes", minutes)
}

/// Everything was delivered, and the files are as an orderly stop or a kill leaves them.
fn damaged_pages_are_survived(payloads_kept: bool, killed: bool) {
    let mut random = bench::random("rot");
    let original = whole(payloads_kept);
    let mut workers = workers(CONNECTIONS, &mut random);
    let process = original.spawn();
    let acknowledged = load(process.service, &mut workers, 0, None, |progress| {
        pause(LOAD);
        progress.reaches(ENOUGH);
    });
    process.drained();
    if killed {
        process.kill();
    } else {
        process.stop();
    }
    let mut verdict = Verdict::on("a damaged page");
    let mut tried = 0;
    for entry in std::fs::read_dir(original.data_dir()).expect("a folder") {
        let file = entry.expect("an entry").file_name();
        let file = file.to_str().expect("a name");
        if !(file.ends_with(".db") || file.ends_with("-wal")) {
            continue;
        }
        let bytes = std::fs::metadata(original.data_dir().join(file)).expect("a file");
        let pages = usize::try_from(bytes.len()).expect("small").div_ceil(PAGE);
        for page in pages_of(pages, &mut random) {
            for damage in [Damage::Bit(random.next() as usize), Damage::Zeros] {
                let at = format!("{damage:?} in page {page} of {pages} of {file}");
                let folder = whole(payloads_kept);
                copy(original.data_dir(), folder.data_dir());
                damage.do_to(&folder.data_dir().join(file), page);
                let lost = lost(&folder, &workers, &at);
                let max = match file.starts_with("pool") && payloads_kept {
                    true => 0,
                    false => PAGE_ITEMS_MAX,
                };
                if lost.len() > max {
                    verdict.lost(format!("{at}: {} items, as {:?}", lost.len(), lost[0]));
                }
                tried += 1;
                verdict.round(acknowledged, acknowledged >= ENOUGH);
            }
        }
    }
    verdict.close(tried);
}

/// The first page, the last one, and others: all in the long run.
fn pages_of(pages: usize, random: &mut Random) -> Vec<usize> {
    if exhaustive() {
        return (0..pages).collect();
    }
    let others = (0..rounds(PAGES, PAGES)).map(|_| random.within(0..pages.max(1) as u64) as usize);
    let mut chosen: Vec<usize> = others.chain([0]).filter(|page| *page < pages).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// What a daemon on these files does not have any more. It must take and deliver a request, and again after a kill.
fn lost(folder: &Setup, workers: &[Worker], at: &str) -> Vec<String> {
    let mut problems = String::new();
    for start in 0..2 {
        let process = match folder.try_spawn() {
            Ok(process) => process,
            Err(ended) => panic!("{at}: start {start}: {ended:?}"),
        };
        // A daemon that meets damage while it runs starts again, and is away for a moment.
        let key = format!("after-{start}");
        let id = eventually_within(
            PROCESS_DEADLINE,
            || format!("{at}: start {start}: a request is taken\n{}", process.log()),
            || {
                let body = format!("{{\"id\": \"{key}\"}}");
                let mut client = Client::connect(process.service).ok()?;
                let answer = client.post(STREAM, BY_ID, &body).ok()?;
                (answer.status == 202).then(|| answer.request_id())
            },
        );
        process.request_becomes(&id, "processed");
        process.looked_through();
        process.drained();
        let status = process.admin("/api/admin/status");
        problems.push_str(&status["problems"].to_string());
        process.kill();
    }
    let files = Files::of(folder);
    let mut lost = Verdict::on("a damaged page");
    for worker in workers {
        files.states(&worker.book, &mut lost);
    }
    let lost = lost.into_lost();
    if !lost.is_empty() {
        assert_ne!(problems, "[][]", "{at}: {} items are gone", lost.len());
    }
    lost
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    warm(from, to);
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        // The map of shared memory would hide the damage, and does not outlive the machine.
        let is_map = name.to_string_lossy().ends_with("-shm");
        if entry.file_type().expect("a type").is_file() && name != "lock" && !is_map {
            std::fs::copy(entry.path(), to.join(name)).expect("room");
        }
    }
}

#[test]
fn damage_of_files_that_were_closed_in_order() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    damaged_pages_are_survived(true, false);
}

#[test]
fn damage_of_files_and_their_logs_after_a_kill() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    damaged_pages_are_survived(true, true);
}

#[test]
fn damage_where_no_payload_is_kept() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    damaged_pages_are_survived(false, true);
}
