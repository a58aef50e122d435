//! A file of an older format is brought to this one, and nothing is lost on the way.

use super::*;

/// The tables of format 1, as far as the migration touches them; the others were the same.
const FORMAT_1: &str = "
CREATE TABLE items (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    request_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, key)
);
CREATE TABLE views (stream TEXT PRIMARY KEY, view TEXT NOT NULL COLLATE NOCASE UNIQUE) WITHOUT ROWID;
CREATE TABLE view_fields (stream TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (stream, position)) WITHOUT ROWID;
CREATE TABLE cursors (sink TEXT PRIMARY KEY, seq INTEGER NOT NULL, start INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE progress (sink TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE TABLE retries (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, parts TEXT NOT NULL, attempts INTEGER NOT NULL, due_ms INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE settled_late (sink TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE TABLE dead_letters (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, seq INTEGER NOT NULL, request_id TEXT NOT NULL, stream TEXT NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL, fields TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, at_ms INTEGER NOT NULL);
INSERT INTO items VALUES ('orders', 'b', '{\"n\":1}', 70, 't0', 't1', 'r1', 0);
INSERT INTO items VALUES ('orders', 'a', '{}', 70, 't0', 't1', 'r1', 1);
INSERT INTO items VALUES ('other', 'a', '{}', 90, 't0', 't2', 'r2', 0);
DELETE FROM items WHERE key = 'b';
INSERT INTO items VALUES ('orders', 'b', '{\"n\":2}', 80, 't0', 't3', 'r3', 0);
INSERT INTO cursors VALUES ('pool', 90, 0);
CREATE VIEW \"orders\" AS SELECT key AS _key, seq AS _seq, created_at AS _created_at, updated_at AS _updated_at FROM items WHERE stream = 'orders';
INSERT INTO views VALUES ('orders', 'orders');
PRAGMA user_version = 1;
";

#[tokio::test]
async fn a_pool_of_format_1_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool.db");
    let old = Connection::open(&path).expect("it opens");
    old.execute_batch(FORMAT_1).expect("format 1");
    drop(old);
    let pool = open(folder.path()).await;
    let test = Test { pool, folder };
    // Every item has a number of its own, and the sequence goes on behind them.
    let mut numbers: Vec<u64> = Vec::new();
    for stream in [STREAM, "other"] {
        numbers.extend(test.items(stream).await.into_iter().map(|(_, seq)| seq));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
    assert_eq!(numbers.last(), Some(&test.seq()));
    assert_eq!(test.pool.add_sink("pool", 0).expect("it reads"), 90);
    assert_eq!(
        test.fields(STREAM, "b").await.as_deref(),
        Some(r#"{"n":2}"#)
    );
    // The order of acceptance is kept: older requests do not overwrite.
    let before = test.seq();
    test.upsert(&batch_of(STREAM, 79, &[("b", "{}")]), true);
    assert_eq!(test.seq(), before);
    test.upsert(&batch_of(STREAM, 91, &[("b", r#"{"n":3}"#)]), true);
    assert_eq!(test.read(STREAM, before).await, [told("b", before + 1)]);
    test.remove("other", "a", 91, false);
    let seen: i64 = test
        .pool
        .lock()
        .connection
        .query_row(
            "SELECT count(*) FROM \"orders\" WHERE _seq > 0",
            [],
            |row| row.get(0),
        )
        .expect("the view is as good as before");
    assert_eq!(seen, 2);
    // Once, and not again.
    let epoch = test.pool.position().epoch;
    let test = test.reopened().await;
    assert_eq!(test.pool.position().epoch, epoch);
    assert_eq!(test.seq(), before + 2);
    let version: i64 = test
        .pool
        .lock()
        .connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .expect("a format");
    assert_eq!(version, 2);
}
