//! What the memory of changes has for readers, and what it does not claim to have.

use std::time::Duration;

use super::*;
use base::clock::Unix;
use base::order::ChangeSeq;

const TIME: &str = "2026-01-31T12:00:00.000Z";

fn streams() -> Vec<Arc<str>> {
    vec!["a".into(), "b".into()]
}

fn changes_at(head: u64) -> Arc<Changes> {
    Arc::new(Changes::starting_at(seq(head)))
}

fn seq(number: u64) -> ChangeSeq {
    ChangeSeq::new(number)
}

fn updated(number: u64, key: &str) -> Change {
    Change::updated(seq(number), key, "{}", TIME)
}

/// Records changes of one stream, as a settlement that ends with their last number.
fn record(changes: &Changes, stream: &str, of_stream: Vec<Change>) {
    let head = of_stream.last().expect("a change").seq.get();
    let collected = changes.wants(stream).then_some(of_stream);
    record_as(changes, stream, collected, head);
}

fn record_as(changes: &Changes, stream: &str, collected: Option<Vec<Change>>, head: u64) {
    let of_stream = StreamChanges {
        stream: stream.into(),
        changes: collected,
        updated_at: Unix::from_ms(head),
    };
    let told = changes.record(vec![of_stream], seq(head));
    changes.wake(&told);
}

/// The numbers that the memory has after a position; `None` if the file must be read.
fn after(changes: &Changes, stream: &str, position: u64) -> Option<Vec<u64>> {
    match changes
        .read()
        .after(stream, None, seq(position), usize::MAX)
    {
        Recent::Changes { changes: found, .. } => {
            Some(found.iter().map(|change| change.seq.get()).collect())
        }
        Recent::Nothing => Some(Vec::new()),
        Recent::Behind => None,
    }
}

fn was_woken(wakeup: &Wakeup) -> bool {
    wakeup.take()
}

#[test]
fn a_later_change_of_an_item_takes_the_place_of_an_earlier_one() {
    let changes = changes_at(0);
    let _listener = changes.listen(&streams(), None);
    record(&changes, "a", vec![updated(1, "x"), updated(2, "y")]);
    record(&changes, "a", vec![updated(3, "x")]);
    record(&changes, "a", vec![Change::removed(seq(4), "y")]);
    assert_eq!(after(&changes, "a", 0), Some(vec![3, 4]));
    assert_eq!(after(&changes, "a", 3), Some(vec![4]));
    assert_eq!(after(&changes, "a", 4), Some(vec![]));
    assert!(
        changes.read().has_nothing_after("a", None, seq(4))
            && !changes.read().has_nothing_after("a", None, seq(3))
    );
    assert_eq!(changes.head(), seq(4));
    // Whatever happens to one item, its bytes are counted once.
    let bytes = changes.lock().bytes;
    for number in 105..200 {
        record(&changes, "a", vec![updated(number, "x")]);
    }
    let after_that = changes.lock().bytes;
    assert!(after_that.abs_diff(bytes) < 10, "{bytes} and {after_that}");
}

#[test]
fn a_run_stops_before_it_is_too_large_and_holds_one_change_at_least() {
    let changes = changes_at(0);
    let _listener = changes.listen(&streams(), None);
    record(
        &changes,
        "a",
        (1..=9)
            .map(|number| updated(number, &number.to_string()))
            .collect(),
    );
    let one = updated(1, "1").json.len();
    let count = |bytes_max| match changes.read().after("a", None, seq(0), bytes_max) {
        Recent::Changes { changes, is_all } => (changes.len(), is_all),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(0), (1, false));
    assert_eq!(count(one * 3), (3, false));
    assert_eq!(count(one * 4 - 1), (3, false));
    assert_eq!(count(one * 9), (9, true));
    assert_eq!(count(usize::MAX), (9, true));
}

#[test]
fn what_happened_before_anybody_listened_is_read_from_the_file() {
    let changes = changes_at(10);
    assert_eq!(after(&changes, "a", 10), None, "nobody listened");
    assert!(!changes.read().has_nothing_after("a", None, seq(10)));
    let _listener = changes.listen(&streams(), None);
    assert_eq!(after(&changes, "a", 9), None);
    assert_eq!(after(&changes, "a", 10), Some(vec![]));
    assert_eq!(after(&changes, "nobody", 10), None);
    record(&changes, "a", vec![updated(11, "x")]);
    assert_eq!(after(&changes, "a", 9), None);
    assert_eq!(after(&changes, "a", 10), Some(vec![11]));
}

#[test]
fn what_a_settlement_changed_while_somebody_came_is_read_from_the_file() {
    let changes = changes_at(0);
    // The settlement began and nothing was to be collected; then somebody came.
    assert!(!changes.wants("a"));
    let _listener = changes.listen(&streams(), None);
    record_as(&changes, "a", None, 5);
    assert_eq!(after(&changes, "a", 0), None);
    assert_eq!(after(&changes, "a", 4), None);
    assert_eq!(after(&changes, "a", 5), Some(vec![]));
    assert_eq!(after(&changes, "b", 0), Some(vec![]), "another stream");
}

#[test]
fn the_largest_log_forgets_its_oldest_changes_and_says_so() {
    let changes = changes_at(0);
    let _listener = changes.listen(&streams(), None);
    let fields = format!(r#"{{"fill":"{}"}}"#, "x".repeat(100_000));
    record(&changes, "b", vec![updated(1, "small")]);
    let mut number = 1;
    while number < 400 {
        number += 1;
        let change = Change::updated(seq(number), &number.to_string(), &fields, TIME);
        record(&changes, "a", vec![change]);
        assert!(changes.lock().bytes <= LOG_BYTES_MAX);
    }
    assert_eq!(after(&changes, "a", 1), None);
    assert_eq!(
        after(&changes, "b", 0),
        Some(vec![1]),
        "the small one stays"
    );
    let floor = changes.lock().streams["a"].floor.get();
    assert!((300..400).contains(&floor), "{floor}");
    assert_eq!(after(&changes, "a", floor - 1), None);
    assert_eq!(
        after(&changes, "a", floor),
        Some((floor + 1..=400).collect())
    );
    let log = &changes.lock().streams["a"];
    let counted: usize = log.changes.values().map(|change| change.bytes()).sum();
    assert_eq!(log.bytes, counted);
    assert_eq!(log.newest.len(), log.changes.len());
}

#[test]
fn what_changed_long_ago_is_forgotten_piece_by_piece_as_other_changes_come() {
    let changes = changes_at(0);
    let _listener = changes.listen(&streams(), None);
    let keys: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
    for (seq, key) in (1..).zip(&keys) {
        record(&changes, "a", vec![updated(seq, key)]);
    }
    record(&changes, "b", vec![updated(101, "quiet")]);
    let Some(long_ago) = Instant::now().checked_sub(CHANGES_KEPT) else {
        return;
    };
    changes.lock().mark = Some((long_ago, ChangeSeq::new(90)));
    record(&changes, "a", vec![updated(102, "new")]);
    let kept = after(&changes, "a", 18).expect("it reaches back so far");
    assert_eq!(kept.len(), 100 - 18 + 1, "18 are forgotten at once");
    assert_eq!(
        after(&changes, "a", 17),
        None,
        "those before are in the file"
    );
    for seq in 103..110 {
        record(&changes, "a", vec![updated(seq, "new")]);
    }
    assert_eq!(after(&changes, "a", 89), None);
    let rest: Vec<u64> = (91..=100).chain([109]).collect();
    assert_eq!(
        after(&changes, "a", 90),
        Some(rest),
        "as old as the mark, no more"
    );
    assert_eq!(
        after(&changes, "b", 100),
        Some(vec![101]),
        "nothing comes there"
    );
    let log = &changes.lock().streams["a"];
    assert_eq!((log.newest.len(), log.changes.len()), (11, 11));
}

#[test]
fn bells_ring_for_their_streams_only_until_the_listener_goes() {
    let changes = changes_at(0);
    let all = streams();
    let both = changes.listen(&all, None);
    let one = changes.listen(&all[1..], None);
    record(&changes, "a", vec![updated(1, "x")]);
    assert!(was_woken(&both.wakeup) && !was_woken(&one.wakeup));
    record(&changes, "b", vec![updated(2, "x")]);
    assert!(was_woken(&both.wakeup) && was_woken(&one.wakeup));
    let wakeup = Arc::clone(&both.wakeup);
    drop(both);
    record(&changes, "b", vec![updated(3, "x")]);
    assert!(!was_woken(&wakeup) && was_woken(&one.wakeup));
    assert_eq!(changes.lock().streams["b"].wakeups.len(), 1);
}

#[test]
fn a_log_is_kept_for_a_while_after_its_last_listener() {
    let changes = changes_at(0);
    drop(changes.listen(&streams(), None));
    record(&changes, "a", vec![updated(1, "x")]);
    let _listener = changes.listen(&streams(), None);
    assert_eq!(
        after(&changes, "a", 0),
        Some(vec![1]),
        "as if it had stayed"
    );
    drop(_listener);
    let long_ago = Instant::now().checked_sub(LOG_KEPT);
    let Some(long_ago) = long_ago else { return };
    changes
        .lock()
        .streams
        .values_mut()
        .for_each(|log| log.left_at = long_ago);
    assert!(!changes.wants("a"));
    assert_eq!(after(&changes, "a", 0), None);
    assert!(!changes.lock().streams.contains_key("a"));
    let rest: usize = changes.lock().streams.values().map(|log| log.bytes).sum();
    assert_eq!(changes.lock().bytes, rest);
    // Who comes again starts at the newest change.
    record_as(&changes, "a", None, 2);
    let _listener = changes.listen(&streams(), None);
    assert_eq!(after(&changes, "a", 1), None);
    assert_eq!(after(&changes, "a", 2), Some(vec![]));
}

#[test]
fn the_newest_time_of_data_is_known_while_somebody_listens() {
    let changes = changes_at(0);
    assert_eq!(changes.updated_at("a"), None);
    let _listener = changes.listen(&streams(), None);
    assert_eq!(changes.updated_at("a"), None);
    record(&changes, "a", vec![updated(7, "x")]);
    record_as(&changes, "a", Some(Vec::new()), 3);
    assert_eq!(changes.updated_at("a"), Some(Unix::from_ms(7)));
}

#[tokio::test]
async fn a_bell_that_was_rung_before_is_heard_once() {
    let wakeup = Wakeup::default();
    wakeup.wake();
    wakeup.wake();
    wakeup.woken().await;
    let silent = tokio::time::timeout(Duration::from_millis(20), wakeup.woken()).await;
    assert!(silent.is_err());
    // An interrupted wait loses nothing.
    wakeup.wake();
    wakeup.woken().await;
}

#[test]
fn who_listens_to_keys_hears_of_these_alone() {
    let changes = changes_at(0);
    let keys = ["m".to_owned(), "n".to_owned()];
    let listener = changes.listen(&streams(), Some(&keys));
    record(&changes, "a", vec![updated(1, "x")]);
    assert!(!was_woken(&listener.wakeup));
    record(
        &changes,
        "b",
        vec![updated(2, "n"), updated(3, "x"), updated(4, "m")],
    );
    assert!(was_woken(&listener.wakeup));
    let numbers = |position| match changes
        .read()
        .after("b", Some(&keys), seq(position), usize::MAX)
    {
        Recent::Changes { changes: found, .. } => {
            found.iter().map(|change| change.seq.get()).collect()
        }
        Recent::Nothing => Vec::new(),
        Recent::Behind => panic!("it is in memory"),
    };
    assert_eq!(numbers(0), [2, 4]);
    assert_eq!(numbers(2), [4]);
    assert_eq!(numbers(4), [0; 0]);
    assert!(
        changes
            .read()
            .has_nothing_after("b", Some(&keys[1..]), seq(2))
    );
    assert!(
        !changes
            .read()
            .has_nothing_after("b", Some(&keys[1..]), seq(1))
    );
    // Nobody was told what these were.
    record_as(&changes, "b", None, 9);
    assert!(was_woken(&listener.wakeup));
    assert!(matches!(
        changes.read().after("b", Some(&keys), seq(8), usize::MAX),
        Recent::Behind
    ));
    drop(listener);
    assert!(changes.newest_followed("b").is_none());
}
