//! Bodies of refused requests, kept for a while: the request can be looked at, and run again after its connector was
//! mended.
//!
//! **Invariant**: what is kept is bounded by bytes and age. The oldest go first of the connector that has most: one whose
//! requests are all refused does not push out what is kept of others. Sinks never see it.

use std::sync::PoisonError;

use bytes::Bytes;

use super::postgres::asked;
use super::{Engine, Journal, Retention, Shared, StorageError};
use base::order::Seq;

/// The body of a refused request, with what else of the request the pipeline looks at. Header values are as they
/// came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedBody {
    /// The body, whole.
    pub body: Bytes,
    /// The stream that the request named.
    pub stream: Box<str>,
    /// `Content-Type`
    pub content_type: Option<Box<[u8]>>,
    /// `X-Item-Key`
    pub item_key: Option<Box<[u8]>>,
    /// `Idempotency-Key`
    pub idempotency_key: Option<Box<[u8]>>,
    /// Whether it came with a test key.
    pub test: bool,
    /// Of a request to the address of a connector: the headers that its tool says something in.
    pub headers: Option<Vec<(String, String)>>,
}

impl RejectedBody {
    pub(super) fn byte_len(&self) -> usize {
        let headers = [&self.content_type, &self.item_key, &self.idempotency_key];
        let headers = headers.into_iter().flatten().map(|value| value.len());
        let said = self.headers.iter().flatten();
        let said = said.map(|(name, value)| name.len() + value.len());
        self.body.len() + self.stream.len() + headers.sum::<usize>() + said.sum::<usize>()
    }
}

impl Shared {
    pub(super) fn bodies(&self) -> Option<Retention> {
        *self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this one is kept. One that is larger than all may be together is not: it would push out all others.
    pub(super) fn keeps(&self, body: &RejectedBody) -> bool {
        let bytes = body.byte_len() as u64;
        let fits =
            |retention: Retention| !retention.age_max.is_zero() && bytes <= retention.bytes_max;
        self.bodies().is_some_and(fits)
    }
}

impl Journal {
    /// From now on so many bodies of refused requests are kept. Before the first call those that are there stay, and
    /// none is added.
    pub fn keep_bodies(&self, retention: Retention) {
        let mut bodies = (self.shared.bodies.lock()).unwrap_or_else(PoisonError::into_inner);
        *bodies = Some(retention);
    }

    /// Whether bodies of refused requests are kept.
    pub fn keeps_bodies(&self) -> bool {
        let some = |retention: Retention| retention.bytes_max > 0 && !retention.age_max.is_zero();
        self.shared.bodies().is_some_and(some)
    }

    /// The body of a refused request, if it is kept.
    pub async fn refused_body(&self, seq: Seq) -> Result<Option<RejectedBody>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.refused_body(seq).await,
            Engine::Postgres(database) => asked(database.refused_body(seq)).await,
        }
    }
}
