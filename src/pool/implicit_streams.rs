//! Streams that sinks have made: those of the pool that are in no catalog.
//!
//! Each costs a view, which every reader of the file has to read. A sink claims a stream before it stages something
//! for it; the claim ends when the step is committed, and the stream is there, or when it is not, and the stream is not.
//!
//! **Invariant**: streams that were made and streams that are claimed are together at most [`MADE_MAX`], unless there
//! were more when the file was opened.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use super::{Pool, Staged};

/// Streams that sinks may make, all of them together, because each is a view that every reader of the file has to
/// read.
pub const MADE_MAX: usize = 1_000;

/// There are too many already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "sinks have created {MADE_MAX} streams, the maximum; create the streams you need explicitly, so that they no longer count toward this limit"
)]
pub struct TooManyMade;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Made(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    /// Those of the catalog.
    created: HashSet<Arc<str>>,
    /// Those that are in the file besides.
    made: HashSet<Arc<str>>,
    /// Those that a step is about to make, and how many do. Two steps may make the same one, so the first that ends
    /// must not free its place.
    claimed: HashMap<Arc<str>, usize>,
}

/// A stream that a step is about to make. Two sinks could pass the limit at once otherwise.
#[derive(Debug)]
pub struct Claim {
    stream: Arc<str>,
    made: Arc<Made>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut streams = self.made.lock();
        if let Some(count) = streams.claimed.get_mut(&self.stream) {
            *count -= 1;
            if *count == 0 {
                streams.claimed.remove(&self.stream);
            }
        }
    }
}

impl Made {
    /// With the streams of a file.
    pub(super) fn of<'a>(streams: impl Iterator<Item = &'a Arc<str>>) -> Arc<Self> {
        let made = Self::default();
        made.lock().made.extend(streams.cloned());
        Arc::new(made)
    }

    /// From now on the catalog has these. These do not count, because an operator made them.
    pub(super) fn set_created(&self, created: HashSet<Arc<str>>) {
        let mut streams = self.lock();
        streams.made.retain(|stream| !created.contains(stream));
        streams.created = created;
    }

    /// Another node may have made some of these.
    pub(super) fn add(&self, streams: Vec<Arc<str>>) {
        let mut known = self.lock();
        for stream in streams {
            if !known.created.contains(&stream) {
                known.made.insert(stream);
            }
        }
    }

    /// What a step has done is in the file.
    pub(super) fn committed(&self, staged: &Staged) {
        if staged.claims.is_empty() {
            return;
        }
        let mut streams = self.lock();
        for claim in &staged.claims {
            if !streams.created.contains(&claim.stream) {
                streams.made.insert(Arc::clone(&claim.stream));
            }
        }
    }

    fn claim(self: &Arc<Self>, stream: &str) -> Result<Option<Claim>, TooManyMade> {
        let mut streams = self.lock();
        if streams.created.contains(stream) || streams.made.contains(stream) {
            return Ok(None);
        }
        let is_claimed = streams.claimed.contains_key(stream);
        if !is_claimed && streams.made.len() + streams.claimed.len() >= MADE_MAX {
            return Err(TooManyMade);
        }
        let stream: Arc<str> = stream.into();
        *streams.claimed.entry(Arc::clone(&stream)).or_default() += 1;
        Ok(Some(Claim {
            stream,
            made: Arc::clone(self),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Room for a stream that a sink is about to make; none is needed for one that is there. To be kept with what is
    /// staged, because the place is free again when it is dropped.
    ///
    /// # Errors
    /// [`TooManyMade`].
    pub fn claim_stream(&self, stream: &str) -> Result<Option<Claim>, TooManyMade> {
        self.made.claim(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_bounded_and_what_fails_or_was_created_does_not_count() {
        let there: Vec<Arc<str>> = vec!["a".into(), "b".into()];
        let made = Made::of(there.iter());
        made.set_created(HashSet::from(["a".into(), "c".into()]));
        for known in ["a", "b", "c"] {
            assert!(
                made.claim(known).is_ok_and(|claim| claim.is_none()),
                "{known}"
            );
        }
        let name = |number: usize| format!("v{number}");
        let claims = |numbers: std::ops::Range<usize>| -> Vec<Claim> {
            let claims = numbers.map(|number| made.claim(&name(number)));
            claims
                .map(|claim| claim.expect("room").expect("new"))
                .collect()
        };
        let claimed = claims(0..MADE_MAX - 1);
        assert_eq!(made.claim("one more").err(), Some(TooManyMade));
        // The same one by two steps at once is one.
        let twice = claims(0..3);
        drop(claimed);
        assert_eq!(made.lock().claimed.len(), 3);
        made.committed(&Staged {
            claims: twice,
            ..Staged::default()
        });
        assert_eq!(made.lock().made.len(), 4);
        let claimed = claims(10..10 + MADE_MAX - 4);
        assert_eq!(made.claim("one more").err(), Some(TooManyMade));
        made.set_created(HashSet::from(["v0".into()]));
        assert!(made.claim("one more").is_ok_and(|claim| claim.is_some()));
        drop(claimed);
        assert!(made.lock().claimed.is_empty());
    }
}
