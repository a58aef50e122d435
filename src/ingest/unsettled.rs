//! What was accepted for a stream with a quota and is not settled yet: it counts as if it were in the data pool.
//!
//! `quota_check` asks before a request is stored, and says what became of it.
//!
//! **Invariant**: a request counts before it is decided whether there is room for it, and only those before it count then: of
//! several at once no more are let through than one after the other. What is let through counts until every sink that
//! writes the stream in the pool has it behind it. A stream without a quota is not here.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::order::Seq;
use item::{Action, ItemRef, Items};

/// How far the sinks have come that write a stream in the data pool: the lowest of their cursors; none: there is none.
pub type SettledThrough = Box<dyn Fn(&str) -> Option<Seq> + Send + Sync>;

/// Requests of a stream whose items are held; of older ones only the keys are.
const HELD_MAX: usize = 4_096;
const HELD_BYTES_MAX: u64 = 8 << 20;
/// Operations of which the keys are held together, about, because a key that comes often is held once among them.
const TOGETHER: usize = 1_024;

/// What is not settled yet, by stream.
#[derive(Debug, Default)]
pub(super) struct Unsettled(Mutex<HashMap<Arc<str>, Arc<OfStream>>>);

/// What is not settled of one stream.
#[derive(Debug, Default)]
pub(super) struct OfStream(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// What is stored and behind no request that is held: of before the start, of other nodes, and of older requests.
    stored: VecDeque<Stored>,
    /// What came here since, in its order.
    requests: VecDeque<Request>,
    /// What all of these have, each key as often as it comes.
    sum: Sum,
    next_id: u64,
    settled_through: Seq,
}

/// What some requests leave, all of them together.
#[derive(Debug, Default)]
struct Stored {
    /// The bytes of the newest fields of each key; none: it is removed.
    left: HashMap<Box<str>, Option<usize>>,
    sum: Sum,
    operations: usize,
    /// No number above this one is theirs.
    through: Seq,
}

#[derive(Debug)]
struct Request {
    id: u64,
    /// No number above this one is its own; none: it is not stored yet.
    through: Option<Seq>,
    items: Items,
    sum: Sum,
}

/// Items, and the bytes of their keys and fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

/// The place that a request has until it is settled. Whoever goes away before it is known whether the request was stored
/// leaves it counted for a while.
#[derive(Debug)]
pub(super) struct Reserved {
    stream: Arc<OfStream>,
    id: u64,
    /// A caller may be gone before the journal has answered, and its entry may be stored.
    through_if_unknown: Seq,
}

/// The keys that operations leave, with the bytes of their fields: of operations on one key the last one decides.
pub(super) fn left_by<'a, K>(items: impl Iterator<Item = ItemRef<'a>>) -> HashMap<K, usize>
where
    K: From<&'a str> + Borrow<str> + Eq + Hash,
{
    let mut left = HashMap::new();
    apply(items, &mut left);
    left
}

/// The same behind what others left.
fn apply<'a, K>(items: impl Iterator<Item = ItemRef<'a>>, left: &mut HashMap<K, usize>)
where
    K: From<&'a str> + Borrow<str> + Eq + Hash,
{
    for item in items {
        match item.action {
            Action::Upsert => left.insert(item.key.into(), item.fields.len()),
            Action::Remove => left.remove(item.key),
        };
    }
}

/// More requests than wait for the journal at once, so an entry that was stored for a caller who has gone has a
/// number below it.
const WAITING_MAX: u64 = 1 << 16;

impl Unsettled {
    pub(super) fn of(&self, stream: &Arc<str>) -> Arc<OfStream> {
        let mut streams = self.lock();
        match streams.get(stream) {
            Some(found) => Arc::clone(found),
            None => Arc::clone(streams.entry(Arc::clone(stream)).or_default()),
        }
    }

    pub(super) fn streams(&self) -> Vec<(Arc<str>, Arc<OfStream>)> {
        let streams = self.lock();
        let all = streams.iter();
        all.map(|(name, stream)| (Arc::clone(name), Arc::clone(stream)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<OfStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfStream {
    /// Forgets what is settled.
    pub(super) fn settle(&self, through: Seq) {
        let mut held = self.held();
        if held.settled_through == through {
            return;
        }
        held.settled_through = through;
        held.stored.retain(|stored| stored.through > through);
        held.keep(|request| request.through.is_none_or(|own| own > through));
    }

    /// An entry of the journal counts until it is settled, whichever node accepted it.
    pub(super) fn count(&self, items: &Items, seq: Seq) {
        let mut held = self.held();
        if seq > held.settled_through {
            held.store(items, seq);
        }
    }

    /// Everything up to this number was [counted](Self::count): what came here counts no longer as a request.
    pub(super) fn counted(&self, through: Seq) {
        self.held()
            .keep(|request| request.through.is_none_or(|own| own > through));
    }

    /// From now on these items count. `newest` is the number of the newest accepted entry. It counts before the check,
    /// otherwise several requests at once would all pass it.
    pub(super) fn reserve(self: Arc<Self>, items: &Items, newest: Seq) -> Reserved {
        let mut held = self.held();
        let bytes: usize = items
            .iter()
            .map(|item| item.key.len() + item.fields.len())
            .sum();
        let sum = Sum {
            items: items.len() as u64,
            bytes: bytes as u64,
        };
        let id = held.next_id;
        held.next_id += 1;
        held.sum.items += sum.items;
        held.sum.bytes += sum.bytes;
        held.requests.push_back(Request {
            id,
            through: None,
            // They are shared, not copied.
            items: items.clone(),
            sum,
        });
        drop(held);
        Reserved {
            stream: self,
            id,
            through_if_unknown: newest + WAITING_MAX,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn keep(&mut self, wanted: impl Fn(&Request) -> bool) {
        let sum = &mut self.sum;
        self.requests.retain(|request| {
            let keeps = wanted(request);
            if !keeps {
                sum.items -= request.sum.items;
                sum.bytes -= request.sum.bytes;
            }
            keeps
        });
    }

    fn store(&mut self, items: &Items, through: Seq) {
        match self.stored.back_mut() {
            Some(last) if last.operations < TOGETHER => last.add(items, through),
            _ => {
                let mut stored = Stored::default();
                stored.add(items, through);
                self.stored.push_back(stored);
            }
        }
    }

    /// Holds no more than the keys of the oldest requests: a sink may be behind for days.
    fn shorten(&mut self) {
        while self.requests.len() > HELD_MAX || self.sum.bytes > HELD_BYTES_MAX {
            let oldest = self.requests.iter().position(|one| one.through.is_some());
            let Some(oldest) = oldest.and_then(|place| self.requests.remove(place)) else {
                return;
            };
            self.sum.items -= oldest.sum.items;
            self.sum.bytes -= oldest.sum.bytes;
            self.store(&oldest.items, oldest.through.unwrap_or_default());
        }
    }
}

impl Stored {
    fn add(&mut self, items: &Items, through: Seq) {
        for item in items.iter() {
            let bytes = |fields: usize| (item.key.len() + fields) as u64;
            let after = match item.action {
                Action::Upsert => Some(item.fields.len()),
                Action::Remove => None,
            };
            let before = self.left.insert(item.key.into(), after).flatten();
            if let Some(fields) = before {
                self.sum.items -= 1;
                self.sum.bytes -= bytes(fields);
            }
            if let Some(fields) = after {
                self.sum.items += 1;
                self.sum.bytes += bytes(fields);
            }
        }
        self.operations += items.len();
        self.through = self.through.max(through);
    }
}

impl Reserved {
    /// The others are at most so much. A sum and not the keys, because that is enough far from the limit.
    pub(super) fn others_at_most(&self) -> Sum {
        let held = self.stream.held();
        let own = held.requests.iter().find(|own| own.id == self.id);
        let own = own.map_or_else(Sum::default, |own| own.sum);
        let mut others = Sum {
            items: held.sum.items - own.items,
            bytes: held.sum.bytes - own.bytes,
        };
        for stored in &held.stored {
            others.items += stored.sum.items;
            others.bytes += stored.sum.bytes;
        }
        others
    }

    /// The keys of those before it, with the bytes of the newest fields of each.
    pub(super) fn before(&self) -> HashMap<Box<str>, usize> {
        let held = self.stream.held();
        let before = held.requests.iter().filter(|other| other.id < self.id);
        let mut left = HashMap::new();
        for (key, fields) in held.stored.iter().flat_map(|stored| &stored.left) {
            match fields {
                Some(fields) => left.insert(key.clone(), *fields),
                None => left.remove(key),
            };
        }
        apply(before.flat_map(|request| request.items.iter()), &mut left);
        left
    }

    /// The request is stored, under no number above `through`; none: nothing of it is.
    pub(super) fn end(mut self, through: Option<Seq>) {
        match through {
            Some(through) => self.through_if_unknown = through,
            None => {
                let id = self.id;
                self.stream.held().keep(|request| request.id != id);
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut held = self.stream.held();
        if let Some(own) = held.requests.iter_mut().find(|own| own.id == self.id) {
            own.through = Some(self.through_if_unknown);
        }
        held.shorten();
    }
}

#[cfg(test)]
mod tests;
