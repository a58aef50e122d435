//! The span from the commit of an item to the first renderer that has it.
//!
//! `delivery` says what is about to be committed, `live` what a connection took. A renderer may have a change before
//! the lane that committed it goes on, so what was taken meanwhile is noted.
//!
//! **Invariant**: memory is bounded; spans that no renderer receives are evicted by newer ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Open;
use base::order::ChangeSeq;

/// Spans that wait for a renderer.
const WAITING_MAX: usize = 1_024;

/// Those of one commit.
#[derive(Debug, Default)]
pub struct Push {
    ids: std::ops::Range<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Pushes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    stream: Arc<str>,
    open: Open,
    /// The change that a renderer must have; none: it is not committed yet.
    through: Option<ChangeSeq>,
    /// What the first one had meanwhile, and when.
    taken: Option<(ChangeSeq, Instant)>,
}

impl Pushes {
    pub(super) fn expect(&self, of: Vec<(Arc<str>, Open)>) -> Push {
        let mut state = self.lock();
        let first = state.next_id;
        for (stream, open) in of {
            if state.waiting.len() == WAITING_MAX {
                state.waiting.pop_front();
            }
            let id = state.next_id;
            state.next_id += 1;
            state.waiting.push_back(Waiting {
                id,
                stream,
                open,
                through: None,
                taken: None,
            });
        }
        Push {
            ids: first..state.next_id,
        }
    }

    /// Those that are over already, and when that was.
    pub(super) fn committed(
        &self,
        push: &Push,
        newest: impl Fn(&str) -> Option<ChangeSeq>,
    ) -> Vec<(Open, Instant)> {
        let mut over = Vec::new();
        if push.ids.is_empty() {
            return over;
        }
        self.lock().waiting.retain_mut(|waiting| {
            if !push.ids.contains(&waiting.id) {
                return true;
            }
            // Nobody follows the stream.
            let Some(through) = newest(&waiting.stream) else {
                return false;
            };
            waiting.through = Some(through);
            let taken = waiting.taken.filter(|(taken, _)| *taken >= through);
            over.extend(taken.map(|(_, at)| (waiting.open.clone(), at)));
            taken.is_none()
        });
        over
    }

    /// Those that are over with this.
    pub(super) fn pushed(&self, stream: &str, through: ChangeSeq, now: Instant) -> Vec<Open> {
        let mut over = Vec::new();
        self.lock().waiting.retain_mut(|waiting| {
            if *waiting.stream != *stream {
                return true;
            }
            match waiting.through {
                Some(wanted) if through >= wanted => {
                    over.push(waiting.open.clone());
                    return false;
                }
                Some(_) => {}
                None => {
                    let is_more = |(taken, _)| through > taken;
                    if waiting.taken.is_none_or(is_more) {
                        waiting.taken = Some((through, now));
                    }
                }
            }
            true
        });
        over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
