//! Deletion of streams with their items, and new streams with the name of a deleted one.
//!
//! **Invariant**: a new stream has nothing of a deleted stream with the same name. Requests of the journal remove the
//! items, after all requests that were accepted before, and every sink receives the removals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{By, Operator, in_background};
use catalog::{CatalogError, Stream};
use journal::log::Client;

/// Maximum items that one request removes.
const CHUNK: u32 = 1_000;
/// How long to wait for the data pool, and the interval of checks.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
const CATCH_UP_STEP: Duration = Duration::from_millis(5);

impl Operator {
    /// Deletes a stream and, with `items`, removes its items; see [`catalog::Catalog::delete_stream`]. The stream goes
    /// first, so that no new request adds items while they are removed.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then. [`CatalogError::PoolBehind`] may also mean that the stream is
    /// deleted and its items are not removed: they go when the name is used again.
    pub async fn delete_stream(
        &self,
        name: String,
        (force, items): (bool, bool),
        by: By,
    ) -> Result<Arc<Stream>, CatalogError> {
        if items {
            self.require_settled(&name).await?;
        }
        let client = by.client;
        let stream: Arc<str> = name.as_str().into();
        let deleted = self.change(by, move |catalog, by| {
            catalog.delete_stream(&name, force, by)
        });
        let deleted = deleted.await?;
        self.forget_acts_of_deleted().await;
        if items {
            // What was under way when it was deleted. What still comes goes when the name is used again.
            let _late = self.require_settled(&stream).await;
            self.remove_all(&stream, client).await?;
        }
        Ok(deleted)
    }

    /// Removes the items of deleted streams before a stream with one of their names is created. Returns after they
    /// are removed. Otherwise they would be shown in the new stream.
    ///
    /// # Errors
    /// [`CatalogError::PoolBehind`].
    pub async fn clear_former(&self, name: &str, client: Client) -> Result<(), CatalogError> {
        let (catalog, stream) = (Arc::clone(&self.catalog), name.to_owned());
        let deleted = in_background(move || catalog.deleted_streams(&stream)).await?;
        if deleted == 0 || self.catalog.has_stream(name) {
            return Ok(());
        }
        self.require_settled(name).await?;
        if self.remove_all(name, client).await? > 0 {
            self.require_settled(name).await?;
        }
        Ok(())
    }

    /// Waits until the data pool has all accepted requests: what it lacks would come back in the new stream. Requests
    /// that arrive meanwhile are not waited for, because the wait would not end under load.
    async fn require_settled(&self, stream: &str) -> Result<(), CatalogError> {
        let newest = *self.journal.newest().borrow();
        let until = Instant::now() + CATCH_UP_MAX;
        loop {
            let through = self.delivery.settled_through(stream);
            if through.is_none_or(|through| through >= newest) && !self.has_retries(stream).await? {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(CatalogError::PoolBehind);
            }
            tokio::time::sleep(CATCH_UP_STEP).await;
        }
    }

    /// Whether there are retries that may write the stream in the data pool.
    async fn has_retries(&self, stream: &str) -> Result<bool, CatalogError> {
        for lane in self.delivery.writers(stream) {
            let undelivered = self.pool.undelivered(lane.name()).await;
            if undelivered.map_err(unreadable)?.retries > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes all items of a stream; returns their number.
    async fn remove_all(&self, stream: &str, client: Client) -> Result<usize, CatalogError> {
        let (mut last, mut count) = (String::new(), 0);
        loop {
            let keys = self.pool.keys_after(stream, &last, CHUNK).await;
            let keys = keys.map_err(unreadable)?;
            let Some(end) = keys.last() else {
                return Ok(count);
            };
            let all: Vec<&str> = keys.iter().map(String::as_str).collect();
            let removed = self.ingest.remove_former(client, stream, &all).await;
            removed.map_err(unreadable)?;
            count += keys.len();
            last.clone_from(end);
        }
    }
}

/// For the log only: the client retries.
fn unreadable(error: impl std::fmt::Display) -> CatalogError {
    tracing::error!(%error, "cannot remove the items of a deleted stream now");
    CatalogError::PoolBehind
}
