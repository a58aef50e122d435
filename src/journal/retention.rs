//! Payloads that every sink has and that are kept for a while: a new sink may begin with them.
//!
//! **Invariant**: what is kept is bounded by bytes and age; what a sink still needs is not this module's business.

use std::time::Duration;

use super::postgres::asked;
use super::{Engine, Journal, StorageError};
use base::order::Seq;

/// Bytes of a stretch before the next one begins. Their sums are in memory, so a stretch is not a single payload.
const STRETCH_BYTES: u64 = 1 << 20;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of all payloads together.
    pub bytes_max: u64,
    /// Time since they arrived; none: nothing is kept.
    pub age_max: Duration,
}

/// Payloads that lie one behind the other, after those of the stretch before.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenSegment {
    pub(super) last_seq: Seq,
    pub(super) bytes: u64,
}

/// What was written and not yet counted as kept.
#[derive(Debug, Default)]
pub(super) struct Written(pub(super) Vec<OpenSegment>);

impl Written {
    /// This payload was written.
    pub(super) fn note(&mut self, seq: Seq, bytes: usize) {
        let bytes = bytes as u64;
        match self.0.last_mut() {
            Some(last) if last.bytes < STRETCH_BYTES => {
                last.last_seq = seq;
                last.bytes += bytes;
            }
            _ => self.0.push(OpenSegment {
                last_seq: seq,
                bytes,
            }),
        }
    }
}

impl Journal {
    /// Up to this sequence number payloads need not be kept for later.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn kept_from(&self, retention: Retention) -> Result<Seq, StorageError> {
        match &self.engine {
            Engine::File(file) => file.kept_from(retention).await,
            Engine::Postgres(database) => asked(database.kept_from(retention)).await,
        }
    }
}
