//! Cache of feed bodies: each body is built once per change, for any number of polling clients.
//!
//! **Invariant**: the cache holds at most [`BODIES_MAX`] bodies of [`BYTES_MAX`] in total, in addition to those that
//! are being sent. A request for a body that is being built waits for it. A body that is older than the stream's last
//! change is sent only for a limited time, so that building it needs less than a twentieth of a core. After an act of
//! an operator, an older body is no longer sent.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use base::order::ChangeSeq;
use catalog::KeyHash;
use pool::{Pool, PoolError};
use table::Query;

const BODIES_MAX: usize = 64;
const BYTES_MAX: usize = 16 << 20;
/// Minimum time between two builds of a body.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Minimum time between two builds, as a multiple of the build time.
const PAUSE_FACTOR: u32 = 20;

#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    /// A digest of the bytes, as an entity tag. A change that leaves the bytes as they are is answered 304.
    pub(super) tag: String,
    /// Number of a change of the stream behind which nothing is included; only in a cluster.
    pub(super) through: ChangeSeq,
    /// Rows that match the query, before limit and offset.
    pub(super) total: usize,
}

impl Body {
    pub(super) fn new(text: String, total: usize, through: ChangeSeq) -> Self {
        let digest = KeyHash::of(&text).to_string();
        Self {
            tag: format!("\"{}\"", &digest[..32]),
            through,
            bytes: text.into(),
            total,
        }
    }
}

/// A feed, or the reason why there is none.
pub(super) type Outcome = Result<Arc<Body>, Arc<str>>;

#[derive(Debug, Default)]
pub struct Feeds {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    all: HashMap<(Arc<str>, Query), Entry>,
    /// Increases with each access.
    looks: u64,
}

#[derive(Debug)]
struct Entry {
    slot: Arc<Slot>,
    bytes: usize,
    looked_at: u64,
}

/// The body of one query; its lock is held while the body is built. Other requests wait for it instead of building the
/// same body.
#[derive(Debug, Default)]
struct Slot(tokio::sync::Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    outcome: Outcome,
    /// Number of the stream's last change that the body includes for certain.
    seq: ChangeSeq,
    /// Number of the last change of any stream when the body was last found to be current. As long as it is the newest,
    /// the stream is not looked up.
    head: ChangeSeq,
    built: Instant,
    took: Duration,
}

impl Kept {
    fn is_too_young(&self) -> bool {
        self.built.elapsed() < PAUSE_MIN.max(self.took * PAUSE_FACTOR)
    }
}

impl Feeds {
    /// Returns the body of a query: the cached one, or the result of `build`. It includes the change `known` of any stream,
    /// which the pool has.
    pub(super) async fn body<F>(
        &self,
        pool: &Pool,
        (stream, query): (&Arc<str>, &Query),
        known: ChangeSeq,
        build: impl FnOnce() -> F,
    ) -> Result<Outcome, PoolError>
    where
        F: Future<Output = Result<Result<Body, String>, PoolError>>,
    {
        let name = (Arc::clone(stream), query.clone());
        let slot = self.slot(&name);
        let mut kept = slot.0.lock().await;
        // Before anything is read: what is read is never older than this says.
        let head = pool.position().seq;
        if let Some(kept) = &*kept
            && (kept.head == head
                || (kept.is_too_young()
                    && kept.head >= known
                    && !pool.has_acted_since(stream, kept.head)))
        {
            return Ok(kept.outcome.clone());
        }
        let seq = pool.last_change(stream).await?;
        if let Some(kept) = &mut *kept
            && kept.seq == seq
        {
            kept.head = head;
            return Ok(kept.outcome.clone());
        }
        let begun = Instant::now();
        let outcome: Outcome = match build().await? {
            Ok(body) => Ok(Arc::new(body)),
            Err(sentence) => Err(sentence.into()),
        };
        *kept = Some(Kept {
            outcome: outcome.clone(),
            seq,
            head,
            built: Instant::now(),
            took: begun.elapsed(),
        });
        let bytes = outcome.as_ref().map_or(0, |body| body.bytes.len());
        self.slots().keep(&name, bytes);
        Ok(outcome)
    }

    fn slot(&self, name: &(Arc<str>, Query)) -> Arc<Slot> {
        let mut slots = self.slots();
        slots.looks += 1;
        let looks = slots.looks;
        if let Some(entry) = slots.all.get_mut(name) {
            entry.looked_at = looks;
            return Arc::clone(&entry.slot);
        }
        let slot = Arc::new(Slot::default());
        let entry = Entry {
            slot: Arc::clone(&slot),
            bytes: 0,
            looked_at: looks,
        };
        slots.all.insert(name.clone(), entry);
        slots.make_room();
        slot
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn keep(&mut self, name: &(Arc<str>, Query), bytes: usize) {
        if let Some(entry) = self.all.get_mut(name) {
            entry.bytes = bytes;
        }
        self.make_room();
    }

    /// Removes the bodies that were not accessed for the longest time.
    fn make_room(&mut self) {
        let bytes = |all: &HashMap<_, Entry>| all.values().map(|one| one.bytes).sum::<usize>();
        while self.all.len() > BODIES_MAX || bytes(&self.all) > BYTES_MAX {
            let oldest = self.all.iter().min_by_key(|(_, entry)| entry.looked_at);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_last_is_kept() {
        let feeds = Feeds::default();
        let name = |limit: usize| {
            let limit = |name: &str| (name == "limit").then(|| limit.to_string());
            let query = Query::read(table::Format::Csv, limit).expect("a query");
            ("orders".into(), query)
        };
        let first = feeds.slot(&name(1));
        for limit in 2..=BODIES_MAX {
            feeds.slot(&name(limit));
        }
        assert!(Arc::ptr_eq(&first, &feeds.slot(&name(1))));
        feeds.slot(&name(1_000));
        assert_eq!(feeds.slots().all.len(), BODIES_MAX);
        assert!(feeds.slots().all.contains_key(&name(1)));
        assert!(!feeds.slots().all.contains_key(&name(2)));
        // As many as fit by their bytes.
        feeds.slots().keep(&name(1), BYTES_MAX / 2);
        feeds.slots().keep(&name(3), BYTES_MAX / 2 + 1);
        let slots = feeds.slots();
        let bytes: usize = slots.all.values().map(|entry| entry.bytes).sum();
        assert!(bytes <= BYTES_MAX, "{bytes}");
    }
}
