//! What the daemon does until it is to stop, and the order of its end.
//!
//! **Invariant**: files are closed last and in order, or left as they are where one of them failed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Daemon, DaemonError, cluster, upgrading};
use sqlite::WriteState;

/// How long answers may take to leave after a file failed.
const FAILED_GRACE: Duration = Duration::from_millis(500);

/// How long renderers may take to hear that the daemon stops. A renderer that does not read would otherwise keep the
/// process.
const RENDERERS_GRACE: Duration = Duration::from_secs(1);

impl Daemon {
    /// Serves until `shutdown` resolves, then stops in order: no new requests, answers to the open
    /// ones, the lanes at a batch edge, the files.
    ///
    /// # Errors
    /// [`DaemonError::StorageFailed`], [`DaemonError::Damaged`]; in a cluster also [`DaemonError::Copy`] and
    /// [`DaemonError::NewerLog`].
    pub fn run<'a>(
        self,
        shutdown: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, Result<(), DaemonError>> {
        self.in_box(Box::pin(shutdown))
    }

    /// Not generic, so that the end of a daemon is compiled once.
    fn in_box(self, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, Result<(), DaemonError>> {
        Box::pin(self.run_until(shutdown))
    }

    async fn run_until(mut self, shutdown: BoxFuture<'_, ()>) -> Result<(), DaemonError> {
        upgrading::notify("READY=1\n");
        let mut fail_stop = self.fail_stop.watch();
        let mut unusable = None;
        let failed = tokio::select! {
            () = shutdown => false,
            _ = fail_stop.wait_for(|state| *state != WriteState::Good) => true,
            why = cluster::copies_are_unusable(self.node.as_ref()) => {
                unusable = Some(why);
                true
            }
        };
        let grace = if failed {
            FAILED_GRACE
        } else {
            self.shutdown_time_max
        };
        tracing::info!(failed, "stopping");
        (self.node.iter()).for_each(|node| node.stops_within(grace));
        self.operator.gate.drain();
        self.operator.live.stop();
        self.operator.backups.stop();
        for server in &self.servers {
            server.stop(grace);
        }
        self.stop.cancel();
        self.plugins.stop_compiling();
        self.tasks.close();
        let cutting = async {
            // Once to see who does not go, once to close their connections.
            for _ in 0..2 {
                tokio::time::sleep(RENDERERS_GRACE.min(grace) / 2).await;
                self.operator.live.cut_off();
            }
        };
        let gone = async {
            self.tasks.wait().await;
            self.operator.live.emptied().await;
        };
        tokio::select! {
            () = gone => {}
            () = cutting => self.tasks.wait().await,
        }
        if failed {
            // The files are left as they are: the next start reads what is really there.
            self.storage_is_good()?;
            return unusable.map_or(Ok(()), Err);
        }
        if !self.sinks.ended(self.shutdown_time_max).await {
            // Safe, because nothing of the call is committed.
            tracing::warn!(
                "sink call did not finish before shutdown; the batch is redelivered at the next start"
            );
        }
        self.close_files().await?;
        self.storage_is_good()?;
        drop(self.lock);
        tracing::info!("stopped");
        Ok(())
    }

    /// The catalog is closed last, because the states of screens are written into it.
    async fn close_files(&mut self) -> Result<(), DaemonError> {
        if let Some(node) = &self.node {
            node.resign();
        }
        self.operator.journal.close().await;
        self.operator.pool.close().await?;
        self.operator.keep_screens(true).await;
        self.operator.catalog.close()?;
        if let Some(node) = self.node.take().and_then(Arc::into_inner) {
            node.close().await;
        }
        Ok(())
    }

    fn storage_is_good(&self) -> Result<(), DaemonError> {
        match &*self.fail_stop.watch().borrow() {
            WriteState::Good => Ok(()),
            WriteState::Failed => Err(DaemonError::StorageFailed),
            WriteState::Damaged(file) => Err(DaemonError::Damaged(file.display().to_string())),
            WriteState::Moved(file, what) => {
                Err(DaemonError::Moved(file.display().to_string(), what))
            }
        }
    }
}
