//! How much the journal holds: what status and metrics show.
//!
//! **Invariant**: each of these looks at a bounded number of rows, however large the store is.

use std::ops::Range;
use std::time::Duration;

use super::postgres::asked;
use super::{Engine, Journal, StorageError};
use base::clock::Unix;
use base::order::Seq;

/// Requests of one key in one minute. In a cluster, the numbers are of what this node has accepted or rejected, whichever
/// of its lives; they can be 0, because `newest_at` is of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMinute {
    pub connector: String,
    /// The part of the key that may be shown.
    pub key: String,
    /// Minutes since 1970.
    pub minute: u64,
    /// Requests, refused ones included.
    pub requests: u64,
    /// Requests that were refused.
    pub errors: u64,
    /// Items accepted.
    pub items: u64,
    /// When the last of them came.
    pub newest_at: Unix,
}

impl Journal {
    /// About how many bytes the payloads after `seq` take. Exact if they are few.
    pub async fn payload_bytes_after(&self, seq: Seq) -> Result<u64, StorageError> {
        match &self.engine {
            Engine::File(file) => file.payload_bytes_after(seq).await,
            Engine::Postgres(database) => asked(database.payload_bytes_after(seq)).await,
        }
    }

    /// When the oldest request after `seq` arrived whose payload is kept, for people, and how long ago that was by the clock
    /// that nobody sets.
    pub async fn oldest_after(
        &self,
        seq: Seq,
    ) -> Result<Option<(Unix, Option<Duration>)>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.oldest_after(seq).await,
            Engine::Postgres(database) => asked(database.oldest_after(seq)).await,
        }
    }

    /// About how many bytes the log takes.
    pub async fn log_bytes(&self) -> Result<u64, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_bytes().await,
            Engine::Postgres(database) => asked(database.log_bytes()).await,
        }
    }

    /// How many payloads could not be read and are quarantined; at most 10,000 are counted.
    pub async fn quarantined(&self) -> Result<u64, StorageError> {
        match &self.engine {
            Engine::File(file) => file.quarantined().await,
            Engine::Postgres(database) => asked(database.quarantined()).await,
        }
    }

    /// The position of the newest entry of the log; 0 if it is empty.
    pub async fn newest_logged(&self) -> Result<Seq, StorageError> {
        match &self.engine {
            Engine::File(file) => file.newest_logged().await,
            Engine::Postgres(database) => asked(database.newest_logged()).await,
        }
    }

    /// Counts the newest entries among these positions that came at or after `since`, by connector, key and minute, as
    /// [`LogMinute`] says.
    /// The second part of the answer is where those begin that were not looked at; none: there are no more.
    pub async fn log_minutes(
        &self,
        range: Range<Seq>,
        since: Unix,
    ) -> Result<(Vec<LogMinute>, Option<Seq>), StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_minutes(range, since).await,
            Engine::Postgres(database) => asked(database.log_minutes(range, since)).await,
        }
    }
}
