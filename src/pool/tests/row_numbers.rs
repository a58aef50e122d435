//! Numbers of rows that the writer remembers: a wrong one changes nothing.

use super::*;

/// Each key with the requests that its row shows.
fn rows(test: &Test) -> Vec<(String, i64)> {
    let writer = test.pool.lock();
    let sql = "SELECT key, accepted_seq FROM items ORDER BY key";
    let mut select = writer.connection.prepare(sql).expect("it prepares");
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows = rows.expect("it reads");
    rows.collect::<Result<_, _>>().expect("rows")
}

fn row(key: &str, seq: i64) -> (String, i64) {
    (key.to_owned(), seq)
}

#[tokio::test]
async fn a_row_that_took_the_number_of_another_key_is_left_alone() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a"]), true);
    test.remove(STREAM, "a", 2);
    // SQLite gives it the number that the last row had.
    test.upsert(&batch(3, &["b"]), true);
    test.upsert(&batch(4, &["a"]), true);
    assert_eq!(rows(&test), [row("a", 4), row("b", 3)]);
    test.upsert(&batch(5, &["b"]), true);
    test.upsert(&batch(6, &["a"]), true);
    assert_eq!(rows(&test), [row("a", 6), row("b", 5)]);
}

#[tokio::test]
async fn rows_that_have_other_numbers_now_are_updated_all_the_same() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a", "b"]), true);
    let exchange = "UPDATE items SET rowid = rowid + 100; UPDATE items SET rowid = 300 - rowid;
         UPDATE items SET rowid = rowid - 197";
    let exchanged = test.pool.lock().connection.execute_batch(exchange);
    exchanged.expect("numbers are exchanged");
    test.upsert(&batch(2, &["a"]), true);
    test.upsert(&batch(3, &["a", "b"]), true);
    assert_eq!(rows(&test), [row("a", 3), row("b", 3)]);
    assert_eq!(test.pool.sizes().of(STREAM).items, 2);
}

#[tokio::test]
async fn what_is_there_is_not_taken_back_by_what_came_before_it() {
    let test = Test::new().await;
    test.upsert(&batch(5, &["a"]), true);
    test.upsert(&batch(4, &["a"]), true);
    test.upsert(&batch(3, &["a", "b"]), true);
    assert_eq!(rows(&test), [row("a", 5), row("b", 3)]);
    assert_eq!(test.pool.sizes().of(STREAM).items, 2);
}

#[tokio::test]
async fn a_key_that_was_written_in_vain_is_not_remembered_for_a_row() {
    let test = Test::new().await;
    let pages = |max: u32| {
        let writer = test.pool.lock();
        let connection = &writer.connection;
        (connection.pragma_update_and_check(None, "max_page_count", max, |_| Ok(())))
            .expect("the maximum is set");
    };
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let both = batch_of(STREAM, 1, &[("a", "{}"), ("z", &large)]);
    let in_vain = Settlement {
        sink: "pool".into(),
        staged: Staged {
            effects: vec![Effect::Upsert(both)],
            ..Staged::default()
        },
        ..Settlement::default()
    };
    // As many as there are.
    pages(1);
    let refused = test.pool.settle(&in_vain).expect_err("there is no room");
    assert!(refused.is_full(), "{refused}");
    pages(1_000_000);
    test.upsert(&batch(2, &["b"]), true);
    test.upsert(&batch(3, &["a"]), true);
    assert_eq!(rows(&test), [row("a", 3), row("b", 2)]);
}
