//! What a batcher knows of its items.
//!
//! **Invariant**: every item that was let in is in exactly one place: the queue, the batch that is not written yet, a
//! file, or the batch in hand.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::client::{Cancel, Shared};
use crate::error::Error;
use crate::hand::{Batch, Hand};
use crate::lock;
use crate::options::{BatcherOptions, State};
use crate::queue::{Entry, Queue, Room};
use crate::spool::Spool;
use crate::uuid;

/// A wait that ends with a signal.
pub(crate) const FOREVER: Duration = Duration::from_secs(3600);
/// How long items gather at least while older ones wait in a spool: what has to wait anyway makes larger batches.
const LINGER_BEHIND: Duration = Duration::from_secs(1);

/// A batcher without its threads.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: BatcherOptions,
    /// A spool is emptied: nobody else has what is given up.
    pub(crate) is_drained: bool,
    pub(crate) spool: Option<Spool>,
    /// The batcher stops: the attempt in flight ends.
    pub(crate) ended: Cancel,
    pub(crate) changed: Condvar,
    inner: Mutex<Inner>,
}

/// A batch that was cut, and is in no file yet.
pub(crate) struct Unwritten {
    pub(crate) batch: Arc<Batch>,
    /// The disk did not take it: it may be sent from memory.
    pub(crate) refused: bool,
    /// When it is written again.
    pub(crate) again: Duration,
}

/// A batch of which only the file is there.
pub(crate) struct SpooledFile {
    pub(crate) name: String,
    pub(crate) room: u64,
    pub(crate) first: u64,
}

/// What is counted since the batcher was made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) retries: u64,
    pub(crate) damaged: u64,
    pub(crate) forgotten: u64,
}

/// What is behind the lock.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) queue: Queue,
    pub(crate) unwritten: Option<Unwritten>,
    /// In order, but for the one in hand.
    pub(crate) files: VecDeque<SpooledFile>,
    /// Room of all files.
    pub(crate) used: u64,
    pub(crate) hand: Option<Hand>,
    /// Of a request.
    pub(crate) bytes_max: usize,
    /// The key's, if that is known.
    pub(crate) stream: Option<String>,
    /// Number of the newest item.
    pub(crate) last: u64,
    /// Up to this item, nothing waits for others.
    pub(crate) flush_to: u64,
    pub(crate) closed: bool,
    /// Another program took the directory.
    pub(crate) lost: bool,
    pub(crate) state: State,
    /// The last one, if the state is not `ok`.
    pub(crate) error: Option<Error>,
    /// In a row.
    pub(crate) failures: u32,
    /// When the next attempt may be.
    pub(crate) not_before: Duration,
    pub(crate) counts: Counts,
    /// The log knows of lost items.
    pub(crate) is_losing: bool,
    /// The program knows of a disk that takes nothing.
    pub(crate) disk_fails: bool,
    /// For the thread that sends, and for that which writes files.
    pub(crate) wake: [bool; 2],
}

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: BatcherOptions,
        is_drained: bool,
        spool: Option<Spool>,
        inner: Inner,
    ) -> Self {
        Self {
            shared,
            options,
            is_drained,
            spool,
            ended: Cancel::default(),
            changed: Condvar::new(),
            inner: Mutex::new(inner),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn lived(&self) -> Duration {
        self.shared.world.lived()
    }

    /// Wakes both threads, and whoever waits for a change.
    pub(crate) fn wake(&self, inner: &mut Inner) {
        inner.wake = [true; 2];
        self.changed.notify_all();
    }

    /// Lets an item in.
    pub(crate) fn put(&self, inner: &mut Inner, mut entry: Entry) {
        inner.last += 1;
        (entry.seq, entry.at) = (inner.last, self.lived());
        if inner.queue.push(entry) {
            inner.counts.replaced += 1;
        }
        // Only the first item, and that which fills a batch, change what is waited for.
        let count = inner.queue.len();
        let is_full =
            count >= self.options.max_items || inner.queue.bytes() + count + 1 >= inner.bytes_max;
        if count == 1 || is_full {
            self.wake(inner);
        }
    }

    /// What the queue may have, for the sake of memory and for that of the disk.
    fn rooms(&self, inner: &Inner) -> [Room; 2] {
        let unwritten = inner.unwritten_bytes() as u64;
        let memory = Room {
            limit: self.options.queue_bytes as u64,
            held: unwritten,
        };
        let disk = match &self.spool {
            Some(_) => Room {
                limit: self.options.spool_bytes,
                held: unwritten + inner.used,
            },
            None => memory,
        };
        [memory, disk]
    }

    /// Whether an item may go in at once.
    pub(crate) fn takes(&self, inner: &Inner, entry: &Entry) -> bool {
        inner.queue.takes(entry, &self.rooms(inner))
    }

    /// Lets in those who wait, as far as there is room.
    pub(crate) fn admit(&self, inner: &mut Inner) {
        while let Some(waiter) = inner.queue.waiters.front() {
            if !inner.queue.fits(&waiter.entry, &self.rooms(inner)) {
                return;
            }
            if let Some(waiter) = inner.queue.waiters.pop_front() {
                self.put(inner, waiter.entry);
                waiter.admitted.send(true).ok();
            }
        }
    }

    /// Takes out the oldest, until an item has room.
    pub(crate) fn make_room(&self, inner: &mut Inner, entry: &Entry) -> Vec<Entry> {
        let mut dropped = Vec::new();
        while !self.takes(inner, entry) && inner.queue.len() > 0 {
            dropped.extend(inner.queue.pop(1));
        }
        inner.counts.dropped += dropped.len() as u64;
        inner.counts.rejected += dropped.len() as u64;
        self.changed.notify_all();
        dropped
    }

    /// Makes a batch of the front of the queue, if it is time; else it says how long to wait for that.
    pub(crate) fn cut(&self, inner: &mut Inner) -> Result<Arc<Batch>, Duration> {
        let (count, is_full) = inner.queue.prefix(self.options.max_items, inner.bytes_max);
        let Some(first) = inner.queue.first().filter(|_| count > 0) else {
            return Err(FOREVER);
        };
        let linger = match inner.is_behind() {
            true => self.options.linger.max(LINGER_BEHIND),
            false => self.options.linger,
        };
        let due = first.at.saturating_add(linger);
        let wait = due.saturating_sub(self.lived());
        let hurries = is_full || inner.flush_to >= first.seq || inner.closed;
        if !hurries && !wait.is_zero() {
            return Err(wait.min(FOREVER));
        }
        let number = first.seq;
        let now = self.shared.world.now();
        let learned = inner.stream.clone().filter(|_| self.spool.is_some());
        Ok(Arc::new(Batch {
            key: uuid::create(now),
            item_key: self.options.field().map(str::to_owned),
            stream: self.options.stream.clone().or(learned),
            created: now,
            entries: inner.queue.pop(count),
            first: number,
        }))
    }
}

impl Inner {
    /// Of the last error.
    pub(crate) fn code(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.code.as_str())
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        (self.unwritten.as_ref()).map_or(0, |unwritten| unwritten.batch.bytes())
    }

    /// Whether older batches wait.
    fn is_behind(&self) -> bool {
        self.hand.is_some() || self.unwritten.is_some() || !self.files.is_empty()
    }

    /// Whether this is the batch in hand.
    pub(crate) fn holds(&self, batch: &Arc<Batch>) -> bool {
        (self.hand.as_ref()).is_some_and(|hand| Arc::ptr_eq(&hand.batch, batch))
    }

    pub(crate) fn is_unwritten(&self, batch: &Arc<Batch>) -> bool {
        (self.unwritten.as_ref()).is_some_and(|unwritten| Arc::ptr_eq(&unwritten.batch, batch))
    }

    /// Items in memory that are not in hand.
    pub(crate) fn queued(&self) -> usize {
        let unwritten = (self.unwritten.as_ref()).filter(|unwritten| !self.holds(&unwritten.batch));
        self.queue.len() + unwritten.map_or(0, |unwritten| unwritten.batch.entries.len())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.hand.as_ref().map_or(0, Hand::left)
    }

    /// The number of the oldest item that is neither accepted nor rejected.
    fn oldest(&self) -> Option<u64> {
        let hand = self.hand.as_ref().map(|hand| hand.batch.first);
        hand.or_else(|| self.files.front().map(|file| file.first))
            .or_else(|| self.unwritten.as_ref().map(|next| next.batch.first))
            .or_else(|| self.queue.first().map(|entry| entry.seq))
    }

    /// When the oldest item in memory came.
    pub(crate) fn oldest_at(&self) -> Option<Duration> {
        let of = |batch: &Batch| batch.entries.first().map(|entry| entry.at);
        let hand = self.hand.as_ref().and_then(|hand| of(&hand.batch));
        hand.or_else(|| self.unwritten.as_ref().and_then(|next| of(&next.batch)))
            .or_else(|| self.queue.first().map(|entry| entry.at))
    }

    /// Whether an item up to this one is neither accepted nor rejected.
    pub(crate) fn is_open(&self, target: u64) -> bool {
        self.oldest().is_some_and(|oldest| oldest <= target)
    }
}
