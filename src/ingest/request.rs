//! What comes in with a request, and what is answered.
//!
//! `http` makes a [`Head`] of the headers and hands in the body; the pipeline gives an [`Answer`].
//!
//! **Invariant**: what is admitted holds its place in the budget of all bodies until it is answered.

use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::gate::BodyBudget;
use crate::catalog::{Caller, QuotaState};
use crate::error::AcceptError;
use crate::journal::log::{Client, Endpoint};
use crate::journal::{LogEntry, Outcome, Receipt};

/// What the pipeline may spend on one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes_max: u64,
    /// Bytes of its flattened form.
    pub flattened_bytes_max: usize,
}

/// The head of a request. Header values are as they came, absent ones `None`.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// UUIDv7, made when the request arrived.
    pub request_id: Uuid,
    /// When it arrived: Unix time in milliseconds.
    pub received_ms: u64,
    /// Where it came in.
    pub endpoint: Endpoint,
    /// The stream that the caller names, in the path or by `?stream=`.
    pub stream: Option<&'a str>,
    /// `Authorization`
    pub authorization: Option<&'a [u8]>,
    /// `Content-Type`
    pub content_type: Option<&'a [u8]>,
    /// `Content-Length`
    pub content_length: Option<u64>,
    /// `X-Item-Key`
    pub item_key: Option<&'a [u8]>,
    /// `Idempotency-Key`
    pub idempotency_key: Option<&'a [u8]>,
    /// The caller, for the log.
    pub client: Client,
    /// What [`super::loggable_headers`] made of the headers, for the log.
    pub headers: Option<&'a str>,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// More bytes than allowed.
    TooLarge,
    /// Not complete within the deadline, in whole seconds.
    TooSlow(u64),
    /// The connection broke, or the transfer encoding is wrong.
    Broken,
    /// Too many bytes of other bodies are on their way.
    NoRoom,
}

/// A request whose key is known.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) head: Head<'a>,
    pub(super) caller: Caller,
    /// What the key has left; the error: nothing.
    pub(super) quota: Result<QuotaState, QuotaState>,
    pub(super) started: Instant,
}

impl Known<'_> {
    /// Its log entry.
    pub(super) fn log_entry(&self, outcome: Outcome, http_status: u16) -> LogEntry {
        let (head, key) = (&self.head, &self.caller.key);
        let (connector, stream) = (Arc::clone(&key.connector), Arc::clone(&key.stream));
        LogEntry {
            endpoint: head.endpoint,
            http_status,
            key: key.prefix(),
            client: head.client,
            headers: head.headers.map(Into::into),
            ..LogEntry::of(
                head.request_id,
                head.received_ms,
                connector,
                stream,
                outcome,
            )
        }
    }
}

/// What the headers of a submission say.
#[derive(Debug)]
pub(super) struct Named {
    /// The field that identifies items, and whose words these are.
    pub(super) item_key: Option<(Box<str>, &'static str)>,
    pub(super) idempotency_key: Option<Box<str>>,
}

impl Named {
    pub(super) fn item_key(&self) -> Option<&str> {
        self.item_key.as_ref().map(|(field, _)| &**field)
    }
}

/// A request whose head is good. Its body is read next.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub(super) known: Known<'a>,
    pub(super) named: Named,
    /// What is read of the body is taken from this.
    pub budget: BodyBudget,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// What the key has left, if it was recognised and not refused before.
    pub quota: Option<QuotaState>,
    /// The stream and the receipt, or why not.
    pub result: Result<Accepted, AcceptError>,
}

/// A request that was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The key's stream.
    pub stream: Arc<str>,
    /// What the journal says.
    pub receipt: Receipt,
}
