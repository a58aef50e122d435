//! Past values of items in the data pool, and removals of items.
//!
//! **Invariant**: a removal is a request like that of a sender: it is on disk before its response, and every sink
//! receives it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{By, Operator};
use catalog::{AuditChange, ResourceKind};
use ingest::error::AcceptError;
use pool::changes::Listener;
use pool::{PastPlace, PastValue, PoolError};

/// How long the response to a removal waits for the pool. The removal is on disk by then, so a pool that is behind must
/// not delay the response.
const REMOVED_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
pub struct HistoryPage {
    pub field: Option<String>,
    pub after: Option<PastPlace>,
    pub limit: u32,
}

/// Why an item is not removed, or the result is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The request was not accepted.
    #[error(transparent)]
    Refused(#[from] AcceptError),
    /// The request was accepted, and the pool cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl Operator {
    /// Some of the past values of an item, newest first. `None`: the item does not exist, and has no past values. An
    /// empty page of one field is compared with all fields, because the item may have past values of others.
    ///
    /// # Errors
    /// The pool's.
    pub async fn item_history(
        &self,
        stream: &str,
        key: &str,
        page: &HistoryPage,
    ) -> Result<Option<Vec<PastValue>>, PoolError> {
        let (field, after) = (page.field.as_deref(), page.after.as_ref());
        let pool = &self.pool;
        let past = pool
            .past_values(stream, key, field, after, page.limit)
            .await?;
        if !past.is_empty() || after.is_some() || pool.item(stream, key).await?.is_some() {
            return Ok(Some(past));
        }
        let any = pool.past_values(stream, key, None, None, 1).await?;
        Ok((!any.is_empty()).then_some(past))
    }

    /// Removes an item of a stream; returns whether it is removed after a short wait for the pool.
    ///
    /// # Errors
    /// See [`RemoveError`].
    pub async fn remove_item(&self, stream: &str, key: &str, by: By) -> Result<bool, RemoveError> {
        self.remove_items(stream, &[key.to_owned()], by).await
    }

    /// Removes items of a stream with one request; returns whether all are removed already. The listener is registered
    /// first, so that a removal which is applied at once is not missed.
    ///
    /// # Errors
    /// See [`RemoveError`].
    pub async fn remove_items(
        &self,
        stream: &str,
        keys: &[String],
        by: By,
    ) -> Result<bool, RemoveError> {
        let listener = self.pool.changes().listen(&[stream.into()], None);
        let all: Vec<&str> = keys.iter().map(String::as_str).collect();
        let removed = self
            .ingest
            .remove_for_operator(by.request_id, by.client, stream, &all);
        removed.await?;
        self.record_items("remove", stream, keys, &by).await;
        tracing::info!(stream, items = keys.len(), "an operator removed items");
        Ok(self.are_gone(stream, keys, &listener).await?)
    }

    /// Records in the audit log the act of an operator on each of these items.
    pub(super) async fn record_items(
        &self,
        action: &'static str,
        stream: &str,
        keys: &[String],
        by: &By,
    ) {
        for key in keys {
            let change = AuditChange {
                before: Some(json!({ "stream": stream, "key": key })),
                after: None,
                ..AuditChange::done(action, ResourceKind::Item, &**key, Value::Null)
            };
            self.record(by.clone(), change).await;
        }
    }

    /// Whether items have left the pool, after a short wait.
    pub(super) async fn are_gone(
        &self,
        stream: &str,
        keys: &[String],
        listener: &Listener,
    ) -> Result<bool, PoolError> {
        let gone = async {
            for key in keys {
                while self.pool.item(stream, key).await?.is_some() {
                    listener.wakeup.woken().await;
                }
            }
            Ok::<_, PoolError>(())
        };
        match tokio::time::timeout(REMOVED_WITHIN, gone).await {
            Ok(gone) => gone.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}
