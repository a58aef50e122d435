//! Sinks that run on another node: what this node shows of them.
//!
//! The daemon of a cluster calls [`Delivery::stand_in`] while another node runs the sinks; status, pages and statuses
//! of requests read [`Delivery::shown`].
//!
//! **Invariant**: a stand-in delivers nothing and holds nothing back: it has settings, whether an operator has paused the
//! sink, and the cursor that the copy of the pool has. [`Delivery::lane`] never returns one.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{Delivery, Hold, LaneState, LaneStatus};
use base::order::Seq;
use pool::PoolError;

impl Delivery {
    /// The lanes, and the stand-ins of sinks without a lane.
    pub fn shown(&self) -> Vec<Arc<LaneStatus>> {
        let mut lanes = self.lanes();
        let elsewhere = self
            .elsewhere
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<_> = (elsewhere.iter())
            .filter(|one| lanes.iter().all(|lane| lane.name() != one.name()))
            .cloned()
            .collect();
        drop(elsewhere);
        lanes.extend(missing);
        lanes
    }

    /// The lane of a sink, or its stand-in.
    pub fn shown_of(&self, name: &str) -> Option<Arc<LaneStatus>> {
        let mut shown = self.shown().into_iter();
        shown.find(|lane| **lane.name() == *name)
    }

    /// Every sink has passed the entries up to here, wherever it runs.
    pub fn shown_passed(&self) -> Seq {
        self.passed_by(&self.shown())
    }

    /// Shows these sinks, which run elsewhere, with the cursors that the pool has now. `reason` says where they run. A
    /// sink that the pool does not know begins with the next request, so its stand-in has the newest entry.
    ///
    /// # Errors
    /// The pool cannot be read; what was shown before still is.
    pub async fn stand_in(
        &self,
        sinks: &[Arc<catalog::Sink>],
        reason: &str,
    ) -> Result<(), PoolError> {
        let known = self.pool.known_sinks().await?;
        let places = self.pool.latest_places().await?;
        // All sinks of a data pool that is new begin with the first request, and others that it does not know with the next.
        let unknown = match known.is_empty() {
            true => Seq::MIN,
            false => *self.journal.newest().borrow(),
        };
        let stand_ins = sinks.iter().map(|sink| {
            let known = known.iter().find(|known| known.name == sink.name());
            let cursor = known.map_or(unknown, |known| known.cursor);
            let status = LaneStatus::elsewhere(&sink.settings, cursor, reason);
            status.hold(Hold::of(sink));
            status.set_writes_pool(self.known.may_write_pool(&sink.settings));
            let place = places.iter().find(|(name, _)| *name == sink.name());
            if let Some((_, place)) = place {
                status.set_place(*place);
            }
            Arc::new(status)
        });
        let stand_ins = stand_ins.collect();
        let mut elsewhere = self
            .elsewhere
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *elsewhere = stand_ins;
        Ok(())
    }
}

impl LaneStatus {
    /// The stand-in of a sink.
    fn elsewhere(sink: &settings::Sink, cursor: Seq, reason: &str) -> Self {
        let status = Self::new(sink, cursor, CancellationToken::new());
        status.set_state(LaneState::Elsewhere {
            reason: reason.to_owned(),
        });
        status
    }
}
