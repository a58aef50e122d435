//! How many renderers follow at once: all of them, and those with one read key.
//!
//! **Invariant**: a seat is free again when it is dropped, and a key takes none that another could need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::Lived;
use catalog::Reader;

/// For so long after somebody was refused it is a problem.
const PROBLEM: Duration = Duration::from_mins(1);

/// The seats that there are.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    all_max: usize,
    each_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// By the name of a read key.
    keys: HashMap<Box<str>, usize>,
    /// When somebody was refused last, by the name of his key.
    refused: HashMap<Box<str>, (Lived, AtCapacity)>,
}

/// One that is taken.
#[derive(Debug)]
pub struct Permit {
    connection_limit: Arc<ConnectionLimit>,
    key: Box<str>,
}

/// How many are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// By all.
    pub taken: usize,
    /// Of so many.
    pub max: usize,
    /// The read key that has most, and how many that is.
    pub most: Option<(Box<str>, usize)>,
    /// Of so many.
    pub each_max: usize,
}

/// Why a connection was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AtCapacity {
    /// The read key has as many as one may.
    #[error(
        "the limit of {0} connections with this read key is reached; close some, use another key, or raise live.connections_per_key_max"
    )]
    OfKey(usize),
    /// All are taken.
    #[error(
        "the limit of {0} connected renderers is reached; retry later, or raise live.connections_max"
    )]
    OfAll(usize),
}

impl ConnectionLimit {
    /// A key has at most half of them.
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

    /// How many are taken, and by whom.
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

    /// Who was refused lately, by the name of the read key, and why.
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
