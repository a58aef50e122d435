//! What is looked after while the daemon runs: room on the disk, checkpoints, floods, old progress,
//! memory after a burst.
//!
//! **Invariant**: the gate closes before the disk is full, and opens again when there is room.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::memory;
use crate::clock;
use crate::http::Parts;
use crate::journal::Retention;
use crate::pool::Pool;

const EVERY: Duration = Duration::from_secs(1);
/// Seconds between checkpoints of a pool that is written to: until then the journal keeps payloads.
const CHECKPOINT_SECONDS: u64 = 5;
const EXPIRE_SECONDS: u64 = 600;

pub(super) struct Watch {
    pub(super) parts: Parts,
    pub(super) data_dir: PathBuf,
    pub(super) disk_free_bytes_min: u64,
    pub(super) retention_ms: u64,
    pub(super) payloads: Retention,
    pub(super) bodies: Retention,
}

impl Watch {
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // How far requests and sinks had come when memory was given back, and a second ago; how many
        // renderers were connected.
        let mut trimmed_at = (0, 0, 0);
        let mut before = trimmed_at;
        for second in 0_u64.. {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => return,
            }
            let low = self.check_disk();
            self.keep(low).await;
            self.parts.ingest.log_floods(clock::unix_ms());
            self.parts.live.cut_off();
            if second % CHECKPOINT_SECONDS == 0 {
                self.on_pool("checkpoint", |pool| pool.checkpoint()).await;
                self.parts.delivery.release();
            }
            // A second in which nothing moved, after some in which it did: the burst is over.
            let newest = *self.parts.journal.newest().borrow();
            let renderers = self.parts.metrics.renderers.get();
            let now = (newest, self.parts.delivery.passed(), renderers);
            if now == before && now != trimmed_at {
                trimmed_at = now;
                self.parts.pool.shrink();
                memory::trim();
            }
            before = now;
            if second % EXPIRE_SECONDS == 0 {
                let before_ms = clock::unix_ms().saturating_sub(self.retention_ms);
                self.on_pool("expire", move |pool| {
                    pool.expire_progress(before_ms)?;
                    pool.forget_removed()
                })
                .await;
            }
        }
    }

    /// Payloads that no sink needs, and bodies of refused requests, are the first to go when the disk is nearly full.
    async fn keep(&self, disk_is_low: bool) {
        let unless_low = |retention: Retention| Retention {
            bytes_max: if disk_is_low { 0 } else { retention.bytes_max },
            ..retention
        };
        self.parts.journal.keep_bodies(unless_low(self.bodies));
        let kept = self.parts.delivery.keep(unless_low(self.payloads));
        if let Err(error) = kept.await {
            tracing::warn!(%error, "payloads are kept longer than they must be");
        }
    }

    /// Whether there is less room than there should be.
    fn check_disk(&self) -> bool {
        let Ok(disk) = rustix::fs::statvfs(&self.data_dir) else {
            return false;
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        self.parts
            .metrics
            .disk_free_bytes
            .set(i64::try_from(free).unwrap_or(i64::MAX));
        let low = free < self.disk_free_bytes_min;
        let was_low = self.parts.gate.set_disk_low(low);
        if low && !was_low {
            tracing::error!(
                free_bytes = free,
                min_free_bytes = self.disk_free_bytes_min,
                "the disk is nearly full: requests are refused until there is room"
            );
        } else if was_low && !low {
            tracing::info!(free_bytes = free, "there is room on the disk again");
        }
        low
    }

    /// Runs something that blocks on the pool, away from the runtime's workers.
    async fn on_pool<E: std::fmt::Display + Send + 'static>(
        &self,
        task: &'static str,
        run: impl FnOnce(&Pool) -> Result<(), E> + Send + 'static,
    ) {
        let pool = std::sync::Arc::clone(&self.parts.pool);
        match tokio::task::spawn_blocking(move || run(&pool)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(task, %error, "the pool cannot be looked after"),
            Err(error) => tracing::error!(task, %error, "the pool cannot be looked after"),
        }
    }
}
