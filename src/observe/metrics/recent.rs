//! The last hour, minute by minute, of all requests and of each connector: what the charts show.
//!
//! `ingest` notes every request here. What the process before counted is counted again from the request log, in the
//! background, by `daemon`; requests without a valid key, and how long answers took, are not in the log.
//!
//! **Invariant**: bounded: [`MINUTES`] numbers for each of at most [`CONNECTORS_MAX`] connectors, and as many counts of how
//! long all requests took.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::Unix;

/// How far back it goes.
const MINUTES: usize = 60;
/// Further connectors have no numbers of their own.
const CONNECTORS_MAX: usize = 1_000;
const MINUTE_SECONDS: u64 = 60;

/// What happened in one minute, or in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Minute {
    /// Requests, refused ones included.
    pub requests: u64,
    /// Requests that were refused.
    pub errors: u64,
    /// Of those, requests that could not be stored just then: their senders can do nothing but retry.
    pub unavailable: u64,
    /// Items accepted.
    pub items: u64,
    /// Requests of which it is known how long they took.
    pub timed: u64,
    /// Time from the head of those requests to their answers, summed up.
    pub took: Duration,
    /// The longest of these times.
    pub took_max: Duration,
}

impl std::iter::Sum for Minute {
    fn sum<I: Iterator<Item = Self>>(minutes: I) -> Self {
        minutes.fold(Self::default(), Self::and)
    }
}

impl Minute {
    /// Requests that were not refused.
    pub fn accepted(self) -> u64 {
        self.requests.saturating_sub(self.errors)
    }

    /// Requests that were refused for what they are.
    pub fn rejected(self) -> u64 {
        self.errors.saturating_sub(self.unavailable)
    }

    /// Requests that were accepted, or refused for what they are.
    pub fn answered(self) -> u64 {
        self.requests.saturating_sub(self.unavailable)
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            errors: self.errors + other.errors,
            unavailable: self.unavailable + other.unavailable,
            items: self.items + other.items,
            timed: self.timed + other.timed,
            took: self.took + other.took,
            took_max: self.took_max.max(other.took_max),
        }
    }
}

/// Classes of times: four to each doubling of a microsecond, up to a minute and more.
const CLASSES: usize = 4 * 27;

/// How many requests of a minute took how long.
#[derive(Debug, Clone)]
struct TookMinute {
    minute: u64,
    counts: [u32; CLASSES],
}

fn class_of(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(4);
    let doublings = micros.ilog2();
    let quarter = (micros >> (doublings - 2)) & 3;
    let class = (doublings as usize - 2) * 4 + usize::try_from(quarter).unwrap_or(0);
    class.min(CLASSES - 1)
}

/// The longest time of a class.
fn longest_of(class: usize) -> Duration {
    let (doublings, quarter) = (class / 4, class as u64 % 4);
    Duration::from_micros((5 + quarter) << doublings)
}

#[derive(Debug)]
struct Ring {
    /// The newest minute: minutes since 1970.
    newest: u64,
    minutes: [Minute; MINUTES],
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(State {
            all: Ring::new(),
            took: vec![None; MINUTES],
            connectors: HashMap::new(),
        }))
    }
}

impl Ring {
    const fn new() -> Self {
        Self {
            newest: 0,
            minutes: [Minute {
                requests: 0,
                errors: 0,
                unavailable: 0,
                items: 0,
                timed: 0,
                took: Duration::ZERO,
                took_max: Duration::ZERO,
            }; MINUTES],
        }
    }

    fn note(&mut self, minute: u64, request: Minute) {
        // Further back than it reaches: the clock was set back, and begins afresh.
        if minute + MINUTES as u64 <= self.newest {
            *self = Self::new();
        }
        if minute > self.newest {
            for passed in (self.newest + 1..=minute).rev().take(MINUTES) {
                self.minutes[slot(passed)] = Minute::default();
            }
            self.newest = minute;
        }
        let slot = &mut self.minutes[slot(minute)];
        *slot = slot.and(request);
    }

    /// Adds what is known of an earlier minute, unless it is further back than the ring reaches.
    fn restore(&mut self, minute: u64, requests: Minute) {
        if minute + MINUTES as u64 > self.newest {
            self.note(minute, requests);
        }
    }

    /// The hour that ends with `minute`, oldest first.
    fn hour(&self, minute: u64) -> Vec<Minute> {
        let first = minute.saturating_sub(MINUTES as u64 - 1);
        let known = self.newest.saturating_sub(MINUTES as u64 - 1)..=self.newest;
        (first..=minute)
            .map(|minute| match known.contains(&minute) {
                true => self.minutes[slot(minute)],
                false => Minute::default(),
            })
            .collect()
    }
}

fn slot(minute: u64) -> usize {
    usize::try_from(minute % MINUTES as u64).unwrap_or(0)
}

/// The last hour.
#[derive(Debug)]
pub struct Recent(Mutex<State>);

#[derive(Debug)]
struct State {
    all: Ring,
    /// By the slot of their minute; none: nothing was timed. A minute without requests takes no memory.
    took: Vec<Option<Box<TookMinute>>>,
    connectors: HashMap<Arc<str>, Ring>,
}

impl State {
    fn note_time(&mut self, minute: u64, took: Duration) {
        let slot = &mut self.took[slot(minute)];
        let counted = slot.get_or_insert_with(|| {
            Box::new(TookMinute {
                minute,
                counts: [0; CLASSES],
            })
        });
        if counted.minute != minute {
            counted.minute = minute;
            counted.counts = [0; CLASSES];
        }
        let count = &mut counted.counts[class_of(took)];
        *count = count.saturating_add(1);
    }
}

impl Recent {
    /// Notes one request of a connector, or of nobody that is known, at this time.
    pub fn note(&self, connector: Option<&Arc<str>>, now: Unix, request: Minute) {
        let minute = now.seconds() / MINUTE_SECONDS;
        let mut state = self.lock();
        state.all.note(minute, request);
        if request.timed == 1 {
            state.note_time(minute, request.took);
        }
        let Some(connector) = connector else { return };
        if let Some(ring) = state.connectors.get_mut(connector) {
            ring.note(minute, request);
        } else if state.connectors.len() < CONNECTORS_MAX {
            let ring = state.connectors.entry(Arc::clone(connector));
            ring.or_insert_with(Ring::new).note(minute, request);
        }
    }

    /// Notes what a connector's requests came to in a minute (since 1970) that may be past.
    pub fn restore(&self, connector: &str, minute: u64, requests: Minute) {
        let mut state = self.lock();
        state.all.restore(minute, requests);
        if let Some(ring) = state.connectors.get_mut(connector) {
            ring.restore(minute, requests);
        } else if state.connectors.len() < CONNECTORS_MAX {
            let ring = state.connectors.entry(connector.into());
            ring.or_insert_with(Ring::new).restore(minute, requests);
        }
    }

    /// The hour before this time, oldest minute first: of a connector, or of all requests.
    pub fn hour(&self, connector: Option<&str>, now: Unix) -> Vec<Minute> {
        let state = self.lock();
        let minute = now.seconds() / MINUTE_SECONDS;
        let ring = match connector {
            None => Some(&state.all),
            Some(connector) => state.connectors.get(connector),
        };
        match ring {
            Some(ring) => ring.hour(minute),
            None => vec![Minute::default(); MINUTES],
        }
    }

    /// The times that so many of a hundred requests of the hour before this time did not exceed, up to an eighth more. None
    /// where nothing was timed.
    pub fn percentiles<const N: usize>(
        &self,
        now: Unix,
        percents: [u64; N],
    ) -> Option<[Duration; N]> {
        let last = now.seconds() / MINUTE_SECONDS;
        let state = self.lock();
        let hour = state.took.iter().flatten();
        let hour = hour.filter(|one| one.minute <= last && one.minute + MINUTES as u64 > last);
        let mut counts = [0_u64; CLASSES];
        for minute in hour {
            for (sum, count) in counts.iter_mut().zip(&minute.counts) {
                *sum += u64::from(*count);
            }
        }
        let all: u64 = counts.iter().sum();
        (all > 0).then(|| {
            percents.map(|percent| {
                let wanted = (all * percent).div_ceil(100);
                let mut passed = 0;
                let found = counts.iter().position(|count| {
                    passed += count;
                    passed >= wanted
                });
                longest_of(found.unwrap_or(CLASSES - 1))
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
