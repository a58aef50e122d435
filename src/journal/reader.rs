//! Reading entries back, for the lanes: from memory where it reaches back far enough, else from the store.
//!
//! **Invariant**: an unreadable payload never blocks delivery; it is returned separately.

use std::sync::Arc;

use super::{Engine, Journal, StorageError};
use base::clock::Lived;
use base::order::Seq;
use item::batch::{Action, Entry};

/// What a lane asks for.
#[derive(Clone, Copy)]
pub struct ReadRequest<'a> {
    /// Only entries with a higher sequence number.
    pub after: Seq,
    /// About so many items at the most.
    pub items_max: usize,
    /// About so many bytes at the most.
    pub bytes_max: usize,
    /// What is wanted, by stream and by whether a request only removes.
    pub wanted: &'a (dyn Fn(&str, Action) -> bool + Sync),
}

impl std::fmt::Debug for ReadRequest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReadRequest")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// What a lane gets.
#[derive(Debug, Default)]
pub struct Taken {
    /// The wanted entries, oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Everything up to here was looked at: the cursor after these entries.
    pub through: Seq,
    /// Entries whose payload cannot be read, with the reason.
    pub corrupt: Vec<(Seq, String)>,
    /// Entries whose payload was put aside before.
    pub quarantined: Vec<(Seq, String)>,
}

impl Journal {
    /// Entries after `after`, oldest first, together about `bytes_max` bytes and `items_max` items
    /// (at least one entry if there is one), skipping what `wanted` refuses. From memory where it reaches back far enough.
    ///
    /// # Errors
    /// SQLite's, or the database's. A single payload that cannot be read is not an error: see [`Taken::corrupt`].
    pub async fn read_after(&self, request: ReadRequest<'_>) -> Result<Taken, StorageError> {
        let recent = self.shared.lock_recent().take(&request);
        if let Some(taken) = recent {
            return Ok(taken);
        }
        match &self.engine {
            Engine::File(file) => file.read_after(&request).await,
            Engine::Postgres(database) => database
                .read_after(&request)
                .await
                .map_err(StorageError::Database),
        }
    }

    /// An entry, if its payload is still there and can be read.
    pub async fn entry(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.entry(seq).await,
            Engine::Postgres(database) => database.entry(seq).await.map_err(StorageError::Database),
        }
    }

    /// Entries by their sequence numbers, for a retry; those that are gone or cannot be read are left out.
    pub async fn read_many(&self, seqs: &[Seq]) -> Result<Vec<Arc<Entry>>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.read_many(seqs).await,
            Engine::Postgres(database) => database
                .read_many(seqs)
                .await
                .map_err(StorageError::Database),
        }
    }

    /// Some entries with removals after `seq`, oldest first, as far as their payloads are there and can be read, and up to
    /// where they were looked for; none: there are no more.
    pub async fn removals_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Vec<Arc<Entry>>, Seq)>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.removals_after(seq).await,
            Engine::Postgres(database) => database
                .removals_after(seq)
                .await
                .map_err(StorageError::Database),
        }
    }

    /// Whether accepted entries after `seq` have been deleted already: the oldest has no payload, neither in place nor
    /// put aside.
    pub async fn has_released_after(&self, seq: Seq) -> Result<bool, StorageError> {
        match &self.engine {
            Engine::File(file) => file.has_released_after(seq).await,
            Engine::Postgres(database) => database
                .has_released_after(seq)
                .await
                .map_err(StorageError::Database),
        }
    }

    /// When an entry arrived, in time lived; `None`: that is not known.
    pub fn arrived(&self, entry: &Entry) -> Option<Lived> {
        let remembered = self.shared.lock_recent().arrivals.of(entry.seq);
        remembered.or(entry.arrived)
    }

    /// The oldest entry that is still there, if there is one.
    pub async fn oldest_kept(&self) -> Result<Option<Seq>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.oldest_kept().await,
            Engine::Postgres(database) => {
                database.oldest_kept().await.map_err(StorageError::Database)
            }
        }
    }
}
