//! Decides about a batch that a sink did not accept: a retry, two halves, or dead letters.
//!
//! Lanes call it and settle its decision.
//!
//! **Invariant**: every item of the batch is in exactly one of the settlement's retries or dead letters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::backoff;
use base::clock::{Lived, Unix};
use base::order::{ItemPosition, Seq};
use item::ItemMeta;
use item::batch::{Batch, Slice};
use journal::log::LogRow;
use plugin::{Failure, Progress};
use pool::{DeadLetter, Part, Retry, Settlement};
use settings::{Retry as RetrySettings, Sink};

/// Traps of one batch before it is halved; a batch whose sink requests a retry gets all its attempts.
const TRAPS_MAX: u32 = 3;
/// The longest pause that a sink can request.
const ASKED_PAUSE_MAX: Duration = Duration::from_hours(1);

/// Number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    /// At the current batch.
    pub(super) batch: u32,
    /// At its items before that: in batches of which a part was accepted, and while the sink was paused.
    pub(super) earlier: u32,
}

impl Attempts {
    /// None yet.
    pub(super) const NONE: Self = Self {
        batch: 0,
        earlier: 0,
    };
    /// The first attempt.
    pub(super) const FIRST: Self = Self {
        batch: 1,
        earlier: 0,
    };

    pub(super) fn of(retry: &Retry) -> Self {
        Self {
            batch: retry.attempts,
            earlier: retry.earlier,
        }
    }

    /// With one more attempt.
    pub(super) fn next(self) -> Self {
        Self {
            batch: self.batch.saturating_add(1),
            ..self
        }
    }

    /// All attempts at its items.
    fn all(self) -> u32 {
        self.earlier.saturating_add(self.batch)
    }
}

/// The rest of a batch, and its attempts, after an attempt in which the sink settled a part of it: the rejected items
/// become dead letters, the others become a new batch.
pub(super) fn rest(
    batch: Batch,
    attempts: Attempts,
    progress: Progress,
    settlement: &mut Settlement,
) -> (Batch, Attempts) {
    if progress.taken == 0 {
        return (batch, attempts);
    }
    let (settled, rest) = batch.split_at(progress.taken);
    let refused = progress.refused.into_iter().flat_map(|(range, reason)| {
        let within = range.start..range.end.min(progress.taken);
        within.map(move |index| (index, reason.clone()))
    });
    dead_letter(&settled, attempts, refused.collect(), settlement);
    // It is the first one at this batch, and not the first one at its items.
    let left = Attempts {
        batch: 1,
        earlier: attempts.all().saturating_sub(1),
    };
    (rest, left)
}

/// Decides about a batch after its attempt number `attempts` failed.
pub(super) fn schedule_retry(
    sink: &Sink,
    batch: &Batch,
    attempts: Attempts,
    failure: Failure,
    settlement: &mut Settlement,
) {
    if batch.is_empty() {
        return;
    }
    let reason = failure.to_string();
    let now = Lived::now();
    let (attempts_max, asked) = match failure {
        Failure::Reject { .. } => (0, None),
        Failure::Trap { .. } | Failure::NotGranted { .. } => {
            (sink.retry.attempts.min(TRAPS_MAX), None)
        }
        Failure::Retry { after, .. } => (sink.retry.attempts, after),
    };
    if attempts.batch < attempts_max {
        let pause = asked.map_or_else(
            || pause(&sink.retry, attempts.batch),
            |asked| asked.min(ASKED_PAUSE_MAX),
        );
        settlement
            .retries
            .push(retry(batch, attempts, now + pause, &reason));
        return;
    }
    // The halves have one attempt each before they are halved again. Who rejects means all of it.
    let halves = if attempts_max > 0 {
        batch.halves()
    } else {
        None
    };
    match halves {
        Some((left, right)) => {
            for half in [left, right] {
                let due_at = now + pause(&sink.retry, 1);
                settlement
                    .retries
                    .push(retry(&half, attempts, due_at, &reason));
            }
        }
        None => {
            settlement
                .dead_letters
                .extend(letters(batch, attempts.all(), &reason, Unix::now()))
        }
    }
}

/// The pause before the next attempt, after this number of attempts.
pub(super) fn pause(retry: &RetrySettings, attempts: u32) -> Duration {
    backoff::pause(*retry.first_ms, *retry.max_ms, attempts)
}

/// Schedules another attempt, without counting this one for the batch.
pub(super) fn defer(
    sink: &Sink,
    batch: &Batch,
    attempts: Attempts,
    reason: &str,
    settlement: &mut Settlement,
) {
    // It was tried: nothing is added to it any more.
    let tried = attempts.batch.max(1);
    let deferred = Attempts {
        batch: tried,
        earlier: attempts.next().all() - tried,
    };
    let due_at = Lived::now() + pause(&sink.retry, tried);
    settlement
        .retries
        .push(retry(batch, deferred, due_at, reason));
}

/// A retry of the batch that is due at this time.
pub(super) fn retry(batch: &Batch, attempts: Attempts, due_at: Lived, reason: &str) -> Retry {
    Retry {
        id: 0,
        seqs: (Seq::MIN, Seq::MIN),
        parts: parts(batch),
        origin: batch.origin(),
        attempts: attempts.batch,
        earlier: attempts.earlier,
        due_at,
        reason: reason.to_owned(),
    }
}

/// The parts of a batch, as they are stored.
pub(super) fn parts(batch: &Batch) -> Vec<Part> {
    let slices = batch.slices().iter();
    let part = |slice: &Slice| {
        let base = slice.base;
        let (start, end) = (base + slice.start, base + slice.end);
        Part(slice.entry.seq, start, end, slice.leaves)
    };
    slices.map(part).collect()
}

/// A dead letter for each item.
pub(super) fn letters<'a>(
    batch: &'a Batch,
    attempts: u32,
    reason: &'a str,
    at: Unix,
) -> impl Iterator<Item = DeadLetter> + 'a {
    batch.slices().iter().flat_map(move |slice| {
        let entry = &slice.entry;
        slice.items().map(move |(position, item)| DeadLetter {
            id: 0,
            seq: entry.seq,
            request_id: entry.request_id.to_string(),
            stream: Arc::clone(&entry.stream),
            position,
            key: item.key.to_owned(),
            action: item.action,
            fields: item.fields.to_owned(),
            meta: item.meta,
            reason: reason.to_owned(),
            attempts,
            at,
            received_at: entry.received_at,
        })
    })
}

/// Makes dead letters of the items that the sink rejected; it accepted the others.
pub(super) fn dead_letter(
    batch: &Batch,
    attempts: Attempts,
    rejected: Vec<(u32, String)>,
    settlement: &mut Settlement,
) {
    if rejected.is_empty() {
        return;
    }
    let mut reasons: HashMap<u32, String> = rejected.into_iter().collect();
    let items = letters(batch, attempts.all(), "", Unix::now()).zip(0..);
    settlement
        .dead_letters
        .extend(items.filter_map(|(letter, index)| {
            let reason = reasons.remove(&index)?;
            Some(DeadLetter { reason, ..letter })
        }));
}

/// A dead letter for an unreadable payload: the request log knows its origin, and the journal's table `quarantine` has
/// its bytes.
pub(super) fn unreadable(seq: Seq, row: Option<&LogRow>, reason: String) -> DeadLetter {
    let entry = row.map(|row| &row.entry);
    DeadLetter {
        id: 0,
        seq,
        request_id: entry.map_or_else(String::new, |entry| entry.request_id.to_string()),
        stream: entry.map_or_else(|| "".into(), |entry| Arc::clone(&entry.stream)),
        position: ItemPosition::MIN,
        key: String::new(),
        action: entry
            .and_then(|entry| entry.outcome.action())
            .unwrap_or_default(),
        fields: String::new(),
        meta: ItemMeta::default(),
        reason,
        attempts: 0,
        at: Unix::now(),
        received_at: entry.map_or(Unix::MIN, |entry| entry.received_at),
    }
}

#[cfg(test)]
pub(crate) mod tests {
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
}
