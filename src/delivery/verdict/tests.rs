//! Unit tests of `verdict.rs`.

use std::time::Duration;

use super::{ASKED_PAUSE_MAX, Attempts, defer, rest, schedule_retry};
use base::clock::{Lived, Unix};
use base::order::{ItemPosition, Seq};
use item::ItemsWriter;
use item::batch::{Batch, Entry, Slice};
use plugin::{Failure, Progress};
use pool::{Part, Settlement};
use settings::Sink;

pub(crate) fn batch(items: u32) -> Batch {
    let mut writer = ItemsWriter::new(1 << 20, 64);
    for item in 0..items {
        writer.push(&item.to_string(), "{}").expect("it fits");
    }
    let entry = Entry {
        seq: Seq::new(7),
        request_id: uuid::Uuid::nil(),
        stream: "s".into(),
        received_at: Unix::MIN,
        arrived: None,
        items: writer.into_items(),
    };
    Batch::new(vec![Slice::whole(entry.into())], 1)
}

fn decide(items: u32, attempts: u32, failure: Failure) -> Settlement {
    let mut settlement = Settlement::default();
    schedule_retry(
        &Sink::default(),
        &batch(items),
        tried(attempts),
        failure,
        &mut settlement,
    );
    settlement
}

/// So many attempts at the batch.
fn tried(batch: u32) -> Attempts {
    Attempts { batch, earlier: 0 }
}

fn trap() -> Failure {
    Failure::Trap {
        reason: "trap".to_owned(),
    }
}

fn asks(after: Option<Duration>) -> Failure {
    Failure::Retry {
        after,
        reason: "later".to_owned(),
    }
}

/// Items of the request that [`batch`] makes.
fn part(start: u32, end: u32) -> Part {
    let position = ItemPosition::new;
    Part(Seq::new(7), position(start), position(end), false)
}

#[test]
fn a_trap_is_tried_three_times_then_halved_then_a_dead_letter() {
    for attempts in [1, 2] {
        let settlement = decide(5, attempts, trap());
        assert_eq!(settlement.retries.len(), 1);
        assert_eq!(settlement.retries[0].attempts, attempts);
    }
    let settlement = decide(5, 3, trap());
    let parts: Vec<_> = settlement
        .retries
        .iter()
        .map(|one| &one.parts[..])
        .collect();
    assert_eq!(parts, [&[part(0, 2)][..], &[part(2, 5)]]);
    let settlement = decide(1, 3, trap());
    assert_eq!(settlement.retries, []);
    assert_eq!(settlement.dead_letters[0].attempts, 3);
}

#[test]
fn what_was_settled_before_a_failure_never_comes_again() {
    let progress = Progress {
        taken: 3,
        refused: vec![(1..2, "no".to_owned()), (2..9, "never".to_owned())],
    };
    let mut settlement = Settlement::default();
    let (left, attempts) = rest(batch(5), tried(7), progress.clone(), &mut settlement);
    let dead: Vec<_> = (settlement.dead_letters.iter())
        .map(|one| (one.position.get(), &*one.reason, one.attempts))
        .collect();
    assert_eq!(dead, [(1, "no", 7), (2, "never", 7)]);
    // It is the first one at this batch, and the seventh at its items.
    let (batch_of, earlier) = (attempts.batch, attempts.earlier);
    assert_eq!((batch_of, earlier), (1, 6));
    schedule_retry(
        &Sink::default(),
        &left,
        attempts,
        asks(None),
        &mut settlement,
    );
    assert_eq!(settlement.retries[0].parts, [part(3, 5)]);

    let mut settlement = Settlement::default();
    let (left, _) = rest(batch(3), Attempts::FIRST, progress, &mut settlement);
    schedule_retry(
        &Sink::default(),
        &left,
        Attempts::FIRST,
        trap(),
        &mut settlement,
    );
    assert!(settlement.retries.is_empty());
    assert_eq!(settlement.dead_letters.len(), 2);
}

#[test]
fn a_dead_letter_has_the_attempts_of_its_item_in_whatever_batches() {
    let last = Sink::default().retry.attempts;
    let mut settlement = Settlement::default();
    // While the sink was paused, twice; then its batch was taken in part.
    let (three, sink) = (batch(3), Sink::default());
    defer(&sink, &three, Attempts::NONE, "away", &mut settlement);
    let waits = Attempts::of(&settlement.retries[0]);
    defer(&sink, &three, waits, "away", &mut settlement);
    let waits = Attempts::of(&settlement.retries[1]);
    assert_eq!((waits.batch, waits.earlier), (1, 1));
    let progress = Progress {
        taken: 1,
        refused: Vec::new(),
    };
    let (left, attempts) = rest(three, waits.next(), progress, &mut settlement);
    assert_eq!((attempts.batch, attempts.earlier), (1, 2));
    // It is halved, and a half is given up.
    let halved = Attempts {
        batch: last,
        ..attempts
    };
    let mut settlement = Settlement::default();
    schedule_retry(&sink, &left, halved, asks(None), &mut settlement);
    assert_eq!(settlement.retries.len(), 2);
    let half = Attempts::of(&settlement.retries[0]).next();
    let (one, _) = left.split_at(1);
    schedule_retry(&sink, &one, half, asks(None), &mut settlement);
    assert_eq!(settlement.dead_letters[0].attempts, last + 3);
}

#[test]
fn a_sink_that_asks_for_a_retry_gets_all_its_attempts() {
    let last = Sink::default().retry.attempts;
    assert_eq!(decide(1, last - 1, asks(None)).retries.len(), 1);
    assert_eq!(decide(1, last, asks(None)).dead_letters.len(), 1);
}

#[test]
fn a_rejected_batch_is_dead_letters_at_once() {
    let reject = Failure::Reject {
        reason: "no".to_owned(),
    };
    let settlement = decide(3, 1, reject);
    assert_eq!(settlement.retries, []);
    let positions: Vec<_> = settlement
        .dead_letters
        .iter()
        .map(|one| one.position.get())
        .collect();
    assert_eq!(positions, [0, 1, 2]);
}

#[test]
fn a_pause_that_a_sink_asks_for_is_kept_within_an_hour() {
    let now = Lived::now();
    let soon = decide(1, 1, asks(Some(Duration::from_millis(40)))).retries[0].due_at;
    let pause = Duration::from_millis(40);
    let long = Duration::from_secs(10);
    assert!((now + pause..now + long).contains(&soon), "{soon:?}");
    let late = decide(1, 1, asks(Some(Duration::MAX))).retries[0].due_at;
    assert!(late >= now + ASKED_PAUSE_MAX && late < now + 2 * ASKED_PAUSE_MAX);
}
