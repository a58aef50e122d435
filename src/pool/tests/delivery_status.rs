//! What the pool tells the request log: when a sink had what, what was discarded, why it gave up; and what is newer.

use std::time::Duration;

use super::resends::letter;
use super::*;
use base::clock::Unix;

async fn at(test: &Test, seq: u64) -> Option<Unix> {
    let states = test.pool.sink_states("pool", &[Seq::new(seq)]).await;
    match states.expect("it reads")[..] {
        [Some(SinkState::Done(at))] => at,
        ref other => panic!("{seq}: {other:?}"),
    }
}

fn rows(test: &Test, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let writer = test.pool.lock();
    let rows = writer.connection.query_row(&sql, [], |row| row.get(0));
    rows.expect("it reads")
}

fn progressed(test: &Test, seq: u64, now: Unix) {
    test.pool
        .add_sink("pool", Seq::new(0))
        .expect("it is known");
    let writer = test.pool.lock();
    crate::delivery_status::move_cursor(&writer.connection, "pool", Seq::new(seq), now)
        .expect("it writes");
}

#[tokio::test]
async fn a_time_is_right_to_a_tenth_of_a_second_also_under_steady_traffic() {
    let test = Test::new().await;
    let done_at = |seq: u64| Unix::from_ms(1_000_000 + seq * 25);
    for seq in 1..=500 {
        progressed(&test, seq, done_at(seq));
    }
    for seq in 1..=500 {
        let told_at = at(&test, seq).await.expect("it is known");
        let error = told_at - done_at(seq);
        assert!(
            told_at >= done_at(seq) && error < Duration::from_millis(100),
            "{seq}: {told_at:?}, done at {:?}",
            done_at(seq)
        );
    }
    assert!(rows(&test, "progress") <= 125 + 1);
    // A clock that was set back begins a row of its own.
    progressed(&test, 501, Unix::from_ms(500));
    assert_eq!(at(&test, 501).await, Some(Unix::from_ms(500)));
}

#[tokio::test]
async fn what_is_told_of_requests_goes_with_their_log_entries() {
    let test = Test::new().await;
    for seq in 1..=10 {
        progressed(&test, seq, Unix::from_ms(seq * 1_000));
    }
    test.dead_letter(vec![letter(3, 0, "a"), letter(8, 0, "b")]);
    let all = Selection::All;
    assert_eq!(
        test.pool.discard_letters("pool", &all, i64::MAX).ok(),
        Some(2)
    );
    let late = "INSERT INTO settled_late (sink, seq, at_ms) VALUES ('pool', 4, 1), ('pool', 9, 1)";
    let written = test.pool.lock().connection.execute(late, []);
    assert_eq!(written, Ok(2));
    test.pool.forget_before(Seq::new(8)).expect("it forgets");
    let left = ["progress", "discarded", "settled_late"].map(|table| rows(&test, table));
    assert_eq!(left, [2, 1, 1]);
}

#[tokio::test]
async fn what_was_discarded_is_never_done() {
    let test = Test::new().await;
    let settlement = Settlement {
        sink: "pool".into(),
        cursor: Some(Seq::new(5)),
        dead_letters: vec![letter(3, 0, "a"), letter(3, 2, "b"), letter(4, 0, "c")],
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    let states = async || {
        let states = test
            .pool
            .sink_states("pool", &[3, 4, 5, 6].map(Seq::new))
            .await;
        let states = states.expect("it reads").into_iter().flatten();
        let name = |state| match state {
            SinkState::Waiting => "waiting",
            SinkState::Done(_) => "done",
            SinkState::Stale { .. } => "stale",
            SinkState::Retrying => "retrying",
            SinkState::Failed => "failed",
            SinkState::Discarded(_) => "discarded",
        };
        states.map(name).collect::<Vec<_>>()
    };
    assert_eq!(states().await, ["failed", "failed", "done", "waiting"]);
    let ids = Selection::Ids(vec![1]);
    assert_eq!(
        test.pool.discard_letters("pool", &ids, i64::MAX).ok(),
        Some(1)
    );
    // One of them is still there.
    assert_eq!(states().await[0], "failed");
    let all = Selection::All;
    assert_eq!(
        test.pool.discard_letters("pool", &all, i64::MAX).ok(),
        Some(2)
    );
    assert_eq!(
        states().await,
        ["discarded", "discarded", "done", "waiting"]
    );
    let seqs = test.pool.discarded_seqs(Seq::new(100), 10).await;
    assert_eq!(seqs.expect("it reads"), [4, 3].map(Seq::new));
    // Over a restart as well.
    let test = test.reopened().await;
    let states = test
        .pool
        .sink_states("pool", &[3].map(Seq::new))
        .await
        .expect("it reads");
    assert!(matches!(states[..], [Some(SinkState::Discarded(_))]));
}

#[tokio::test]
async fn the_reasons_are_told_in_the_order_of_the_items() {
    let test = Test::new().await;
    let with = |position, reason: &str, attempts| DeadLetter {
        reason: reason.to_owned(),
        attempts,
        ..letter(7, position, "k")
    };
    test.dead_letter(vec![
        with(0, "answered 503", 3),
        with(1, "too long", 1),
        with(2, "answered 503", 2),
        with(3, "third", 1),
        with(4, "fourth", 1),
    ]);
    let reasons = test
        .pool
        .reasons("pool", &[6, 7].map(Seq::new))
        .await
        .expect("it reads");
    assert_eq!(reasons[0], []);
    let told: Vec<_> = (reasons[1].iter())
        .map(|one| (&*one.reason, one.attempts, one.items))
        .collect();
    assert_eq!(
        told,
        [("answered 503", 3, 2), ("too long", 1, 1), ("third", 1, 1)]
    );
}

#[tokio::test]
async fn newer_is_what_would_change_and_what_is_gone() {
    let test = Test::new().await;
    let entry = |stream, seq, items: &[(&str, &str)]| {
        let batch = batch_of(stream, seq, items);
        Arc::clone(&batch.slices()[0].entry)
    };
    let old = [
        ("kept", r#"{"n":1}"#),
        ("changed", r#"{"n":1}"#),
        ("same", r#"{"n":1}"#),
        ("removed", r#"{"n":1}"#),
        ("never", r#"{"n":1}"#),
    ];
    for stream in [STREAM, "merged"] {
        test.upsert(&batch_of(stream, 5, &old[..4]), true);
        let later = [("changed", r#"{"n":2,"m":1}"#), ("same", r#"{"n":1}"#)];
        test.upsert(&batch_of(stream, 6, &later), true);
        test.remove(stream, "removed", 6);
    }
    let newer = async |entry: &Entry, merges| {
        let newer = test.pool.newer_than(entry, merges).await;
        let mut newer: Vec<String> = newer.expect("it reads").into_iter().collect();
        newer.sort();
        newer
    };
    let expected = ["changed", "removed"];
    assert_eq!(newer(&entry(STREAM, 5, &old), false).await, expected);
    assert_eq!(newer(&entry("merged", 5, &old), true).await, expected);
    // A field that is still as it was does no harm in a stream that merges.
    let part = [("changed", r#"{"m":1}"#)];
    assert_eq!(newer(&entry("merged", 5, &part), true).await, [""; 0]);
    assert_eq!(newer(&entry(STREAM, 5, &part), false).await, ["changed"]);
    // Nothing was accepted after this.
    assert_eq!(newer(&entry(STREAM, 7, &old), false).await, [""; 0]);
}
