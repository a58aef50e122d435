//! What becomes of a request that is refused: its log entry and, of a webhook, for a while its body.
//!
//! The pipeline makes a [`Refusal`]; `http` reads the body where it is wanted.
//!
//! **Invariant**: a refusal is logged, also when the caller goes away before its body has come. Refusals of our own
//! making (503) are not: the log is what cannot be written then. Floods are counted, and logged once a second.

mod unauthenticated;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use uuid::Uuid;

use super::Ingest;
use super::request::{Address, Answer, Head, Known, Named};
use crate::error::AcceptError;
use base::budget::Portion;
use base::clock::Unix;
use catalog::{Caller, IngestKey, QuotaState, VolumeLeft};
use journal::log::Endpoint;
use journal::{Journal, JournalError, LogEntry, Outcome, RejectedBody};
use unauthenticated::why_ended;

/// A request that is refused.
#[derive(Debug)]
pub struct Refusal<'a> {
    head: Head<'a>,
    started: Instant,
    /// Who called, and what the key has left; none: that is not known.
    caller: Option<(Caller, QuotaState)>,
    error: AcceptError,
    entry: Option<Entry<'a>>,
    /// If the body is wanted, to be looked at: what is read of it is taken from this, and goes to [`Refusal::keep`].
    pub budget: Option<Portion>,
    /// Bytes that it may have when it is decompressed.
    bytes_max: usize,
}

/// A log entry that is written when this is dropped. A caller that goes away drops it, so its refusal is logged all the
/// same.
#[derive(Debug)]
struct Entry<'a> {
    journal: &'a Journal,
    /// Taken when dropped.
    log: Option<(LogEntry, Option<RejectedBody>)>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Some((log, body)) = self.log.take() {
            self.journal.record_refused(log, body);
        }
    }
}

impl Refusal<'_> {
    /// Keeps the body, so that the request can be run again.
    pub fn keep(&mut self, body: Bytes) {
        let value = |value: Option<&[u8]>| value.map(Into::into);
        let log = self.entry.as_mut().and_then(|entry| entry.log.as_mut());
        if let (Some((log, kept)), Some((caller, _))) = (log, &self.caller) {
            let head = &self.head;
            let said = |address: Address<'_>| said(&address, &caller.key);
            log.bytes = body.len() as u64;
            let body = match (head.address, head.form()) {
                // Its headers are kept, and the signature is over the bytes as they came.
                (Some(_), _) | (None, Err(_)) => body,
                (None, Ok(form)) => match webhook::body::decode(form, body, self.bytes_max) {
                    Ok(body) => body,
                    // Nothing can be done with it.
                    Err(_) => return,
                },
            };
            *kept = Some(RejectedBody {
                body,
                stream: head.stream.unwrap_or(&caller.key.stream).into(),
                content_type: value(head.content_type),
                item_key: value(head.item_key),
                idempotency_key: value(head.idempotency_key),
                test: caller.test,
                headers: head.address.map(said),
            });
        }
    }
}

impl Ingest {
    /// A request whose key is known, refused when `bytes` of its body were known.
    pub(super) fn refuse_known<'a>(
        &'a self,
        known: Known<'a>,
        named: Option<&Named>,
        bytes: u64,
        error: AcceptError,
    ) -> Box<Refusal<'a>> {
        let entry = self.refusal_entry(&known, named, bytes, &error);
        let preset = known.caller.key.preset;
        let bodies = Arc::clone(&known.caller.key.bodies);
        let is_wanted = entry.is_some()
            && self.wants_body(&known.head, &error)
            && preset.is_none_or(|preset| !preset.has_secret_in_body());
        let quota = known.quota.unwrap_or_else(|nothing_left| nothing_left);
        Box::new(Refusal {
            head: known.head,
            started: known.started,
            caller: Some((known.caller, quota)),
            error,
            entry,
            budget: is_wanted.then(|| self.bodies.portion(&bodies, self.limits.body_bytes_max)),
            bytes_max: self.limits.decoded_bytes_max(),
        })
    }

    /// Logs and counts a refused request, and says what to answer.
    pub fn refuse(&self, refusal: Box<Refusal<'_>>) -> Answer {
        let Refusal {
            head,
            started,
            caller,
            error,
            ..
        } = *refusal;
        let connector = caller.as_ref().map(|(caller, _)| &caller.key.connector);
        self.note(connector, head.received_at, started, &Err(&error));
        let metrics = &self.metrics;
        match error {
            AcceptError::InvalidPayload { .. } | AcceptError::UnknownEncoding { .. } => {
                &metrics.invalid
            }
            AcceptError::Unauthorized => &metrics.unauthorized,
            AcceptError::NotAllowed { .. } | AcceptError::AddressNotAllowed { .. } => {
                &metrics.not_allowed
            }
            AcceptError::StreamNotFound => &metrics.stream_not_found,
            AcceptError::PayloadTooLarge { .. } => &metrics.too_large,
            AcceptError::RateLimited { .. } | AcceptError::OverVolume { .. } => {
                &metrics.rate_limited
            }
            AcceptError::StreamFull { .. } => &metrics.stream_full,
            AcceptError::Unavailable { .. } => &metrics.unavailable,
        }
        .inc();
        Answer {
            volume: (caller.as_ref())
                .map_or_else(VolumeLeft::default, |(caller, _)| caller.key.volume.left()),
            quota: caller.map(|(_, quota)| quota),
            result: Err(error),
        }
    }

    fn refusal_entry(
        &self,
        known: &Known<'_>,
        named: Option<&Named>,
        bytes: u64,
        error: &AcceptError,
    ) -> Option<Entry<'_>> {
        let mut message = error.to_string();
        let quota = known.quota.unwrap_or_else(|nothing_left| nothing_left);
        let flood = match error {
            AcceptError::Unavailable { .. } => return None,
            AcceptError::RateLimited { .. }
            | AcceptError::OverVolume { .. }
            | AcceptError::StreamFull { .. } => true,
            // Told before the rate, and without bound: over the rate it is logged like the rate.
            AcceptError::StreamNotFound | AcceptError::AddressNotAllowed { .. } => {
                quota.remaining == 0
            }
            _ => false,
        };
        if flood {
            let key = &known.caller.key;
            let count = key.quota.note_refusal(known.head.received_at)?;
            message = since_last_entry(message, count);
        }
        let mut log = known.log_entry(Outcome::Rejected, error.status().0);
        log.bytes = bytes;
        log.error = Some(message.into());
        if let Some(named) = named {
            log.item_key = named.item_key().cloned();
            log.idempotency_key = named.idempotency_key.clone();
        }
        Some(Entry {
            journal: &self.journal,
            log: Some((log, None)),
        })
    }

    /// Whether the body of a refused request is kept.
    fn wants_body(&self, head: &Head<'_>, error: &AcceptError) -> bool {
        let can_be_mended = match error {
            AcceptError::InvalidPayload { .. }
            | AcceptError::StreamNotFound
            | AcceptError::RateLimited { .. }
            | AcceptError::OverVolume { .. }
            | AcceptError::StreamFull { .. } => true,
            AcceptError::Unauthorized
            | AcceptError::NotAllowed { .. }
            | AcceptError::AddressNotAllowed { .. }
            | AcceptError::UnknownEncoding { .. }
            | AcceptError::PayloadTooLarge { .. }
            | AcceptError::Unavailable { .. } => false,
        };
        let limit = self.limits.body_bytes_max;
        can_be_mended
            && head.endpoint == Endpoint::Webhook
            && head.content_length.is_none_or(|length| length <= limit)
            && self.journal.keeps_bodies()
            && self.gate.check().is_ok()
    }

    /// Writes the log entries of floods that have ended. Called once a second. The last requests of a flood would not
    /// be in the log otherwise.
    pub fn log_floods(&self, now: Unix) {
        let connectors = self.catalog.connectors();
        for connector in &connectors {
            let Some(count) = connector.failures.unlogged_refusals(now) else {
                continue;
            };
            let message = format!(
                "requests without a valid key or signature ({count} requests since the last entry)"
            );
            let name = Arc::clone(&connector.name);
            self.journal.record(LogEntry {
                endpoint: Endpoint::Webhook,
                http_status: 401,
                error: Some(message.into()),
                ..LogEntry::of(Uuid::now_v7(), now, name, "".into(), Outcome::Rejected)
            });
        }
        for key in connectors.iter().flat_map(|one| &one.keys) {
            let Some(count) = key.quota.unlogged_refusals(now) else {
                continue;
            };
            let (http_status, message) = match why_ended(key) {
                Some(message) => (401, message),
                None => (429, "this key exceeded its rate limit".to_owned()),
            };
            let message = since_last_entry(message, count);
            let (connector, stream) = (Arc::clone(&key.connector), Arc::clone(&key.stream));
            let outcome = Outcome::Rejected;
            self.journal.record(LogEntry {
                http_status,
                key: key.prefix(),
                error: Some(message.into()),
                ..LogEntry::of(Uuid::now_v7(), now, connector, stream, outcome)
            });
        }
    }
}

/// A message that stands for so many requests.
fn since_last_entry(mut message: String, count: u64) -> String {
    if count > 1 {
        let _ = write!(message, " ({count} requests since the last entry)");
    }
    message
}

/// The headers of a delivery that its meaning depends on.
fn said(address: &Address<'_>, key: &IngestKey) -> Vec<(String, String)> {
    let verifier = key.signing.as_ref().map(|signing| &signing.verifier);
    let signed: Vec<_> = (verifier.iter())
        .flat_map(|one| [one.id(), one.event()])
        .flatten()
        .collect();
    let usual: Vec<_> = (key.preset.iter())
        .flat_map(|preset| [&preset.id, &preset.event])
        .flatten()
        .collect();
    let means = |name: &str| {
        let by_tool = usual.iter().any(|source| source.is_header(name));
        let by_key = signed.iter().any(|source| source.is_header(name));
        name == "content-encoding" || name.starts_with("ce-") || by_tool || by_key
    };
    let headers = address.headers.0.iter().filter(|(name, _)| means(name));
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers
        .map(|(name, value)| ((*name).to_owned(), text(value)))
        .collect()
}

impl From<JournalError> for AcceptError {
    fn from(error: JournalError) -> Self {
        let (reason, retry_after_seconds) = match error {
            JournalError::Overloaded => ("too many requests wait for the disk", 1),
            JournalError::DiskFull => ("the disk is full", 30),
            JournalError::Busy => ("another process has locked journal.db", 2),
            JournalError::Unsettled => ("an operation on the same item is not settled yet", 1),
            JournalError::Unconfirmed => ("the database has not confirmed the request yet", 5),
            JournalError::Unreachable => ("the database cannot be reached", 2),
            JournalError::Closed => ("the service is stopping", 5),
            JournalError::NotAdmitted => return Self::Unauthorized,
        };
        Self::Unavailable {
            reason,
            retry_after_seconds,
        }
    }
}
