//! Turns for computing, so that sinks that compute endlessly leave time for others.
//!
//! Plugins from files take turns; the built-in ones, which compute little, do not wait.
//!
//! **Invariant**: a turn lasts from one pause of a guest to the next. A guest that waits for a host, a database or the
//! clock has no turn. A guest that computes without a pause is interrupted at every tick, so all guests get turns.
//! While any guest computes, the clock ticks.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;
use std::thread;

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use super::epoch_ticker::EpochTicker;

#[derive(Debug, Clone)]
pub(super) struct Scheduler {
    /// `None` for guests that do not wait for turns.
    semaphore: Option<Arc<Semaphore>>,
    epoch_ticker: Arc<EpochTicker>,
}

impl Scheduler {
    /// One turn per core except one; at least one. The daemon itself has a core left, so that guests do not delay
    /// requests.
    pub(super) fn new(epoch_ticker: Arc<EpochTicker>) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let scheduler = cores.saturating_sub(1).max(1);
        Self {
            semaphore: Some(Arc::new(Semaphore::new(scheduler))),
            epoch_ticker,
        }
    }

    /// For guests that do not wait for turns.
    pub(super) fn at_once(&self) -> Self {
        Self {
            semaphore: None,
            epoch_ticker: Arc::clone(&self.epoch_ticker),
        }
    }

    /// Runs a guest, in turns, if it waits for them. The turn is given back at each pause, so that a guest that waits
    /// for a host holds none.
    pub(super) async fn take<T>(&self, doing: impl Future<Output = T>) -> T {
        let mut scheduler =
            (self.semaphore.as_ref()).map(|scheduler| PollSemaphore::new(Arc::clone(scheduler)));
        let mut doing = pin!(doing);
        poll_fn(|context| {
            // They are never closed.
            let turn = match &mut scheduler {
                Some(scheduler) => ready!(scheduler.poll_acquire(context)),
                None => None,
            };
            let computing = self.epoch_ticker.computing();
            let done = doing.as_mut().poll(context);
            drop((computing, turn));
            done
        })
        .await
    }
}

#[cfg(test)]
mod tests;
