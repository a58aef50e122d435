//! The interruption clock: it ticks while a guest computes, and each tick checks the guests that compute.
//!
//! `plugin/scheduler.rs` reports the start of each call of a guest.
//!
//! **Invariant**: the clock ticks exactly while a guest computes; otherwise its thread sleeps.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use wasmtime::Engine;

use super::TICK;
use base::clock;

/// The clock of one engine. It stops permanently when the last copy is dropped. It rests while no guest computes;
/// otherwise an idle daemon would be woken a hundred times a second.
#[derive(Debug, Default)]
pub(super) struct EpochTicker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of guests that compute.
    computing: usize,
    /// The clock waits for a guest. Only then it must be woken, so that a call of a guest costs no notification
    /// otherwise.
    stands: bool,
    ended: bool,
}

/// The clock ticks while this value exists. A value instead of two calls, so that every way out ends it.
#[derive(Debug)]
pub(super) struct Computing<'a>(&'a Shared);

impl EpochTicker {
    /// Creates a clock for this engine, on its own thread. The thread holds the engine weakly, so that the clock does
    /// not keep it alive.
    pub(super) fn start(engine: &Engine) -> Arc<Self> {
        let epoch_ticker = Self::default();
        let shared = Arc::clone(&epoch_ticker.shared);
        let engine = engine.weak();
        let ticking = std::thread::Builder::new()
            .name("plugin-clock".to_owned())
            .spawn(move || {
                while shared.wait() {
                    clock::sleep_on_own_thread(TICK);
                    let Some(engine) = engine.upgrade() else {
                        return;
                    };
                    engine.increment_epoch();
                }
            });
        if let Err(error) = ticking {
            tracing::error!(%error, "plugins run without an interruption clock");
        }
        Arc::new(epoch_ticker)
    }

    /// Reports that a guest computes from now on.
    pub(super) fn computing(&self) -> Computing<'_> {
        let mut state = self.shared.lock();
        state.computing += 1;
        if std::mem::take(&mut state.stands) {
            self.shared.wake.notify_one();
        }
        drop(state);
        Computing(&self.shared)
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_one();
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.0.lock().computing -= 1;
    }
}

impl Shared {
    /// Waits until a guest computes; `false`: the engine is dropped.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.computing == 0 && !state.ended {
            state.stands = true;
            state = (self.wake.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        !state.ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ticks_for_those_who_compute_and_ends_with_the_last_handle() {
        let epoch_ticker = EpochTicker::default();
        let shared = Arc::clone(&epoch_ticker.shared);
        let (woke, woken) = std::sync::mpsc::channel();
        let clock = std::thread::spawn(move || {
            while shared.wait() {
                let computing = shared.lock().computing;
                if woke.send(computing).is_err() {
                    return;
                }
            }
        });
        let first = epoch_ticker.computing();
        assert_eq!(woken.recv().ok(), Some(1));
        let second = epoch_ticker.computing();
        while woken.recv() != Ok(2) {}
        drop(first);
        while woken.recv() != Ok(1) {}
        drop(second);
        // What was on its way when the last one ended; then nothing more comes until somebody computes again.
        while !epoch_ticker.shared.lock().stands {
            std::thread::yield_now();
        }
        while woken.try_recv().is_ok() {}
        let third = epoch_ticker.computing();
        assert_eq!(woken.recv().ok(), Some(1));
        drop(third);
        drop(epoch_ticker);
        while woken.recv().is_ok() {}
        clock.join().expect("it ends");
    }
}
