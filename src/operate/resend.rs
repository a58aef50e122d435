//! Resends a request.
//!
//! **Invariant**: the response comes after the new request is on disk.

use std::time::{Duration, Instant};

use serde_json::json;
use uuid::Uuid;

use super::{By, Operator};
use catalog::{AuditChange, ResourceKind};
use ingest::{AgainError, Newer, SentAgain};

/// The built-in plugin that writes the data pool; how long to wait for it, and the interval of checks.
const POOL: &str = "pool";
pub(super) const CATCH_UP_MAX: Duration = Duration::from_secs(2);
pub(super) const CATCH_UP_STEP: Duration = Duration::from_millis(5);

impl Operator {
    /// Resends the stored items of a request as a new one; with `overwrite` also items that a later request has changed
    /// or removed.
    ///
    /// # Errors
    /// See [`AgainError`]; nothing was stored then.
    pub async fn resend(
        &self,
        from: Uuid,
        overwrite: bool,
        by: By,
    ) -> Result<SentAgain, AgainError> {
        let newer = match overwrite {
            true => Newer::IsOverwritten,
            false => {
                self.catch_up().await?;
                Newer::Stays(&self.pool)
            }
        };
        let sent = self
            .ingest
            .send_again(from, by.request_id, by.client, newer);
        let sent = sent.await?;
        if let Some(accepted) = &sent.accepted {
            let became = json!({
                "request_id": accepted.receipt.request_id.to_string(),
                "items_left": sent.items_left,
                "overwrite": overwrite,
            });
            let change = AuditChange {
                connector: Some(sent.from.connector.to_string()),
                ..AuditChange::done("resend", ResourceKind::Request, from.to_string(), became)
            };
            self.record(by, change).await;
        }
        Ok(sent)
    }

    /// Waits until the data pool has all accepted requests: only then can newer values be detected. Requests that
    /// arrive meanwhile are not waited for, because the wait would not end under load.
    async fn catch_up(&self) -> Result<(), AgainError> {
        let newest = *self.journal.newest().borrow();
        let until = Instant::now() + CATCH_UP_MAX;
        loop {
            self.see_elsewhere().await?;
            let lanes = self.delivery.shown();
            let mut pools = lanes.iter().filter(|lane| lane.sink().plugin == POOL);
            if pools.all(|lane| lane.cursor() >= newest) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(AgainError::Behind);
            }
            tokio::time::sleep(CATCH_UP_STEP).await;
        }
    }
}
