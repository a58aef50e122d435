//! Requests that nobody vouches for: their keys are unknown or have ended, or their signatures do not fit.
//!
//! **Invariant**: the answer does not depend on whether a key was valid once.

use std::sync::Arc;
use std::time::Instant;

use super::{Entry, Refusal, since_last_entry};
use crate::address::Unverified;
use crate::error::AcceptError;
use crate::request::Head;
use crate::{Ingest, headers};
use catalog::IngestKey;
use journal::{LogEntry, Outcome};

impl Ingest {
    /// A request whose key is not valid. It is logged if the key was valid once, which its sender is not told. While this node
    /// cannot read what other nodes change, a key that it does not know may be a new one: its sender is to try again.
    pub(crate) fn refuse_unknown<'a>(
        &'a self,
        head: Head<'a>,
        started: Instant,
    ) -> Box<Refusal<'a>> {
        let key = self.ended_key(&head);
        let error = match self.gate.not_ready() {
            Some((_, reason)) if key.is_none() => AcceptError::Unavailable {
                reason,
                retry_after_seconds: 2,
            },
            _ => AcceptError::Unauthorized,
        };
        Box::new(Refusal {
            head,
            started,
            caller: None,
            error,
            entry: key.and_then(|key| self.entry_of_ended(&head, &key)),
            budget: None,
            bytes_max: 0,
        })
    }

    /// The key that a request carries, if it has expired or was revoked.
    pub(crate) fn ended_key(&self, head: &Head<'_>) -> Option<Arc<IngestKey>> {
        let secret = headers::secret(head.authorization);
        match (secret.as_deref().or(head.access_token), head.certificate) {
            (Some(secret), _) => self.catalog.ended_key(secret),
            (None, Some(one)) => self.catalog.ended_key_with_certificate(one),
            (None, None) => None,
        }
    }

    /// Otherwise an operator could not find the program that still has the old key.
    fn entry_of_ended(&self, head: &Head<'_>, key: &IngestKey) -> Option<Entry<'_>> {
        key.was_refused_at(head.received_at);
        let count = key.quota.note_refusal(head.received_at)?;
        let log = LogEntry {
            endpoint: head.endpoint,
            http_status: 401,
            key: key.prefix(),
            bytes: head.content_length.unwrap_or(0),
            client: head.client,
            headers: head.headers.cloned(),
            error: Some(since_last_entry(why_ended(key)?, count).into()),
            ..LogEntry::of(
                head.request_id,
                head.received_at,
                Arc::clone(&key.connector),
                Arc::clone(&key.stream),
                Outcome::Rejected,
            )
        };
        Some(Entry {
            journal: &self.journal,
            log: Some((log, None)),
        })
    }

    /// A request to the address of a connector that nobody vouches for. What is wrong is told in the connector's log,
    /// and only there.
    pub(crate) fn refuse_unauthenticated<'a>(
        &'a self,
        unverified: Unverified<'a>,
        error: AcceptError,
        reason: Option<String>,
    ) -> Box<Refusal<'a>> {
        let head = unverified.head();
        let connector = unverified.connector();
        let within = connector.failures.take();
        let error = match (error, within) {
            (AcceptError::Unauthorized, Err(state)) => AcceptError::RateLimited {
                retry_after_seconds: state.reset_seconds,
            },
            (error, _) => error,
        };
        let count = match error {
            AcceptError::Unavailable { .. } => None,
            _ => connector.failures.note_refusal(head.received_at),
        };
        let entry = count.map(|count| {
            let message = reason.unwrap_or_else(|| error.to_string());
            let message = since_last_entry(message, count);
            let is_own = |stream: &&str| connector.keys.iter().any(|key| *key.stream == **stream);
            let stream = head.stream.filter(is_own).unwrap_or_default().into();
            let log = LogEntry {
                endpoint: head.endpoint,
                http_status: error.status().0,
                bytes: head.content_length.unwrap_or(0),
                client: head.client,
                headers: head.headers.cloned(),
                error: Some(message.into()),
                ..LogEntry::of(
                    head.request_id,
                    head.received_at,
                    Arc::clone(&connector.name),
                    stream,
                    Outcome::Rejected,
                )
            };
            Entry {
                journal: &self.journal,
                log: Some((log, None)),
            }
        });
        Box::new(Refusal {
            head,
            started: unverified.started(),
            caller: None,
            error,
            entry,
            budget: None,
            bytes_max: 0,
        })
    }
}

/// Why a key cannot be used any more, for the log.
pub(super) fn why_ended(key: &IngestKey) -> Option<String> {
    let ended = key.ended()?;
    Some(format!("{ended}; give its sender a key that is valid"))
}
