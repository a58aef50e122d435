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
mod tests {
    use super::super::{SpanKind, Trace};
    use super::*;

    fn open() -> (Arc<str>, Open) {
        let trace = Trace {
            id: [1; 16],
            root: [2; 8],
            caller: None,
            state: None,
            began: Instant::now(),
            began_unix_ns: 0,
        };
        ("orders".into(), trace.open("push", SpanKind::Producer))
    }

    #[test]
    fn a_push_is_over_when_a_renderer_has_the_last_change_of_its_commit() {
        let (pushes, now) = (Pushes::default(), Instant::now());
        let push = pushes.expect(vec![open()]);
        assert!(
            pushes
                .committed(&push, |_| Some(ChangeSeq::new(7)))
                .is_empty()
        );
        assert!(pushes.pushed("orders", ChangeSeq::new(6), now).is_empty());
        assert!(pushes.pushed("other", ChangeSeq::new(9), now).is_empty());
        assert_eq!(pushes.pushed("orders", ChangeSeq::new(7), now).len(), 1);
        assert!(pushes.pushed("orders", ChangeSeq::new(8), now).is_empty());
    }

    #[test]
    fn a_renderer_may_be_faster_than_the_lane() {
        let (pushes, now) = (Pushes::default(), Instant::now());
        let push = pushes.expect(vec![open(), open()]);
        assert!(pushes.pushed("orders", ChangeSeq::new(7), now).is_empty());
        assert_eq!(
            pushes.committed(&push, |_| Some(ChangeSeq::new(7))).len(),
            2
        );
        let push = pushes.expect(vec![open()]);
        assert!(pushes.pushed("orders", ChangeSeq::new(8), now).is_empty());
        assert!(
            pushes
                .committed(&push, |_| Some(ChangeSeq::new(9)))
                .is_empty()
        );
        assert_eq!(pushes.pushed("orders", ChangeSeq::new(9), now).len(), 1);
    }

    #[test]
    fn what_nobody_follows_is_forgotten_and_the_rest_is_bounded() {
        let pushes = Pushes::default();
        let push = pushes.expect(vec![open()]);
        assert!(pushes.committed(&push, |_| None).is_empty());
        assert!(pushes.lock().waiting.is_empty());
        for _ in 0..WAITING_MAX + 5 {
            pushes.expect(vec![open()]);
        }
        assert_eq!(pushes.lock().waiting.len(), WAITING_MAX);
    }
}
