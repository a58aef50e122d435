//! Waiting for what happens by itself, without missing it and without waiting longer.
//!
//! **Invariant**: no wait is without a bound, and the bound is far beyond what a busy machine takes.
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking one waits for a process of its own: it polls"
)]

use std::time::{Duration, Instant};

/// Longest wait for anything that should happen at once in this process.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// The same in a process of its own, which may have to compile a component first.
pub(crate) const PROCESS_DEADLINE: Duration = Duration::from_secs(240);

/// Polls until `found` has something, or fails with `what` after [`PROCESS_DEADLINE`].
pub(crate) fn eventually<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    eventually_within(PROCESS_DEADLINE, || what.to_owned(), found)
}

/// The same within another time; `what` is asked when it was in vain.
pub(crate) fn eventually_within<T>(
    deadline: Duration,
    what: impl FnOnce() -> String,
    mut found: impl FnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        if started.elapsed() >= deadline {
            panic!("in vain: {}", what());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Polls beside a daemon in this process until `found` has something, or fails with `what` after [`DEADLINE`].
pub(crate) async fn eventually_async<T>(
    what: &str,
    mut found: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
