//! Views of a stream: the items that match a filter, with the fields that it selects.
//!
//! Connections with the same filter share a [`View`]: it evaluates each change once for all of them. Each connection
//! has its own [`Inside`]: a client receives the removal of an item only if it received the item, or may have.
//!
//! **Invariant**: at each position a client holds exactly the matching items, whatever changes were skipped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base::order::ChangeSeq;
use pool::changes::Change;
use select::{ItemFilter, Record};

/// Evaluated changes that are kept for other connections, and their bytes. It is
/// bounded, because each change can be evaluated again.
const SEEN_MAX: usize = 4_096;
const SEEN_BYTES_MAX: usize = 1 << 20;
/// Maximum number of items that one client is known to hold. Beyond it, the client receives a removal for each item
/// that does not match, even one that it never had; that has no effect.
const INSIDE_MAX: usize = 8_192;

/// A filter of one stream, shared by all connections that use it.
#[derive(Debug)]
pub(super) struct View {
    stream: Arc<str>,
    pub(super) filter: ItemFilter,
    /// Results for the latest evaluated changes; `None`: the item does not match.
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    changes: BTreeMap<ChangeSeq, Option<Arc<Change>>>,
    bytes: usize,
}

impl View {
    /// The item keys, one of which an item must have, if only these can match.
    pub(super) fn keys(&self) -> Option<&[String]> {
        self.filter.keys()
    }

    /// Whether an item that matches always matches.
    pub(super) fn is_of_keys(&self) -> bool {
        self.filter.is_of_keys()
    }

    /// The update as the client receives it, if its item matches.
    pub(super) fn shown(&self, change: &Change) -> Option<Arc<Change>> {
        if let Some(seen) = self.lock().changes.get(&change.seq) {
            return seen.clone();
        }
        let record = Record {
            key: &change.key,
            stream: &self.stream,
            updated_at: change.updated_at(),
            fields: change.fields(),
            ..Record::default()
        };
        let fields = self.filter.shown(&record);
        let shown = fields.map(|fields| {
            let (seq, at) = (change.seq, change.updated_at());
            let overridden = pool::overridden_in(change.overridden(), &fields);
            Arc::new(Change::shown(seq, &change.key, &fields, &overridden, at))
        });
        self.lock().keep(change.seq, shown.clone());
        shown
    }

    /// Whether the removal of an item with this key can be relevant.
    fn passes_removal(&self, key: &str) -> bool {
        self.filter.passes_removal(key, &self.stream)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn keep(&mut self, seq: ChangeSeq, shown: Option<Arc<Change>>) {
        let bytes = |shown: &Option<Arc<Change>>| shown.as_ref().map_or(0, |one| one.json.len());
        self.bytes += bytes(&shown);
        if let Some(before) = self.changes.insert(seq, shown) {
            self.bytes -= bytes(&before);
        }
        while self.changes.len() > SEEN_MAX || self.bytes > SEEN_BYTES_MAX {
            let Some((_, oldest)) = self.changes.pop_first() else {
                return;
            };
            self.bytes -= bytes(&oldest);
        }
    }
}

/// Filters that are in use, by stream and canonical text. It holds them weakly, so that a filter goes with its last
/// connection.
#[derive(Debug, Default)]
pub(super) struct Views(HashMap<(Arc<str>, String), Weak<View>>);

impl Views {
    /// The view of a stream through a filter; `None`: all items and fields.
    pub(super) fn of(&mut self, stream: &Arc<str>, filter: &ItemFilter) -> Option<Arc<View>> {
        if filter.is_empty() {
            return None;
        }
        let key = (Arc::clone(stream), filter.canonical());
        if let Some(view) = self.0.get(&key).and_then(Weak::upgrade) {
            return Some(view);
        }
        self.0.retain(|_, view| view.strong_count() > 0);
        let view = Arc::new(View {
            stream: Arc::clone(stream),
            filter: filter.clone(),
            seen: Mutex::default(),
        });
        self.0.insert(key, Arc::downgrade(&view));
        Some(view)
    }
}

/// The items that a client may hold, by the hashes of their keys.
#[derive(Debug)]
pub(super) struct Inside {
    /// `None`: too many to track. The client may hold any item then. Hashes take less memory than keys; two that are
    /// equal cost a removal without effect.
    keys: Option<HashSet<u64>>,
    /// Senders choose item keys, so the hash uses a random seed.
    hasher: RandomState,
    /// Whether the keys of items that the client never had must stay hidden. Then all keys are kept, however many,
    /// because a removal would reveal a key.
    is_exact: bool,
}

impl Inside {
    pub(super) fn new(is_exact: bool) -> Self {
        Self {
            keys: Some(HashSet::new()),
            hasher: RandomState::new(),
            is_exact,
        }
    }

    /// Records that the client may hold the item.
    pub(super) fn add(&mut self, key: &str) {
        let Some(keys) = &mut self.keys else { return };
        keys.insert(self.hasher.hash_one(key));
        if keys.len() > INSIDE_MAX && !self.is_exact {
            self.keys = None;
        }
    }

    /// Whether the client may have held it.
    fn leave(&mut self, change: &Change) -> bool {
        let Some(keys) = &mut self.keys else {
            return true;
        };
        keys.remove(&self.hasher.hash_one(&change.key))
    }
}

/// Returns what a client receives for a change; `None` if it is not relevant. Without `inside`, the key alone decides.
pub(super) fn as_sent(
    view: &View,
    inside: Option<&mut Inside>,
    change: &Arc<Change>,
) -> Option<Arc<Change>> {
    if !view.passes_removal(&change.key) {
        return None;
    }
    if !change.removed
        && let Some(shown) = view.shown(change)
    {
        if let Some(inside) = inside {
            inside.add(&change.key);
        }
        return Some(shown);
    }
    let Some(inside) = inside else {
        return change.removed.then(|| Arc::clone(change));
    };
    inside.leave(change).then(|| match change.removed {
        true => Arc::clone(change),
        false => Arc::new(Change::removed(change.seq, &change.key)),
    })
}

#[cfg(test)]
mod tests;
