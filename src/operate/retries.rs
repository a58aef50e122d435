//! Batches that wait for a retry: retrying them now, and moving them to the dead letters.
//!
//! **Invariant**: a response comes after the change is in the pool and in the audit log, and has the number of changes.

use std::sync::Arc;

use serde_json::json;

use super::asks::Task;
use super::{By, OperateError, Operator, in_background};
use catalog::{AuditChange, ResourceKind};
use delivery::{GivenUp, LaneState};

impl Operator {
    /// Makes the retries of a sink due, and ends its pause; returns their number.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn retry(&self, sink: &str, by: By) -> Result<u64, OperateError> {
        if self.is_elsewhere(sink) {
            return self.ask(sink, Task::Retry, &by).await;
        }
        let lane = self.lane(sink)?;
        if lane.state() == LaneState::Crashed {
            return Err(OperateError::Crashed);
        }
        let delivery = Arc::clone(&self.delivery);
        let retries = in_background(move || delivery.retry_now(&lane)).await?;
        let change = AuditChange::done(
            "retry",
            ResourceKind::Sink,
            sink,
            json!({ "retries": retries }),
        );
        self.record(by, change).await;
        Ok(retries)
    }

    /// Moves one retry of a sink, or all, to the dead letters.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn give_up(
        &self,
        sink: &str,
        id: Option<i64>,
        by: By,
    ) -> Result<GivenUp, OperateError> {
        self.require_sink(sink).await?;
        if self.is_elsewhere(sink) {
            let given_up = self.ask(sink, Task::GiveUp(id), &by).await;
            return given_up.map(|(retries, items)| GivenUp { retries, items });
        }
        let given_up = self.delivery.give_up(sink, id).await?;
        if id.is_some() && given_up.retries == 0 {
            return Err(OperateError::NoRetry);
        }
        let done = json!({ "id": id, "retries": given_up.retries, "dead_letters": given_up.items });
        self.record(
            by,
            AuditChange::done("end_retries", ResourceKind::Sink, sink, done),
        )
        .await;
        Ok(given_up)
    }
}
