//! Commands of operators to a lane: retry now, resend dead letters, discard dead letters.
//!
//! The admin API calls it; the lane reads commands at its next step, and a command ends its wait.
//!
//! **Invariant**: a command is stored in the pool before the lane reads it, and the lane misses no command, whatever it
//! does meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Delivery, LaneStatus, ReadError};
use pool::{LaterChanges, PoolError, ResendLimits, Selection};

/// Dead letters that are checked in one call that can resend none, so that no call reads all of them.
const CHUNK: u32 = 1_000;

/// Number of commands so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Commands {
    /// Retries were added or made due.
    pub(super) retries: u64,
    /// The lane must call its sink at once, even if it is paused. A number and not a flag, so that a lane that is busy
    /// misses no command.
    pub(super) now: u64,
}

impl Delivery {
    /// Makes all retries of a sink due and ends a pause of its lane; returns their number. Blocks. The lane is woken
    /// after they are stored, because it reads them from the pool.
    pub fn retry_now(&self, lane: &LaneStatus) -> Result<u64, PoolError> {
        let retries = self.pool.retry_now(lane.name())?;
        lane.commands.send_modify(|commands| {
            commands.retries += 1;
            commands.now += 1;
        });
        tracing::info!(
            sink = &**lane.name(),
            retries,
            "waiting retries are due now"
        );
        Ok(retries)
    }

    /// Resends some dead letters of a selection, up to the id `newest`; returns their number. 0: there are no more.
    /// With `overwrite`, it also resends items that a later request has changed. `None`: the data pool is too far
    /// behind to tell which items these are. A letter keeps its place in the order of acceptance, so without
    /// `overwrite` a sink would receive an old value after a newer one.
    ///
    /// # Errors
    /// The files cannot be read or written; nothing happened.
    pub async fn send_again(
        self: &Arc<Self>,
        lane: &Arc<LaneStatus>,
        selection: &Arc<Selection>,
        newest: i64,
        overwrite: bool,
    ) -> Result<Option<u64>, ReadError> {
        // The lane takes nothing meanwhile that was accepted later.
        let _cutting = lane.cutting.lock().await;
        // The pool places what comes late.
        let in_pool = lane.reach().1 == Some(true);
        let unsettled = match overwrite || in_pool {
            true => HashMap::new(),
            false => match self.unsettled_keys().await? {
                Some(unsettled) => unsettled,
                None => return Ok(None),
            },
        };
        let unsettled = Arc::new(unsettled);
        let (delivery, for_lane) = (Arc::clone(self), Arc::clone(lane));
        let (chosen_of, named) = (Arc::clone(selection), Arc::clone(&unsettled));
        let chosen = tokio::task::spawn_blocking(move || {
            let later = match overwrite {
                true => LaterChanges::Overwritten,
                false => LaterChanges::Stays {
                    in_pool,
                    unsettled: &named,
                },
            };
            delivery.choose_letters(&for_lane, &chosen_of, newest, later)
        });
        // Blocking work is cancelled only when the runtime ends.
        let sent = chosen.await.unwrap_or(Ok(0))?;
        if sent > 0 {
            lane.commands.send_modify(|commands| commands.retries += 1);
            tracing::info!(sink = &**lane.name(), sent, "retrying dead letters");
        } else if !unsettled.is_empty() {
            let letters = self
                .pool
                .letters_in_order(lane.name(), selection, newest, None, CHUNK);
            let mut letters = letters.await?.into_iter();
            // The pool will tell what is newer.
            if letters.any(|one| unsettled.get(&one.key).is_some_and(|last| *last > one.seq)) {
                return Ok(None);
            }
        }
        Ok(Some(sent))
    }

    fn choose_letters(
        &self,
        lane: &LaneStatus,
        selection: &Selection,
        newest: i64,
        later: LaterChanges<'_>,
    ) -> Result<u64, PoolError> {
        let batch = &lane.sink().batch;
        let limits = ResendLimits {
            items_max: batch.items_max,
            bytes_max: batch.bytes_max,
        };
        (self.pool).send_again(lane.name(), selection, newest, limits, later)
    }

    /// Discards some dead letters of a selection, up to the id `newest`; returns how many. 0: there are no
    /// more. Blocks.
    pub fn discard(
        &self,
        lane: &LaneStatus,
        selection: &Selection,
        newest: i64,
    ) -> Result<u64, PoolError> {
        let name = &**lane.name();
        let discarded = self.pool.discard_letters(name, selection, newest)?;
        if discarded > 0 {
            tracing::info!(sink = name, discarded, "dead letters discarded");
        }
        Ok(discarded)
    }
}
