//! Removes items that were not updated in time.
//!
//! The daemon calls it at the start, and then regularly.
//!
//! **Invariant**: an item expires by an entry of the journal, which is logged and ordered, and which every sink and
//! renderer receives. When it is appended, no accepted and unsettled operation names the item.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::asks::Task;
use super::{By, OperateError, Operator};
use base::clock::{Lived, Unix};
use delivery::{ReadError, Unsettled};
use ingest::error::AcceptError;
use item::{Action, ItemMeta, ItemsWriter};
use journal::log::Endpoint;
use journal::{Condition, JournalError, LogEntry, Named, Outcome, Submission};
use pool::{Expired, PoolError};
use settings::BUILT_IN_CONNECTORS;

/// Items per read.
const CHUNK: u32 = 200;
/// Maximum items that one round removes. They are not settled at once, and all following rounds check them.
const ROUND_MAX: usize = 10_000;
/// Maximum time of a round, checked after each chunk; the next round continues.
const ROUND_TIME: Duration = Duration::from_millis(100);
/// How long a start waits until expired items are removed. Without a limit, a sink that settles nothing would keep the
/// daemon from starting.
const START_TIME: Duration = Duration::from_secs(10);
/// Pause after a round that removed nothing although items have expired. If no sink removes them, they stay expired,
/// and each round would read them again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(10);

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
enum ExpiryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Result of an expiry by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredItems {
    pub items: usize,
    /// Whether the items have left the pool, after a short wait.
    pub are_gone: bool,
}

/// Why no items expire now.
#[derive(Debug, thiserror::Error)]
pub enum ExpireError {
    /// No requests are accepted now.
    #[error(transparent)]
    Refused(#[from] AcceptError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// No sink removes items of this stream from the pool.
    #[error(
        "no sink removes items of this stream from the data pool; use Remove, which every sink of the stream receives"
    )]
    Kept,
    /// It is unknown which items have pending requests.
    #[error(
        "requests are pending, so no item can expire; wait until the sinks have received them, then repeat"
    )]
    Behind,
    /// The node that runs the sinks did not do it.
    #[error(transparent)]
    Asked(#[from] OperateError),
}

impl From<JournalError> for ExpireError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Unsettled => Self::Behind,
            error => Self::Refused(error.into()),
        }
    }
}

impl Operator {
    /// Submits the removal of expired items, for a short time; returns when to check again. It does nothing while
    /// requests are not accepted, or the pool is further behind than memory reaches. Otherwise it could remove an
    /// item whose update is accepted and not settled.
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

    /// Settles pending retries and removes expired items before anything is shown; the next rounds do the rest.
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

    /// Whether there are expired items that can be removed.
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

    /// The number of items that it removes. Unsettled operations are asked for before the pool is read. An update that
    /// is settled in between would otherwise be in neither.
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

    /// When the next item expires, or has expired.
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
        let mut streams: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        for Expired { stream, key, .. } in expired {
            if !behind.retried.contains_key(&key) {
                streams.entry(stream).or_default().push(key);
            }
        }
        for (stream, keys) in streams {
            if !self.delivery.removes_from_pool(&stream) {
                continue;
            }
            let condition = Condition {
                settled: behind.settled,
                named: Named::LeftOut,
            };
            let submission = removal(stream, &keys);
            match self.journal.submit_if(submission, condition).await {
                // Another operation was faster, or an earlier round.
                Err(JournalError::Unsettled) => {}
                Ok(receipt) => submitted += u64::from(receipt.items),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(submitted)
    }

    /// Expires items of a stream now, whatever their time, with one request. Items that no source sent do not expire,
    /// and items with pending requests stay. They are removed by a request, because a moved deadline would have to be
    /// judged by every sink.
    ///
    /// # Errors
    /// See [`ExpireError`].
    pub async fn expire_items(
        &self,
        stream: &Arc<str>,
        keys: &[String],
        by: By,
    ) -> Result<ExpiredItems, ExpireError> {
        self.gate.check()?;
        if self.asks.is_some() && !self.runs_sinks() {
            // What is not settled, the node with the sinks knows.
            let task = Task::Expire(Arc::clone(stream), keys.to_vec());
            let (items, are_gone) = self.ask("", task, &by).await?;
            return Ok(ExpiredItems { items, are_gone });
        }
        if !self.delivery.removes_from_pool(stream) {
            return Err(ExpireError::Kept);
        }
        // What is not settled is asked before the pool is looked at.
        let behind = self.delivery.unsettled().await?;
        let behind = behind.ok_or(ExpireError::Behind)?;
        let named = behind.keys().ok_or(ExpireError::Behind)?;
        let settled = keys.iter().filter(|key| !named.contains_key(*key)).cloned();
        let (of, settled) = (Arc::clone(stream), settled.collect::<Vec<_>>());
        let sent = self.in_pool(move |pool| {
            let sent = settled.into_iter().filter_map(|key| {
                let fields = pool.source_fields(&of, &key).transpose()?;
                Some(fields.map(|_| key))
            });
            sent.collect::<Result<Vec<_>, PoolError>>()
        });
        let sent = sent.await?;
        if sent.is_empty() {
            return Ok(ExpiredItems {
                items: 0,
                are_gone: true,
            });
        }
        let listener = (self.pool.changes()).listen(&[Arc::clone(stream)], None);
        let mut submission = removal(Arc::clone(stream), &sent);
        submission.log.request_id = by.request_id;
        submission.log.client = by.client;
        let condition = Condition {
            settled: behind.settled,
            named: Named::Refused,
        };
        self.journal.submit_if(submission, condition).await?;
        self.record_items("expire", stream, &sent, &by).await;
        Ok(ExpiredItems {
            items: sent.len(),
            are_gone: self.are_gone(stream, &sent, &listener).await?,
        })
    }
}

/// The removal of items that expire.
fn removal(stream: Arc<str>, keys: &[String]) -> Submission {
    let mut items = ItemsWriter::new(usize::MAX, 0);
    for key in keys {
        items
            .push_with(key, "{}", Action::Remove, ItemMeta::default())
            .expect("keys of a few items are far smaller than what lengths of 32 bits can say");
    }
    let items = items.into_items();
    Submission {
        log: LogEntry {
            endpoint: Endpoint::Expiry,
            items: u32::try_from(items.len()).unwrap_or(u32::MAX),
            ..LogEntry::of(
                Uuid::now_v7(),
                Unix::now(),
                BUILT_IN_CONNECTORS[0].into(),
                stream,
                Outcome::Removed,
            )
        },
        arrived: Lived::now(),
        items,
        claim: None,
        second: None,
        recheck: None,
    }
}
