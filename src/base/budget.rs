//! Memory that several share, and that none of them may take from the others: bytes of bodies that are on their way.
//!
//! Whoever takes has a [`Share`], one for each key; what is taken for one body is a [`Portion`]. `ingest` has the one
//! [`Budget`].
//!
//! **Invariant**: a share has no more than its part, but for its first portion, which always fits. When all is taken, a
//! portion that waits gives way whose share has most, and nobody else is refused for it. What is dropped is given back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    share_bytes_max: u64,
    taken: AtomicU64,
    /// Of that, what gives way and is not given back yet. It counts as free already. Otherwise more portions than
    /// needed would be closed.
    leaving: AtomicU64,
    /// Portions whose bodies are not complete, the oldest first.
    waiting: Mutex<BTreeMap<u64, Waiting>>,
    next: AtomicU64,
}

/// What one of those has taken who share a budget.
#[derive(Debug, Default)]
pub struct Share {
    taken: AtomicU64,
}

/// What was taken for one body; given back when dropped.
#[derive(Debug)]
pub struct Portion {
    budget: Arc<Budget>,
    share: Arc<Share>,
    taken: u64,
    bytes_max: u64,
    /// What all may have together before this one is too much.
    all_max: u64,
    /// Its place among those that wait.
    waits: Option<(u64, Waiting)>,
}

/// A portion that may have to give way.
#[derive(Debug, Clone)]
struct Waiting {
    share: Arc<Share>,
    /// What it has, or had when it was told to give way. Changes under the lock only.
    taken: Arc<AtomicU64>,
    gives_way: CancellationToken,
}

/// Why nothing more can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The portion has all that one may have.
    Portion,
    /// Its share has all that it may have.
    Share,
    /// Everything is taken, and nobody has more than this share.
    Budget,
}

impl Budget {
    /// Of so many bytes; one share may have some of them.
    pub fn new(bytes_max: u64, share_bytes_max: u64) -> Self {
        Self {
            bytes_max,
            share_bytes_max: share_bytes_max.min(bytes_max),
            taken: AtomicU64::new(0),
            leaving: AtomicU64::new(0),
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Bytes that are taken, of so many.
    pub fn used(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.bytes_max)
    }

    /// Bytes that one share may have.
    pub fn share_bytes_max(&self) -> u64 {
        self.share_bytes_max
    }

    /// What may be taken of a share: at most so many bytes.
    pub fn portion(self: &Arc<Self>, share: &Arc<Share>, bytes_max: u64) -> Portion {
        Portion {
            budget: Arc::clone(self),
            share: Arc::clone(share),
            taken: 0,
            bytes_max,
            all_max: self.bytes_max,
            waits: None,
        }
    }

    /// The same for somebody whom nobody vouches for yet: those leave half of the room to others, so that requests
    /// without a valid key cannot stop those with one.
    pub fn portion_of_unauthenticated(
        self: &Arc<Self>,
        share: &Arc<Share>,
        bytes_max: u64,
    ) -> Portion {
        let mut portion = self.portion(share, bytes_max);
        portion.all_max = self.bytes_max / 2;
        portion
    }

    /// Has the oldest portion give way of the share that has most, if that is more than this one has.
    fn make_room(&self, own: u64) -> bool {
        let mut waiting = self.waiting();
        let held = |one: &Waiting| one.share.taken.load(Ordering::Relaxed);
        // Of equals the last is found: the oldest.
        let most = waiting.iter().rev().max_by_key(|(_, one)| held(one));
        let Some((number, most)) = most.filter(|(_, one)| held(one) > own) else {
            return false;
        };
        let number = *number;
        let taken = most.taken.load(Ordering::Relaxed);
        self.leaving.fetch_add(taken, Ordering::Relaxed);
        most.gives_way.cancel();
        waiting.remove(&number);
        true
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Portion {
    /// Takes room for bytes that have come.
    ///
    /// # Errors
    /// [`Full`]; the bytes count until the portion is dropped, but for [`Full::Portion`].
    pub fn take(&mut self, bytes: u64) -> Result<(), Full> {
        if self.taken + bytes > self.bytes_max {
            return Err(Full::Portion);
        }
        let share = self.share.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.budget.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.taken += bytes;
        let leaving = self.budget.leaving.load(Ordering::Relaxed);
        if share > self.budget.share_bytes_max && share > self.taken {
            return Err(Full::Share);
        }
        if all.saturating_sub(leaving) > self.all_max
            && all > self.taken
            && !self.budget.make_room(share)
        {
            return Err(Full::Budget);
        }
        Ok(())
    }

    /// The rest has not come: until the portion is dropped it may have to give way, which this tells.
    pub fn waits(&mut self) -> CancellationToken {
        let (_, waiting) = self.waits.get_or_insert_with(|| {
            let number = self.budget.next.fetch_add(1, Ordering::Relaxed);
            let waiting = Waiting {
                share: Arc::clone(&self.share),
                taken: Arc::default(),
                gives_way: CancellationToken::new(),
            };
            self.budget.waiting().insert(number, waiting.clone());
            (number, waiting)
        });
        let locked = self.budget.waiting();
        if !waiting.gives_way.is_cancelled() {
            waiting.taken.store(self.taken, Ordering::Relaxed);
        }
        drop(locked);
        waiting.gives_way.clone()
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        if let Some((number, waiting)) = &self.waits {
            // Under the lock: now it is known whether it was told to give way.
            self.budget.waiting().remove(number);
            if waiting.gives_way.is_cancelled() {
                let taken = waiting.taken.load(Ordering::Relaxed);
                self.budget.leaving.fetch_sub(taken, Ordering::Relaxed);
            }
        }
        self.share.taken.fetch_sub(self.taken, Ordering::Relaxed);
        self.budget.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
