//! Turns at computing, so that sinks that compute for ever leave the machine to others.
//!
//! Plugins from files take turns; the built-in ones, which compute little, do not wait for them.
//!
//! **Invariant**: a turn lasts from one pause of a guest to the next. Who waits for a host, a database or the clock has
//! none, and one that computes without a pause is interrupted at every tick, so that turns go round.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;
use std::thread;

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// As many as there are cores, but for one; at least one.
pub(super) fn turns() -> Arc<Semaphore> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(cores.saturating_sub(1).max(1)))
}

/// Does something in turns, if there are any to take.
pub(super) async fn in_turns<T>(
    turns: Option<&Arc<Semaphore>>,
    doing: impl Future<Output = T>,
) -> T {
    let Some(turns) = turns else {
        return doing.await;
    };
    let mut turns = PollSemaphore::new(Arc::clone(turns));
    let mut doing = pin!(doing);
    poll_fn(|context| {
        // They are never closed.
        let turn = ready!(turns.poll_acquire(context));
        let done = doing.as_mut().poll(context);
        drop(turn);
        done
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn who_has_no_turn_does_nothing_and_who_waits_keeps_none() {
        let mut context = Context::from_waker(Waker::noop());
        let turns = Arc::new(Semaphore::new(1));
        let steps = Cell::new(0);
        let (answer, mut answered) = oneshot::channel::<()>();
        let doing = poll_fn(|context| {
            assert_eq!(turns.available_permits(), 0, "it is its turn");
            steps.set(steps.get() + 1);
            Pin::new(&mut answered).poll(context)
        });
        let mut doing = pin!(in_turns(Some(&turns), doing));
        let taken = turns.try_acquire().expect("a turn");
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!(steps.get(), 0);
        drop(taken);
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!((steps.get(), turns.available_permits()), (1, 1));
        let taken = turns.try_acquire().expect("a turn");
        answer.send(()).expect("it is waited for");
        assert!(doing.as_mut().poll(&mut context).is_pending());
        assert_eq!(steps.get(), 1);
        // Who takes no turns does not wait either.
        let mut others = pin!(in_turns(None, std::future::ready(7)));
        assert_eq!(others.as_mut().poll(&mut context), Poll::Ready(7));
        drop(taken);
        assert_eq!(doing.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(turns.available_permits(), 1);
    }

    #[test]
    fn turns_are_taken_in_the_order_of_waiting() {
        let mut context = Context::from_waker(Waker::noop());
        let turns = Arc::new(Semaphore::new(1));
        let taken = turns.try_acquire().expect("a turn");
        let mut first = pin!(in_turns(Some(&turns), std::future::ready(())));
        let mut second = pin!(in_turns(Some(&turns), std::future::ready(())));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(taken);
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_ready());
        assert!(second.as_mut().poll(&mut context).is_ready());
    }
}
