//! The tickets of a daemon alone, in memory.
//!
//! **Invariant**: there are at most [`TICKETS_MAX`] of them, and at most `TICKETS_OF_KEY_MAX` of a key.

use std::collections::{HashMap, VecDeque};

use super::{Grant, TICKETS_MAX, TICKETS_OF_KEY_MAX};
use base::clock::Lived;
use catalog::KeyHash;

/// Issued tickets that were not used.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Each with its expiry.
    grants: HashMap<KeyHash, (Lived, Grant)>,
    /// In the order of their expiry, which is the order of their issue. Some are used. A used ticket stays in it until
    /// its time is over, because a search for it would cost more.
    order: Queue,
    /// The tickets of each read key, by its name.
    keys: HashMap<Box<str>, Queue>,
}

type Queue = VecDeque<(Lived, KeyHash)>;

impl Given {
    /// Adds a ticket. The oldest make place, so that a client that never redeems its tickets blocks nobody.
    pub(super) fn put(&mut self, ticket: KeyHash, ends_at: Lived, now: Lived, grant: Grant) {
        let Self {
            grants,
            order,
            keys,
        } = self;
        let key = grant.reader.name.clone();
        let own = keys.entry(key).or_default();
        for (queue, max) in [(&mut *own, TICKETS_OF_KEY_MAX), (&mut *order, TICKETS_MAX)] {
            while let Some((ends_at, first)) = queue.front()
                && (queue.len() >= max || *ends_at <= now)
            {
                grants.remove(first);
                queue.pop_front();
            }
            queue.push_back((ends_at, ticket));
        }
        grants.insert(ticket, (ends_at, grant));
        // Nothing is kept of keys that no longer exist.
        if keys.len() > order.len() {
            keys.retain(|_, queue| queue.back().is_some_and(|(ends_at, _)| *ends_at > now));
        }
    }

    /// Removes a ticket, and returns it unless its time is over.
    pub(super) fn take(&mut self, ticket: KeyHash, now: Lived) -> Option<Grant> {
        let (ends_at, grant) = self.grants.remove(&ticket)?;
        (now < ends_at).then_some(grant)
    }
}
