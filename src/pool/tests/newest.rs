//! The items that were written last: in which order they come. And that the keys that are asked for are looked up.

use super::*;
use crate::change_log::{Keys, StateKind, rows_sql, sizes_sql};

impl Test {
    /// How SQLite would run this.
    fn plan(&self, sql: &str) -> String {
        let writer = self.pool.lock();
        sqlite::plan(&writer.connection, sql).expect("a plan")
    }
}

/// The keys of all pages of two.
async fn walked(test: &Test) -> Vec<String> {
    let limit = PageLimit {
        rows: 2,
        bytes: usize::MAX,
    };
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let page = test.pool.newest_items(STREAM, before, limit).await;
        let page = page.expect("it reads");
        let Some(last) = page.last() else { return keys };
        before = Some(last.seq);
        keys.extend(page.into_iter().map(|item| item.key));
    }
}

#[tokio::test]
async fn pages_of_the_newest_items_have_each_item_once() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a", "b", "c", "d", "e"]), true);
    test.upsert(&batch_of("others", 2, &[("x", "{}")]), true);
    test.upsert(&batch(3, &["b"]), true);
    test.remove(STREAM, "d", 4);
    assert_eq!(walked(&test).await, ["b", "e", "c", "a"]);
}

#[tokio::test]
async fn each_key_of_a_page_is_looked_up() {
    let test = Test::new().await;
    for keys in [Keys::Logged, Keys::Given] {
        for sql in [
            sizes_sql(StateKind::Shown, keys),
            sizes_sql(StateKind::Source, keys),
        ] {
            let plan = test.plan(&sql);
            for table in ["items", "removed"] {
                let steps = plan
                    .lines()
                    .filter(|line| line.contains(&format!("{table} ")));
                let looked_up = |line: &&str| line.ends_with("(stream=? AND key=?)");
                assert!(steps.clone().count() > 0, "{plan}");
                assert!(steps.clone().all(|line| looked_up(&line)), "{plan}");
            }
            assert!(!plan.contains("SCAN change_log"), "{plan}");
        }
    }
    let plan = test.plan(&rows_sql(StateKind::Shown));
    assert!(!plan.contains("SCAN items"), "{plan}");
}

#[tokio::test]
async fn changes_of_some_keys_are_those_of_all_with_these_keys() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a", "b", "c", "d"]), true);
    test.upsert(&batch_of("others", 2, &[("a", "{}")]), true);
    test.upsert(&batch(3, &["b"]), true);
    test.remove(STREAM, "d", 4);
    let all = test.read(STREAM, 0).await;
    let wanted = ["d", "b", "b", "z"].map(str::to_owned);
    let page = (test.pool).changed_after(STREAM, Some(&wanted), ChangeSeq::MIN, EVERYTHING);
    let page = page.await.expect("it reads");
    let of_keys = all.into_iter().filter(|(key, ..)| wanted.contains(key));
    assert_eq!(
        page.changes.iter().map(show).collect::<Vec<_>>(),
        of_keys.collect::<Vec<_>>()
    );
}
