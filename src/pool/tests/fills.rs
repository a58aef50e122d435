//! Where a filling begins, and which rows are handed over.

use std::collections::BTreeSet;

use super::*;
use base::clock::Lived;
use item::batch::BatchOrigin;

const SINK: &str = "team";

fn beginning(newest: u64, oldest: u64) -> Beginning<'static> {
    Beginning {
        sink: SINK,
        selection: "all",
        others: &[],
        newest: Seq::new(newest),
        oldest: Seq::new(oldest),
    }
}

/// A batch with one entry that a sink did not take.
fn waiting(sink: &str, seq: u64) -> Settlement {
    Settlement {
        sink: sink.into(),
        retries: vec![Retry {
            id: 0,
            seqs: (Seq::new(seq), Seq::new(seq)),
            parts: vec![part(seq, 0, 1)],
            origin: BatchOrigin::Journal,
            attempts: 1,
            earlier: 0,
            due_at: Lived::from_ms(7),
            reason: "later".to_owned(),
        }],
        ..Settlement::default()
    }
}

impl Test {
    /// Keys of all rows that are handed over, read in pages of so many rows and bytes.
    async fn filled(&self, rows: u32, bytes: usize) -> BTreeSet<String> {
        let mut filling = self.pool.filling_of(SINK).expect("it reads").expect("one");
        let mut keys = BTreeSet::new();
        loop {
            let limit = PageLimit { rows, bytes };
            let page = self.pool.fill_page(&filling, |_| true, limit).await;
            let page = page.expect("it reads");
            for (_, item) in page.slices.iter().flat_map(Slice::items) {
                assert!(keys.insert(item.key.to_owned()), "{} twice", item.key);
            }
            match page.after {
                Some(after) => filling.after = after,
                None => return keys,
            }
        }
    }

    fn begins(&self, newest: u64, oldest: u64) -> u64 {
        let begun = self.pool.begin_with_state(&beginning(newest, oldest));
        begun.expect("it begins").get()
    }
}

#[tokio::test]
async fn what_came_later_than_the_place_is_left_to_the_journal_at_every_edge_of_a_page() {
    let by_bytes = [1, 3, 6].map(|bytes| (5, bytes));
    for (rows, bytes) in (1..6).map(|rows| (rows, usize::MAX)).chain(by_bytes) {
        let test = Test::new().await;
        test.pool.add_sink("pool", Seq::MIN).expect("it is added");
        for (seq, key) in (1..).zip(["a", "b", "c", "d", "e"]) {
            test.upsert(&batch(seq, &[key]), true);
        }
        test.passes("pool", 5);
        assert_eq!(test.begins(5, 0), 5);
        test.upsert(&batch(6, &["b"]), true);
        test.upsert(&batch(7, &["f"]), true);
        test.remove(STREAM, "d", 8);
        let keys: Vec<String> = test.filled(rows, bytes).await.into_iter().collect();
        assert_eq!(keys, ["a", "c", "e"], "pages of {rows} rows, {bytes} bytes");
    }
}

#[tokio::test]
async fn the_place_is_before_what_a_writer_has_not_settled_and_never_before_the_journal() {
    let test = Test::new().await;
    test.pool.add_sink("pool", Seq::MIN).expect("it is added");
    test.passes("pool", 9);
    let settled = test.pool.settle(&waiting("pool", 4));
    settled.expect("it settles");
    assert_eq!(test.begins(9, 0), 3);
    assert_eq!(test.begins(9, 0), 3, "it has begun");
    // Its own place counts when it begins anew; what the journal has let go nobody is handed.
    test.passes(SINK, 2);
    for (oldest, expected) in [(0, 2), (6, 6)] {
        let begun = test.pool.fill_anew(&beginning(9, oldest));
        assert_eq!(begun.expect("it begins").get(), expected);
    }
    let filling = test.pool.filling_of(SINK).expect("it reads").expect("one");
    assert_eq!((filling.fill.number, filling.is_over), (3, false));
}

#[tokio::test]
async fn what_waited_for_a_sink_that_begins_anew_goes_and_comes_again_with_the_journal() {
    let test = Test::new().await;
    test.pool.add_sink("pool", Seq::MIN).expect("it is added");
    test.passes("pool", 9);
    test.begins(9, 0);
    let ids = test.pool.settle(&waiting(SINK, 5)).expect("it settles");
    let id = ids.expect("it is stored")[0];
    let begun = test.pool.fill_anew(&beginning(9, 0));
    assert_eq!(begun.expect("it begins").get(), 4);
    assert_eq!(test.pool.retry(SINK, id).expect("it reads"), None);
    let first = test.pool.first_retried(SINK).await.expect("it reads");
    assert_eq!(first, None);
}
