//! A file of an older format is brought to this one, and nothing is lost on the way.
//!
//! Run by `cargo test`. **Invariant**: the old format is written down here as it was.

use std::sync::Arc;

use super::*;
use crate::journal::log::Filter;
use crate::journal::page::Budget;
use crate::journal::{Journal, Options, Outcome};
use crate::metrics::Metrics;
use crate::sqlite::Fuse;

const FORMAT_1: &str = "
CREATE TABLE requests (seq INTEGER PRIMARY KEY, request_id BLOB NOT NULL, received_ms INTEGER NOT NULL, connector TEXT NOT NULL, stream TEXT NOT NULL, outcome INTEGER NOT NULL, endpoint INTEGER NOT NULL, http_status INTEGER NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL, key TEXT NOT NULL, client TEXT NOT NULL, item_key TEXT, idempotency_key TEXT, duplicate_of BLOB, errors TEXT);
CREATE UNIQUE INDEX requests_by_id ON requests (request_id);
CREATE INDEX requests_by_connector ON requests (connector);
CREATE INDEX requests_not_accepted ON requests (connector, outcome) WHERE outcome <> 0;
CREATE TABLE payloads (seq INTEGER PRIMARY KEY, crc32 INTEGER NOT NULL, items BLOB NOT NULL);
CREATE TABLE quarantine (seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, crc32 INTEGER, items BLOB);
INSERT INTO requests
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2500)
    SELECT n, randomblob(16), 1000000 + n, CASE n % 2 WHEN 0 THEN 'shop' ELSE 'other' END, 'orders', n % 5 = 0, 0, 202, 1, 9,
        'ik_live_a1b2c3d4', 'unix', NULL, NULL, NULL, CASE n % 5 WHEN 0 THEN 'why' END FROM numbers;
PRAGMA user_version = 1;
";

async fn open(path: &Path) -> Arc<Journal> {
    let options = Options {
        durability: Durability::Os,
        pending_bytes_max: 1 << 20,
        seq_floor: 0,
        log_retention_ms: u64::MAX >> 1,
        log_retention_bytes: u64::MAX,
    };
    let journal = Journal::open(path, options, Arc::new(Metrics::new()), &Fuse::default()).await;
    journal.expect("it opens")
}

#[tokio::test]
async fn a_journal_of_format_1_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let old = Connection::open(&path).expect("it opens");
    old.execute_batch(FORMAT_1).expect("an older format");
    drop(old);
    // The second time it is a file of this format.
    for _ in 0..2 {
        let journal = open(&path).await;
        let filter = Filter {
            connector: Some("shop".into()),
            outcome: Some(Outcome::Rejected),
            since_ms: Some(1_000_900),
            until_ms: Some(1_001_000),
            text: Some("WHY".to_owned()),
            ..Filter::default()
        };
        let page = journal.log_page(&filter, 500, &mut Budget::of(1)).await;
        let page = page.expect("it reads").rows;
        let seqs: Vec<u64> = page.iter().map(|row| row.seq).collect();
        assert_eq!(seqs, (900..=1_000).rev().step_by(10).collect::<Vec<_>>());
        let all = journal
            .log_page(&Filter::default(), 9_999, &mut Budget::of(1))
            .await;
        assert_eq!(all.expect("it reads").rows.len(), 2_500);
        journal.close().await;
    }
    let connection = Connection::open(&path).expect("it opens");
    assert_eq!(sqlite::format(&connection), Ok(FORMAT));
    let spans = "SELECT group_concat(first_seq || '-' || last_seq || ' ' || min_ms || '-' || max_ms) FROM log_spans";
    let spans: String = connection
        .query_row(spans, [], |row| row.get(0))
        .expect("it reads");
    assert_eq!(spans, "1-1000 1000001-1001000,1001-2000 1001001-1002000");
    let indexes = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'requests' ORDER BY name)";
    let indexes: String = connection
        .query_row(indexes, [], |row| row.get(0))
        .expect("it reads");
    assert_eq!(
        indexes,
        "requests_by_connector,requests_by_id,requests_by_outcome,requests_sent_again"
    );
}
