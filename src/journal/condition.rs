//! Submissions with a condition: nothing that is accepted and not settled names their items.
//!
//! What the daemon submits itself by what the data pool holds, such as removals of expired items, comes here: between the
//! look at the pool and the commit of the group somebody else may change an item.
//!
//! **Invariant**: the condition is decided once, by the writer, when it appends the entry; whoever reads the entry finds it
//! decided.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::queue::Job;
use super::recent::Recent;
use super::{Journal, JournalError, Receipt, Shared, Submission};
use base::order::Seq;
use item::ItemsWriter;
use item::batch::Entry;

/// Operations that are looked through for one submission, at most: the writer makes no other group meanwhile.
const OPERATIONS_MAX: usize = 100_000;

/// What becomes of items that something names which is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// They are left out.
    LeftOut,
    /// Nothing is stored.
    Refused,
}

/// When a submission is stored.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// Everything up to here is settled.
    pub settled: Seq,
    /// What becomes of the others.
    pub named: Named,
}

impl Condition {
    /// What of a submission is to be stored, after these entries, which are not among the recent ones yet. What updates
    /// do is kept as it was accepted, because the stream may be set otherwise since.
    pub(super) fn apply<'a>(
        self,
        submission: Submission,
        recent: &'a Recent,
        written: impl Iterator<Item = &'a Arc<Entry>>,
    ) -> Option<Submission> {
        let keys: HashSet<&str> = submission.items.iter().map(|item| item.key).collect();
        let mut named: HashSet<&str> = HashSet::new();
        let mut looked_at = 0;
        for entry in recent.after(self.settled)?.chain(written) {
            looked_at += entry.items.len();
            if looked_at > OPERATIONS_MAX {
                return None;
            }
            // By key alone: a sink may put an item into another stream, but never under another key.
            let keys = entry.items.iter().filter_map(|item| keys.get(item.key));
            named.extend(keys);
        }
        if named.is_empty() {
            return Some(submission);
        }
        let mut rest = ItemsWriter::new(usize::MAX, submission.items.byte_len());
        for item in submission
            .items
            .iter()
            .filter(|item| !named.contains(item.key))
        {
            let pushed = rest.push_item(&item);
            // Part of what fitted before.
            pushed.ok()?;
        }
        let mut items = rest.into_items();
        if let Some(merges) = submission.items.merges() {
            items = items.accepted(merges);
        }
        if self.named == Named::Refused || items.is_empty() {
            return None;
        }
        let mut log = submission.log.clone();
        log.items = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Some(Submission {
            log,
            items,
            ..submission
        })
    }
}

/// As long as it lives, the entries above one number stay in memory, unless they are too many. Otherwise entries could
/// leave memory between the question and the group, and the condition could not be decided.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<Shared>,
    after: Seq,
}

impl Pin {
    /// The entries above this number.
    pub fn after(&self) -> Seq {
        self.after
    }

    /// The keys of operations above this entry, each with the last entry that names it; `None`: memory does not reach back
    /// far enough.
    pub fn keys_after(&self, settled: Seq) -> Option<HashMap<String, Seq>> {
        let recent = self.shared.lock_recent();
        let entries = recent.after(settled)?;
        let keys = entries.flat_map(|entry| {
            let keys = entry.items.iter().map(|item| item.key.to_owned());
            keys.map(|key| (key, entry.seq))
        });
        Some(keys.collect())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shared.lock_recent().unpin(self.after);
    }
}

impl Journal {
    /// Has the entries that are in memory stay there, so that a condition can be decided by them.
    pub fn pin(&self) -> Pin {
        let shared = Arc::clone(&self.shared);
        let after = shared.lock_recent().pin();
        Pin { shared, after }
    }

    /// Makes a request durable if its condition holds, which the writer decides.
    ///
    /// # Errors
    /// See [`JournalError`]; nothing was stored.
    pub async fn submit_if(
        &self,
        submission: Submission,
        condition: Condition,
    ) -> Result<Receipt, JournalError> {
        let (answer, receipt) = oneshot::channel();
        let bytes = submission.items.byte_len();
        let job = Job::SubmitIf(Box::new(submission), condition, answer);
        self.queue.push(job, bytes)?;
        receipt.await.unwrap_or(Err(JournalError::Closed))
    }
}

#[cfg(test)]
mod tests;
