//! The retries of a lane in memory: which keys wait in them, and which retry is next.
//!
//! The lane fills it from the pool when it opens, and changes it with every settlement.
//!
//! **Invariant**: of all retries with a key, only the one that was accepted first is handed out with that key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use base::clock::Lived;
use base::order::{ItemPosition, Seq};
use item::batch::{BatchOrigin, Slice};
use pool::{Part, Retry};
use settings::Batch as BatchSettings;

/// Maximum parts of one retry: each adds a few bytes, and the retry is stored as a whole.
const PARTS_MAX: usize = 512;
/// Maximum keys in retries that were not tried yet; beyond it, the lane reads no new entries. A key counts once per
/// retry, so 512 times as many operations can wait.
const BEHIND_MAX: usize = 100_000;

/// The position of an operation in the order of acceptance.
type Operation = (Seq, ItemPosition);

/// Before all operations from the journal. A page of a fill is there, because the pool had it before anything that
/// waits in the journal.
const OLDEST: Operation = (Seq::MIN, ItemPosition::MIN);

/// The place of a retry, as a whole or for one of its keys: the first operation, and the id of the retry. The ID is a
/// part of it, because two retries may begin with the same operation.
///
/// A retry has its own place for each of its keys. If it is split, the places of its keys stay, while the first
/// operation of the whole would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    first: Operation,
    id: i64,
}

/// Contents of a retry.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Hashes of stream and key, each once with its first operation, in order. Hashes and not keys, because a lane may
    /// hold 100,000 of them.
    keys: Vec<(u64, Operation)>,
    items: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Row {
    due_at: Lived,
    contents: Contents,
    parts: usize,
    /// The number of its keys that wait in earlier retries.
    blocked: usize,
    /// Not tried yet: it waits behind others.
    is_behind: bool,
}

impl Row {
    /// Whether some of it can be tried. A retry that cannot be read has no keys.
    fn is_ready(&self) -> bool {
        self.blocked < self.contents.keys.len() || self.contents.keys.is_empty()
    }
}

/// The retries of one lane.
#[derive(Debug, Default)]
pub(super) struct RetryQueue {
    rows: BTreeMap<Place, Row>,
    places: HashMap<i64, Place>,
    /// The retries with each key, at their places for this key.
    chains: HashMap<u64, BTreeSet<Place>>,
    /// The retries that can be tried, by the time when they are due. In order of time, so that the next one is found
    /// without a scan.
    ready: BTreeSet<(Lived, Place)>,
    /// Keys in retries that wait behind others.
    behind: usize,
    /// Requests in all retries.
    parts: usize,
    /// Senders choose keys, so the seed is random; two that are equal only wait for each other.
    hasher: RandomState,
}

impl RetryQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a retry waits that was not tried yet.
    pub(super) fn has_behind(&self) -> bool {
        self.behind > 0
    }

    /// Whether too many keys wait behind others, so that no new entries are read.
    pub(super) fn is_full(&self) -> bool {
        self.behind >= BEHIND_MAX
    }

    /// Whether exactly one retry can be tried.
    pub(super) fn is_alone(&self) -> bool {
        self.ready.len() == 1
    }

    /// The number of requests in retries, counted once per retry; at least 1 if there is a retry.
    pub(super) fn requests(&self) -> usize {
        self.parts.max(self.rows.len())
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.places.keys().copied()
    }

    /// The next retry, and when it is due.
    pub(super) fn next(&self) -> Option<(i64, Lived)> {
        self.ready
            .first()
            .map(|(due_at, place)| (place.id, *due_at))
    }

    /// The retry that was accepted first, and when it is due.
    pub(super) fn first(&self) -> Option<(i64, Lived)> {
        let (place, row) = self.rows.first_key_value()?;
        Some((place.id, row.due_at))
    }

    /// The contents of a retry with these slices.
    pub(super) fn contents(&self, slices: &[Slice]) -> Contents {
        let mut contents = Contents::default();
        for slice in slices {
            for (position, item) in slice.items() {
                let key = self.hash(&slice.entry.stream, item.key);
                contents.keys.push((key, (slice.entry.seq, position)));
                contents.items += 1;
                contents.bytes += item.key.len() + item.fields.len();
            }
        }
        contents.keys.sort_unstable();
        contents.keys.dedup_by_key(|(key, _)| *key);
        contents
    }

    /// Splits new slices: those that can be handed out, and those behind a retry with the same key.
    pub(super) fn split_new(&self, slices: Vec<Slice>) -> (Vec<Slice>, Vec<Slice>) {
        if self.chains.is_empty() {
            return (slices, Vec::new());
        }
        split(&slices, |stream, key| {
            self.chains.contains_key(&self.hash(stream, key))
        })
    }

    /// Splits the slices of a retry whose keys may wait in an earlier one; `None`: none of them does.
    pub(super) fn split_retry(
        &self,
        id: i64,
        slices: &[Slice],
    ) -> Option<(Vec<Slice>, Vec<Slice>)> {
        let place = self.places.get(&id)?;
        if self.rows.get(place)?.blocked == 0 {
            return None;
        }
        Some(split(slices, |stream, key| {
            let chain = self.chains.get(&self.hash(stream, key));
            (chain.and_then(BTreeSet::first)).is_some_and(|first| first.id != id)
        }))
    }

    /// The retry to which new waiting slices can be added. It is the last one, if it was not tried, has capacity, and
    /// no other retry has one of its keys between its operations and the new ones. Thousands of operations of a hot key
    /// would be as many retries otherwise.
    pub(super) fn joined(
        &self,
        more: &Contents,
        parts: usize,
        limits: &BatchSettings,
    ) -> Option<i64> {
        let (place, row) = self.rows.last_key_value()?;
        let own = &row.contents;
        let fits = row.is_behind
            && row.parts + parts <= PARTS_MAX
            && own.items + more.items <= limits.items_max
            && own.bytes + more.bytes <= limits.bytes_max;
        let follows = |(key, _): &(u64, Operation)| {
            self.chains.get(key).is_none_or(|chain| {
                let is_last = chain.last().is_some_and(|last| last.id == place.id);
                is_last || chain.iter().all(|one| one.id != place.id)
            })
        };
        (fits && more.keys.iter().all(follows)).then_some(place.id)
    }

    /// Adds a stored retry, or new parts of one, under its id.
    pub(super) fn add(&mut self, id: i64, retry: &Retry, contents: Contents) {
        if let Some(place) = self.places.get(&id).copied() {
            return self.extend(place, retry.parts.len(), contents);
        }
        // A page of a filling is older than all that comes from the journal.
        let is_fill = retry.origin == BatchOrigin::Fill;
        let first = match retry.parts.first() {
            _ if is_fill => OLDEST,
            Some(Part(seq, start, ..)) => (*seq, *start),
            None => (retry.seqs.0, ItemPosition::MIN),
        };
        let mut contents = contents;
        for (_, at) in contents.keys.iter_mut().filter(|_| is_fill) {
            *at = OLDEST;
        }
        let place = Place { first, id };
        let row = Row {
            due_at: retry.due_at,
            contents: Contents::default(),
            parts: 0,
            blocked: 0,
            is_behind: retry.attempts == 0 && retry.origin == BatchOrigin::Journal,
        };
        self.ready.insert((row.due_at, place));
        self.rows.insert(place, row);
        self.places.insert(id, place);
        self.extend(place, retry.parts.len(), contents);
    }

    fn extend(&mut self, place: Place, parts: usize, contents: Contents) {
        let Some(mut row) = self.rows.remove(&place) else {
            return;
        };
        row.parts += parts;
        self.parts += parts;
        row.contents.items += contents.items;
        row.contents.bytes += contents.bytes;
        for (key, first) in contents.keys {
            let chain = self.chains.entry(key).or_default();
            if chain.last().is_some_and(|last| last.id == place.id) {
                continue;
            }
            let own = Place { first, ..place };
            let before = chain.first().copied();
            chain.insert(own);
            row.contents.keys.push((key, first));
            match before {
                Some(before) if before < own => row.blocked += 1,
                Some(before) => self.block(before.id),
                None => {}
            }
            self.behind += usize::from(row.is_behind);
        }
        self.rows.insert(place, row);
        self.sort(place);
    }

    /// Removes a finished retry.
    pub(super) fn remove(&mut self, id: i64) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        let Some(row) = self.rows.remove(&place) else {
            return;
        };
        self.ready.remove(&(row.due_at, place));
        self.parts -= row.parts;
        if row.is_behind {
            self.behind -= row.contents.keys.len();
        }
        for (key, first) in row.contents.keys {
            let Some(chain) = self.chains.get_mut(&key) else {
                continue;
            };
            let own = Place { first, id };
            let was_first = chain.first() == Some(&own);
            chain.remove(&own);
            match chain.first().copied() {
                None => {
                    self.chains.remove(&key);
                }
                Some(next) if was_first => self.unblock(next.id),
                Some(_) => {}
            }
        }
    }

    /// Sets when a retry is due. `false`: it is unknown, or has other contents by now.
    pub(super) fn update_due(&mut self, retry: &Retry) -> bool {
        let Some(place) = self.places.get(&retry.id).copied() else {
            return false;
        };
        let Some(row) = self.rows.get_mut(&place) else {
            return false;
        };
        if row.parts != retry.parts.len() {
            return false;
        }
        self.ready.remove(&(row.due_at, place));
        row.due_at = retry.due_at;
        self.sort(place);
        true
    }

    /// Counts one more key of this retry that waits in an earlier one.
    fn block(&mut self, id: i64) {
        self.change_blocked(id, |blocked| blocked + 1);
    }

    /// Counts one key less of this retry that waits in an earlier one.
    fn unblock(&mut self, id: i64) {
        self.change_blocked(id, |blocked| blocked - 1);
    }

    fn change_blocked(&mut self, id: i64, to: impl FnOnce(usize) -> usize) {
        let Some(place) = self.places.get(&id).copied() else {
            return;
        };
        if let Some(row) = self.rows.get_mut(&place) {
            row.blocked = to(row.blocked);
        }
        self.sort(place);
    }

    /// Adds a retry to those that can be tried, or removes it.
    fn sort(&mut self, place: Place) {
        if let Some(row) = self.rows.get(&place) {
            match row.is_ready() {
                true => self.ready.insert((row.due_at, place)),
                false => self.ready.remove(&(row.due_at, place)),
            };
        }
    }

    fn hash(&self, stream: &str, key: &str) -> u64 {
        self.hasher.hash_one((stream, key))
    }
}

/// The items for which `waits` is false, and the others, each in order.
fn split(slices: &[Slice], waits: impl Fn(&str, &str) -> bool) -> (Vec<Slice>, Vec<Slice>) {
    let (mut free, mut waiting): (Vec<Slice>, Vec<Slice>) = (Vec::new(), Vec::new());
    for slice in slices {
        for (index, (_, item)) in (slice.start..slice.end).zip(slice.items()) {
            let side = match waits(&slice.entry.stream, item.key) {
                true => &mut waiting,
                false => &mut free,
            };
            Slice::add(side, slice, index);
        }
    }
    (free, waiting)
}

#[cfg(test)]
mod tests;
