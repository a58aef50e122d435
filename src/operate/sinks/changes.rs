//! Requests of operators to the daemon to apply the catalog to the running sinks, and their results.
//!
//! **Invariant**: numbers rise; a request is done when its number or a later one is.

use tokio::sync::{Mutex, MutexGuard, watch};

/// Requests of operators to the daemon to change sinks, and the results.
#[derive(Debug, Default)]
pub struct SinkChanges {
    asked: watch::Sender<u64>,
    done: watch::Sender<u64>,
    /// One change at a time: nothing changes between the checks and the write.
    one: Mutex<()>,
    trial: Mutex<()>,
}

impl SinkChanges {
    /// Waits until no other trial runs.
    pub(crate) async fn one_trial(&self) -> MutexGuard<'_, ()> {
        self.trial.lock().await
    }

    /// Waits until no other change runs.
    pub(crate) async fn one_change(&self) -> MutexGuard<'_, ()> {
        self.one.lock().await
    }

    /// Makes the daemon apply the catalog to the running sinks, with the current components.
    pub(crate) async fn carry_out(&self) {
        let asked = self.ask();
        self.wait_for(asked).await;
    }

    /// Requests that the daemon applies the catalog to the running sinks; returns the number of the request.
    pub fn ask(&self) -> u64 {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        number
    }

    /// Waits until the request is carried out.
    pub(super) async fn wait_for(&self, number: u64) {
        let _ = self.done.subscribe().wait_for(|done| *done >= number).await;
    }

    /// Waits for a newer request; returns the number of the newest. Requests that come while one is carried out are
    /// carried out together.
    pub async fn asked_after(&self, seen: u64) -> u64 {
        let mut asked = self.asked.subscribe();
        asked
            .wait_for(|asked| *asked > seen)
            .await
            .map_or(seen, |asked| *asked)
    }

    /// Records that the running sinks are those of the catalog at this request.
    pub fn set_done(&self, number: u64) {
        self.done.send_replace(number);
    }
}
