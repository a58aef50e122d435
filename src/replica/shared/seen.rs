//! Which change of the catalog the lookups of this node include, and those of every node.
//!
//! **Invariant**: a number is raised after what it stands for can be seen, never before.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::SharedLog;

/// A change returns after this time, whoever has not seen it. It is a second longer than a node that is frozen is held for
/// live, so that only a database that does not answer makes a change return before every live node has seen it.
const SEEN_WITHIN: Duration = Duration::from_secs(7);

/// How far lookups are, by the numbers of entries.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Those of this node include the catalog's entries up to here.
    pub(super) here: watch::Sender<u64>,
    /// Those of every node that lives.
    everywhere: watch::Sender<u64>,
    /// Somebody waits until every node has come here. While it is set, the node asks every 20 ms instead of every
    /// second.
    wanted: watch::Sender<u64>,
}

impl SharedLog {
    /// The newest entry of the catalog that lookups of this node include.
    pub fn catalog(&self) -> u64 {
        *self.0.seen.here.borrow()
    }

    /// The same, and its changes.
    pub fn catalog_changes(&self) -> watch::Receiver<u64> {
        self.0.seen.here.subscribe()
    }

    /// Waits until lookups of this node include a newer entry of the catalog than this one; whether they do. It is not there
    /// yet, so it is followed now.
    pub async fn catalog_after(&self, n: u64, time_max: Duration) -> bool {
        let mut here = self.catalog_changes();
        self.0.lacking.notify_one();
        let newer = here.wait_for(|here| *here > n);
        matches!(tokio::time::timeout(time_max, newer).await, Ok(Ok(_)))
    }

    /// Lookups of this node include this entry of the catalog, and all before it.
    pub(crate) fn catalog_is_seen(&self, n: u64) {
        raise(&self.0.seen.here, n);
    }

    /// Lookups of every node that lives include the catalog's entries up to this one.
    pub fn set_seen_everywhere(&self, n: u64) {
        raise(&self.0.seen.everywhere, n);
        self.wake();
    }

    /// The entry that somebody waits for to be seen everywhere, and its changes; see [`is_awaited`](Self::is_awaited).
    pub fn wanted(&self) -> watch::Receiver<u64> {
        self.0.seen.wanted.subscribe()
    }

    /// Whether somebody waits until every node sees a change: it is to be asked often, because a caller waits for the
    /// answer.
    pub fn is_awaited(&self) -> bool {
        let wanted = *self.0.seen.wanted.borrow();
        wanted > *self.0.seen.everywhere.borrow()
    }

    /// Waits until the lookups of every node that lives include this entry, or until one has had time enough. Blocks.
    pub(crate) fn wait_for_all(&self, n: u64) {
        let seen = &self.0.seen;
        raise(&seen.wanted, n);
        let until = Instant::now() + SEEN_WITHIN;
        let mut state = self.state();
        while *seen.everywhere.borrow() < n && state.ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!(
                    "a node has not seen a change of the catalog yet; it sees it when it answers again"
                );
                break;
            }
            let waited = self.0.moved.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        // Nobody waits for it any more.
        if *seen.wanted.borrow() == n {
            seen.wanted.send_replace(0);
        }
    }

    /// Wakes who [waits](Self::wait_for_all). It takes the lock, because a waiter that has looked and does not wait yet
    /// would miss it otherwise.
    fn wake(&self) {
        // Under the lock: who waits has looked before, or looks again.
        let _state = self.state();
        self.0.moved.notify_all();
    }
}

/// It never falls, because answers may come in another order than the entries.
fn raise(number: &watch::Sender<u64>, to: u64) {
    number.send_if_modified(|number| {
        let is_newer = *number < to;
        *number = to.max(*number);
        is_newer
    });
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::log::Log;

    #[test]
    fn a_change_returns_when_the_last_node_has_seen_it() {
        let nowhere = postgres_server::cluster_at("postgres://127.0.0.1:1/none", "headgate");
        let log = SharedLog::over(Log::new(nowhere, Uuid::now_v7()), 1).0;
        let (wanted, waiting) = (log.wanted(), log.clone());
        let begun = Instant::now();
        let waits = std::thread::spawn(move || waiting.wait_for_all(7));
        while !wanted.has_changed().expect("it is open") && !waits.is_finished() {
            std::thread::yield_now();
        }
        assert!(wanted.has_changed().expect("it is open"), "nobody asks");
        for seen in [0, 6] {
            log.set_seen_everywhere(seen);
            let is_over = waits.is_finished();
            assert!(!is_over || begun.elapsed() >= SEEN_WITHIN, "{seen}");
        }
        log.set_seen_everywhere(7);
        waits.join().expect("no panic");
        assert!(!log.is_awaited());
        // What all have seen already is waited for by nobody.
        log.wait_for_all(7);
        assert!(!log.is_awaited());
    }
}
