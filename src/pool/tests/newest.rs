//! The items that were written last: in which order they come. And that an index leads to what is asked for.

use super::*;

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
async fn an_index_leads_to_each_page_of_the_newest_items_and_nothing_is_sorted() {
    let plan = Test::new().await.plan(&items::newest().0);
    for index in ["items_by_seq", "shown_by_seq"] {
        let step = format!("{index} (stream=? AND seq<?)");
        assert!(plan.contains(&step), "{plan}");
    }
    assert!(!plan.contains("SCAN ") && !plan.contains("TEMP"), "{plan}");
}

#[tokio::test]
async fn who_asks_for_changes_of_some_keys_has_each_looked_up() {
    let plan = Test::new().await.plan(&items::changed(true).0);
    for table in ["items", "removed", "shown"] {
        let step = format!("SEARCH {table} USING ");
        let steps: Vec<&str> = plan.lines().filter(|line| line.contains(&step)).collect();
        // Whether anything of the stream is overridden is a look at the first row.
        let looks = |line: &&&str| !line.ends_with("COVERING INDEX shown_by_seq (stream=?)");
        let looked: Vec<_> = steps.iter().filter(looks).collect();
        assert!(!looked.is_empty(), "{table}: {plan}");
        assert!(
            looked
                .iter()
                .all(|line| line.ends_with("(stream=? AND key=?)")),
            "{plan}"
        );
    }
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
    let page = (test.pool).changed_after(
        STREAM,
        Some(&wanted),
        ChangeSeq::MIN,
        ChangeSeq::MIN,
        EVERYTHING,
    );
    let page = page.await.expect("it reads");
    let of_keys = all.into_iter().filter(|(key, ..)| wanted.contains(key));
    assert_eq!(
        page.changes.iter().map(show).collect::<Vec<_>>(),
        of_keys.collect::<Vec<_>>()
    );
}
