//! The counts of items and bytes say what the table holds, whatever happened to it.

use std::num::NonZeroU32;

use super::*;
use base::clock::Lived;
use base::clock::Unix;
use item::ItemMeta;

impl Test {
    /// What a stream has, as the file counts it; it is the same as in memory, and as looking at every item says.
    fn size(&self, stream: &str) -> (u64, u64) {
        let read = |sql: &str| -> Vec<(String, i64, i64)> {
            let writer = self.pool.lock();
            let mut rows = writer.connection.prepare(sql).expect("it reads");
            let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            rows.expect("it reads")
                .map(|row| row.expect("a row"))
                .collect()
        };
        let counted = read(
            "SELECT stream, items, bytes FROM stream_sizes WHERE items <> 0 OR bytes <> 0 ORDER BY stream",
        );
        let there = read(
            "SELECT stream, count(*), sum(octet_length(key) + octet_length(fields)) FROM items GROUP BY stream ORDER BY stream",
        );
        assert_eq!(counted, there);
        for (stream, items, bytes) in there {
            let size = self.pool.sizes().of(&stream);
            let expected = (items.unsigned_abs(), bytes.unsigned_abs());
            assert_eq!((size.items, size.bytes), expected, "{stream}");
        }
        let size = self.pool.sizes().of(stream);
        (size.items, size.bytes)
    }
}

#[tokio::test]
async fn every_change_is_counted_once() {
    let test = Test::new().await;
    assert_eq!(test.size(STREAM), (0, 0));
    test.upsert(
        &batch_of(
            STREAM,
            1,
            &[("a", "{}"), ("ä", r#"{"n":1}"#), ("a", r#"{"n":22}"#)],
        ),
        true,
    );
    assert_eq!(test.size(STREAM), (2, 1 + 8 + 2 + 7));
    // Updates, delivered again, late, and to other streams.
    test.upsert(&batch_of(STREAM, 2, &[("a", "{}")]), false);
    test.upsert(&batch_of(STREAM, 2, &[("a", "{}")]), false);
    test.upsert(&batch_of(STREAM, 1, &[("a", r#"{"n":22}"#)]), false);
    test.upsert(&batch_of("other", 3, &[("a", "{}"), ("b", "{}")]), true);
    assert_eq!(test.size(STREAM), (2, 1 + 2 + 2 + 7));
    assert_eq!(test.size("other"), (2, 6));
    // Fields that stay, and that go with a removal.
    test.upsert(&batch_of("merged", 5, &[("a", r#"{"n":1,"m":2}"#)]), true);
    test.upsert(&batch_of("merged", 6, &[("a", r#"{"more":"text"}"#)]), true);
    assert!(test.size("merged").1 > 20);
    test.remove("merged", "a", 6);
    assert_eq!(test.size("merged"), (0, 0));
    test.upsert(&batch_of("merged", 7, &[("a", r#"{"n":3}"#)]), true);
    assert_eq!(test.size("merged"), (1, 1 + 7));
    // Removals, of what is there and what is not.
    test.remove(STREAM, "a", 8);
    test.remove(STREAM, "z", 8);
    test.remove("other", "a", 1);
    assert_eq!(test.size(STREAM), (1, 2 + 7));
    assert_eq!(test.size("other"), (2, 6));
    let test = test.reopened().await;
    assert_eq!(test.size(STREAM), (1, 2 + 7));
    test.upsert(&batch_of(STREAM, 9, &[("a", "{}")]), true);
    assert_eq!(test.size(STREAM), (2, 2 + 7 + 3));
    let held = test.pool.held(STREAM, &["a", "ä", "none"]).await;
    let (size, held) = held.expect("it reads");
    assert_eq!((size.items, size.bytes), (2, 2 + 7 + 3));
    assert_eq!(held.len(), 2);
    assert_eq!((held["a"], held["ä"]), (2, 7));
}

#[tokio::test]
async fn what_has_expired_is_found_in_parts_and_counted_until_it_is_removed() {
    let test = Test::new().await;
    let mut writer = ItemsWriter::new(1 << 20, 0);
    let soon = ItemMeta {
        version: None,
        expire_after_seconds: NonZeroU32::new(1),
        ..ItemMeta::default()
    };
    let pushed = writer.push_with("a", r#"{"n":1}"#, Action::Upsert, soon);
    pushed.expect("it fits");
    let entry = Entry {
        seq: Seq::new(1),
        request_id: Uuid::from_u128(1),
        stream: STREAM.into(),
        received_at: Unix::from_ms(1_000),
        arrived: None,
        items: writer.into_items(),
    };
    test.upsert(&Batch::new(vec![Slice::whole(Arc::new(entry))], 1), true);
    test.upsert(&batch(2, &["b"]), true);
    assert_eq!(test.size(STREAM), (2, 8 + 3));
    let aged = format!(
        "UPDATE items SET expires_ms = {} WHERE key = 'a'",
        Lived::now().to_column() - 1
    );
    let done = test.pool.lock().connection.execute_batch(&aged);
    done.expect("it writes");
    let now = Lived::now();
    let expired = |after| test.pool.expired(now, after, 1).expect("it reads");
    let found = expired((i64::MIN, 0));
    assert_eq!((&*found[0].stream, &*found[0].key), (STREAM, "a"));
    assert_eq!(expired(found[0].at), []);
    let next = test.pool.next_to_expire().expect("it reads");
    assert!(next.is_some_and(|next| next <= now));
    assert_eq!(test.size(STREAM), (2, 8 + 3));
    test.remove(STREAM, "a", 3);
    assert_eq!(test.size(STREAM), (1, 3));
    assert_eq!(test.pool.next_to_expire().expect("it reads"), None);
}

#[tokio::test]
async fn what_was_taken_back_is_not_counted() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a"]), true);
    let gone = Settlement {
        retry_done: Some(Retry {
            id: 77,
            seqs: (Seq::new(2), Seq::new(2)),
            parts: Vec::new(),
            origin: item::batch::BatchOrigin::Journal,
            attempts: 1,
            earlier: 0,
            due_at: Lived::MIN,
            reason: String::new(),
        }),
        ..deletion(&removal(STREAM, 2, "a"))
    };
    assert_eq!(test.pool.settle(&gone).expect("it reads"), None);
    assert_eq!(test.size(STREAM), (1, 3));
    test.pool
        .lock()
        .connection
        .execute_batch("DROP TABLE cursors")
        .expect("it writes");
    let broken = Settlement {
        cursor: Some(Seq::new(9)),
        ..deletion(&removal(STREAM, 2, "a"))
    };
    assert!(test.pool.settle(&broken).is_err());
    assert_eq!(test.pool.sizes().of(STREAM).items, 1);
}

#[tokio::test]
async fn what_is_left_of_a_damaged_file_is_counted_anew() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a", "b"]), true);
    test.upsert(&batch_of("other", 2, &[("a", "{}")]), true);
    {
        let writer = test.pool.lock();
        let lost = "DELETE FROM items WHERE stream = 'other' OR key = 'b'";
        let done = writer.connection.execute_batch(lost);
        done.expect("it writes");
        let salvaged = crate::copy::begin_salvaged(&writer.connection, true, false);
        salvaged.expect("it writes");
    }
    let test = test.reopened().await;
    assert_eq!(test.size(STREAM), (1, 3));
    assert_eq!(test.size("other"), (0, 0));
}
