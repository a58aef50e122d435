//! What is looked after while the daemon runs: room on the disk, retention, views, floods, old progress,
//! memory after a burst, when keys were used.
//!
//! **Invariant**: the gate closes before the disk is full, and opens again when there is room. It does not close for
//! room that the daemon's own logs take.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sinks::Sinks;
use super::{ballast, memory};
use base::clock::{self, Lived, Unix};
use base::order::{ChangeSeq, Seq};
use journal::Retention;
use operate::Operator;
use pool::Pool;
use pool::acts::NextEnd;

/// While nothing moves the files are looked after this often: an idle machine is not woken for it.
const QUIET_SECONDS: u64 = 10;
/// Seconds in which nothing moved before that.
const STILL_SECONDS: u64 = 2;
const EXPIRE_SECONDS: u64 = 600;
/// Views are made for so long in a second, with pauses for the lanes. The lanes write the same file.
const VIEWS_TIME: Duration = Duration::from_millis(500);
const VIEWS_PAUSE: Duration = Duration::from_millis(20);
/// While the disk is nearly full, the files are made as small as they can be this often. Each time, all write-ahead
/// logs are copied back, which waits for readers.
const GIVE_BACK_EVERY: Duration = Duration::from_mins(1);
/// Seconds between writes of when keys were used, and when screens were seen. Each use would be a commit of the catalog
/// otherwise.
const KEY_USES_SECONDS: u64 = 60;

pub(super) struct Watch {
    pub(super) operator: Operator,
    /// Of several nodes, the one that runs them changes the pool.
    pub(super) sinks: Arc<Sinks>,
    pub(super) data_dir: PathBuf,
    pub(super) disk_free_bytes_min: u64,
    pub(super) payloads: Retention,
    pub(super) bodies: Retention,
}

impl Watch {
    pub(super) async fn run(self, stop: CancellationToken) {
        // How far requests, sinks and the data pool had come a second ago; how many renderers were connected.
        let mut before = (Seq::MIN, Seq::MIN, ChangeSeq::MIN, 0);
        // Seconds since something moved, when the next item expires, and when the next override or hold ends.
        let mut still = 0_u64;
        let (mut next_expiry, mut next_end) = (None, NextEnd::default());
        let mut given_back = None;
        let (mut ran_here, mut screens_seen, mut is_stuck) = (false, 0, false);
        for second in 0_u64.. {
            let run_here = self.sinks.run_here();
            if !std::mem::replace(&mut ran_here, run_here) && run_here {
                self.catch_up_on_acts().await;
            }
            let low = self.check_disk(&mut given_back).await;
            if !low {
                ballast::keep(&self.data_dir);
            }
            self.operator.ingest.log_floods(Unix::now());
            self.operator.live.cut_off();
            self.operator.pool.notice_damage();
            self.operator.journal.notice_damage();
            let minute_is_over = second % KEY_USES_SECONDS == KEY_USES_SECONDS - 1;
            self.operator.keep_screens(minute_is_over).await;
            self.operator.merge_screens(&mut screens_seen).await;
            if minute_is_over && !self.operator.database_is_away() {
                let catalog = Arc::clone(&self.operator.catalog);
                let _ = tokio::task::spawn_blocking(move || catalog.keep_uses()).await;
            }
            let expired = next_expiry.is_some_and(|at| at <= Lived::now()) || next_end.is_over();
            if still <= STILL_SECONDS || expired || low || second % QUIET_SECONDS == 0 {
                self.keep(low, &mut is_stuck).await;
                self.refresh_views().await;
                // Also those of a node that was killed before it did.
                self.operator.complete_acts().await;
                if run_here {
                    next_end = self.operator.end_acts().await;
                    next_expiry = self.clean_pool(&stop).await;
                }
            }
            let newest = *self.operator.journal.newest().borrow();
            let renderers = self.operator.metrics.renderers.get();
            let head = self.operator.pool.changes().head();
            let now = (newest, self.operator.delivery.passed(), head, renderers);
            still = if now == before { still + 1 } else { 0 };
            // The burst is over; and the journal has given back its pages, too.
            if matches!(still, 1 | 3) {
                self.operator.pool.shrink();
                memory::trim();
                memory::unmap_program();
            }
            before = now;
            if second % EXPIRE_SECONDS == 0 && run_here {
                self.forget_old_progress().await;
            }
            let due = tokio::time::sleep_until(clock::next_second().into());
            if stop.run_until_cancelled(due).await.is_none() {
                return;
            }
        }
    }

    /// Acts of the run before this one, and of streams that the configuration has no more.
    async fn catch_up_on_acts(&self) {
        self.operator.complete_acts().await;
        self.operator.forget_acts_of_deleted().await;
    }

    /// Payloads that no sink needs, and bodies of refused requests, are the first to go when the disk is nearly full.
    /// `is_stuck`: payloads could not be deleted in the last round. In an outage of the database no round can delete
    /// them, so only its begin and its end are logged.
    async fn keep(&self, disk_is_low: bool, is_stuck: &mut bool) {
        let unless_low = |retention: Retention| Retention {
            bytes_max: if disk_is_low { 0 } else { retention.bytes_max },
            ..retention
        };
        self.operator.journal.keep_bodies(unless_low(self.bodies));
        let freed = self
            .operator
            .delivery
            .free_storage(unless_low(self.payloads));
        let freed = freed.await;
        let was_stuck = std::mem::replace(is_stuck, freed.is_err());
        match freed {
            Err(error) if !was_stuck => {
                tracing::warn!(%error, "cannot delete old payloads; they stay until that works again");
            }
            Ok(()) if was_stuck => tracing::info!("old payloads can be deleted again"),
            _ => {}
        }
    }

    /// Items that expire, removals and past values that nobody needs to know of any more; when the next item expires.
    async fn clean_pool(&self, stop: &CancellationToken) -> Option<Lived> {
        let next = self.operator.expire().await;
        let stopping = stop.clone();
        let bystanders = self.operator.delivery.bystanders();
        self.on_pool("forget removals", move |pool| {
            pool.forget_removed(&bystanders, || stopping.is_cancelled())
        })
        .await;
        let stopping = stop.clone();
        self.on_pool("forget past values", move |pool| {
            pool.sweep_past_values(|| stopping.is_cancelled())
        })
        .await;
        next
    }

    /// What is older than the request log needs no progress.
    async fn forget_old_progress(&self) {
        let oldest = self.operator.journal.oldest_logged().await.ok().flatten();
        self.on_pool("expire", move |pool| match oldest {
            Some(oldest) => pool.forget_before(oldest),
            None => Ok(()),
        })
        .await;
    }

    /// Views with the fields that came in the last second. Where there are very many, some wait for the next.
    async fn refresh_views(&self) {
        let begun = Instant::now();
        while self.on_pool("views", Pool::refresh_views).await == Some(true)
            && begun.elapsed() < VIEWS_TIME
        {
            tokio::time::sleep(VIEWS_PAUSE).await;
        }
    }

    /// Whether there is less room than there should be, even after the logs were given back; when that was.
    async fn check_disk(&self, given_back: &mut Option<Instant>) -> bool {
        let Some(mut free) = self.measure_disk() else {
            return false;
        };
        if free < self.disk_free_bytes_min
            && given_back.is_none_or(|at| at.elapsed() >= GIVE_BACK_EVERY)
        {
            self.give_back().await;
            *given_back = Some(Instant::now());
            let before = free;
            free = self.measure_disk().unwrap_or(before);
            tracing::info!(
                bytes = free.saturating_sub(before),
                free_bytes = free,
                "disk nearly full, returned logs and free pages of the files to it"
            );
        }
        let low = free < self.disk_free_bytes_min;
        let was_low = self.operator.gate.set_disk_low(low);
        if low && !was_low {
            tracing::error!(
                free_bytes = free,
                min_free_bytes = self.disk_free_bytes_min,
                "disk nearly full, rejecting requests until space is free"
            );
        } else if was_low && !low {
            tracing::info!(free_bytes = free, "the disk has free space again");
        }
        low
    }

    /// Gives back what the files can do without.
    async fn give_back(&self) {
        self.operator.journal.give_back().await;
        let (pool, catalog) = (&self.operator.pool, &self.operator.catalog);
        let (pool, catalog) = (Arc::clone(pool), Arc::clone(catalog));
        let done = tokio::task::spawn_blocking(move || {
            pool.give_back();
            catalog.give_back();
        });
        if let Err(error) = done.await {
            tracing::error!(%error, "cannot shrink the files");
        }
    }

    /// Free bytes, which the metrics have, too.
    fn measure_disk(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.data_dir).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        self.operator
            .metrics
            .disk_free_bytes
            .set(i64::try_from(free).unwrap_or(i64::MAX));
        let all = disk.f_blocks.saturating_mul(disk.f_frsize);
        self.operator
            .metrics
            .disk_bytes
            .set(i64::try_from(all).unwrap_or(i64::MAX));
        Some(free)
    }

    /// Runs something that blocks on the pool, away from the runtime's workers.
    async fn on_pool<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
        &self,
        task: &'static str,
        run: impl FnOnce(&Pool) -> Result<T, E> + Send + 'static,
    ) -> Option<T> {
        let pool = Arc::clone(&self.operator.pool);
        match tokio::task::spawn_blocking(move || run(&pool)).await {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => tracing::error!(task, %error, "maintenance of the data pool failed"),
            Err(error) => tracing::error!(task, %error, "maintenance of the data pool failed"),
        }
        None
    }
}
