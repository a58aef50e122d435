//! Stores the results of a step.
//!
//! **Invariant**: a result counts only once it is committed. If it cannot be stored yet, the lane waits, and does not
//! call the sink a second time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Lane, StepError};
use crate::{AddError, LaneState};
use base::clock::Unix;
use item::batch::Batch;
use journal::JournalError;
use pool::{PoolError, Settlement};

/// Pause between two attempts to store results.
const STORAGE_PAUSE: Duration = Duration::from_secs(1);

impl StepError {
    /// Whether the database of the cluster does not answer.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Pool(error) | Self::Begin(AddError::Pool(error)) => error.is_outage(),
            Self::Read(error) | Self::Begin(AddError::Journal(error)) => error.is_outage(),
            // That is how a lane learns of it.
            Self::Journal(JournalError::Unreachable) | Self::LeaseOver => true,
            Self::Journal(_) | Self::Plugin(_) | Self::NotGranted(_) => false,
        }
    }
}

impl Lane {
    /// The retry may have become dead letters meanwhile; then nothing of the step is stored, and the retries are
    /// loaded.
    pub(super) async fn settle(&mut self, mut settlement: Settlement) -> Result<(), StepError> {
        settlement.called = settlement.cursor.is_some() && self.call.is_some();
        settlement.failing.clone_from(&self.failing);
        let push = self.expect_pushes(&settlement);
        let committed = self.commit(&settlement).await?;
        self.committed(&push);
        let Some(ids) = committed else {
            tracing::info!(
                sink = &*self.name,
                "a retry became dead letters while it was attempted"
            );
            return self.load_retries().await;
        };
        self.failing = None;
        if let Some(cursor) = settlement.cursor {
            self.call = None;
            self.stored_cursor = cursor;
            self.stored_at = Instant::now();
            self.status.set_cursor(cursor);
        }
        if let Some(step) = &settlement.fill {
            self.filled(step);
        }
        self.delivery
            .metrics
            .dead_letters
            .inc_by(settlement.dead_letters.len() as u64);
        self.busy_at = Some(Instant::now());
        self.delivery.forget_passed();
        self.replace_retries(&settlement, &ids).await
    }

    /// Commits a step. While the disk is full or another process locks the file, the lane waits, and does not call
    /// the sink a second time, because its effects elsewhere would happen twice.
    async fn commit(&self, settlement: &Settlement) -> Result<Option<Vec<i64>>, PoolError> {
        let stopping = &self.status.stopping;
        let mut waits = false;
        loop {
            let error = match self.delivery.pool.settle(settlement) {
                Err(error) if error.passes() && !stopping.is_cancelled() => error,
                done => {
                    if waits {
                        self.status.set_state(LaneState::Running);
                    }
                    return done;
                }
            };
            if !waits {
                tracing::warn!(sink = &*self.name, %error, "cannot store the results of the sink, retrying");
            }
            waits = true;
            self.status.set_state(LaneState::Paused {
                reason: error.to_string(),
                until: Unix::now() + STORAGE_PAUSE,
                is_outage: error.is_outage(),
            });
            tokio::select! {
                () = tokio::time::sleep(STORAGE_PAUSE) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    pub(super) fn succeeded(&mut self, batch: &Batch) {
        self.failures = 0;
        self.resume();
        self.count(batch);
    }

    pub(super) fn count(&self, batch: &Batch) {
        self.delivery.metrics.sink_batches.inc();
        self.delivery
            .metrics
            .sink_items
            .inc_by(u64::from(batch.len()));
    }

    pub(super) fn store_cursor(&mut self) -> Result<(), PoolError> {
        let cursor = self.status.cursor();
        if cursor > self.stored_cursor && !self.sink.is_latest() {
            let mut settlement = self.settlement();
            settlement.cursor = Some(cursor);
            self.delivery.pool.settle(&settlement)?;
            self.stored_cursor = cursor;
            self.stored_at = Instant::now();
        }
        Ok(())
    }

    pub(super) fn settlement(&self) -> Settlement {
        Settlement {
            sink: Arc::clone(&self.name),
            ..Settlement::default()
        }
    }
}
