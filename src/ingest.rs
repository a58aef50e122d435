//! The pipeline: from the head of a request to its receipt.
//!
//! `http` calls [`Ingest::accept`] for both endpoints; the steps are in `ingest/`.
//!
//! **Invariant**: the order of the checks is the order of the lines in `Ingest::admit` and
//! `Ingest::store`. Nothing is stored for a request that is refused, except its log entry and, of a webhook, for a
//! while its body, and that only once its key was recognised.

mod again;
pub mod flatten;
mod gate;
mod headers;
mod noted;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::catalog::{Caller, Catalog, QuotaState};
use crate::error::AcceptError;
use crate::item::{Items, ItemsWriter};
use crate::journal::log::{Client, Endpoint};
use crate::journal::{
    Claim, Journal, JournalError, LogEntry, Outcome, Receipt, RefusedBody, Submission,
};
use crate::metrics::{Metrics, Minute};

pub use again::{AgainError, Kept, Newer, SentAgain};
pub use gate::{BodyBudget, Gate};
pub use noted::noted;

/// Stands in the log in place of a connector for what operators remove: no connector has this name.
const OPERATOR: &str = "";

/// What the pipeline may spend on one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes_max: u64,
    /// Bytes of its flattened form.
    pub flattened_bytes_max: usize,
}

/// The pipeline with everything that it needs.
#[derive(Debug)]
pub struct Ingest {
    catalog: Arc<Catalog>,
    journal: Arc<Journal>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    limits: Limits,
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
    /// What [`noted`] made of the headers, for the log.
    pub noted: Option<&'a str>,
}

/// What a body is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be stored: the answer waits for it.
    Store,
    /// The request is refused already: what comes of its body soon is kept to be looked at.
    Keep,
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

/// What the head of a request told.
struct Admitted {
    /// The field that identifies items, and whose words these are.
    item_key: Option<(Box<str>, &'static str)>,
    idempotency_key: Option<Box<str>>,
}

impl Admitted {
    fn item_key(&self) -> Option<&str> {
        self.item_key.as_ref().map(|(field, _)| &**field)
    }
}

impl Ingest {
    /// The pipeline over these parts.
    pub fn new(
        catalog: Arc<Catalog>,
        journal: Arc<Journal>,
        gate: Arc<Gate>,
        metrics: Arc<Metrics>,
        limits: Limits,
    ) -> Self {
        Self {
            catalog,
            journal,
            gate,
            metrics,
            limits,
        }
    }

    /// The caller that an `Authorization` header stands for.
    ///
    /// # Errors
    /// [`AcceptError::Unauthorized`].
    pub fn caller(&self, authorization: Option<&[u8]>) -> Result<Caller, AcceptError> {
        headers::bearer(authorization)
            .and_then(|secret| self.catalog.caller(secret))
            .ok_or(AcceptError::Unauthorized)
    }

    /// Checks a request, makes it durable, and says what to answer. `read_body` is called when the head was found
    /// good, or when the body of a refused request is kept, and takes what it reads from the budget that it is given.
    pub async fn accept<F>(
        &self,
        head: Head<'_>,
        read_body: impl FnOnce(BodyBudget, Purpose) -> F,
    ) -> Answer
    where
        F: Future<Output = Result<(Bytes, BodyBudget), BodyError>>,
    {
        let started = Instant::now();
        let caller = match self.caller(head.authorization) {
            Ok(caller) => caller,
            Err(error) => {
                self.note(None, head.received_ms, started, &Err(&error));
                return self.answer(None, Err(error));
            }
        };
        let mut quota = None;
        let result = match self.admit(&head, &caller, &mut quota) {
            Ok(admitted) => self.take(&head, &caller, &admitted, read_body).await,
            Err(error) => {
                let bytes = head.content_length.unwrap_or(0);
                let refusal = self.refusal(&head, &caller, quota, None, bytes, &error);
                if let Some(mut refusal) = refusal
                    && self.wants_body(&head, &error)
                {
                    // However the reading ends, the refusal is logged.
                    let budget = self.gate.budget(self.limits.body_bytes_max);
                    if let Ok((body, _budget)) = read_body(budget, Purpose::Keep).await {
                        refusal.keep(&head, &caller, body);
                    }
                }
                Err(error)
            }
        };
        let connector = Some(&caller.key.connector);
        self.note(connector, head.received_ms, started, &result.as_ref());
        self.answer(quota, result)
    }

    /// Checks a removal of the item `key`, makes it durable, and says what to answer.
    pub async fn remove(&self, head: Head<'_>, key: &str) -> Answer {
        let started = Instant::now();
        let caller = match self.caller(head.authorization) {
            Ok(caller) => caller,
            Err(error) => {
                self.note(None, head.received_ms, started, &Err(&error));
                return self.answer(None, Err(error));
            }
        };
        let mut quota = None;
        let result = match self.admit_removal(&head, &caller, key, &mut quota) {
            Ok(removal) => self.submit_removal(&head, &caller, removal, key).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            drop(self.refusal(&head, &caller, quota, None, 0, error));
        }
        let connector = Some(&caller.key.connector);
        self.note(connector, head.received_ms, started, &result.as_ref());
        self.answer(quota, result)
    }

    /// Everything that is to be known of a removal: its item without fields, and its idempotency key.
    fn admit_removal(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        key: &str,
        quota: &mut Option<QuotaState>,
    ) -> Result<(Items, Option<Box<str>>), AcceptError> {
        self.admit_caller(head, caller, quota)?;
        if !caller.key.may_delete {
            return Err(AcceptError::NotAllowed {
                connector: Arc::clone(&caller.key.connector),
            });
        }
        let removal = (
            removed(key)?,
            headers::idempotency_key(head.idempotency_key)?,
        );
        self.gate.check()?;
        Ok(removal)
    }

    async fn submit_removal(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        (items, idempotency_key): (Items, Option<Box<str>>),
        key: &str,
    ) -> Result<Accepted, AcceptError> {
        let outcome = match caller.test {
            true => Outcome::Test,
            false => Outcome::Removed,
        };
        let mut log = log_entry(head, caller, outcome, 202);
        log.items = 1;
        let body = format!("DELETE {key}");
        let claim = (idempotency_key.as_deref()).map(|id| {
            claim(
                &log.connector,
                &log.stream,
                caller.test,
                id,
                body.as_bytes(),
            )
        });
        log.idempotency_key = idempotency_key;
        self.submit(log, items, claim).await
    }

    /// Removes an item for an operator.
    ///
    /// # Errors
    /// No item can have this key, or nothing can be stored now.
    pub async fn remove_for_operator(
        &self,
        request_id: Uuid,
        client: Client,
        stream: &str,
        key: &str,
    ) -> Result<Accepted, AcceptError> {
        let items = removed(key)?;
        self.gate.check()?;
        let log = LogEntry {
            request_id,
            received_ms: crate::clock::unix_ms(),
            connector: OPERATOR.into(),
            stream: stream.into(),
            outcome: Outcome::Removed,
            endpoint: Endpoint::Items,
            http_status: 202,
            items: 1,
            bytes: 0,
            key: "".into(),
            client,
            item_key: None,
            idempotency_key: None,
            error: None,
            headers: None,
            sent_again_from: None,
        };
        self.submit(log, items, None).await
    }

    /// Reads the body of a request whose head is good, and stores it.
    async fn take<F>(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        admitted: &Admitted,
        read_body: impl FnOnce(BodyBudget, Purpose) -> F,
    ) -> Result<Accepted, AcceptError>
    where
        F: Future<Output = Result<(Bytes, BodyBudget), BodyError>>,
    {
        let budget = self.gate.budget(self.limits.body_bytes_max);
        // The budget is held until the journal has answered.
        let (body, _budget) = match read_body(budget, Purpose::Store).await {
            Ok(read) => read,
            Err(error) => {
                let error = self.body_refused(error);
                let bytes = head.content_length.unwrap_or(0);
                drop(self.refusal(head, caller, None, Some(admitted), bytes, &error));
                return Err(error);
            }
        };
        // The key may have been revoked while the body came.
        let result = match caller.key.is_gone() {
            true => Err(AcceptError::Unauthorized),
            false => self.store(head, caller, admitted, &body).await,
        };
        if let Err(error) = &result {
            let bytes = body.len() as u64;
            let refusal = self.refusal(head, caller, None, Some(admitted), bytes, error);
            if let Some(mut refusal) = refusal
                && self.wants_body(head, error)
            {
                refusal.keep(head, caller, body);
            }
        }
        result
    }

    /// Whether the body of a refused request is kept.
    fn wants_body(&self, head: &Head<'_>, error: &AcceptError) -> bool {
        let can_be_mended = match error {
            AcceptError::InvalidPayload { .. }
            | AcceptError::StreamNotFound
            | AcceptError::RateLimited { .. } => true,
            AcceptError::Unauthorized
            | AcceptError::NotAllowed { .. }
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

    /// Counts the request in the last hour.
    fn note(
        &self,
        connector: Option<&Arc<str>>,
        received_ms: u64,
        started: Instant,
        result: &Result<&Accepted, &AcceptError>,
    ) {
        let took = started.elapsed();
        let items = match result {
            Ok(accepted) if !accepted.receipt.replayed => accepted.receipt.items,
            _ => 0,
        };
        let request = Minute {
            requests: 1,
            errors: u64::from(result.is_err()),
            items: u64::from(items),
            timed: 1,
            took,
            took_max: took,
        };
        self.metrics.recent.note(connector, received_ms, request);
    }

    /// Whether the key is one of the stream, and within its rate.
    fn admit_caller(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        quota: &mut Option<QuotaState>,
    ) -> Result<(), AcceptError> {
        let key = &caller.key;
        // Taken first, because every answer to a known key tells what is left; told after the stream.
        let state = key.quota.take();
        *quota = Some(state.unwrap_or_else(|refused| refused));
        let named = head.stream.is_none_or(|named| *named == *key.stream);
        if !named || !self.catalog.has_stream(&key.stream) {
            return Err(AcceptError::StreamNotFound);
        }
        if let Err(refused) = state {
            return Err(AcceptError::RateLimited {
                retry_after_seconds: refused.reset_seconds,
            });
        }
        Ok(())
    }

    /// Everything that can be known before the body is read.
    fn admit(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        quota: &mut Option<QuotaState>,
    ) -> Result<Admitted, AcceptError> {
        self.admit_caller(head, caller, quota)?;
        if head
            .content_length
            .is_some_and(|length| length > self.limits.body_bytes_max)
        {
            return Err(self.too_large());
        }
        let admitted = self.read_headers(head, caller.key.item_key.as_deref())?;
        self.gate.check()?;
        Ok(admitted)
    }

    /// What the headers say, over the item key of the connector.
    fn read_headers(
        &self,
        head: &Head<'_>,
        configured: Option<&str>,
    ) -> Result<Admitted, AcceptError> {
        headers::check_content_type(head.content_type)?;
        let sent = headers::item_key(head.item_key)?.map(|field| (field, "X-Item-Key"));
        let configured = || Some((configured?.into(), "the connector's item_key"));
        Ok(Admitted {
            item_key: sent.or_else(configured),
            idempotency_key: headers::idempotency_key(head.idempotency_key)?,
        })
    }

    fn body_refused(&self, error: BodyError) -> AcceptError {
        match error {
            BodyError::TooLarge => self.too_large(),
            BodyError::TooSlow(seconds) => AcceptError::invalid(format!(
                "the body did not arrive within {seconds} s; send it faster, or in smaller parts"
            )),
            BodyError::Broken => AcceptError::invalid(
                "the body ended before it was complete; send the request again",
            ),
            BodyError::NoRoom => AcceptError::Unavailable {
                reason: "too many bodies are on their way",
                retry_after_seconds: 1,
            },
        }
    }

    async fn store(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        admitted: &Admitted,
        body: &[u8],
    ) -> Result<Accepted, AcceptError> {
        let items = self.flatten(body, admitted)?;
        let outcome = if caller.test {
            Outcome::Test
        } else {
            Outcome::Accepted
        };
        let mut log = log_entry(head, caller, outcome, 202);
        log.items = u32::try_from(items.len()).unwrap_or(u32::MAX);
        log.bytes = body.len() as u64;
        log.item_key = admitted.item_key().map(Into::into);
        log.idempotency_key = admitted.idempotency_key.clone();
        let claim = (admitted.idempotency_key.as_deref())
            .map(|key| claim(&log.connector, &log.stream, caller.test, key, body));
        self.submit(log, items, claim).await
    }

    fn flatten(&self, body: &[u8], admitted: &Admitted) -> Result<Items, AcceptError> {
        let item_key = (admitted.item_key.as_ref())
            .map(|(field, named_by)| flatten::ItemKey { field, named_by });
        let limits = flatten::Limits {
            flattened_bytes_max: self.limits.flattened_bytes_max,
        };
        Ok(flatten::flatten_by(body, item_key, limits)?)
    }

    /// Makes durable what passed every check.
    async fn submit(
        &self,
        log: LogEntry,
        items: Items,
        claim: Option<Claim>,
    ) -> Result<Accepted, AcceptError> {
        let stream = Arc::clone(&log.stream);
        let (bytes, outcome) = (log.bytes, log.outcome);
        let submission = Submission { log, items, claim };
        let receipt = self.journal.submit(submission).await?;
        let counter = match (receipt.replayed, outcome) {
            (true, _) => &self.metrics.duplicates,
            (false, Outcome::Test) => &self.metrics.tests,
            (false, _) => {
                self.metrics.items.inc_by(u64::from(receipt.items));
                self.metrics.body_bytes.inc_by(bytes);
                &self.metrics.accepted
            }
        };
        counter.inc();
        Ok(Accepted { stream, receipt })
    }

    fn answer(&self, quota: Option<QuotaState>, result: Result<Accepted, AcceptError>) -> Answer {
        if let Err(error) = &result {
            let metrics = &self.metrics;
            match error {
                AcceptError::InvalidPayload { .. } => &metrics.invalid,
                AcceptError::Unauthorized => &metrics.unauthorized,
                AcceptError::NotAllowed { .. } => &metrics.not_allowed,
                AcceptError::StreamNotFound => &metrics.stream_not_found,
                AcceptError::PayloadTooLarge { .. } => &metrics.too_large,
                AcceptError::RateLimited { .. } => &metrics.rate_limited,
                AcceptError::Unavailable { .. } => &metrics.unavailable,
            }
            .inc();
        }
        Answer { quota, result }
    }

    /// The log entry of a refused request. Refusals of our own making (503) have none: the log is what cannot be
    /// written then.
    fn refusal(
        &self,
        head: &Head<'_>,
        caller: &Caller,
        quota: Option<QuotaState>,
        admitted: Option<&Admitted>,
        bytes: u64,
        error: &AcceptError,
    ) -> Option<Refusal<'_>> {
        let mut message = error.to_string();
        let over_rate = quota.is_some_and(|quota| quota.remaining == 0);
        let flood = match error {
            AcceptError::Unavailable { .. } => return None,
            AcceptError::RateLimited { .. } => true,
            // Told before the rate, and without bound: over the rate it is logged like the rate.
            AcceptError::StreamNotFound => over_rate,
            _ => false,
        };
        if flood {
            let count = caller.key.quota.note_refusal(head.received_ms)?;
            if count > 1 {
                message = format!("{message} ({count} requests since the last entry)");
            }
        }
        let mut log = log_entry(head, caller, Outcome::Rejected, error.status().0);
        log.bytes = bytes;
        log.error = Some(message.into());
        if let Some(admitted) = admitted {
            log.item_key = admitted.item_key().map(Into::into);
            log.idempotency_key = admitted.idempotency_key.clone();
        }
        Some(Refusal {
            journal: &self.journal,
            entry: Some((log, None)),
        })
    }

    /// Writes the log entries of floods that have ended. Called once a second.
    pub fn log_floods(&self, unix_ms: u64) {
        let connectors = self.catalog.connectors();
        for key in connectors.iter().flat_map(|one| &one.keys) {
            let Some(count) = key.quota.unlogged_refusals(unix_ms) else {
                continue;
            };
            self.journal.record(LogEntry {
                request_id: Uuid::now_v7(),
                received_ms: unix_ms,
                connector: Arc::clone(&key.connector),
                stream: Arc::clone(&key.stream),
                outcome: Outcome::Rejected,
                endpoint: Endpoint::Ingest,
                http_status: 429,
                items: 0,
                bytes: 0,
                key: key.prefix(),
                client: Client::Many,
                item_key: None,
                idempotency_key: None,
                error: Some(
                    format!(
                        "too many requests with this key ({count} requests since the last entry)"
                    )
                    .into(),
                ),
                headers: None,
                sent_again_from: None,
            });
        }
    }

    fn too_large(&self) -> AcceptError {
        AcceptError::PayloadTooLarge {
            limit_bytes: self.limits.body_bytes_max,
        }
    }
}

/// The log entry of a refused request, written when this is dropped: also when the caller goes away before its body
/// has come.
struct Refusal<'a> {
    journal: &'a Journal,
    /// Taken when dropped.
    entry: Option<(LogEntry, Option<RefusedBody>)>,
}

impl Refusal<'_> {
    /// Keeps the body, so that the request can be run again.
    fn keep(&mut self, head: &Head<'_>, caller: &Caller, body: Bytes) {
        let value = |value: Option<&[u8]>| value.map(Into::into);
        if let Some((log, kept)) = &mut self.entry {
            log.bytes = body.len() as u64;
            *kept = Some(RefusedBody {
                body,
                stream: head.stream.unwrap_or(&caller.key.stream).into(),
                content_type: value(head.content_type),
                item_key: value(head.item_key),
                idempotency_key: value(head.idempotency_key),
                test: caller.test,
            });
        }
    }
}

impl Drop for Refusal<'_> {
    fn drop(&mut self) {
        if let Some((log, body)) = self.entry.take() {
            self.journal.record_refused(log, body);
        }
    }
}

impl From<JournalError> for AcceptError {
    fn from(error: JournalError) -> Self {
        let (reason, retry_after_seconds) = match error {
            JournalError::Overloaded => ("too many requests wait for the disk", 1),
            JournalError::DiskFull => ("the disk is full", 30),
            JournalError::Busy => ("another process holds journal.db", 2),
            JournalError::Closed => ("the service is stopping", 5),
        };
        Self::Unavailable {
            reason,
            retry_after_seconds,
        }
    }
}

/// An item that is to go, without fields.
fn removed(key: &str) -> Result<Items, AcceptError> {
    if key.is_empty() || key.len() > flatten::ITEM_KEY_BYTES_MAX {
        return Err(AcceptError::invalid(format!(
            "the key of an item has 1 to {} bytes; check the end of the path",
            flatten::ITEM_KEY_BYTES_MAX
        )));
    }
    let mut items = ItemsWriter::new(usize::MAX, key.len() + 2);
    items
        .push(key, "{}")
        .map_err(|error| AcceptError::invalid(error.to_string()))?;
    Ok(items.into_items())
}

fn log_entry(head: &Head<'_>, caller: &Caller, outcome: Outcome, http_status: u16) -> LogEntry {
    LogEntry {
        request_id: head.request_id,
        received_ms: head.received_ms,
        connector: Arc::clone(&caller.key.connector),
        stream: Arc::clone(&caller.key.stream),
        outcome,
        endpoint: head.endpoint,
        http_status,
        items: 0,
        bytes: 0,
        key: caller.key.prefix(),
        client: head.client,
        item_key: None,
        idempotency_key: None,
        error: None,
        headers: head.noted.map(Into::into),
        sent_again_from: None,
    }
}

/// A test key's claims are apart: a rehearsal must not swallow the real request.
fn claim(connector: &str, stream: &str, test: bool, idempotency_key: &str, body: &[u8]) -> Claim {
    let mut scope = Sha256::new();
    scope.update([u8::from(test)]);
    for part in [connector, stream, idempotency_key] {
        scope.update((part.len() as u64).to_le_bytes());
        scope.update(part);
    }
    Claim {
        scope: first(&scope.finalize()),
        payload: first(&Sha256::digest(body)),
    }
}

fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}
