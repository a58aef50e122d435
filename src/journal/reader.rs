//! Reading entries back, for the lanes: from memory where it reaches back far enough, else from the store.
//!
//! **Invariant**: an unreadable payload never blocks delivery; it is returned separately.

use std::ops::RangeInclusive;
use std::sync::Arc;

use uuid::Uuid;

use super::log::Outcome;
use super::postgres::asked;
use super::{Engine, Journal, StorageError};
use base::clock::{Lived, Unix};
use base::order::Seq;
use item::Items;
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
    /// Entries whose payload cannot be read, with the reason. Apart from the entries, so that one damaged payload holds
    /// up no sink.
    pub corrupt: Vec<(Seq, String)>,
    /// Entries whose payload was quarantined before.
    pub quarantined: Vec<(Seq, String)>,
}

/// What a batch can be made of.
#[derive(Default)]
pub(crate) struct Look {
    /// Everything up to here was looked at.
    pub(crate) through: Seq,
    /// What is to be fetched.
    pub(crate) wanted: Vec<Seq>,
    bytes: usize,
}

impl Look {
    /// What waits is looked at in steps that grow from this to that: a batch may end soon.
    pub(crate) const STEPS: RangeInclusive<u32> = 64..=4_096;

    pub(crate) fn after(seq: Seq) -> Self {
        Self {
            through: seq,
            ..Self::default()
        }
    }

    /// Notes an entry with what its payload takes, if that is wanted and there; false: the batch is full without it.
    /// The first is taken whatever its size, otherwise a lane could never pass it.
    pub(crate) fn note(&mut self, request: &ReadRequest<'_>, seq: Seq, bytes: Option<i64>) -> bool {
        if let Some(bytes) = bytes {
            self.bytes += usize::try_from(bytes).unwrap_or(usize::MAX / 2);
            let full = self.bytes > request.bytes_max || self.wanted.len() >= request.items_max;
            if full && !self.wanted.is_empty() {
                return false;
            }
            self.wanted.push(seq);
        }
        self.through = seq;
        true
    }
}

/// An entry by its number, or what is wrong with it.
pub(crate) type Found = (Seq, Result<Arc<Entry>, String>);

impl Taken {
    /// As many of the entries as fit, of those that were looked at. Items are counted now, because only a payload that
    /// was read says how many it has.
    pub(crate) fn of(request: &ReadRequest<'_>, through: Seq, found: Vec<Found>) -> Self {
        let mut taken = Self {
            through,
            ..Self::default()
        };
        let mut items = 0;
        for (seq, entry) in found {
            match entry {
                Ok(entry) => {
                    items += entry.items.len();
                    if items > request.items_max && !taken.entries.is_empty() {
                        // It stays for the next time, with all that follow.
                        taken.through = taken.entries.last().map_or(request.after, |last| last.seq);
                        taken
                            .corrupt
                            .retain(|(corrupt, _)| *corrupt <= taken.through);
                        break;
                    }
                    taken.entries.push(entry);
                }
                Err(reason) => taken.corrupt.push((seq, reason)),
            }
        }
        taken
    }

    /// One that was quarantined, unless a lane has met it in its place just before.
    pub(crate) fn add_quarantined(&mut self, seq: Seq, reason: String) {
        if !self.corrupt.iter().any(|(corrupt, _)| *corrupt == seq) {
            self.quarantined.push((seq, reason));
        }
    }
}

/// What the request of a stored payload asks of its items.
pub(crate) fn action(outcome: Option<i64>) -> Action {
    let action = outcome.map(Outcome::from_code).and_then(Outcome::action);
    action.unwrap_or_default()
}

/// A payload as it is stored, with what is known of its request.
pub(crate) struct Stored {
    pub(crate) seq: Seq,
    pub(crate) crc32: i64,
    pub(crate) items: Vec<u8>,
    pub(crate) request_id: Result<Uuid, uuid::Error>,
    pub(crate) stream: String,
    pub(crate) received_at: Unix,
    pub(crate) arrived: Option<Lived>,
}

impl Stored {
    /// Checks it and makes an entry of it.
    pub(crate) fn entry(self, action: Action) -> Result<Arc<Entry>, String> {
        if i64::from(crc32fast::hash(&self.items)) != self.crc32 {
            return Err("the payload's checksum does not match".to_owned());
        }
        let items = Items::from_stored(self.items.into(), action)
            .map_err(|error| format!("the payload cannot be decoded: {error}"))?;
        Ok(Arc::new(Entry {
            seq: self.seq,
            request_id: self
                .request_id
                .map_err(|error| format!("the request id cannot be decoded: {error}"))?,
            stream: self.stream.into(),
            received_at: self.received_at,
            arrived: self.arrived,
            items,
        }))
    }
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
            Engine::Postgres(database) => asked(database.read_after(&request)).await,
        }
    }

    /// An entry, if its payload is still there and can be read.
    pub async fn entry(&self, seq: Seq) -> Result<Option<Arc<Entry>>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.entry(seq).await,
            Engine::Postgres(database) => asked(database.entry(seq)).await,
        }
    }

    /// Entries by their sequence numbers, for a retry; those that are gone or cannot be read are left out.
    pub async fn read_many(&self, seqs: &[Seq]) -> Result<Vec<Arc<Entry>>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.read_many(seqs).await,
            Engine::Postgres(database) => asked(database.read_many(seqs)).await,
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
            Engine::Postgres(database) => asked(database.removals_after(seq)).await,
        }
    }

    /// Whether accepted entries after `seq` have been deleted already: the oldest has no payload, neither in place nor
    /// in quarantine.
    pub async fn has_released_after(&self, seq: Seq) -> Result<bool, StorageError> {
        match &self.engine {
            Engine::File(file) => file.has_released_after(seq).await,
            Engine::Postgres(database) => asked(database.has_released_after(seq)).await,
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
            Engine::Postgres(database) => asked(database.oldest_kept()).await,
        }
    }
}
