//! The items that were written last: in which order they come, and that an index leads to each page.

use super::*;

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
    let test = Test::new().await;
    let writer = test.pool.lock();
    let sql = format!("EXPLAIN QUERY PLAN {}", items::newest().0);
    let mut statement = writer.connection.prepare(&sql).expect("a statement");
    let mut rows = statement.raw_query();
    let mut plan = String::new();
    while let Some(row) = rows.next().expect("a row") {
        plan += &row.get::<_, String>(3).expect("a step");
        plan.push('\n');
    }
    for index in ["items_by_seq", "shown_by_seq"] {
        let step = format!("{index} (stream=? AND seq<?)");
        assert!(plan.contains(&step), "{plan}");
    }
    assert!(!plan.contains("SCAN ") && !plan.contains("TEMP"), "{plan}");
}
