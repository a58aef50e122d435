//! What changed after a place, for sinks that follow the changes: of each item the newest.

use super::*;

#[tokio::test]
async fn a_removal_of_an_item_that_is_back_is_no_change() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a"]), true);
    test.remove(STREAM, "a", 2);
    test.upsert(&batch(3, &["a"]), true);
    // The pool may still know how it was removed.
    let removed = "INSERT OR REPLACE INTO removed (stream, key, seq, accepted_seq, position) VALUES (?1, 'a', 2, 2, 0)";
    let tombstones = test.pool.lock().connection.execute(removed, [STREAM]);
    assert_eq!(tombstones.expect("it writes"), 1);
    for shown in [false, true] {
        let read = LatestRead {
            sink: "copy",
            shown,
            limit: PageLimit {
                rows: 9,
                bytes: usize::MAX,
            },
        };
        let page = test.pool.latest_after(read, |_| true, ChangeSeq::MIN).await;
        let items = page.expect("it reads").items;
        let changes: Vec<_> = items
            .iter()
            .map(|item| (&*item.key, item.fields.is_some()))
            .collect();
        assert_eq!(changes, [("a", true)], "shown: {shown}");
    }
}
