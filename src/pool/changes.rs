//! The latest changes in memory, for whoever follows a stream.
//!
//! The pool records what each settlement changed, under the lock of its writer, so changes arrive in
//! the order of their numbers. `live` listens and reads. A change of an item takes the place of an
//! earlier change of the same item: a reader that comes late finds the newest value of each item and
//! no queue, however long it was away.
//!
//! **Invariant**: for every stream that has a log, each change above the log's floor is in it, or a
//! newer one of the same item is. What lies below the floor is read from the file.

mod change;
mod listener;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use base::clock::Unix;
use base::order::ChangeSeq;
pub use change::Change;
pub use listener::{Listener, Wakeup};
pub use reading::{Reading, Recent};

/// Bytes of all logs together; beyond it the largest one forgets its oldest changes.
const LOG_BYTES_MAX: usize = 6 << 20;
/// A log that nobody listens to is kept this long: a renderer that was away for a moment resumes from
/// memory.
const LOG_KEPT: Duration = Duration::from_secs(60);
/// What changed longer ago than this, or than twice this, is read from the file: items that come and go would fill the
/// memory otherwise, each with its removal.
const CHANGES_KEPT: Duration = Duration::from_mins(5);

/// What a settlement changed in one stream.
#[derive(Debug)]
pub(super) struct StreamChanges {
    pub(super) stream: Arc<str>,
    /// In the order of their numbers. `None`: they were not collected, because nobody listened. A stream without
    /// listeners copies no fields.
    pub(super) changes: Option<Vec<Change>>,
    /// Newest time of data; 1970 if nothing arrived.
    pub(super) updated_at: Unix,
}

/// The latest changes of every stream that somebody listens to.
#[derive(Debug, Default)]
pub struct Changes {
    head: watch::Sender<ChangeSeq>,
    logs: Mutex<Logs>,
}

#[derive(Debug, Default)]
struct Logs {
    streams: HashMap<Arc<str>, Log>,
    bytes: usize,
    /// How far the sequence had come at a moment, the last one that was noted.
    mark: Option<(Instant, ChangeSeq)>,
    /// What changed up to here is old.
    aged: ChangeSeq,
}

#[derive(Debug)]
struct Log {
    changes: BTreeMap<ChangeSeq, Arc<Change>>,
    newest: HashMap<Box<str>, ChangeSeq>,
    /// Everything above is here.
    floor: ChangeSeq,
    bytes: usize,
    wakeups: Vec<Arc<Wakeup>>,
    /// Those who listen to some keys alone. By key, so that a change wakes only those that wait for it.
    of_keys: HashMap<Box<str>, Vec<Arc<Wakeup>>>,
    /// Those of them whose keys changed, until they are woken. They are woken when the writer's lock is free, so that
    /// waking many does not hold up the next settlement.
    due: Vec<Arc<Wakeup>>,
    /// When the last listener went.
    left_at: Instant,
    /// Newest time of data that was recorded.
    updated_at: Unix,
}

impl Changes {
    pub(super) fn starting_at(head: ChangeSeq) -> Self {
        Self {
            head: watch::Sender::new(head),
            logs: Mutex::default(),
        }
    }

    /// Number of the last change. Every change up to here can be read, from memory or from the file.
    pub fn head(&self) -> ChangeSeq {
        *self.head.borrow()
    }

    /// The number of the last change, to wait for the next one.
    pub fn watch(&self) -> watch::Receiver<ChangeSeq> {
        self.head.subscribe()
    }

    /// Listens to streams: the bell rings after each of their changes, or of those with these keys.
    pub fn listen(self: &Arc<Self>, streams: &[Arc<str>], keys: Option<&[String]>) -> Listener {
        let wakeup = Arc::new(Wakeup::default());
        let mut logs = self.lock();
        let head = self.head();
        for stream in streams {
            let log = logs
                .streams
                .entry(Arc::clone(stream))
                .or_insert_with(|| Log::new(head));
            match keys {
                None => log.wakeups.push(Arc::clone(&wakeup)),
                Some(keys) => keys.iter().for_each(|key| log.listen_to(key, &wakeup)),
            }
        }
        drop(logs);
        Listener {
            changes: Arc::clone(self),
            streams: streams.into(),
            keys: keys.map(Into::into),
            wakeup,
        }
    }

    /// Number of the last change of a stream, if somebody follows it.
    pub fn newest_followed(&self, stream: &str) -> Option<ChangeSeq> {
        let logs = self.lock();
        let log = logs.streams.get(stream)?;
        let (newest, _) = log.changes.last_key_value()?;
        log.is_followed().then_some(*newest)
    }

    /// Reads what there is at one moment: nothing is recorded before the result is dropped.
    pub fn read(&self) -> Reading<'_> {
        Reading {
            logs: self.lock(),
            head: self.head(),
        }
    }

    /// Newest time of data of a stream that was recorded while somebody listened.
    pub fn updated_at(&self, stream: &str) -> Option<Unix> {
        let logs = self.lock();
        let log = logs.streams.get(stream)?;
        Some(log.updated_at).filter(|at| *at > Unix::MIN)
    }

    /// Whether the changes of a stream are to be collected.
    pub(super) fn wants(&self, stream: &str) -> bool {
        let mut logs = self.lock();
        let Some(log) = logs.streams.get(stream) else {
            return false;
        };
        if log.is_followed() || log.left_at.elapsed() < LOG_KEPT {
            return true;
        }
        let bytes = log.bytes;
        logs.bytes -= bytes;
        logs.streams.remove(stream);
        false
    }

    /// Takes what a settlement changed. Called under the lock of the pool's writer, with rising
    /// numbers; the listeners are woken by [`wake`](Self::ring) once that lock is free.
    pub(super) fn record(&self, changed: Vec<StreamChanges>, head: ChangeSeq) -> Vec<Arc<str>> {
        let mut streams = Vec::with_capacity(changed.len());
        let mut guard = self.lock();
        let logs = &mut *guard;
        let aged = logs.age(self.head(), Instant::now());
        for of_stream in changed {
            let Some(log) = logs.streams.get_mut(&of_stream.stream) else {
                continue;
            };
            let before = log.bytes;
            log.updated_at = log.updated_at.max(of_stream.updated_at);
            match of_stream.changes {
                Some(changes) => {
                    // A few more than come: nobody waits for long.
                    let forgotten_max = 2 * changes.len() + 16;
                    changes.into_iter().for_each(|change| log.add(change));
                    log.forget(aged, forgotten_max);
                }
                // Somebody came in between: these are read from the file.
                None => {
                    log.forget_through(head);
                    log.due.extend(log.of_keys.values().flatten().cloned());
                }
            }
            let after = log.bytes;
            logs.bytes = logs.bytes + after - before;
            streams.push(of_stream.stream);
        }
        logs.shrink();
        self.head.send_replace(head);
        streams
    }

    /// Wakes everybody who listens to one of the streams.
    pub(super) fn wake(&self, streams: &[Arc<str>]) {
        for stream in streams {
            let (wakeups, due) = match self.lock().streams.get_mut(stream) {
                Some(log) => (log.wakeups.clone(), std::mem::take(&mut log.due)),
                None => continue,
            };
            let all = wakeups.iter().chain(&due);
            all.for_each(|wakeup| wakeup.wake());
        }
    }

    /// Wakes everybody who listens.
    pub(super) fn wake_all(&self) {
        let logs = self.lock();
        for log in logs.streams.values() {
            let all = log.wakeups.iter().chain(log.of_keys.values().flatten());
            all.for_each(|wakeup| wakeup.wake());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Logs {
    /// Up to which number changes are old, where the last one is `head`.
    fn age(&mut self, head: ChangeSeq, now: Instant) -> ChangeSeq {
        let (noted_at, noted) = *self.mark.get_or_insert((now, head));
        if now.duration_since(noted_at) >= CHANGES_KEPT {
            self.aged = noted;
            self.mark = Some((now, head));
        }
        self.aged
    }

    /// The largest log gives way.
    fn shrink(&mut self) {
        while self.bytes > LOG_BYTES_MAX {
            let Some(largest) = self.streams.values_mut().max_by_key(|log| log.bytes) else {
                return;
            };
            let before = largest.bytes;
            let Some(oldest) = largest.changes.first_key_value().map(|(seq, _)| *seq) else {
                return;
            };
            largest.forget_through(oldest);
            let after = largest.bytes;
            self.bytes -= before - after;
        }
    }
}

impl Log {
    fn new(floor: ChangeSeq) -> Self {
        Self {
            changes: BTreeMap::new(),
            newest: HashMap::new(),
            floor,
            bytes: 0,
            wakeups: Vec::new(),
            of_keys: HashMap::new(),
            due: Vec::new(),
            left_at: Instant::now(),
            updated_at: Unix::MIN,
        }
    }

    fn is_followed(&self) -> bool {
        !self.wakeups.is_empty() || !self.of_keys.is_empty()
    }

    fn listen_to(&mut self, key: &str, wakeup: &Arc<Wakeup>) {
        let listening = self.of_keys.entry(key.into()).or_default();
        listening.push(Arc::clone(wakeup));
    }

    /// The changes of these keys after a position, in no order.
    fn of_keys_after(
        &self,
        keys: &[String],
        position: ChangeSeq,
    ) -> impl Iterator<Item = &Arc<Change>> {
        let newest = keys.iter().filter_map(|key| self.newest.get(&**key));
        let later = newest.filter(move |seq| **seq > position);
        later.filter_map(|seq| self.changes.get(seq))
    }

    fn add(&mut self, change: Change) {
        if let Some(listening) = self.of_keys.get(&change.key) {
            self.due.extend_from_slice(listening);
        }
        let earlier = match self.newest.get_mut(&change.key) {
            Some(seq) => Some(std::mem::replace(seq, change.seq)),
            None => {
                self.newest.insert(change.key.clone(), change.seq);
                None
            }
        };
        if let Some(earlier) = earlier.and_then(|seq| self.changes.remove(&seq)) {
            self.bytes -= earlier.bytes();
        }
        self.bytes += change.bytes();
        self.changes.insert(change.seq, Arc::new(change));
    }

    fn forget_through(&mut self, seq: ChangeSeq) {
        self.floor = self.floor.max(seq);
        self.forget(seq, usize::MAX);
    }

    /// Forgets the oldest changes up to a number, at most so many of them.
    fn forget(&mut self, seq: ChangeSeq, most: usize) {
        for _ in 0..most {
            let Some(oldest) = self.changes.first_entry() else {
                return;
            };
            if *oldest.key() > seq {
                return;
            }
            let change = oldest.remove();
            self.floor = self.floor.max(change.seq);
            self.newest.remove(&change.key);
            self.bytes -= change.bytes();
        }
    }
}
