//! Power cuts, simulated: one recorded run gives as many as are wanted.
//!
//! The library records every change and every flush of every file, and who is answered notes how far the recording was.
//! For a cut at any moment the data folder is built again, with any part of what was not flushed. Most cuts are judged
//! from the files; some by a daemon that is started on them.
//!
//! **Invariant**: a request whose answer came before the cut is in the journal, and either its payload is, too, or its
//! effect is in the pool.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::bench::{self, exhaustive, load, pause, rounds, warm};
use super::book::{Book, Event, Happened, Mark, Op};
use super::judge::Files;
use super::preload::Preload;
use super::producer::Worker;
use super::recording::{Disk, Recording};
use super::submit;
use super::verdict::Verdict;
use crate::app::Random;
use crate::process::Process;
use crate::setup::Setup;
use crate::stored::{one, read_only};
use crate::wait::eventually;

const CONNECTIONS: u64 = 3;
/// Each cut looks at all requests before it.
const PACE: Duration = Duration::from_millis(8);
/// Before the pause after which the journal holds no payload that the pool has.
const LOAD_FIRST: Duration = Duration::from_millis(1_000);
/// Longer than a checkpoint of the pool takes to come.
const LOAD: Duration = Duration::from_millis(6_000);
/// Of the second life, which begins with files that are there.
const LOAD_AGAIN: Duration = Duration::from_millis(1_500);
const CUTS: u64 = 150;
const CUTS_LONG: u64 = 10;
/// Records between two cuts of a first start, in the short run.
const FIRST_STEP: usize = 11;
/// One cut in so many is judged by a daemon.
const STARTED_ONE_IN: u64 = 15;

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let mut random = bench::random("power cuts");
    let folder = bench::folder();
    let Some(preload) = Preload::new("power cuts", &folder) else {
        return;
    };
    preload.record();
    let mut workers: Vec<Worker> = (0..CONNECTIONS)
        .map(|id| Worker::remembering(id, Random(random.next()), PACE))
        .collect();
    let mut streams = Vec::new();
    let process = preload.start(&folder);
    load(process.service, &mut workers, 0, Some(&preload), |_| {
        make_streams(LOAD_FIRST, &process, &preload, &mut streams);
    });
    // From here on the pool alone has what was sent: it must not lose it.
    let journal = read_only(&folder.data_dir().join("journal.db"));
    eventually("the journal has let all payloads go", || {
        (one::<i64>(&journal, "SELECT count(*) FROM payloads") == 0).then_some(())
    });
    drop(journal);
    load(process.service, &mut workers, 1, Some(&preload), |_| {
        make_streams(LOAD, &process, &preload, &mut streams);
    });
    process.stop();
    let process = preload.start(&folder);
    load(process.service, &mut workers, 2, Some(&preload), |_| {
        make_streams(LOAD_AGAIN, &process, &preload, &mut streams);
        process.kill();
    });
    let recording = Recording::read(preload.log());
    let events: Vec<Vec<Event>> = workers
        .into_iter()
        .map(|worker| worker.events.expect("it remembers"))
        .collect();

    let cuts = rounds(CUTS, CUTS_LONG);
    let mut verdict = Verdict::on("power cuts, simulated");
    let mut moments = moments(&recording, &events, cuts, &mut random);
    moments.sort_unstable();
    let mut disk = Disk::new(&recording);
    for (number, moment) in moments.into_iter().enumerate() {
        disk.advance(moment);
        let seed = random.next();
        let cut = tempfile::tempdir().expect("a folder");
        disk.cut(&mut Random(seed), cut.path());
        let promises = Promises::until(moment as u64, &events, &streams);
        promises.judge_files(cut.path(), &mut verdict);
        if (number as u64).is_multiple_of(STARTED_ONE_IN) {
            let restarted = bench::folder();
            warm(folder.data_dir(), restarted.data_dir());
            disk.cut(&mut Random(seed), restarted.data_dir());
            promises.judge_daemon(&restarted, &mut verdict);
        }
        verdict.round(promises.count, promises.count > 0);
        verdict.must_be_clean(&format!("cut at {moment} of {}", recording.len()));
    }
    verdict.close(cuts * 3 / 4);
}

/// A stream that was made over the admin API, and the moment at which that was answered.
struct Made {
    name: String,
    at: u64,
}

/// Makes streams for a while.
fn make_streams(time: Duration, process: &Process, preload: &Preload, streams: &mut Vec<Made>) {
    const STEPS: u32 = 10;
    for _ in 0..STEPS {
        pause(time / STEPS);
        let name = format!("made-{}", streams.len());
        let body = format!("{{\"name\": \"{name}\"}}");
        let status = process.try_call("POST", "/api/admin/streams", &body);
        assert_eq!(status, Some(201), "{}", process.log());
        streams.push(Made {
            name,
            at: preload.records(),
        });
    }
}

/// Moments to cut at: many right after an answer, when least time has passed to make good what it promised.
fn moments(
    recording: &Recording,
    events: &[Vec<Event>],
    count: u64,
    random: &mut Random,
) -> Vec<usize> {
    let promises: Vec<u64> = events
        .iter()
        .flatten()
        .filter_map(|event| event.promise.as_ref())
        .map(|promise| promise.at)
        .collect();
    assert!(promises.len() > 100, "only {} answers", promises.len());
    let moment = |_| {
        let moment = match random.once_in(3) {
            true => random.within(0..recording.len() as u64 + 1),
            false => *random.one_of(&promises),
        };
        usize::try_from(moment).expect("small").min(recording.len())
    };
    (0..count).map(moment).collect()
}

/// What was promised until a cut.
struct Promises<'a> {
    moment: u64,
    events: &'a [Vec<Event>],
    streams: &'a [Made],
    count: u64,
}

impl<'a> Promises<'a> {
    fn until(moment: u64, events: &'a [Vec<Event>], streams: &'a [Made]) -> Self {
        let mut promises = Self {
            moment,
            events,
            streams,
            count: 0,
        };
        let kept = |event: &&Event| promises.happened(event) == Happened::Surely;
        promises.count = events.iter().flatten().filter(kept).count() as u64;
        promises
    }

    fn happened(&self, event: &Event) -> Happened {
        match &event.promise {
            Some(promise) if promise.at <= self.moment => Happened::Surely,
            _ if event.sent_at < self.moment => Happened::Perhaps,
            _ => Happened::Never,
        }
    }

    fn books(&self, happened: impl Fn(&Event) -> Happened) -> Vec<Book> {
        let events = self.events.iter();
        events.map(|events| Book::of(events, &happened)).collect()
    }

    /// What the files hold, without a daemon.
    fn judge_files(&self, data_dir: &Path, verdict: &mut Verdict) {
        if self.count == 0 {
            return;
        }
        // Opened for writing: what the log of a file holds is looked at as the daemon would.
        let open = |name: &str| Connection::open(data_dir.join(name)).expect("a file");
        let files = Files {
            journal: open("journal.db"),
            pool: open("pool.db"),
        };
        for (name, connection) in [("journal", &files.journal), ("pool", &files.pool)] {
            let found: Result<String, _> =
                connection.query_row("PRAGMA quick_check", [], |row| row.get(0));
            match found.as_deref() {
                Ok("ok") => {}
                other => return verdict.lost(format!("the {name} is damaged: {other:?}")),
            }
        }
        self.judge_streams(&open("catalog.db"), verdict);
        let books = self.books(|event| self.happened(event));
        let books: Vec<&Book> = books.iter().collect();
        files.claims(&books, verdict);
        let cursor = cursor(&files.pool);
        let numbers = numbers(&files.journal);
        let waits = waiting(&files.journal, cursor);
        // What the pool has behind it is in the pool, and everything else waits.
        let delivered = self.books(|event| {
            let happened = self.happened(event);
            let id = event
                .promise
                .as_ref()
                .and_then(|one| one.request_id.as_ref());
            match (happened, id.map(|id| numbers.get(id))) {
                (Happened::Surely, Some(Some(seq))) if *seq > cursor => Happened::Never,
                (Happened::Surely, Some(None)) if matches!(event.op, Op::Remove { .. }) => {
                    Happened::Perhaps
                }
                _ => happened,
            }
        });
        for (book, delivered) in books.iter().zip(&delivered) {
            let mark = Mark {
                accepted: delivered.accepted.len(),
                ..Mark::default()
            };
            files.book(delivered, mark, verdict);
            for request_id in &book.accepted {
                match numbers.get(request_id) {
                    None => verdict.lost(format!("{request_id} is not in the journal")),
                    Some(seq) if *seq > cursor && !waits.contains(seq) => {
                        verdict.lost(format!(
                            "{request_id} ({seq}) is neither in the journal nor in the pool, which has {cursor}"
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn judge_streams(&self, catalog: &Connection, verdict: &mut Verdict) {
        let sql = "SELECT count(*) FROM streams WHERE name = ?1";
        for made in self.streams.iter().filter(|made| made.at <= self.moment) {
            let found: Result<i64, _> = catalog.query_row(sql, [&made.name], |row| row.get(0));
            if !matches!(found, Ok(1)) {
                verdict.lost(format!("the stream {}: {found:?}", made.name));
            }
        }
    }

    /// What a daemon makes of it.
    fn judge_daemon(&self, folder: &Setup, verdict: &mut Verdict) {
        let process = folder.spawn();
        process.drained();
        let after = submit(&process, "after the cut");
        process.request_becomes(&after, "processed");
        process.stop();
        let files = Files::of(folder);
        let books = self.books(|event| self.happened(event));
        for book in &books {
            files.book(book, Mark::default(), verdict);
        }
        files.claims(&books.iter().collect::<Vec<_>>(), verdict);
    }
}

/// Up to here the pool has everything behind it.
fn cursor(pool: &Connection) -> i64 {
    let sql = "SELECT seq FROM cursors WHERE sink = 'pool'";
    let cursor = pool.query_row(sql, [], |row| row.get(0)).optional();
    cursor.expect("the table cursors").unwrap_or(0)
}

/// Every request of the log by its id.
fn numbers(journal: &Connection) -> HashMap<String, i64> {
    let sql = "SELECT request_id, seq FROM requests";
    let mut statement = journal.prepare(sql).expect("the request log");
    let rows = statement.query_map([], |row| {
        let id: [u8; 16] = row.get(0)?;
        Ok((Uuid::from_bytes(id).to_string(), row.get(1)?))
    });
    let rows = rows.expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Payloads after a cursor that can be read. A row has one, or those of a group, which its directory lists.
fn waiting(journal: &Connection, cursor: i64) -> HashSet<i64> {
    let sql = "SELECT seq, crc32, items, request FROM payloads WHERE seq > ?1";
    let mut statement = journal.prepare(sql).expect("the payloads");
    let mut rows = statement.query([cursor]).expect("rows");
    let mut waiting = HashSet::new();
    while let Some(row) = rows.next().expect("a row") {
        let crc32: i64 = row.get(1).expect("a checksum");
        let items: Vec<u8> = row.get(2).expect("bytes");
        let request: Vec<u8> = row.get(3).expect("bytes");
        if let Ok(crc32) = u32::try_from(crc32) {
            if crc32fast::hash(&items) == crc32 {
                waiting.insert(row.get(0).expect("a number"));
            }
            continue;
        }
        if i64::from(crc32fast::hash(&request)) != crc32 & i64::from(u32::MAX) {
            continue;
        }
        let (mut list, mut items) = (&request[1..], &items[..]);
        while let Some((record, rest)) = list.split_first_chunk::<18>() {
            let number = |from: usize, bytes: usize| {
                let mut number = [0; 8];
                number[..bytes].copy_from_slice(&record[from..from + bytes]);
                u64::from_le_bytes(number) as usize
            };
            let (payload, others) = items.split_at(number(12, 4));
            let seq = number(0, 8) as i64;
            if crc32fast::hash(payload) as usize == number(8, 4) && seq > cursor {
                waiting.insert(seq);
            }
            (list, items) = (&rest[number(16, 2)..], others);
        }
    }
    waiting
}

#[test]
fn a_power_cut_at_any_moment_of_the_first_start_leaves_a_folder_that_starts() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let mut random = bench::random("power cuts at the first start");
    let folder = bench::folder().without_token();
    let Some(preload) = Preload::new("power cuts at the first start", &folder) else {
        return;
    };
    preload.record();
    preload.start(&folder).kill();
    let recording = Recording::read(preload.log());
    let mut disk = Disk::new(&recording);
    let mut verdict = Verdict::on("power cuts at the first start");
    let step = if exhaustive() { 1 } else { FIRST_STEP };
    for moment in (0..=recording.len()).step_by(step) {
        disk.advance(moment);
        let restarted = bench::folder().without_token();
        warm(folder.data_dir(), restarted.data_dir());
        disk.cut(&mut random, restarted.data_dir());
        match restarted.try_spawn() {
            Ok(process) => drop(submit(&process, "after the cut")),
            Err(ended) => verdict.lost(format!("a start after a cut at {moment}: {ended:?}")),
        }
        verdict.round(1, true);
    }
    verdict.close(2);
}
