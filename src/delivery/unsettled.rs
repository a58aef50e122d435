//! Operations that the writers of the data pool have not settled.
//!
//! A caller that submits requests based on the pool's items calls this first, and reads the pool afterwards.
//!
//! **Invariant**: an operation that is not settled is above the number, or its key is among the retried ones, from the
//! call on.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Delivery, LaneStatus, ReadError};
use base::order::Seq;
use item::batch::BatchOrigin;
use journal::Pin;

/// Retries per read.
const CHUNK: u32 = 100;
/// Maximum number of operations in retries that are read, because the caller holds their keys in memory.
const OPERATIONS_MAX: usize = 100_000;

/// How far the data pool is behind.
#[derive(Debug)]
pub struct Unsettled {
    /// Every entry up to here is settled, or in a retry.
    pub settled: Seq,
    /// Keys of operations in retries, each with its last entry.
    pub retried: HashMap<String, Seq>,
    /// Entries above `settled` stay in memory, so that [`keys`](Self::keys) finds all of them however long the caller
    /// takes.
    pin: Pin,
}

impl Unsettled {
    /// Keys of all these operations, each with the last entry that names it. `None`: memory does not reach back far
    /// enough.
    pub fn keys(&self) -> Option<HashMap<String, Seq>> {
        let mut keys = self.pin.keys_after(self.settled)?;
        for (key, last) in &self.retried {
            // Memory has all that is above the number, so it has the last.
            keys.entry(key.clone()).or_insert(*last);
        }
        Some(keys)
    }
}

impl Delivery {
    /// How far the writers of the data pool are behind; `None`: further than memory reaches, or there is no writer. The
    /// pin comes first and the cursors next, so that what a lane passes meanwhile is still found above it.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn unsettled(&self) -> Result<Option<Unsettled>, ReadError> {
        let pin = self.journal.pin();
        let writers = self.pool_writers();
        // In this order: what a cursor passes from here on is looked for above it.
        let Some(settled) = writers.iter().map(|lane| lane.cursor()).min() else {
            return Ok(None);
        };
        if settled < pin.after() {
            return Ok(None);
        }
        let mut retried: HashMap<String, Seq> = HashMap::new();
        let mut operations = 0;
        for lane in writers {
            let mut after = 0;
            loop {
                let chunk = self.pool.waiting(lane.name(), after, CHUNK).await?;
                let Some(last) = chunk.last() else { break };
                after = last.retry.id;
                for pool::Waiting { retry, .. } in chunk {
                    let slices = match retry.origin != BatchOrigin::Journal {
                        true => self.pool.resent(retry.id)?,
                        false => self.read_parts(&retry.parts).await?.0,
                    };
                    let before = retried.len();
                    for slice in &slices {
                        for (_, item) in slice.items() {
                            let last = retried.entry(item.key.to_owned()).or_default();
                            *last = slice.entry.seq.max(*last);
                        }
                    }
                    operations += retried.len() - before + 1;
                    if operations > OPERATIONS_MAX {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(Unsettled {
            settled,
            retried,
            pin,
        }))
    }

    /// Keys of operations that the writers of the data pool have not settled, in any stream, each with the last entry
    /// that names it. `None`: the writers are further behind than memory reaches.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(super) async fn unsettled_keys(&self) -> Result<Option<HashMap<String, Seq>>, ReadError> {
        if self.pool_writers().is_empty() {
            return Ok(Some(HashMap::new()));
        }
        let unsettled = self.unsettled().await?;
        Ok(unsettled.and_then(|unsettled| unsettled.keys()))
    }

    /// The writers of the data pool have every entry up to here settled, or in a retry.
    pub fn settled_in_pool(&self) -> Seq {
        let writers = self.pool_writers();
        let cursors = writers.iter().map(|lane| lane.cursor());
        cursors.min().unwrap_or_default()
    }

    /// Sinks that write the data pool, and sinks of which this is not known yet: those may turn out to be writers,
    /// and an operation of theirs must not be missed.
    fn pool_writers(&self) -> Vec<Arc<LaneStatus>> {
        let mut lanes = self.shown();
        lanes.retain(|lane| lane.reach().1 != Some(false));
        lanes
    }

    /// Whether the data pool applies removals of a stream: whether a sink that writes the stream receives them.
    pub fn removes_from_pool(&self, stream: &str) -> bool {
        let lanes = self.shown();
        let mut lanes = lanes.iter().filter(|lane| lane.takes_removals());
        lanes.any(|lane| {
            let (sink, writes_pool) = lane.reach();
            writes_pool == Some(true) && sink.matches(stream)
        })
    }
}
