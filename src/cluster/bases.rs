//! Bases for nodes that have no copies: made by the node that runs the sinks.
//!
//! **Invariant**: the log never has to keep much more than what the files take, or what came in a quarter of a day.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::clock::since_boot;
use replica::log::Log;
use replica::{AtRestError, MadeCopies};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Role;
use crate::follower::KeepPlaces;

/// How often is looked.
const EVERY: Duration = Duration::from_mins(1);
/// Bytes of entries that are always left without a new base, because a base of small files would be made again and
/// again.
const ENTRIES_BYTES_MIN: u64 = 64 << 20;
/// The entries of a generation go when a base is behind them. A quiet cluster gets one too, so that they do not stay
/// forever.
const BASE_AFTER: Duration = Duration::from_hours(6);
/// The catalog may be changed while the files are copied, and then the copies are of no one entry, so they are made
/// again.
const TIMES_MAX: u32 = 5;

pub struct Bases {
    log: Log,
    format: i32,
    /// In the order of [`replica::ReplicaFile::ALL`].
    files: [PathBuf; 2],
    /// Called before the files are copied, because the place of a file may have moved in memory only.
    keep: Arc<KeepPlaces>,
    every: Duration,
}

impl Bases {
    /// With a log of its own.
    pub fn new(log: Log, format: i32, files: [PathBuf; 2], keep: KeepPlaces) -> Self {
        Self {
            log,
            format,
            files,
            keep: Arc::new(keep),
            every: EVERY,
        }
    }

    /// Makes them, while this node runs the sinks, until `stop`. The other nodes make none, because they would copy and
    /// store the same files once more.
    pub async fn run(mut self, role: watch::Receiver<Role>, stop: CancellationToken) {
        let mut made_at = since_boot();
        loop {
            let pause = tokio::time::sleep(self.every);
            if stop.run_until_cancelled(pause).await.is_none() {
                break;
            }
            if *role.borrow() == Role::Waits {
                continue;
            }
            let is_old = since_boot() >= made_at + BASE_AFTER;
            match self.make_if_needed(is_old).await {
                Ok(false) => {}
                Ok(true) => made_at = since_boot(),
                Err(error) => tracing::warn!(%error, "cannot store a base for new nodes yet"),
            }
        }
        self.log.close().await;
    }

    /// Whether there is a new one. One of an older format than this version's is due, because a newer version may pass
    /// over that format.
    async fn make_if_needed(&mut self, is_old: bool) -> Result<bool, AtRestError> {
        let head = self.log.head().await?;
        if head.base == head.place.n {
            return Ok(is_old);
        }
        let files = self.files.iter().filter_map(|path| path.metadata().ok());
        let bytes: u64 = files.map(|file| file.len()).sum();
        // A newer version may pass over the format that the log had: it needs a base of the one that came next.
        let format = self.log.base_format().await?;
        let is_due = is_old || format.is_none_or(|format| format < self.format);
        if !is_due && self.log.bytes_after(head.base).await? < ENTRIES_BYTES_MIN + bytes {
            return Ok(false);
        }
        for _ in 0..TIMES_MAX {
            let (files, keep) = (self.files.clone(), Arc::clone(&self.keep));
            let made = tokio::task::spawn_blocking(move || {
                if let Err(error) = keep() {
                    tracing::debug!(error, "cannot note where the copies are");
                }
                MadeCopies::of([&files[0], &files[1]])
            });
            let Ok(made) = made.await else {
                return Ok(false);
            };
            if made?.store(&mut self.log, self.format).await? {
                self.log.drop_bases().await?;
                tracing::info!(entry = head.place.n, "a base for new nodes is stored");
                return Ok(true);
            }
        }
        Ok(false)
    }
}
