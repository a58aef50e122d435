//! Memory for pages of items that are being sent: of all connections, and of those with one read key.
//!
//! **Invariant**: dropping [`Room`] frees its memory, and one read key never uses the memory of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use catalog::Reader;

/// Bytes of one permit.
const UNIT_BYTES: usize = 1 << 10;

/// The memory for all pages.
#[derive(Debug)]
pub struct Pages {
    all: Arc<Semaphore>,
    all_units: usize,
    each_units: usize,
    /// Memory in use by name of the read key.
    keys: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// Memory of one page.
#[derive(Debug)]
pub struct Room {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

/// Memory in use, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagesTaken {
    /// Of all connections.
    pub taken: u64,
    /// Their limit.
    pub max: u64,
    /// The read key that uses the most, and its bytes.
    pub most: Option<(Box<str>, u64)>,
    /// The limit of a read key.
    pub each_max: u64,
}

impl Pages {
    /// With a limit in bytes; one read key can use a part of it.
    pub(super) fn new(bytes_max: usize, key_bytes_max: usize) -> Self {
        let units = |bytes: usize| (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(units(bytes_max))),
            all_units: units(bytes_max),
            each_units: units(key_bytes_max.min(bytes_max)),
            keys: Mutex::default(),
        }
    }

    /// Waits for the memory of a page. A page over the limit of a read key gets that limit. Its own limit is waited for
    /// first, so that a key that waits holds nothing of what others share.
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

    /// The memory in use, and the read key that uses the most.
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
    /// Frees the memory that a page does not need. The size of a page is known after it was read, so the most is taken
    /// before.
    pub fn shrink_to(&mut self, bytes: usize) {
        let units = bytes.div_ceil(UNIT_BYTES);
        for permit in [&mut self.own, &mut self.all] {
            let more = permit.num_permits().saturating_sub(units);
            drop(permit.split(more));
        }
    }
}
