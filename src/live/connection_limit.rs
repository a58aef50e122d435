//! Limits of concurrent connections: of all renderers, and of those with one read key.
//!
//! **Invariant**: dropping a permit frees its place, and one read key uses at most half of the places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::Lived;
use catalog::Reader;

/// A rejection is reported as a problem for this time.
const PROBLEM: Duration = Duration::from_mins(1);

/// The places of all renderers.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    all_max: usize,
    each_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Connections by name of the read key.
    keys: HashMap<Box<str>, usize>,
    /// Time of the last rejection, by name of the read key. The last one of each key is enough, so a client that
    /// retries all the time takes no memory.
    refused: HashMap<Box<str>, (Lived, AtCapacity)>,
}

/// A reserved place.
#[derive(Debug)]
pub struct Permit {
    connection_limit: Arc<ConnectionLimit>,
    key: Box<str>,
}

/// The number of connections, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// All connections.
    pub taken: usize,
    /// Their limit.
    pub max: usize,
    /// The read key with the most connections, and their number.
    pub most: Option<(Box<str>, usize)>,
    /// The limit of a read key.
    pub each_max: usize,
}

/// Why a connection was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AtCapacity {
    /// The read key has reached its limit.
    #[error(
        "the limit of {0} connections with this read key is reached; close some, use another key, or raise live.connections_per_key_max"
    )]
    OfKey(usize),
    /// All places are in use.
    #[error(
        "the limit of {0} connected renderers is reached; retry later, or raise live.connections_max"
    )]
    OfAll(usize),
}

impl ConnectionLimit {
    /// A read key can use at most half of the places. So one program that leaks connections leaves places to the other
    /// keys.
    pub(super) fn new(all_max: usize, each_max: usize) -> Self {
        Self {
            all_max,
            each_max: each_max.min(all_max.div_ceil(2)),
            state: Mutex::default(),
        }
    }

    pub(super) fn take(self: &Arc<Self>, reader: &Reader) -> Result<Permit, AtCapacity> {
        let mut state = self.state();
        let own = state.keys.get(&reader.name).copied().unwrap_or(0);
        let refused = if own >= self.each_max {
            Some(AtCapacity::OfKey(self.each_max))
        } else if state.taken >= self.all_max {
            Some(AtCapacity::OfAll(self.all_max))
        } else {
            None
        };
        if let Some(why) = refused {
            let now = Lived::now();
            state.refused.insert(reader.name.clone(), (now, why));
            return Err(why);
        }
        state.taken += 1;
        state.keys.insert(reader.name.clone(), own + 1);
        Ok(Permit {
            connection_limit: Arc::clone(self),
            key: reader.name.clone(),
        })
    }

    /// The number of connections, and the read key with the most.
    pub(super) fn taken(&self) -> Occupancy {
        let state = self.state();
        let most = state.keys.iter().max_by_key(|(_, taken)| **taken);
        Occupancy {
            taken: state.taken,
            max: self.all_max,
            most: most.map(|(key, taken)| (key.clone(), *taken)),
            each_max: self.each_max,
        }
    }

    /// Recent rejections: the name of the read key, and the limit.
    pub(super) fn refused(&self) -> Vec<(Box<str>, AtCapacity)> {
        let now = Lived::now();
        let mut state = self.state();
        (state.refused).retain(|_, (at, _)| now - *at < PROBLEM);
        let refused = state.refused.iter();
        refused.map(|(key, (_, why))| (key.clone(), *why)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.connection_limit.state();
        state.taken -= 1;
        if let Some(taken) = state.keys.get_mut(&self.key) {
            *taken -= 1;
            if *taken == 0 {
                state.keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_seats_and_leaves_the_others() {
        let connection_limit = Arc::new(ConnectionLimit::new(3, 2));
        let [one, other] = ["one", "other"].map(|name| Reader::new(name, Vec::new()));
        let first = connection_limit.take(&one).expect("a seat");
        let _second = connection_limit.take(&one).expect("a seat");
        assert_eq!(
            connection_limit.take(&one).map(drop),
            Err(AtCapacity::OfKey(2))
        );
        let third = connection_limit.take(&other).expect("a seat");
        assert_eq!(
            connection_limit.take(&other).map(drop),
            Err(AtCapacity::OfAll(3))
        );
        let mut refused = connection_limit.refused();
        refused.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            refused,
            [
                ("one".into(), AtCapacity::OfKey(2)),
                ("other".into(), AtCapacity::OfAll(3))
            ]
        );
        drop((first, third));
        connection_limit.take(&one).expect("it is free again");
    }
}
