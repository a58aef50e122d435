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

/// Scheduler of a guest.
#[derive(Debug, Clone)]
pub(super) struct Scheduler {
    /// `None` for guests that do not wait for turns.
    semaphore: Option<Arc<Semaphore>>,
    epoch_ticker: Arc<EpochTicker>,
}

impl Scheduler {
    /// One turn per core except one; at least one.
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

    /// Runs a guest, in turns, if it waits for them.
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
mod tests {
    use std::cell::Cell;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::sync::oneshot;

    use super::*;

    fn one_turn() -> (Scheduler, Arc<Semaphore>) {
        let semaphore = Arc::new(Semaphore::new(1));
        let scheduler = Scheduler {
            semaphore: Some(Arc::clone(&semaphore)),
            epoch_ticker: Arc::default(),
        };
        (scheduler, semaphore)
    }

    #[test]
    fn who_has_no_turn_does_nothing_and_who_waits_keeps_none() {
        let mut context = Context::from_waker(Waker::noop());
        let (all, scheduler) = one_turn();
        let steps = Cell::new(0);
        let (answer, mut answered) = oneshot::channel::<()>();
        let doing = poll_fn(|context| {
            assert_eq!(scheduler.available_permits(), 0, "it is its turn");
            steps.set(steps.get() + 1);
            Pin::new(&mut answered).poll(context)
        });
        let mut doing = pin!(all.take(doing));
        let taken = scheduler.try_acquire().expect("a turn");
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!(steps.get(), 0);
        drop(taken);
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!((steps.get(), scheduler.available_permits()), (1, 1));
        let taken = scheduler.try_acquire().expect("a turn");
        answer.send(()).expect("it is waited for");
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!(steps.get(), 1);
        // Who takes no turns does not wait either.
        let others = all.at_once();
        let mut others = pin!(others.take(std::future::ready(7)));
        assert_eq!(others.as_mut().poll(&mut context), Poll::Ready(7));
        drop(taken);
        assert_eq!(doing.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(scheduler.available_permits(), 1);
    }

    #[test]
    fn turns_are_taken_in_the_order_of_waiting() {
        let mut context = Context::from_waker(Waker::noop());
        let (all, scheduler) = one_turn();
        let taken = scheduler.try_acquire().expect("a turn");
        let mut first = pin!(all.take(std::future::ready(())));
        let mut second = pin!(all.take(std::future::ready(())));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(taken);
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_ready());
        assert!(second.as_mut().poll(&mut context).is_ready());
    }
}
