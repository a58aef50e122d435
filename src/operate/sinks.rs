//! Which sinks there are, and forgetting one.
//!
//! **Invariant**: what a sink has not taken is kept until somebody says here that nobody will ever want it.

use std::sync::Arc;

use serde_json::json;

use super::{By, OperateError, Operator, in_background};
use catalog::{AuditChange, ResourceKind};
use delivery::LaneStatus;
use pool::Undelivered;

impl Operator {
    /// The lane of a sink that is configured.
    ///
    /// # Errors
    /// [`OperateError::NoSink`].
    pub fn lane(&self, sink: &str) -> Result<Arc<LaneStatus>, OperateError> {
        self.delivery.lane(sink).ok_or(OperateError::NoSink)
    }

    /// Whether anything is known of a sink, configured or not.
    ///
    /// # Errors
    /// [`OperateError::NoSink`], or the pool cannot be read.
    pub async fn require_sink(&self, sink: &str) -> Result<(), OperateError> {
        if self.delivery.lane(sink).is_some() {
            return Ok(());
        }
        let known = self.pool.known_sinks().await?;
        match known.iter().any(|known| known.name == sink) {
            true => Ok(()),
            false => Err(OperateError::NoSink),
        }
    }

    /// Forgets a sink that is not configured; what was kept of it.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn forget_sink(&self, sink: &str, by: By) -> Result<Undelivered, OperateError> {
        let (delivery, name) = (Arc::clone(&self.delivery), sink.to_owned());
        let forgotten = in_background(move || delivery.forget(&name)).await?;
        let forgotten = forgotten.ok_or(OperateError::NoSink)?;
        let done = json!({ "retries": forgotten.retries, "dead_letters": forgotten.dead_letters });
        self.record(
            by,
            AuditChange::done("forget", ResourceKind::Sink, sink, done),
        )
        .await;
        Ok(forgotten)
    }
}
