//! Loads the retries of a lane from the pool.
//!
//! **Invariant**: after each settlement and each command of an operator, the lane knows every retry and its keys.

use std::collections::HashSet;

use super::retry_queue::Contents;
use super::{Lane, StepError};
use item::batch::BatchOrigin;
use pool::{Retry, Settlement};
use settings::Ordering;

/// Retries per read. They are read in parts, because a lane can have many and each has a list of items.
const CHUNK: u32 = 100;

impl Lane {
    /// Loads all retries from the pool; known ones cost little, because their payloads are not read again.
    pub(super) async fn load_retries(&mut self) -> Result<(), StepError> {
        let mut gone: HashSet<i64> = self.retries.ids().collect();
        let mut after = 0;
        loop {
            let chunk = self.delivery.pool.waiting(&self.name, after, CHUNK).await?;
            let Some(last) = chunk.last() else { break };
            after = last.retry.id;
            for pool::Waiting { retry, .. } in chunk {
                gone.remove(&retry.id);
                if !self.retries.update_due(&retry) {
                    self.retries.remove(retry.id);
                    let contents = self.contents(&retry).await?;
                    self.retries.add(retry.id, &retry, contents);
                }
            }
        }
        gone.into_iter().for_each(|id| self.retries.remove(id));
        self.status.set_retried(self.retries.requests());
        Ok(())
    }

    /// Applies a settlement, whose retries were stored under these ids. If that fails, all are loaded again, because a
    /// key that waits unseen could be overtaken.
    pub(super) async fn replace_retries(
        &mut self,
        settlement: &Settlement,
        ids: &[i64],
    ) -> Result<(), StepError> {
        if let Some(done) = &settlement.retry_done {
            self.retries.remove(done.id);
        }
        self.status.set_retried(self.retries.requests());
        for (retry, id) in settlement.retries.iter().zip(ids) {
            let stored = Retry {
                id: *id,
                ..retry.clone()
            };
            match self.contents(&stored).await {
                Ok(contents) => {
                    self.retries.add(*id, &stored, contents);
                    self.status.set_retried(self.retries.requests());
                }
                Err(error) => {
                    // Nothing goes on before all is known.
                    self.opened = false;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The keys of a retry. In strict order they are not needed; a retry that cannot be read has none.
    async fn contents(&self, retry: &Retry) -> Result<Contents, StepError> {
        if self.sink.ordering == Ordering::Strict {
            return Ok(Contents::default());
        }
        let slices = match retry.origin != BatchOrigin::Journal {
            true => self.delivery.pool.resent(retry.id)?,
            false => self.delivery.read_parts(&retry.parts).await?.0,
        };
        Ok(self.retries.contents(&slices))
    }
}
