//! Unit tests of `scheduler.rs`.

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
