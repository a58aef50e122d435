//! With what the positions of renderers begin.
//!
//! **Invariant**: where the database has lost changes, no renderer goes on from a position of before.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::daemon::DaemonError;
use base::order::Epoch;
use pool::{Pool, PoolError};

/// From a failure to the next attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The epochs of the pool, as the nodes of a cluster agree on them.
pub(super) struct Epochs {
    pool: Arc<Pool>,
    /// 0: the database has lost nothing.
    wanted: watch::Receiver<Epoch>,
}

impl Epochs {
    /// Begins the first one, unless another node has, or the one that is wanted. All nodes have the same, because a
    /// renderer may continue on any of them.
    pub(super) async fn begin(
        pool: &Arc<Pool>,
        wanted: watch::Receiver<Epoch>,
    ) -> Result<Self, DaemonError> {
        let mut epochs = Self {
            pool: Arc::clone(pool),
            wanted,
        };
        epochs.write(Pool::begin).await?;
        epochs.begin_wanted().await?;
        Ok(epochs)
    }

    /// Begins each that is wanted, until `stop`.
    pub(super) async fn renew(mut self, stop: CancellationToken) {
        let renewing = async {
            while self.wanted.changed().await.is_ok() {
                while let Err(error) = self.begin_wanted().await {
                    tracing::debug!(%error, "screens do not start over yet");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        };
        stop.run_until_cancelled(renewing).await;
    }

    async fn begin_wanted(&mut self) -> Result<(), DaemonError> {
        let epoch = *self.wanted.borrow_and_update();
        match epoch == Epoch::default() {
            true => Ok(()),
            false => self.write(move |pool| pool.begin_epoch(epoch)).await,
        }
    }

    async fn write(
        &self,
        write: impl FnOnce(&Pool) -> Result<(), PoolError> + Send + 'static,
    ) -> Result<(), DaemonError> {
        let pool = Arc::clone(&self.pool);
        let written = tokio::task::spawn_blocking(move || write(&pool)).await;
        written.map_err(|error| DaemonError::Cluster(error.to_string()))??;
        Ok(())
    }
}
