//! Versions and expiry: whatever way an item takes to the pool, it arrives with them.

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;
use base::clock::Lived;
use item::{ItemMeta, Version};

const OLDER: ItemMeta = ItemMeta {
    version: Some(Version::from_thousandths(4)),
    expire_after_seconds: None,
    is_whole: false,
};
const NEWER: ItemMeta = ItemMeta {
    version: Some(Version::from_thousandths(5)),
    expire_after_seconds: NonZeroU32::new(60),
    is_whole: false,
};

/// A batch of one request with one item.
fn one(stream: &str, accepted_seq: u64, fields: &str, meta: ItemMeta) -> Batch {
    let mut writer = ItemsWriter::new(1 << 20, 0);
    let pushed = writer.push_with("a", fields, Action::Upsert, meta);
    pushed.expect("it fits");
    whole(stream, accepted_seq, writer.into_items())
}

#[tokio::test]
async fn a_dead_letter_keeps_its_version_and_its_end() {
    let test = Test::new().await;
    test.dead_letter(vec![DeadLetter {
        meta: NEWER,
        ..resends::letter(2, 0, "a")
    }]);
    // Over a restart as well.
    let test = test.reopened().await;
    let letters = test.pool.dead_letters("pool", None, 9).await;
    assert_eq!(letters.expect("it reads")[0].meta, NEWER);
    test.upsert(&one(STREAM, 3, r#"{"n":1}"#, OLDER), true);
    let limits = ResendLimits {
        items_max: 9,
        bytes_max: 999,
    };
    let sent = (test.pool).send_again(
        "pool",
        &Selection::All,
        i64::MAX,
        limits,
        LaterChanges::Overwritten,
    );
    assert_eq!(sent.expect("it is sent"), 1);
    let retry = test.pool.next_retry("pool").expect("it reads");
    let slices = test.pool.resent(retry.expect("a retry").id);
    let batch = Batch::of(
        item::batch::BatchOrigin::Letters,
        slices.expect("it reads"),
        1,
    );
    let standings = batch.slices()[0].items().map(|(_, item)| item.meta);
    assert_eq!(standings.collect::<Vec<_>>(), [NEWER]);
    test.upsert(&batch, true);
    // What was accepted earlier has the higher version.
    let fields = test.fields(STREAM, "a").await;
    assert_eq!(fields.as_deref(), Some(r#"{"key":"a"}"#));
}

#[tokio::test]
async fn the_time_to_its_end_counts_from_when_it_was_accepted() {
    let test = Test::new().await;
    let batch = one(STREAM, 1, r#"{"n":1}"#, NEWER);
    let entry = (*batch.slices()[0].entry).clone();
    let arrived = Lived::now() - Duration::from_secs(50);
    let waited = Entry {
        arrived: Some(arrived),
        ..entry
    };
    test.upsert(&Batch::new(vec![Slice::whole(Arc::new(waited))], 1), true);
    let ends: i64 = (test.pool.lock().connection)
        .query_one("SELECT expires_ms FROM items", [], |row| row.get(0))
        .expect("it reads");
    assert_eq!(ends, (arrived + Duration::from_secs(60)).to_column());
}
