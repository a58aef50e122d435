//! Batches that wait for a retry: listing them, and moving them to the dead letters.
//!
//! The admin API calls it; lanes read the items of retries with the same functions.
//!
//! **Invariant**: a batch that is moved to the dead letters becomes one dead letter per item, or one per request if its
//! items cannot be read; whether a lane retries it meanwhile or not.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Delivery, verdict};
use base::clock::{self, Lived, Unix};
use base::order::Seq;
use item::batch::{Batch, BatchOrigin, Slice};
use journal::StorageError;
use journal::log::Filter;
use pool::{DeadLetter, Part, PoolError, Retry};

/// Retries per read.
const CHUNK: u32 = 100;

/// A batch that waits for a retry.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub retry: Retry,
    /// Time of the next attempt; now, if it is due.
    pub due_at: Unix,
    /// Number of its items; `None` if the list of them cannot be read.
    pub items: Option<u64>,
    /// The request of its first item, if the request log still has it: its id and its stream.
    pub first: Option<(String, Arc<str>)>,
}

/// Batches that were moved to the dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenUp {
    pub retries: u64,
    /// Number of their dead letters.
    pub items: u64,
}

/// Why requests or retries cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] StorageError),
    /// The pool cannot be read, or written.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl ReadError {
    /// Whether the database of the cluster does not answer.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Journal(error) => error.is_outage(),
            Self::Pool(error) => error.is_outage(),
        }
    }
}

impl Delivery {
    /// Retries of a sink with ids above `after`, by id.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn waiting(
        &self,
        sink: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Waiting>, ReadError> {
        let waiting = self.pool.waiting(sink, after, limit).await?;
        let firsts: Vec<Seq> = waiting.iter().map(|one| one.retry.seqs.0).collect();
        let rows = match &*firsts {
            [] => Vec::new(),
            firsts => self.journal.log_at(&Filter::default(), firsts).await?,
        };
        let with_first = |pool::Waiting { retry, items }| {
            let row = rows.iter().find(|row| row.seq == retry.seqs.0);
            let first = row.map(|row| &row.entry);
            Waiting {
                due_at: clock::unix_of_lived(retry.due_at.max(Lived::now())),
                first: first.map(|first| (first.request_id.to_string(), Arc::clone(&first.stream))),
                retry,
                items,
            }
        };
        Ok(waiting.into_iter().map(with_first).collect())
    }

    /// When the oldest request in a sink's retries arrived; `None`: there is no retry, or the request log no longer has
    /// it.
    ///
    /// # Errors
    /// The files cannot be read.
    pub async fn first_retried(&self, sink: &str) -> Result<Option<Unix>, ReadError> {
        let Some(first) = self.pool.first_retried(sink).await? else {
            return Ok(None);
        };
        let rows = self.journal.log_at(&Filter::default(), &[first]).await?;
        Ok(rows.first().map(|row| row.entry.received_at))
    }

    /// Moves one retry, or all current ones, to the dead letters, and wakes the lane. This includes a batch that the
    /// lane retries at this moment; the result of that call is then ignored.
    /// # Errors
    /// The files cannot be read or written; some batches may have been moved. It ends at the newest ID of now, so that
    /// retries that are added meanwhile are not ended unseen.
    pub async fn give_up(
        self: &Arc<Self>,
        sink: &str,
        id: Option<i64>,
    ) -> Result<GivenUp, ReadError> {
        let newest = match id {
            Some(id) => id,
            None => self.pool.newest_retry(sink).await?,
        };
        let mut after = id.map_or(0, |id| id - 1);
        let mut given_up = GivenUp::default();
        while after < newest {
            let limit = if id.is_some() { 1 } else { CHUNK };
            let waiting = self.pool.waiting(sink, after, limit).await?;
            let waiting: Vec<_> = waiting
                .into_iter()
                .filter(|one| one.retry.id <= newest)
                .collect();
            let Some(last) = waiting.last() else { break };
            after = last.retry.id;
            for pool::Waiting { retry, .. } in waiting {
                if let Some(items) = self.give_up_one(sink, retry).await? {
                    given_up.retries += 1;
                    given_up.items += items;
                }
            }
        }
        if given_up.retries > 0 {
            tracing::info!(
                sink,
                retries = given_up.retries,
                dead_letters = given_up.items,
                "waiting retries became dead letters"
            );
            self.metrics.dead_letters.inc_by(given_up.items);
            if let Some(lane) = self.lane(sink) {
                lane.commands.send_modify(|commands| {
                    commands.retries += 1;
                    commands.now += 1;
                });
            }
            self.forget_passed();
        }
        Ok(given_up)
    }

    /// Moves one batch to the dead letters; returns the number of its items. `None`: it no longer waits. It looks again
    /// if the lane was faster, because other items may wait under this ID by then.
    async fn give_up_one(
        self: &Arc<Self>,
        sink: &str,
        mut retry: Retry,
    ) -> Result<Option<u64>, ReadError> {
        loop {
            let reason = match retry.attempts {
                0 => format!(
                    "an operator ended the retry before an attempt: {}",
                    retry.reason
                ),
                attempts => format!(
                    "an operator ended the retry after {attempts} attempts; the last one failed: {}",
                    retry.reason
                ),
            };
            let letters = self.letters(&retry, &reason).await?;
            let (delivery, name, tried) = (Arc::clone(self), sink.to_owned(), retry.clone());
            let given_up = tokio::task::spawn_blocking(move || {
                delivery.pool.give_up(&name, &tried, &letters, &reason)
            });
            let Ok(given_up) = given_up.await else {
                return Ok(None);
            };
            if let Some(items) = given_up? {
                return Ok(Some(items));
            }
            // The lane was faster: it is over, or other items wait under this id.
            let now = self.pool.waiting(sink, retry.id - 1, 1).await?;
            match now.into_iter().find(|now| now.retry.id == retry.id) {
                Some(now) => retry = now.retry,
                None => return Ok(None),
            }
        }
    }

    /// Dead letters of all items of a retry whose payloads are in the journal.
    async fn letters(&self, retry: &Retry, reason: &str) -> Result<Vec<DeadLetter>, ReadError> {
        if retry.origin != BatchOrigin::Journal {
            return Ok(Vec::new());
        }
        if retry.parts.is_empty() {
            let lost = vec![(retry.seqs.0, lost_list(retry))];
            return self.letters_of(lost).await.map_err(ReadError::from);
        }
        let (slices, gone) = self.read_parts(&retry.parts).await?;
        let batch = Batch::new(slices, 1);
        let readable = verdict::letters(&batch, retry.tried(), reason, Unix::now());
        let mut letters: Vec<DeadLetter> = readable.collect();
        letters.extend(self.letters_of(gone).await?);
        Ok(letters)
    }

    /// Reads stored items from the journal; also returns the requests whose items cannot be read, with the reason. An
    /// entry that is damaged costs its own items only, so that the others are delivered.
    pub(super) async fn read_parts(
        &self,
        parts: &[Part],
    ) -> Result<(Vec<Slice>, Vec<(Seq, String)>), StorageError> {
        let mut seqs: Vec<Seq> = parts.iter().map(|Part(seq, ..)| *seq).collect();
        seqs.dedup();
        let entries = self.journal.read_many(&seqs).await?;
        let entries: HashMap<Seq, _> = entries.into_iter().map(|one| (one.seq, one)).collect();
        let mut slices = Vec::with_capacity(parts.len());
        let mut gone = Vec::new();
        for Part(seq, start, end, leaves) in parts.iter().copied() {
            match entries.get(&seq) {
                // The journal has whole requests: positions are places in the entry.
                Some(entry) if end.get() as usize <= entry.items.len() => slices.push(Slice {
                    start: start.get(),
                    end: end.get(),
                    leaves,
                    ..Slice::whole(Arc::clone(entry))
                }),
                Some(_) => gone.push((seq, "the list of its items is damaged".to_owned())),
                None => gone.push((seq, "the payload is unreadable".to_owned())),
            }
        }
        Ok((slices, gone))
    }

    /// Dead letters of requests of which only the request log is left.
    pub(super) async fn letters_of(
        &self,
        unreadable: Vec<(Seq, String)>,
    ) -> Result<Vec<DeadLetter>, StorageError> {
        let mut letters = Vec::with_capacity(unreadable.len());
        for (seq, reason) in unreadable {
            let rows = self.journal.log_at(&Filter::default(), &[seq]).await?;
            letters.push(verdict::unreadable(seq, rows.first(), reason));
        }
        Ok(letters)
    }
}

/// Reason of a dead letter without an item.
pub(super) fn lost_list(retry: &Retry) -> String {
    let (first, last) = retry.seqs;
    format!(
        "the item list of a batch that waited for a retry is damaged: items of the requests with the numbers {first} to {last} may not have reached the sink; send those requests again. The last attempt failed: {}",
        retry.reason
    )
}
