//! Bodies of feeds that are kept: however many poll, each is built once for a change.
//!
//! **Invariant**: at most [`BODIES_MAX`] bodies of together [`BYTES_MAX`] are kept, but for those that are being sent. Who
//! asks while one is built waits for it. A body that is older than the stream's last change is sent for so long only as
//! keeps building it under a twentieth of a core; one that an operator has acted on since is not sent any more.

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
/// A body is not built again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Nor before so many times what building took has passed.
const PAUSE_FACTOR: u32 = 20;

/// A finished feed.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    /// The entity tag, a digest of the bytes.
    pub(super) tag: String,
    /// Rows that the query wants, but for limit and offset.
    pub(super) total: usize,
}

impl Body {
    pub(super) fn new(text: String, total: usize) -> Self {
        let digest = KeyHash::of(&text).to_string();
        Self {
            tag: format!("\"{}\"", &digest[..32]),
            bytes: text.into(),
            total,
        }
    }
}

/// A feed, or a sentence that says why there is none.
pub(super) type Outcome = Result<Arc<Body>, Arc<str>>;

/// The bodies that are kept.
#[derive(Debug, Default)]
pub struct Feeds {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    all: HashMap<(Arc<str>, Query), Entry>,
    /// Rises with each look.
    looks: u64,
}

#[derive(Debug)]
struct Entry {
    slot: Arc<Slot>,
    bytes: usize,
    looked_at: u64,
}

/// The body of one query; who builds it holds it.
#[derive(Debug, Default)]
struct Slot(tokio::sync::Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    outcome: Outcome,
    /// Number of the stream's last change that is in it for sure.
    seq: ChangeSeq,
    /// Number of the last change of any stream when it was found to be the newest.
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
    /// The body of a query: the one that is kept, or else what `build` makes.
    pub(super) async fn body<F>(
        &self,
        pool: &Pool,
        (stream, query): (&Arc<str>, &Query),
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
                || (kept.is_too_young() && !pool.has_acted_since(stream, kept.head)))
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

    /// Lets go of what nobody has looked at for longest.
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
