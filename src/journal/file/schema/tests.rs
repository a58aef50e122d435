//! A file of an older format is brought to this one, and nothing is lost on the way.
//!
//! Run by `cargo test`. **Invariant**: the old format is written down here as it was.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::log::Filter;
use crate::page::Budget;
use crate::{Journal, Outcome, ReadRequest};
use base::clock::Unix;
use base::order::Seq;
use item::{Action, ItemsWriter};

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
    crate::file::tests::open(path, |_| ()).await
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
            since: Some(Unix::from_ms(1_000_900)),
            until: Some(Unix::from_ms(1_001_000)),
            text: Some("WHY".to_owned()),
            ..Filter::default()
        };
        let page = journal.log_page(&filter, 500, &mut Budget::of(1)).await;
        let page = page.expect("it reads").rows;
        let seqs: Vec<Seq> = page.iter().map(|row| row.seq).collect();
        assert_eq!(
            seqs,
            (900..=1_000)
                .rev()
                .step_by(10)
                .map(Seq::new)
                .collect::<Vec<_>>()
        );
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
    let indexes: Option<String> = connection
        .query_row(indexes, [], |row| row.get(0))
        .expect("it reads");
    assert_eq!(indexes, None);
}

/// As format 5 made it, and as its writer filled it: the last 40 requests wait for a sink.
const FORMAT_5: &str = "
CREATE TABLE requests (seq INTEGER PRIMARY KEY, request_id BLOB NOT NULL, received_ms INTEGER NOT NULL, connector TEXT NOT NULL, stream TEXT NOT NULL, outcome INTEGER NOT NULL, endpoint INTEGER NOT NULL, http_status INTEGER NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL, key TEXT NOT NULL, client TEXT NOT NULL, item_key TEXT, idempotency_key TEXT, duplicate_of BLOB, errors TEXT);
CREATE UNIQUE INDEX requests_by_id ON requests (request_id);
CREATE TABLE payloads (seq INTEGER PRIMARY KEY, crc32 INTEGER NOT NULL, items BLOB NOT NULL);
CREATE TABLE quarantine (seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, crc32 INTEGER, items BLOB);
CREATE INDEX requests_by_connector ON requests (connector, outcome);
CREATE INDEX requests_by_outcome ON requests (outcome) WHERE outcome <> 0;
CREATE TABLE log_spans (first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, min_ms INTEGER NOT NULL, max_ms INTEGER NOT NULL, bytes INTEGER NOT NULL);
ALTER TABLE requests ADD COLUMN headers TEXT;
ALTER TABLE requests ADD COLUMN sent_again_from BLOB;
CREATE INDEX requests_sent_again ON requests (sent_again_from) WHERE sent_again_from IS NOT NULL;
CREATE TABLE bodies (seq INTEGER PRIMARY KEY, received_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, test INTEGER NOT NULL, stream TEXT NOT NULL, content_type BLOB, item_key BLOB, idempotency_key BLOB, body BLOB NOT NULL);
CREATE TABLE timeline (lived_ms INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE claim_log (id INTEGER PRIMARY KEY, scope BLOB NOT NULL, request_id BLOB NOT NULL, items INTEGER NOT NULL, payload BLOB NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE claims (run INTEGER NOT NULL, scope BLOB NOT NULL, request_id BLOB NOT NULL, items INTEGER NOT NULL, payload BLOB NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (run, scope)) WITHOUT ROWID;
CREATE TABLE claim_runs (run INTEGER PRIMARY KEY, newest_ms INTEGER NOT NULL, log_through INTEGER NOT NULL, filter BLOB);
ALTER TABLE requests ADD COLUMN sender TEXT;
ALTER TABLE bodies ADD COLUMN headers TEXT;
INSERT INTO requests
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3500)
    SELECT n, CAST(unhex(printf('%012x7000', 1700000000000 + n * 100 - iif(n % 333 = 0, 60000, 0))) || randomblob(8) AS BLOB),
        1700000000000 + n * 100, CASE n % 2 WHEN 0 THEN 'shop' ELSE 'other' END, 'orders', iif(n % 70 = 0, 4, 0), 0, 202, 1, 9,
        'ik_live_a1b2c3d4', 'unix', NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM numbers;
UPDATE requests SET sent_again_from = (SELECT request_id FROM requests WHERE seq = 7) WHERE seq IN (9, 3400);
INSERT INTO log_spans SELECT 1 + 1000 * n, 1000 + 1000 * n, 1, 1, 1 FROM (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2);
PRAGMA user_version = 5;
";

#[tokio::test]
async fn a_journal_of_format_5_goes_on_and_delivers_what_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    let old = Connection::open(&path).expect("it opens");
    old.execute_batch(&format!("PRAGMA auto_vacuum = INCREMENTAL; {FORMAT_5}"))
        .expect("an older format");
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("key", "{}").expect("it fits");
    let items = items.into_items();
    for seq in 3_461..=3_500 {
        let row = rusqlite::params![
            seq,
            crc32fast::hash(items.as_bytes()),
            &items.as_bytes()[..]
        ];
        old.execute("INSERT INTO payloads VALUES (?1, ?2, ?3)", row)
            .expect("a payload");
    }
    let sql = "SELECT seq, request_id FROM requests ORDER BY seq";
    let ids: Vec<(i64, [u8; 16])> = (old.prepare(sql).expect("the log"))
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    let id = |seq: usize| Uuid::from_bytes(ids[seq - 1].1);
    drop(old);
    // The second time it is a file of this format.
    for round in 0..2 {
        let journal = open(&path).await;
        for (seq, id) in ids.iter().step_by(37).chain(ids.iter().step_by(333)) {
            let found = journal.log_get(Uuid::from_bytes(*id)).await;
            let found = found.expect("it reads").map(|row| row.seq);
            assert_eq!(found, Some(Seq::from_column(*seq)), "round {round}");
        }
        let became = journal.sent_again_as(id(7)).await.expect("it reads");
        assert_eq!(became, [id(3_400), id(9)]);
        let waiting = ReadRequest {
            after: Seq::MIN,
            items_max: 1_000,
            bytes_max: 1 << 20,
            wanted: &|stream, _| stream == "orders",
        };
        let taken = journal.read_after(waiting).await.expect("it reads");
        let seqs: Vec<Seq> = taken.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (3_461..=3_500).map(Seq::new).collect::<Vec<_>>());
        // What was asked of all items of a request is asked of each.
        let mut removing = taken.entries.iter().filter(|one| one.items.removals() > 0);
        let last = removing.next().expect("the last is a removal");
        assert_eq!(
            (last.seq, last.items.action()),
            (Seq::new(3_500), Some(Action::Remove))
        );
        assert!(removing.next().is_none());
        assert_eq!(taken.entries[0].request_id, id(3_461));
        let removals = journal.removals_after(Seq::MIN).await.expect("it reads");
        let (removals, through) = removals.expect("there are some");
        assert_eq!((removals.len(), through), (1, Seq::new(3_500)));
        assert_eq!(removals[0].items, last.items);
        let bodies = Filter {
            connector: Some("shop".into()),
            outcome: Some(Outcome::Removed),
            ..Filter::default()
        };
        let page = journal.log_page(&bodies, 500, &mut Budget::of(1)).await;
        assert_eq!(page.expect("it reads").rows.len(), 50);
        journal.close().await;
    }
    let connection = Connection::open(&path).expect("it opens");
    assert_eq!(sqlite::format(&connection), Ok(FORMAT));
    assert_eq!(sqlite::damage(&connection), Ok(None));
    let spans = "SELECT group_concat(first_seq || '-' || last_seq) FROM log_spans";
    let spans: String = connection
        .query_row(spans, [], |row| row.get(0))
        .expect("it reads");
    assert_eq!(spans, "1-1000,1001-2000,2001-3000");
}

#[tokio::test]
async fn a_journal_of_format_6_gives_each_item_what_was_asked_of_its_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.db");
    open(&path).await.close().await;
    let old = Connection::open(&path).expect("it opens");
    let mut items = ItemsWriter::new(1 << 20, 0);
    for key in ["a", "b"] {
        items.push(key, "{}").expect("it fits");
    }
    let items = items.into_items();
    let bytes = &items.as_bytes()[..];
    for (seq, outcome) in [(1, Outcome::Accepted), (2, Outcome::Removed)] {
        let id = Uuid::now_v7();
        let row = rusqlite::params![seq, &id.as_bytes()[..], outcome.code()];
        let sql = "INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status,
                items, bytes, key, client) VALUES (?1, ?2, 0, 'shop', 'orders', ?3, 0, 202, 2, 0, '', 'unix')";
        old.execute(sql, row).expect("a request");
        let row = rusqlite::params![seq, crc32fast::hash(bytes), bytes];
        let sql = "INSERT INTO payloads (seq, crc32, items) VALUES (?1, ?2, ?3)";
        old.execute(sql, row).expect("a payload");
    }
    old.execute_batch("PRAGMA user_version = 6")
        .expect("it is set");
    drop(old);
    let journal = open(&path).await;
    let everything = ReadRequest {
        after: Seq::MIN,
        items_max: 1_000,
        bytes_max: 1 << 20,
        wanted: &|_, _| true,
    };
    let taken = journal.read_after(everything).await.expect("it reads");
    let actions: Vec<_> = taken
        .entries
        .iter()
        .map(|entry| entry.items.action())
        .collect();
    assert_eq!(actions, [Some(Action::Upsert), Some(Action::Remove)]);
    journal.close().await;
    let upgraded = Connection::open(&path).expect("it opens");
    assert_eq!(sqlite::format(&upgraded), Ok(FORMAT));
}
