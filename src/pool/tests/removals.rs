//! Removals: what they take away, and what brings an item back.

use super::*;

#[tokio::test]
async fn what_was_accepted_before_a_removal_does_not_bring_the_item_back() {
    let test = Test::new().await;
    test.upsert(&batch(5, &["a", "b"]), true);
    assert_eq!(test.remove(STREAM, "a", 7), Some(3));
    test.upsert(&batch(6, &["a", "b"]), true);
    test.upsert(&batch(7, &["a"]), true);
    assert_eq!(test.items(STREAM).await, [("b".to_owned(), 4)]);
    let test = test.reopened().await;
    test.upsert(&batch(7, &["a"]), true);
    assert_eq!(test.items(STREAM).await, [("b".to_owned(), 4)]);
    test.upsert(&batch(8, &["a"]), true);
    assert_eq!(
        test.items(STREAM).await,
        [("a".to_owned(), 5), ("b".to_owned(), 4)]
    );
    assert_eq!(test.read(STREAM, 3).await, [told("b", 4), told("a", 5)]);
}

#[tokio::test]
async fn an_item_may_be_removed_before_it_has_arrived() {
    let test = Test::new().await;
    assert_eq!(test.remove(STREAM, "a", 3), None);
    test.upsert(&batch(3, &["a"]), true);
    assert_eq!(test.items(STREAM).await, []);
    // Twice: the later one counts.
    assert_eq!(test.remove(STREAM, "a", 9), None);
    assert_eq!(test.remove(STREAM, "a", 5), None);
    test.upsert(&batch(9, &["a"]), true);
    assert_eq!((test.items(STREAM).await, test.seq()), (vec![], 0));
    assert_eq!(test.read(STREAM, 0).await, [], "nobody ever saw it");
}

#[tokio::test]
async fn what_a_sink_removes_is_told_and_only_what_comes_later_brings_it_back() {
    let test = Test::new().await;
    let _listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.upsert(&batch(5, &["a", "b"]), true);
    let delete = |batch: Batch| test.delete(&batch);
    // Accepted before the row: it stays.
    delete(batch(4, &["a"]));
    assert_eq!(test.heard(STREAM, 2), []);
    delete(batch(7, &["a"]));
    assert_eq!(test.heard(STREAM, 2), [gone("a", 3)]);
    test.upsert(&batch(6, &["a"]), true);
    assert_eq!(test.items(STREAM).await, [("b".to_owned(), 2)]);
    // What is not here is remembered, and nobody is told.
    delete(batch(9, &["c"]));
    test.upsert(&batch(8, &["c"]), true);
    assert_eq!(test.heard(STREAM, 3), []);
    test.upsert(&batch(10, &["a", "c"]), true);
    assert_eq!(test.heard(STREAM, 3), [told("a", 4), told("c", 5)]);
    assert_eq!(test.items(STREAM).await.len(), 3);
}

#[tokio::test]
async fn merging_begins_anew_after_a_removal() {
    let test = Test::new().await;
    let _listener = test.pool.changes().listen(&["merged".into()], None);
    let update = |seq, fields| batch_of("merged", seq, &[("a", fields)]);
    test.upsert(&update(2, r#"{"x":2,"y":2}"#), true);
    test.upsert(&update(3, r#"{"x":3}"#), true);
    let merged = r#"{"x":3,"y":2}"#;
    assert_eq!(test.fields("merged", "a").await.as_deref(), Some(merged));
    // What it has behind it changes nothing, and what comes late only what nothing later has written.
    test.upsert(&update(2, r#"{"x":2,"y":2}"#), true);
    assert_eq!(test.seq(), 2);
    test.upsert(&update(1, r#"{"z":1,"x":1}"#), true);
    let merged = r#"{"x":3,"y":2,"z":1}"#;
    assert_eq!(test.fields("merged", "a").await.as_deref(), Some(merged));
    assert_eq!(test.heard("merged", 0), [told("a", 3)]);
    test.remove("merged", "a", 3);
    test.upsert(&update(3, r#"{"x":3}"#), true);
    assert_eq!(test.fields("merged", "a").await, None);
    test.upsert(&update(4, r#"{"z":4}"#), true);
    let anew = test.fields("merged", "a").await;
    assert_eq!(anew.as_deref(), Some(r#"{"z":4}"#));
    assert_eq!(test.heard("merged", 4), [told("a", 5)]);
}
