//! Items that were not renewed in time are removed.
//!
//! The daemon calls it at its start, and then now and then.
//!
//! **Invariant**: an item that expires is removed by an entry of the journal like any other: logged, ordered, heard by every
//! sink and renderer. Nothing that is accepted and not settled names the item when that is appended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::Operator;
use base::clock::{Lived, Unix};
use delivery::{ReadError, Unsettled};
use item::{Action, ItemMeta, ItemsWriter};
use journal::log::Endpoint;
use journal::{Condition, JournalError, LogEntry, Named, Outcome, Submission};
use pool::Expired;
use settings::BUILT_IN_CONNECTORS;

/// Items that are looked for at once.
const CHUNK: u32 = 200;
/// Items that one round removes, at most. What it removed is not settled yet, and is looked through for all that follow.
const ROUND_MAX: usize = 10_000;
/// A round ends after this time, at the next chunk; the next one goes on.
const ROUND_TIME: Duration = Duration::from_millis(100);
/// So long a start waits until what has expired is gone.
const START_TIME: Duration = Duration::from_secs(10);
/// After a round that removed nothing, although something has expired.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(10);

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
enum ExpiryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Pool(#[from] pool::PoolError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Operator {
    /// Submits the removal of what has expired, for a moment; when to look again. While nothing can be stored, or the pool
    /// is further behind than memory reaches, that waits.
    pub async fn expire(&self) -> Option<Lived> {
        let mut submitted = 0;
        if self.gate.check().is_ok() {
            match self.expire_round().await {
                Ok(items) => submitted = items,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove expired items yet");
                }
            }
        }
        let next = self.next_expiry().await?;
        let now = Lived::now();
        // What no sink removes stays: nobody looks at it every second.
        Some(match submitted {
            0 if next <= now => now + AGAIN_AFTER,
            _ => next,
        })
    }

    /// Settles what waits and removes what has expired, before anybody is shown it; the next rounds do what takes longer.
    pub async fn expire_at_start(&self) {
        let began = Instant::now();
        let newest = *self.journal.newest().borrow();
        while self.has_expired().await && began.elapsed() < START_TIME {
            if self.delivery.settled_in_pool() >= newest {
                self.expire().await;
            }
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    /// Whether something has expired that can be removed.
    async fn has_expired(&self) -> bool {
        let expired = self.expired_after((i64::MIN, 0)).await.unwrap_or_default();
        let mut streams = expired.iter().map(|one| &one.stream);
        self.gate.check().is_ok() && streams.any(|stream| self.delivery.removes_from_pool(stream))
    }

    async fn expired_after(&self, after: (i64, i64)) -> Result<Vec<Expired>, ExpiryError> {
        let pool = Arc::clone(&self.pool);
        let expired = move || pool.expired(Lived::now(), after, CHUNK);
        let expired = tokio::task::spawn_blocking(expired).await;
        Ok(expired.unwrap_or(Ok(Vec::new()))?)
    }

    /// How many items it removes.
    async fn expire_round(&self) -> Result<u64, ExpiryError> {
        let began = Instant::now();
        let mut after = (i64::MIN, 0);
        let mut unsettled = None;
        let mut looked_at = 0;
        let mut submitted = 0;
        while began.elapsed() < ROUND_TIME && looked_at < ROUND_MAX {
            // What is not settled is asked before the pool is looked at.
            let behind = match unsettled.take() {
                Some(known) => known,
                None if self
                    .next_expiry()
                    .await
                    .is_none_or(|next| next > Lived::now()) =>
                {
                    return Ok(submitted);
                }
                None => match self.delivery.unsettled().await? {
                    Some(behind) => behind,
                    None => return Ok(submitted),
                },
            };
            let expired = self.expired_after(after).await?;
            let Some(last) = expired.last() else {
                return Ok(submitted);
            };
            after = last.at;
            looked_at += expired.len();
            submitted += self.submit_expired(expired, &behind).await?;
            unsettled = Some(behind);
        }
        Ok(submitted)
    }

    /// When the next item expires, or did.
    async fn next_expiry(&self) -> Option<Lived> {
        let pool = Arc::clone(&self.pool);
        let next = tokio::task::spawn_blocking(move || pool.next_to_expire()).await;
        next.ok().and_then(Result::ok).flatten()
    }

    async fn submit_expired(
        &self,
        expired: Vec<Expired>,
        behind: &Unsettled,
    ) -> Result<u64, ExpiryError> {
        let mut submitted = 0;
        let mut streams: BTreeMap<Arc<str>, ItemsWriter> = BTreeMap::new();
        for Expired { stream, key, .. } in expired {
            if behind.retried.contains_key(&key) {
                continue;
            }
            let items = streams
                .entry(stream)
                .or_insert_with(|| ItemsWriter::new(usize::MAX, 0));
            items
                .push_with(&key, "{}", Action::Remove, ItemMeta::default())
                .expect("keys of a few items are far smaller than what lengths of 32 bits can say");
        }
        let condition = Condition {
            settled: behind.settled,
            named: Named::LeftOut,
        };
        for (stream, items) in streams {
            if !self.delivery.removes_from_pool(&stream) {
                continue;
            }
            let items = items.into_items();
            let log = LogEntry {
                endpoint: Endpoint::Expiry,
                items: u32::try_from(items.len()).unwrap_or(u32::MAX),
                ..LogEntry::of(
                    Uuid::now_v7(),
                    Unix::now(),
                    BUILT_IN_CONNECTORS[0].into(),
                    stream,
                    Outcome::Removed,
                )
            };
            let submission = Submission {
                log,
                arrived: Lived::now(),
                items,
                claim: None,
                second: None,
            };
            match self.journal.submit_if(submission, condition).await {
                // Another operation was faster, or an earlier round.
                Err(JournalError::Unsettled) => {}
                Ok(receipt) => submitted += u64::from(receipt.items),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(submitted)
    }
}
