//! A file of an older format is brought to this one, and nothing is lost on the way.

use super::*;
use crate::rules::place;
use base::clock::Unix;
use item::Version;

/// What formats 1 and 2 had in common, as far as the migration touches it; the other tables were the same.
const COMMON: &str = "
CREATE TABLE views (stream TEXT PRIMARY KEY, view TEXT NOT NULL COLLATE NOCASE UNIQUE) WITHOUT ROWID;
CREATE TABLE view_fields (stream TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (stream, position)) WITHOUT ROWID;
CREATE TABLE cursors (sink TEXT PRIMARY KEY, seq INTEGER NOT NULL, start INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE progress (sink TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE TABLE retries (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, parts TEXT NOT NULL, attempts INTEGER NOT NULL, due_ms INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE INDEX retries_by_due ON retries (sink, due_ms);
CREATE TABLE settled_late (sink TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE TABLE dead_letters (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, seq INTEGER NOT NULL, request_id TEXT NOT NULL, stream TEXT NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL, fields TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, at_ms INTEGER NOT NULL);
CREATE INDEX dead_letters_by_sink ON dead_letters (sink);
CREATE INDEX dead_letters_by_seq ON dead_letters (seq);
INSERT INTO cursors VALUES ('pool', 90, 0);
INSERT INTO retries VALUES (3, 'pool', 70, 70, '[[70,0,1]]', 2, 5, 'why');
INSERT INTO dead_letters VALUES (11, 'pool', 60, '019a0000-0000-7000-8000-000000000000', 'orders', 4, 'k', '{}', 'why', 3, 9);
INSERT INTO dead_letters VALUES (12, 'pool', 61, '', 'orders', 0, '', '', 'unreadable', 0, 9);
";
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
INSERT INTO items VALUES ('orders', 'b', '{\"n\":1}', 70, 't0', 't1', 'r1', 0);
INSERT INTO items VALUES ('orders', 'a', '{}', 70, 't0', 't1', 'r1', 1);
INSERT INTO items VALUES ('other', 'a', '{}', 90, 't0', 't2', 'r2', 0);
DELETE FROM items WHERE key = 'b';
INSERT INTO items VALUES ('orders', 'b', '{\"n\":2}', 80, 't0', 't3', 'r3', 0);
CREATE VIEW \"orders\" AS SELECT key AS _key, seq AS _seq, created_at AS _created_at, updated_at AS _updated_at FROM items WHERE stream = 'orders';
INSERT INTO views VALUES ('orders', 'orders');
PRAGMA user_version = 1;
";
const FORMAT_2: &str = "
CREATE TABLE items (stream TEXT NOT NULL, key TEXT NOT NULL, fields TEXT NOT NULL, seq INTEGER NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, request_id TEXT NOT NULL, accepted_seq INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (stream, key));
CREATE INDEX items_by_seq ON items (stream, seq);
CREATE TABLE removed (stream TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, accepted_seq INTEGER NOT NULL, position INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (stream, key)) WITHOUT ROWID;
CREATE INDEX removed_by_seq ON removed (stream, seq);
CREATE TABLE history (epoch INTEGER NOT NULL, seq INTEGER NOT NULL, floor INTEGER NOT NULL, boot TEXT NOT NULL);
CREATE TABLE sink_state (sink TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (sink, key)) WITHOUT ROWID;
INSERT INTO items VALUES ('orders', 'b', '{\"n\":2}', 7, 't0', 't3', 'r3', 80, 0);
INSERT INTO history (epoch, seq, floor, boot) VALUES (2, 7, 0, '');
PRAGMA user_version = 2;
";

impl Test {
    /// With a file of an older format.
    async fn of(format: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let old = Connection::open(folder.path().join("pool.db")).expect("it opens");
        old.execute_batch(&format!("{COMMON} {format}"))
            .expect("an older format");
        drop(old);
        let pool = open(folder.path()).await;
        Self::on(pool, folder)
    }

    /// What [`COMMON`] says of retries and dead letters holds on, and can be sent again.
    async fn keeps_what_waits(&self) {
        assert_eq!(
            self.pool.add_sink("pool", Seq::MIN).expect("it reads"),
            Seq::new(90)
        );
        assert_eq!(
            self.pool.low_water().expect("it reads"),
            Seq::new(69),
            "the retry needs its payload"
        );
        let retry = self.pool.next_retry("pool").expect("it reads");
        assert!(retry.is_some_and(
            |retry| retry.origin == item::batch::BatchOrigin::Journal && retry.id == 3
        ));
        let letters = self.pool.dead_letters("pool", None, 9).await;
        let ids: Vec<i64> = letters
            .expect("it reads")
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, [12, 11]);
        // A dead letter of old does not say when its request arrived, but the request's id does.
        let limits = ResendLimits {
            items_max: 9,
            bytes_max: 999,
        };
        let sent = self.pool.send_again(
            "pool",
            &Selection::All,
            12,
            limits,
            LaterChanges::Overwritten,
        );
        assert_eq!(sent.expect("it is sent"), 1);
        let slices = self.pool.resent(4).expect("it reads");
        assert_eq!(slices[0].entry.received_at.ms(), 0x019a_0000_0000);
        assert_eq!((slices[0].entry.seq, slices[0].base), place(60, 4));
        assert_eq!(self.pool.low_water().expect("it reads"), Seq::new(69));
    }

    fn format(&self) -> i64 {
        let writer = self.pool.lock();
        let format = "PRAGMA user_version";
        let format = writer.connection.query_row(format, [], |row| row.get(0));
        format.expect("a format")
    }
}

#[tokio::test]
async fn a_pool_of_format_1_goes_on() {
    let test = Test::of(FORMAT_1).await;
    // Every item has a number of its own, and the sequence goes on behind them.
    let mut numbers: Vec<u64> = Vec::new();
    for stream in [STREAM, "other"] {
        numbers.extend(test.items(stream).await.into_iter().map(|(_, seq)| seq));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
    let size = test.pool.sizes().of(STREAM);
    assert_eq!((size.items, size.bytes), (2, 1 + 2 + 1 + 7));
    assert_eq!(numbers.last(), Some(&test.seq()));
    assert_eq!(
        test.fields(STREAM, "b").await.as_deref(),
        Some(r#"{"n":2}"#)
    );
    test.keeps_what_waits().await;
    // The order of acceptance is kept: older requests do not overwrite.
    let before = test.seq();
    test.upsert(&batch_of(STREAM, 79, &[("b", "{}")]), true);
    assert_eq!(test.seq(), before);
    test.upsert(&batch_of(STREAM, 91, &[("b", r#"{"n":3}"#)]), true);
    assert_eq!(test.read(STREAM, before).await, [told("b", before + 1)]);
    test.remove("other", "a", 91);
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
    assert_eq!(test.format(), FORMAT);
}

#[tokio::test]
async fn a_pool_of_format_2_goes_on() {
    let test = Test::of(FORMAT_2).await;
    test.keeps_what_waits().await;
    assert_eq!(test.seq(), 7);
    assert_eq!(
        test.fields(STREAM, "b").await.as_deref(),
        Some(r#"{"n":2}"#)
    );
    let epoch = test.pool.position().epoch;
    let test = test.reopened().await;
    assert_eq!((test.format(), test.pool.position().epoch), (FORMAT, epoch));
    assert_eq!(test.items(STREAM).await, [("b".to_owned(), 7)]);
    // The id of a dead letter that is gone is not given to another.
    let gone = test.pool.discard_letters("pool", &Selection::All, i64::MAX);
    assert_eq!(gone.expect("it is gone"), 1);
    let settlement = Settlement {
        sink: "pool".into(),
        dead_letters: vec![resends::letter(70, 0, "x")],
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    let letters = test.pool.dead_letters("pool", None, 9).await;
    assert_eq!(letters.expect("it reads")[0].id, 13);
}

/// Makes a file of format 8 of one of today.
const TO_FORMAT_8: &str = "
    DROP TABLE change_log; CREATE INDEX items_by_seq ON items (stream, seq); CREATE INDEX removed_by_seq ON removed (stream, seq);
    DROP TABLE failing; ALTER TABLE retries DROP COLUMN earlier; DROP TABLE past_values; DROP TABLE recorded_streams; DROP TABLE latest; DROP TABLE told;
    DROP TABLE fills; DROP TABLE acts; DROP TABLE act_answers; DROP TABLE writes; DROP TABLE holds; DROP TABLE kept; DROP TABLE kept_of; DROP TABLE shown;
    DROP TABLE stale_items;
    ALTER TABLE stale DROP COLUMN partly;
    DROP INDEX removed_versions;
    ALTER TABLE removed DROP COLUMN version_text;
    CREATE INDEX removed_versions ON removed (accepted_seq, seq, version) WHERE seq = 0 AND version IS NOT NULL;
    ALTER TABLE items DROP COLUMN version_text;
    ALTER TABLE items DROP COLUMN floor;
    ALTER TABLE items DROP COLUMN removed_seq;
    ALTER TABLE items DROP COLUMN removed_position;
    ALTER TABLE dead_letters DROP COLUMN version_text;
    ALTER TABLE resends DROP COLUMN version_text;
    PRAGMA user_version = 8;";

#[tokio::test]
async fn a_pool_of_format_8_keeps_its_versions_and_what_was_merged() {
    let test = Test::new().await;
    let old = format!(
        "{TO_FORMAT_8}
        INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position, merged, version) VALUES
            ('orders', 'a', '{{\"n\":1}}', 1, '', '', '', 3, 0, NULL, 9000),
            ('merged', 'a', '{{\"n\":1,\"m\":2}}', 2, '', '', '', 4, 0, '[[4,0,1],[2,0,1]]', 9000);
        UPDATE history SET seq = 2;
        INSERT INTO removed (stream, key, seq, accepted_seq, position, version) VALUES ('orders', 'b', 0, 5, 0, 9000);
        INSERT INTO dead_letters (sink, seq, request_id, stream, position, key, fields, reason, attempts, at_ms, version)
            VALUES ('pool', 1, '', 'orders', 0, 'x', '{{}}', '', 1, 0, 9000);"
    );
    (test.pool.lock().connection.execute_batch(&old)).expect("an older format");
    let test = test.reopened().await;
    assert_eq!(test.format(), FORMAT);
    let letters = test.pool.dead_letters("pool", None, 9).await;
    let nine = Version::parse("9");
    assert_eq!(letters.expect("it reads")[0].meta.version, nine);
    let one = |stream: &str, seq, key: &str, fields: &str, version: &str| {
        let mut writer = ItemsWriter::new(1 << 20, 0);
        let meta = ItemMeta {
            version: Version::parse(version),
            expire_after_seconds: None,
            ..ItemMeta::default()
        };
        let pushed = writer.push_with(key, fields, Action::Upsert, meta);
        pushed.expect("it fits");
        let of = batch_of(stream, seq, &[]);
        let entry = Entry {
            items: writer.into_items(),
            ..Entry::clone(&of.slices()[0].entry)
        };
        Batch::new(vec![Slice::whole(Arc::new(entry))], 1)
    };
    let before = test.seq();
    test.upsert(&one(STREAM, 11, "a", r#"{"n":8}"#, "8.999"), true);
    test.upsert(&one(STREAM, 12, "b", r#"{"n":8}"#, "8.999"), true);
    // What its fields had reached apart is not known of a file of that format: all of them have what the item has.
    test.upsert(&one("merged", 13, "a", r#"{"n":8,"m":8}"#, "8.999"), true);
    assert_eq!(test.seq(), before);
    let left = test
        .pool
        .left_behind(&[12].map(Seq::new))
        .await
        .expect("it reads");
    assert_eq!(
        (
            left[&Seq::new(12)].first[0].reached.as_str(),
            left[&Seq::new(12)].count
        ),
        ("9", 1)
    );
    test.upsert(&one(STREAM, 14, "a", r#"{"n":9}"#, "9"), true);
    test.upsert(&one(STREAM, 15, "b", r#"{"n":9}"#, "9"), true);
    test.upsert(&one("merged", 16, "a", r#"{"m":9}"#, "9"), true);
    assert_eq!(test.seq(), before + 3);
    let fields = test.fields("merged", "a").await;
    assert_eq!(fields.as_deref(), Some(r#"{"n":1,"m":9}"#));
}

#[tokio::test]
async fn a_pool_of_format_12_keeps_its_items_and_records_from_now_on() {
    let test = Test::new().await;
    test.upsert(&batch_of(STREAM, 1, &[("a", r#"{"n":1}"#)]), true);
    let old = "DROP TABLE change_log; CREATE INDEX items_by_seq ON items (stream, seq); CREATE INDEX removed_by_seq ON removed (stream, seq); CREATE INDEX shown_by_seq ON shown (stream, seq);
        DROP TABLE failing; ALTER TABLE retries DROP COLUMN earlier; DROP TABLE past_values; DROP TABLE recorded_streams; PRAGMA user_version = 12;";
    (test.pool.lock().connection.execute_batch(old)).expect("an older format");
    let test = test.reopened().await;
    assert_eq!(test.format(), FORMAT);
    test.pool.set_history([(STREAM.into(), 5)].into());
    test.upsert(&batch_of(STREAM, 2, &[("a", r#"{"n":2}"#)]), true);
    let past = test.pool.past_values(STREAM, "a", None, None, 9).await;
    let past = past.expect("it reads");
    assert_eq!(past.len(), 1, "{past:?}");
    assert_eq!(past[0].value.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_pool_of_format_14_gets_the_log_that_its_rows_imply() {
    let test = Test::new().await;
    let keys: Vec<String> = (0..600).map(|key| format!("{key:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    test.upsert(&batch(1, &keys), true);
    test.upsert(&batch_of("others", 2, &[("x", "{}"), ("y", "{}")]), true);
    test.upsert(&batch(3, &["007", "100"]), true);
    test.remove(STREAM, "005", 4);
    let before = test.read(STREAM, 0).await;
    let old = "DROP TABLE change_log; CREATE INDEX items_by_seq ON items (stream, seq); CREATE INDEX removed_by_seq ON removed (stream, seq); CREATE INDEX shown_by_seq ON shown (stream, seq);
        PRAGMA user_version = 14;";
    (test.pool.lock().connection.execute_batch(old)).expect("an older format");
    let test = test.reopened().await;
    assert_eq!(test.format(), FORMAT);
    assert_eq!(test.read(STREAM, 0).await, before);
    let last = before.last().map_or(0, |(_, number, _)| *number);
    let told = test.pool.last_change(STREAM).await.expect("it reads");
    assert_eq!(told.get(), last);
    test.upsert(&batch(5, &["100"]), true);
    assert_eq!(
        test.read(STREAM, last).await,
        [super::told("100", last + 1)]
    );
}

#[tokio::test]
async fn a_pool_of_format_7_knows_when_its_sinks_had_what() {
    let test = Test::new().await;
    test.pool
        .add_sink("pool", Seq::new(0))
        .expect("it is known");
    (test.pool.lock().connection.execute_batch(TO_FORMAT_8)).expect("an older format");
    let old = "
        UPDATE cursors SET seq = 4;
        ALTER TABLE cursors DROP COLUMN at_ms;
        ALTER TABLE cursors DROP COLUMN since_ms;
        ALTER TABLE progress ADD COLUMN since_ms INTEGER NOT NULL DEFAULT 0;
        INSERT INTO progress VALUES ('pool', 3, 1000, 950), ('pool', 4, 2000, 1990);
        PRAGMA user_version = 7;";
    (test.pool.lock().connection.execute_batch(old)).expect("an older format");
    let test = test.reopened().await;
    assert_eq!(test.format(), FORMAT);
    let settlement = Settlement {
        sink: "pool".into(),
        cursor: Some(Seq::new(5)),
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    let states = test
        .pool
        .sink_states("pool", &[2, 4, 5].map(Seq::new))
        .await;
    let states = states.expect("it reads");
    let done = |at| Some(SinkState::Done(Some(Unix::from_ms(at))));
    assert_eq!(states[..2], [done(1_000), done(2_000)]);
    assert!(matches!(states[2], Some(SinkState::Done(Some(at))) if at > Unix::from_ms(2_000)));
}
