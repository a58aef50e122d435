//! The pipeline: from the head of a request to its receipt.
//!
//! `http` calls [`Ingest::admit`] for both endpoints, reads the body, and hands it to [`Ingest::store`]; the steps are in
//! `ingest/`.
//!
//! **Invariant**: the order of the checks is the order of the lines in `Ingest::check` and `Ingest::store`. Nothing is
//! stored for a request that is refused, except its log entry and, of a webhook, for a while its body, and that only
//! once its key was recognised.

pub mod flatten;
mod gate;
mod header_log;
mod headers;
mod refusal;
mod removal;
mod request;
mod resend;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::catalog::{Caller, Catalog};
use crate::error::AcceptError;
use crate::item::Items;
use crate::journal::{Claim, Journal, LogEntry, Outcome, Submission};
use crate::metrics::{Metrics, Minute};

pub use gate::{BodyBudget, Gate};
pub use header_log::loggable_headers;
pub use refusal::Refusal;
pub use request::{Accepted, Admitted, Answer, BodyError, Head, Limits};
use request::{Known, Named};
pub use resend::{AgainError, Kept, Newer, SentAgain};

/// The pipeline with everything that it needs.
#[derive(Debug)]
pub struct Ingest {
    catalog: Arc<Catalog>,
    journal: Arc<Journal>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    limits: Limits,
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

    /// Checks all that can be known before the body is read. What is admitted goes to [`Ingest::store`].
    ///
    /// # Errors
    /// The refusal, for [`Ingest::refuse`].
    pub fn admit<'a>(&'a self, head: Head<'a>) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        let known = self.recognize(head, Instant::now())?;
        match self.check(&known) {
            Ok(named) => Ok(Admitted {
                known,
                named,
                budget: self.body_budget(),
            }),
            Err(error) => {
                let bytes = known.head.content_length.unwrap_or(0);
                Err(self.refuse_known(known, None, bytes, error))
            }
        }
    }

    /// Makes an admitted request durable, and says what to answer. `body` is what became of reading it.
    pub async fn store(&self, admitted: Admitted<'_>, body: Result<Bytes, BodyError>) -> Answer {
        // The budget is held until the journal has answered.
        let Admitted {
            known,
            named,
            budget: _budget,
        } = admitted;
        let body = match body {
            Ok(body) => body,
            Err(error) => {
                let bytes = known.head.content_length.unwrap_or(0);
                let error = self.body_refused(error);
                return self.refuse(self.refuse_known(known, Some(&named), bytes, error));
            }
        };
        // The key may have been revoked while the body came.
        let stored = match known.caller.key.is_gone() {
            true => Err(AcceptError::Unauthorized),
            false => self.store_items(&known, &named, &body).await,
        };
        match stored {
            Ok(accepted) => self.accept(&known, accepted),
            Err(error) => {
                let bytes = body.len() as u64;
                let mut refusal = self.refuse_known(known, Some(&named), bytes, error);
                if refusal.budget.is_some() {
                    refusal.keep(body);
                }
                self.refuse(refusal)
            }
        }
    }

    /// Whose request it is, and what the key has left.
    fn recognize<'a>(
        &self,
        head: Head<'a>,
        started: Instant,
    ) -> Result<Known<'a>, Box<Refusal<'a>>> {
        let Ok(caller) = self.caller(head.authorization) else {
            return Err(self.refuse_unknown(head, started));
        };
        // Taken first, because every answer to a known key tells what is left; told after the stream.
        let quota = caller.key.quota.take();
        Ok(Known {
            head,
            caller,
            quota,
            started,
        })
    }

    /// Everything that can be known before the body is read.
    fn check(&self, known: &Known<'_>) -> Result<Named, AcceptError> {
        let head = &known.head;
        self.check_caller(known)?;
        let limit = self.limits.body_bytes_max;
        if head.content_length.is_some_and(|length| length > limit) {
            return Err(self.too_large());
        }
        let named = self.read_headers(head, known.caller.key.item_key.as_deref())?;
        self.gate.check()?;
        Ok(named)
    }

    /// Whether the key is one of the stream, and within its rate.
    fn check_caller(&self, known: &Known<'_>) -> Result<(), AcceptError> {
        let key = &known.caller.key;
        let stream = known.head.stream;
        let named = stream.is_none_or(|named| *named == *key.stream);
        if !named || !self.catalog.has_stream(&key.stream) {
            return Err(AcceptError::StreamNotFound);
        }
        if let Err(refused) = known.quota {
            return Err(AcceptError::RateLimited {
                retry_after_seconds: refused.reset_seconds,
            });
        }
        Ok(())
    }

    /// What the headers say, over the item key of the connector.
    fn read_headers(
        &self,
        head: &Head<'_>,
        configured: Option<&str>,
    ) -> Result<Named, AcceptError> {
        headers::check_content_type(head.content_type)?;
        let sent = headers::item_key(head.item_key)?.map(|field| (field, "X-Item-Key"));
        let configured = || Some((configured?.into(), "the connector's item_key"));
        Ok(Named {
            item_key: sent.or_else(configured),
            idempotency_key: headers::idempotency_key(head.idempotency_key)?,
        })
    }

    async fn store_items(
        &self,
        known: &Known<'_>,
        named: &Named,
        body: &[u8],
    ) -> Result<Accepted, AcceptError> {
        let items = self.flatten(body, named)?;
        let test = known.caller.test;
        let outcome = match test {
            true => Outcome::Test,
            false => Outcome::Accepted,
        };
        let mut log = known.log_entry(outcome, 202);
        log.items = u32::try_from(items.len()).unwrap_or(u32::MAX);
        log.bytes = body.len() as u64;
        log.item_key = named.item_key().map(Into::into);
        log.idempotency_key = named.idempotency_key.clone();
        let claim = (named.idempotency_key.as_deref())
            .map(|key| claim(&log.connector, &log.stream, test, key, body));
        self.submit(log, items, claim).await
    }

    fn flatten(&self, body: &[u8], named: &Named) -> Result<Items, AcceptError> {
        let item_key =
            (named.item_key.as_ref()).map(|(field, named_by)| flatten::ItemKey { field, named_by });
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

    /// The answer to a request that was accepted.
    fn accept(&self, known: &Known<'_>, accepted: Accepted) -> Answer {
        let connector = Some(&known.caller.key.connector);
        self.note(
            connector,
            known.head.received_ms,
            known.started,
            &Ok(&accepted),
        );
        Answer {
            quota: Some(known.quota.unwrap_or_else(|nothing_left| nothing_left)),
            result: Ok(accepted),
        }
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

    fn body_budget(&self) -> BodyBudget {
        self.gate.budget(self.limits.body_bytes_max)
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

    fn too_large(&self) -> AcceptError {
        AcceptError::PayloadTooLarge {
            limit_bytes: self.limits.body_bytes_max,
        }
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
