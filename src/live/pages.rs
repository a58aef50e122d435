//! Room for pages of items that are being sent: all of them, and those with one read key.
//!
//! **Invariant**: room is free again when it is dropped, and a key takes none that another could need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use catalog::Reader;

/// What permits count.
const UNIT_BYTES: usize = 1 << 10;

/// The room for all pages.
#[derive(Debug)]
pub struct Pages {
    all: Arc<Semaphore>,
    all_units: usize,
    each_units: usize,
    /// By the name of a read key.
    keys: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// Room that a page has.
#[derive(Debug)]
pub struct Room {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

/// How much room is taken, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagesTaken {
    /// By all.
    pub taken: u64,
    /// Of so much.
    pub max: u64,
    /// The read key that has most, and how much that is.
    pub most: Option<(Box<str>, u64)>,
    /// Of so much.
    pub each_max: u64,
}

impl Pages {
    /// Of so many bytes; one key may have some of them.
    pub(super) fn new(bytes_max: usize, key_bytes_max: usize) -> Self {
        let units = |bytes: usize| (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(units(bytes_max))),
            all_units: units(bytes_max),
            each_units: units(key_bytes_max.min(bytes_max)),
            keys: Mutex::default(),
        }
    }

    /// Room for a page of so many bytes, as soon as there is; of more than a key may have: all of it.
    pub async fn room(&self, reader: &Reader, bytes: usize) -> Option<Room> {
        let units = bytes.div_ceil(UNIT_BYTES).min(self.each_units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let own = {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            match keys.get(&reader.name) {
                Some(own) => Arc::clone(own),
                None => {
                    let own = Arc::new(Semaphore::new(self.each_units));
                    keys.insert(reader.name.clone(), Arc::clone(&own));
                    own
                }
            }
        };
        let own = own.acquire_many_owned(units).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
        Some(Room { own, all })
    }

    /// How much is taken, and by whom.
    pub fn taken(&self) -> PagesTaken {
        let bytes = |units: usize| (units * UNIT_BYTES) as u64;
        let taken =
            |of: &Semaphore, units: usize| bytes(units.saturating_sub(of.available_permits()));
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let each = keys
            .iter()
            .map(|(key, own)| (key, taken(own, self.each_units)));
        let most = each
            .filter(|(_, taken)| *taken > 0)
            .max_by_key(|(_, taken)| *taken);
        PagesTaken {
            taken: taken(&self.all, self.all_units),
            max: bytes(self.all_units),
            most: most.map(|(key, taken)| (key.clone(), taken)),
            each_max: bytes(self.each_units),
        }
    }
}

impl Room {
    /// Gives back what a page does not need.
    pub fn shrink_to(&mut self, bytes: usize) {
        let units = bytes.div_ceil(UNIT_BYTES);
        for permit in [&mut self.own, &mut self.all] {
            let more = permit.num_permits().saturating_sub(units);
            drop(permit.split(more));
        }
    }
}
