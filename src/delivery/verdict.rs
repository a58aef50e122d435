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
/// The longest pause that a sink can request. Otherwise a receiver could hold a batch back for as long as it says.
const ASKED_PAUSE_MAX: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    /// At the current batch.
    pub(super) batch: u32,
    /// At its items before that: in batches of which a part was accepted, and while the sink was paused. They are shown
    /// with a dead letter, and do not count towards its end, because the batch was another one.
    pub(super) earlier: u32,
}

impl Attempts {
    /// None yet.
    pub(super) const NONE: Self = Self {
        batch: 0,
        earlier: 0,
    };
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
/// become dead letters, the others become a new batch. Its attempts begin at one, because the sink has not refused this
/// batch yet.
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
    // The halves have one attempt each before they are halved again. Who rejects means all of it. Halving finds the
    // item that the sink cannot take, so that the others are not lost with it.
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

/// Schedules another attempt, without counting this one for the batch, because the sink is paused and the batch is
/// not the cause.
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
/// its bytes. It needs no item, so that a lost payload is seen by an operator all the same.
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
pub(crate) mod tests;
