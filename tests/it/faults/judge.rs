//! What must be in the files, by the books of those who were answered.
//!
//! **Invariant**: the judge believes nobody but the answers, and the files as any SQLite client reads them.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use uuid::Uuid;

use super::POSITIONS;
use super::book::{Book, Fields, Mark};
use super::producer::Worker;
use super::verdict::Verdict;
use crate::process::Process;
use crate::setup::Setup;

/// How an accepted request stands in the log.
const ACCEPTED: i64 = 0;

/// After a fault and a start: everything that was acknowledged since the last look. Everything is delivered.
pub(super) fn round(
    process: &Process,
    folder: &Setup,
    workers: &mut [Worker],
    verdict: &mut Verdict,
) {
    let files = Files::of(folder);
    for worker in workers {
        let judged = std::mem::replace(&mut worker.judged, worker.book.mark());
        files.book(&worker.book, judged, verdict);
        let last = worker.book.accepted.get(judged.accepted..);
        if let Some(last) = last.and_then(<[_]>::last) {
            let status = process.request(last)["status"].take();
            if status != "processed" && status != "done" {
                verdict.lost(format!("{last} is {status}, not processed"));
            }
        }
    }
}

/// At the end: everything that was ever acknowledged. The daemon has stopped. Returns sums for people.
pub(super) fn end(folder: &Setup, workers: &[Worker], verdict: &mut Verdict) -> String {
    let files = Files::of(folder);
    for connection in [&files.journal, &files.pool] {
        let found: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("a verdict");
        assert_eq!(found, "ok");
    }
    let (mut requests, mut items) = (0, 0);
    for worker in workers {
        files.book(&worker.book, Mark::default(), verdict);
        requests += worker.book.accepted.len();
        items += worker.book.written.len();
    }
    let books: Vec<&Book> = workers.iter().map(|worker| &worker.book).collect();
    let keys = files.claims(&books, verdict);
    files.positions(verdict);
    format!("{requests} requests acknowledged, {items} items written once, {keys} idempotency keys")
}

/// The journal and the pool of a data folder.
pub(super) struct Files {
    pub(super) journal: Connection,
    pub(super) pool: Connection,
}

impl Files {
    pub(super) fn of(folder: &Setup) -> Self {
        Self {
            journal: folder.journal(),
            pool: folder.pool(),
        }
    }

    /// The fields and the request of an item's row.
    fn row(&self, stream: &str, key: &str) -> Option<(String, String)> {
        let sql = "SELECT fields, request_id FROM items WHERE stream = ?1 AND key = ?2";
        let mut statement = self.pool.prepare_cached(sql).expect("the table items");
        let row = statement.query_row([stream, key], |row| Ok((row.get(0)?, row.get(1)?)));
        match row {
            Ok(row) => Some(row),
            Err(rusqlite::Error::QueryReturnedNoRows) => None,
            Err(error) => panic!("the pool cannot be read: {error}"),
        }
    }

    /// What one connection knows, from a mark on.
    pub(super) fn book(&self, book: &Book, from: Mark, verdict: &mut Verdict) {
        self.states(book, verdict);
        for item in &book.written[from.written..] {
            // From the request that acknowledged it.
            let found = self.row(item.stream, &item.key);
            let found = found.map(|(_, request_id)| request_id);
            if found.as_ref() != Some(&item.request_id) {
                verdict.lost(format!("the pool holds {found:?} for {item:?}"));
            }
        }
        let logged = self.logged();
        for request_id in &book.accepted[from.accepted..] {
            let found = logged.get(request_id);
            match found {
                Some((1, ACCEPTED)) => {}
                Some((2.., _)) => verdict.doubled(format!("{request_id} in the log: {found:?}")),
                _ => verdict.lost(format!("{request_id} in the log: {found:?}")),
            }
        }
    }

    /// Each item that is written again and again is in a state that it may be in.
    pub(super) fn states(&self, book: &Book, verdict: &mut Verdict) {
        for ((stream, key), states) in &book.states {
            let found = self.row(stream, key).map(|(fields, _)| numbers(&fields));
            if !states.contains(&found) {
                verdict.lost(format!(
                    "{key} of {stream} is {found:?}, possible are {states:?}"
                ));
            }
        }
    }

    /// How often each request is in the log, and its highest outcome.
    fn logged(&self) -> HashMap<String, (usize, i64)> {
        let mut logged: HashMap<String, (usize, i64)> = HashMap::new();
        let sql = "SELECT request_id, outcome FROM requests";
        let mut statement = self.journal.prepare_cached(sql).expect("the request log");
        let mut rows = statement.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            let id = Uuid::from_bytes(row.get(0).expect("an id")).to_string();
            let outcome: i64 = row.get(1).expect("an outcome");
            let (times, highest) = logged.entry(id).or_insert((0, outcome));
            *times += 1;
            *highest = outcome.max(*highest);
        }
        logged
    }

    /// Every idempotency key was processed once, and every 202 for it named that request. Returns how many there are.
    pub(super) fn claims(&self, books: &[&Book], verdict: &mut Verdict) -> usize {
        let mut accepted: HashMap<String, Vec<String>> = HashMap::new();
        let sql = "SELECT idempotency_key, request_id FROM requests \
                   WHERE idempotency_key IS NOT NULL AND outcome = ?1";
        let mut statement = self.journal.prepare(sql).expect("the request log");
        let mut rows = statement.query([ACCEPTED]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            let id: [u8; 16] = row.get(1).expect("an id");
            let id = Uuid::from_bytes(id).to_string();
            let key = row.get(0).expect("a key");
            accepted.entry(key).or_default().push(id);
        }
        let mut names = HashSet::new();
        for (name, claim) in books.iter().flat_map(|book| &book.claims) {
            names.insert(name);
            let found = accepted.get(name).map(Vec::as_slice).unwrap_or_default();
            match found {
                // Never answered, and not repeated since.
                [] if claim.request_ids.is_empty() => {}
                [] => verdict.lost(format!("the idempotency key {name} was never processed")),
                [first] => {
                    for request_id in claim.request_ids.iter().filter(|id| *id != first) {
                        verdict.doubled(format!("{name} is {request_id} and {first}"));
                    }
                }
                _ => verdict.doubled(format!("{name} was processed as {found:?}")),
            }
        }
        for name in accepted.keys().filter(|name| !names.contains(name)) {
            verdict.doubled(format!("nobody sent the idempotency key {name}"));
        }
        names.len()
    }

    /// The row of each position is from the last request, in the order of acceptance, that had so many items.
    fn positions(&self, verdict: &mut Verdict) {
        let sql = "SELECT request_id FROM requests WHERE stream = ?1 AND outcome = ?2 AND items > ?3 \
                   ORDER BY seq DESC LIMIT 1";
        let mut statement = self.journal.prepare(sql).expect("the request log");
        for position in 0..5 {
            let last = statement
                .query_row(rusqlite::params![POSITIONS, ACCEPTED, position], |row| {
                    Ok(Uuid::from_bytes(row.get(0)?).to_string())
                });
            let row = self.row(POSITIONS, &position.to_string());
            let found = row.map(|(_, request_id)| request_id);
            if found != last.as_ref().ok().cloned() {
                verdict.lost(format!("position {position} is {found:?}, not {last:?}"));
            }
        }
    }
}

/// The fields that are numbers.
fn numbers(fields: &str) -> Fields {
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(fields).expect("JSON");
    let numbers = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_u64()?)));
    numbers.collect()
}
