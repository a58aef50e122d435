//! What lookups read: everything that exists at one moment.
//!
//! Built afresh by each change and swapped in as a whole.
//!
//! **Invariant**: a key that did not change is the same object before and after a change of something else, with
//! what is left of its rate; one that ended is told to whoever still holds it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::rows::Rows;
use super::sink::Sink;
use super::{Connector, IngestKey, KeyHash, ReadKey, Reader, Streams};
use base::clock::Unix;
use settings::Limits;

#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Revoked ones too: requests that come with them are told from those of nobody, so that an operator finds a
    /// program with an old key.
    pub(super) keys: HashMap<KeyHash, Arc<IngestKey>>,
    /// Those that were not revoked.
    pub(super) readers: HashMap<KeyHash, Arc<Reader>>,
    pub(super) streams: Streams,
    pub(super) connectors: BTreeMap<Arc<str>, Arc<Connector>>,
    pub(super) read_keys: BTreeMap<Arc<str>, Arc<ReadKey>>,
    /// In the order of the configuration, then by name.
    pub(super) sinks: Vec<Arc<Sink>>,
}

impl Entries {
    /// What counts requests is taken from `before`, so that a change of something else does not fill a rate again.
    pub(super) fn build(rows: Rows, sinks: Vec<Arc<Sink>>, limits: &Limits, before: &Self) -> Self {
        let streams = rows.streams.into_iter();
        let streams = streams.map(|stream| (Arc::clone(&stream.name), Arc::new(stream)));
        let streams: Streams = streams.collect();
        let connectors = rows.connectors.into_iter();
        let mut connectors: BTreeMap<Arc<str>, Connector> = connectors
            .map(|connector| (Arc::clone(&connector.name), connector))
            .collect();
        for connector in connectors.values_mut() {
            if let Some(before) = before.connectors.get(&connector.name) {
                connector.failures = Arc::clone(&before.failures);
                connector.unauthenticated = Arc::clone(&before.unauthenticated);
                connector.signs = Arc::clone(&before.signs);
            }
        }
        let mut keys = HashMap::new();
        // Declared ones last: if a key is both, by another name, that is what counts.
        for row in rows.keys.into_iter().rev() {
            let Some(connector) = connectors.get_mut(&row.connector) else {
                continue;
            };
            let old = before.keys.get(&row.hash);
            let stream = streams.get(&row.stream).map(|stream| &**stream);
            let key = IngestKey::new(row, connector, stream, limits, old);
            keys.insert(key.hash, Arc::clone(&key));
            connector.keys.push(key);
        }
        for connector in connectors.values_mut() {
            connector.keys.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let mut readers = HashMap::new();
        let mut read_keys = BTreeMap::new();
        for key in rows.read_keys.into_iter().rev() {
            if key.revoked_at.is_none() {
                let reader = Reader::of(&key, |name| streams.contains_key(name));
                let reader = match before.readers.get(&key.hash) {
                    Some(old) if reader.is_like(old) => Arc::clone(old),
                    _ => Arc::new(reader),
                };
                readers.insert(key.hash, reader);
            }
            read_keys.insert(Arc::clone(&key.name), Arc::new(key));
        }
        let connectors = connectors.into_iter();
        Self {
            keys,
            readers,
            streams,
            connectors: connectors
                .map(|(name, one)| (name, Arc::new(one)))
                .collect(),
            read_keys,
            sinks,
        }
    }

    /// Others count now: keys and readers that are not among them, or have changed so that they end, are told. Requests
    /// and connections in progress hold the old objects, and would otherwise be served until they end.
    pub(super) fn give_way_to(&self, others: &Self) {
        let now = Unix::now();
        for (hash, old) in &self.keys {
            let goes_on = |new: &Arc<IngestKey>| {
                let is_valid = new.is_valid_at(now) && new.stream_life == old.stream_life;
                Arc::ptr_eq(new, old) || is_valid
            };
            if !others.keys.get(hash).is_some_and(goes_on) {
                old.go();
            }
        }
        for (hash, old) in &self.readers {
            let new = others.readers.get(hash);
            if !new.is_some_and(|new| Arc::ptr_eq(new, old)) {
                old.give_way_to(new.map(|new| &**new));
            }
        }
    }
}
