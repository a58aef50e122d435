//! The items that wait for their batch, and the callers that wait for room.
//!
//! **Invariant**: the bytes are those of the items that are here; who waited first is let in first.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use serde_json::value::RawValue;

/// An item on its way.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) raw: Box<RawValue>,
    /// The value of the item key, if the batcher knows it.
    pub(crate) key: Option<String>,
    /// In the order in which items came.
    pub(crate) seq: u64,
    /// When it came.
    pub(crate) at: Duration,
}

impl Entry {
    pub(crate) fn len(&self) -> usize {
        self.raw.get().len()
    }
}

/// A caller of `add` whose item has no room yet.
pub(crate) struct Waiter {
    pub(crate) entry: Entry,
    /// True: the item is in the queue; false: the batcher was closed.
    pub(crate) admitted: SyncSender<bool>,
}

/// A limit, and what is held elsewhere of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) limit: u64,
    pub(crate) held: u64,
}

#[derive(Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// How many were taken from the front.
    taken: u64,
    /// Places by key, counted from the first item that ever was; there is one if only the latest of each key counts.
    newest: Option<HashMap<String, u64>>,
    pub(crate) waiters: VecDeque<Waiter>,
}

impl Queue {
    pub(crate) fn new(latest_only: bool) -> Self {
        Self {
            newest: latest_only.then(HashMap::new),
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// Where the item is that this one would replace.
    fn older(&self, entry: &Entry) -> Option<usize> {
        let place = self.newest.as_ref()?.get(entry.key.as_ref()?)?;
        usize::try_from(place - self.taken).ok()
    }

    /// Whether an item may go in: with what else waits it is within the limits, or nothing waits.
    pub(crate) fn takes(&self, entry: &Entry, rooms: &[Room]) -> bool {
        if let Some(older) = self.older(entry) {
            let bytes = self.bytes - self.entries[older].len() + entry.len();
            return rooms
                .iter()
                .all(|room| bytes as u64 + room.held <= room.limit);
        }
        self.waiters.is_empty() && self.fits(entry, rooms)
    }

    pub(crate) fn fits(&self, entry: &Entry, rooms: &[Room]) -> bool {
        rooms.iter().all(|room| {
            let waiting = self.bytes as u64 + room.held;
            waiting == 0 || waiting + entry.len() as u64 <= room.limit
        })
    }

    /// Puts an item at the end, or in the place of an older one: then it is true.
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        if let Some(older) = self.older(&entry) {
            let older = &mut self.entries[older];
            self.bytes = self.bytes - older.len() + entry.len();
            older.raw = entry.raw;
            return true;
        }
        if let (Some(newest), Some(key)) = (&mut self.newest, &entry.key) {
            newest.insert(key.clone(), self.taken + self.entries.len() as u64);
        }
        self.bytes += entry.len();
        self.entries.push_back(entry);
        false
    }

    /// Takes items from the front.
    pub(crate) fn pop(&mut self, count: usize) -> Vec<Entry> {
        let popped: Vec<Entry> = self.entries.drain(..count).collect();
        for entry in &popped {
            self.bytes -= entry.len();
            if let (Some(newest), Some(key)) = (&mut self.newest, &entry.key) {
                newest.remove(key);
            }
        }
        self.taken += popped.len() as u64;
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
        popped
    }

    /// How many items the next batch has, and whether it is full.
    pub(crate) fn prefix(&self, items_max: usize, bytes_max: usize) -> (usize, bool) {
        let mut size = 1;
        for (count, entry) in self.entries.iter().enumerate() {
            if count == items_max {
                return (count, true);
            }
            size += entry.len() + 1;
            if size > bytes_max && count > 0 {
                return (count, true);
            }
            if size >= bytes_max {
                return (count + 1, true);
            }
        }
        (self.entries.len(), self.entries.len() == items_max)
    }
}
