//! Who listens to streams, and how they are woken.
//!
//! **Invariant**: a listener that is woken while it does something else finds so when it next waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use futures_util::task::AtomicWaker;

use super::Changes;

/// Wakes one listener. Only one task waits at a time, so one atomic cell suffices instead of a list with a lock.
#[derive(Debug, Default)]
pub struct Wakeup {
    woken: AtomicBool,
    waiting: AtomicWaker,
}

impl Wakeup {
    /// Wakes the listener, now or when it next waits.
    pub fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.waiting.wake();
        }
    }

    /// Ends when the listener was woken since the last time.
    pub fn woken(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            if self.take() {
                return Poll::Ready(());
            }
            self.waiting.register(context.waker());
            // It may have been woken in between.
            match self.take() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }

    pub(super) fn take(&self) -> bool {
        // Most looks find nothing, and write nothing then.
        self.woken.load(Ordering::Acquire) && self.woken.swap(false, Ordering::AcqRel)
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(super) changes: Arc<Changes>,
    pub(super) streams: Box<[Arc<str>]>,
    /// Of some keys alone. Otherwise a screen of one item would be woken by each change of a large stream.
    pub(super) keys: Option<Box<[String]>>,
    /// Rings after each change of one of the streams.
    pub wakeup: Arc<Wakeup>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut logs = self.changes.lock();
        for stream in &self.streams {
            if let Some(log) = logs.streams.get_mut(stream) {
                let is_other = |wakeup: &Arc<Wakeup>| !Arc::ptr_eq(wakeup, &self.wakeup);
                log.wakeups.retain(is_other);
                log.due.retain(is_other);
                for key in self.keys.iter().flatten() {
                    if let Some(listening) = log.of_keys.get_mut(&**key) {
                        listening.retain(is_other);
                        if listening.is_empty() {
                            log.of_keys.remove(&**key);
                        }
                    }
                }
                log.left_at = Instant::now();
            }
        }
    }
}
