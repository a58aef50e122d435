//! What must be in the two files.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use uuid::Uuid;

use super::load::{Counter, News, Worker, Written};
use super::{ORDERS, POSITIONS};
use crate::process::{Folder, Process, read_only};

/// How an accepted request stands in the log.
const ACCEPTED: i64 = 0;

/// After a kill and a restart: everything that was acknowledged in between.
pub(super) fn round(process: &Process, folder: &Folder, workers: &[Worker], news: &[News]) {
    let files = Files::open(folder);
    for (worker, news) in workers.iter().zip(news) {
        files.counters(&worker.counters);
        files.written(&news.written);
        for request_id in &news.request_ids {
            files.logged_once(request_id);
        }
        if let Some(last) = news.request_ids.last() {
            assert_eq!(process.request(last)["status"], "processed");
        }
    }
}

/// At the end: everything that was ever acknowledged. The daemon must have stopped. Returns sums for people.
pub(super) fn end(folder: &Folder, workers: &[Worker]) -> String {
    let files = Files::open(folder);
    for connection in [&files.journal, &files.pool] {
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("a verdict");
        assert_eq!(verdict, "ok");
    }
    let (mut requests, mut items) = (0, 0);
    for worker in workers {
        files.counters(&worker.counters);
        files.written(&worker.written);
        for request_id in &worker.acknowledged {
            files.logged_once(request_id);
        }
        requests += worker.acknowledged.len();
        items += worker.written.len();
    }
    let keys = files.claims(workers);
    files.positions();
    format!("{requests} requests acknowledged, {items} items written once, {keys} idempotency keys")
}

struct Files {
    journal: Connection,
    pool: Connection,
}

impl Files {
    fn open(folder: &Folder) -> Self {
        Self {
            journal: read_only(&folder.data_dir().join("journal.db")),
            pool: read_only(&folder.data_dir().join("pool.db")),
        }
    }

    /// The fields and the request of an item's row.
    fn row(&self, stream: &str, key: &str) -> Option<(String, String)> {
        let sql = "SELECT fields, request_id FROM items WHERE stream = ?1 AND key = ?2";
        let mut statement = self.pool.prepare_cached(sql).expect("the table items");
        statement
            .query_row([stream, key], |row| Ok((row.get(0)?, row.get(1)?)))
            .ok()
    }

    /// Each counter stands where it was acknowledged, or further.
    fn counters(&self, counters: &HashMap<String, Counter>) {
        for (key, counter) in counters {
            let Some((fields, request_id)) = self.row(ORDERS, key) else {
                assert_eq!(counter.acknowledged, 0, "{key} is not in the pool");
                continue;
            };
            let fields: serde_json::Value = serde_json::from_str(&fields).expect("JSON");
            let found = fields["n"].as_u64().expect("a number");
            assert!(
                (counter.acknowledged..=counter.sent).contains(&found),
                "{key}: {} was acknowledged, {} sent, {found} found",
                counter.acknowledged,
                counter.sent
            );
            if found == counter.acknowledged {
                assert_eq!(request_id, counter.request_id, "{key}");
            }
        }
    }

    /// Each item that was written once is there, from the request that acknowledged it.
    fn written(&self, written: &[Written]) {
        for item in written {
            let row = self.row(item.stream, &item.key);
            let request_id = row.map(|(_, request_id)| request_id);
            assert_eq!(
                request_id.as_ref(),
                Some(&item.request_id),
                "{} of {}",
                item.key,
                item.stream
            );
        }
    }

    fn logged_once(&self, request_id: &str) {
        let sql = "SELECT count(*), max(outcome) FROM requests WHERE request_id = ?1";
        let mut statement = self.journal.prepare_cached(sql).expect("the request log");
        let id = Uuid::parse_str(request_id).expect("a UUID");
        let found: (i64, Option<i64>) = statement
            .query_row([&id.as_bytes()[..]], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("a row");
        assert_eq!(found, (1, Some(ACCEPTED)), "{request_id} in the log");
    }

    /// Every idempotency key was processed once, and every 202 for it named that request. Returns how many there are.
    fn claims(&self, workers: &[Worker]) -> usize {
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
        let mut keys = HashSet::new();
        for (name, claim) in workers.iter().flat_map(|worker| &worker.claims) {
            let found = accepted.get(name).map(Vec::as_slice).unwrap_or_default();
            let [first] = found else {
                panic!("{name} was processed {} times", found.len());
            };
            for request_id in &claim.request_ids {
                assert_eq!(request_id, first, "{name}");
            }
            let row = self.row(ORDERS, &claim.item).expect("the item");
            assert_eq!(row.1, *first, "{name}");
            keys.insert(name);
        }
        assert_eq!(keys.len(), accepted.len());
        keys.len()
    }

    /// The row of each position is from the last request, in the order of acceptance, that had so many items.
    fn positions(&self) {
        let sql = "SELECT request_id FROM requests WHERE stream = ?1 AND outcome = ?2 AND items > ?3 \
                   ORDER BY seq DESC LIMIT 1";
        let mut statement = self.journal.prepare(sql).expect("the request log");
        for position in 0..5 {
            let last = statement
                .query_row(rusqlite::params![POSITIONS, ACCEPTED, position], |row| {
                    Ok(Uuid::from_bytes(row.get(0)?).to_string())
                });
            let row = self.row(POSITIONS, &position.to_string());
            assert_eq!(row.map(|(_, request_id)| request_id), last.ok());
        }
    }
}
