//! What one connection was answered, and what may therefore be in the files.
//!
//! The producer writes it, the judge reads it. An item that is written again and again is known by the states that it
//! may be in: a request that was answered leads from each of them to the next, one that was not may have happened or not.
//!
//! **Invariant**: whatever is not possible by the answers alone is a fault of the daemon.

use std::collections::{BTreeMap, HashMap};

/// The fields of an item that are numbers; the others say nothing.
pub(super) type Fields = BTreeMap<String, u64>;

/// What a request asks for.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// An item gets these fields; in a stream that merges it keeps the others.
    Put {
        stream: &'static str,
        key: String,
        fields: Fields,
        merges: bool,
    },
    /// An item is removed.
    Remove { stream: &'static str, key: String },
    /// Items that nobody else writes.
    Once {
        stream: &'static str,
        keys: Vec<String>,
    },
    /// An item that nobody else writes, by an idempotency key.
    Claim {
        stream: &'static str,
        name: String,
        key: String,
    },
    /// Items that are known by their position only.
    Positions,
}

/// An answer that promises something.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    /// The moment at which it was known, as [`Preload::records`](super::preload::Preload::records) counts.
    pub(super) at: u64,
    /// The request that was accepted. A removal has none where it is done at once.
    pub(super) request_id: Option<String>,
    pub(super) replayed: bool,
}

/// A request and its answer.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) op: Op,
    /// The moment before it was sent.
    pub(super) sent_at: u64,
    pub(super) promise: Option<Promise>,
}

/// Whether a request happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    Surely,
    Perhaps,
    Never,
}

impl Event {
    /// By its answer.
    pub(super) fn happened(&self) -> Happened {
        match self.promise {
            Some(_) => Happened::Surely,
            None => Happened::Perhaps,
        }
    }
}

/// An item that was written once and acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) stream: &'static str,
    pub(super) key: String,
    pub(super) request_id: String,
}

/// An idempotency key and the request ids of all answers to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim {
    pub(super) stream: &'static str,
    pub(super) key: String,
    pub(super) request_ids: Vec<String>,
}

/// Everything that one connection knows.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Items that are written again and again: the states that each may be in.
    pub(super) states: HashMap<(&'static str, String), Vec<Option<Fields>>>,
    pub(super) written: Vec<Written>,
    pub(super) claims: HashMap<String, Claim>,
    /// Requests that were accepted and are no repeats.
    pub(super) accepted: Vec<String>,
}

/// How much of a [`Book`] was looked at.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mark {
    pub(super) written: usize,
    pub(super) accepted: usize,
}

impl Book {
    /// From the events that happened.
    pub(super) fn of<'a>(
        events: impl IntoIterator<Item = &'a Event>,
        happened: impl Fn(&Event) -> Happened,
    ) -> Self {
        let mut book = Self::default();
        for event in events {
            book.note(event, happened(event));
        }
        book
    }

    /// Everything so far.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            written: self.written.len(),
            accepted: self.accepted.len(),
        }
    }

    /// Adds an event, which is later than all others.
    pub(super) fn note(&mut self, event: &Event, happened: Happened) {
        if happened == Happened::Never {
            return;
        }
        let promise = match happened {
            Happened::Surely => event.promise.as_ref(),
            _ => None,
        };
        let request_id = promise.and_then(|promise| promise.request_id.clone());
        match &event.op {
            Op::Put {
                stream,
                key,
                fields,
                merges,
            } => self.change(stream, key, happened, |state| {
                let mut after = state.clone().filter(|_| *merges).unwrap_or_default();
                after.extend(fields.clone());
                Some(after)
            }),
            Op::Remove { stream, key } => self.change(stream, key, happened, |_| None),
            Op::Once { stream, keys } => {
                if let Some(request_id) = &request_id {
                    self.written.extend(keys.iter().map(|key| Written {
                        stream,
                        key: key.clone(),
                        request_id: request_id.clone(),
                    }));
                }
            }
            Op::Claim { stream, name, key } => {
                let claim = self.claims.entry(name.clone()).or_default();
                claim.stream = stream;
                claim.key.clone_from(key);
                if let Some(request_id) = &request_id {
                    claim.request_ids.push(request_id.clone());
                    self.written.push(Written {
                        stream,
                        key: key.clone(),
                        request_id: request_id.clone(),
                    });
                }
            }
            Op::Positions => {}
        }
        let is_new = promise.is_some_and(|promise| !promise.replayed);
        // How the log holds a removal is its own affair.
        if let Some(request_id) = request_id
            && is_new
            && !matches!(event.op, Op::Remove { .. })
        {
            self.accepted.push(request_id);
        }
    }

    fn change(
        &mut self,
        stream: &'static str,
        key: &str,
        happened: Happened,
        step: impl Fn(&Option<Fields>) -> Option<Fields>,
    ) {
        let states = self.states.entry((stream, key.to_owned()));
        let states = states.or_insert_with(|| vec![None]);
        let mut after: Vec<_> = states.iter().map(step).collect();
        if happened == Happened::Perhaps {
            after.append(states);
        }
        after.sort();
        after.dedup();
        *states = after;
    }

    /// Idempotency keys that were never answered.
    pub(super) fn unanswered(&self) -> Vec<String> {
        let claims = self.claims.iter();
        let unanswered = claims.filter(|(_, claim)| claim.request_ids.is_empty());
        unanswered.map(|(name, _)| name.clone()).collect()
    }
}

#[test]
fn an_item_may_be_in_each_state_that_the_answers_allow_and_in_no_other() {
    let put = |n: u64| Op::Put {
        stream: "s",
        key: "k".to_owned(),
        fields: Fields::from([(format!("f{n}"), n)]),
        merges: true,
    };
    let event = |op: Op, promised: bool| Event {
        op,
        sent_at: 0,
        promise: promised.then(|| Promise {
            at: 0,
            request_id: Some("id".to_owned()),
            replayed: false,
        }),
    };
    let removal = Op::Remove {
        stream: "s",
        key: "k".to_owned(),
    };
    let events = [
        event(put(1), true),
        event(removal, false),
        event(put(2), true),
    ];
    let book = Book::of(&events, Event::happened);
    let fields = |numbers: &[u64]| {
        let fields = numbers.iter().map(|n| (format!("f{n}"), *n));
        Some(fields.collect::<Fields>())
    };
    let states = &book.states[&("s", "k".to_owned())];
    assert_eq!(states, &[fields(&[1, 2]), fields(&[2])]);
    assert_eq!(book.accepted.len(), 2);
}
