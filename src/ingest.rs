//! The pipeline: from the head of a request to its receipt.
//!
//! `http` calls [`Ingest::admit`] for both endpoints, reads the body, and hands it to [`Ingest::store`]; the steps are in
//! `ingest/`.
//!
//! **Invariant**: the order of the checks is the order of the lines in `Ingest::check` and `Ingest::store`. Nothing is
//! stored for a request that is refused, except its log entry and, of a webhook, for a while its body, and that only
//! once its key was recognised.

mod address;
mod conventions;
pub mod flatten;
mod gate;
mod header_log;
mod headers;
mod refusal;
mod removal;
mod request;
mod resend;
mod room;
mod standing;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::budget::Budget;
use crate::catalog::{Caller, Catalog};
use crate::error::AcceptError;
use crate::item::Items;
use crate::journal::log::Endpoint;
use crate::journal::{Claim, Journal, LogEntry, Outcome, Submission};
use crate::metrics::{Metrics, Minute};
use crate::pool::Pool;
use crate::sender::Preset;
use crate::sender::body::Form;
use crate::sender::handshake::Answer as Greeting;

use address::Proof;
use conventions::{DELIVERY, Reading, Repeats};
pub use gate::Gate;
pub use header_log::loggable_headers;
pub use refusal::Refusal;
pub use request::{
    Accepted, Address, Admitted, Answer, BodyError, Head, Limits, Reply, check_place,
};
use request::{Known, Named, Voucher};
pub use resend::{AgainError, Kept, Newer, SentAgain};

/// How often its own size a body may be once it is flattened, beside some bytes that every one may have.
const GROWTH_MAX: usize = 8;
const GROWTH_FREE_BYTES: usize = 64 << 10;

/// The pipeline with everything that it needs.
#[derive(Debug)]
pub struct Ingest {
    catalog: Arc<Catalog>,
    journal: Arc<Journal>,
    /// Says which streams are full.
    pool: Arc<Pool>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    limits: Limits,
    /// Bytes of bodies that are being read or wait for the journal.
    bodies: Arc<Budget>,
}

impl Ingest {
    /// The pipeline over these parts.
    pub fn new(
        catalog: Arc<Catalog>,
        journal: Arc<Journal>,
        pool: Arc<Pool>,
        gate: Arc<Gate>,
        metrics: Arc<Metrics>,
        limits: Limits,
    ) -> Self {
        Self {
            catalog,
            journal,
            pool,
            gate,
            metrics,
            limits,
            bodies: Arc::new(Budget::new(
                limits.pending_bytes_max,
                limits.pending_bytes_per_key_max,
            )),
        }
    }

    /// What all bodies take that are on their way.
    pub fn bodies(&self) -> &Budget {
        &self.bodies
    }

    /// The caller that an `Authorization` header stands for, a key in the URL that may stand there, or a certificate.
    ///
    /// # Errors
    /// [`AcceptError::Unauthorized`].
    pub fn caller(
        &self,
        authorization: Option<&[u8]>,
        access_token: Option<&str>,
        certificate: Option<[u8; 32]>,
    ) -> Result<Caller, AcceptError> {
        let caller = match (headers::secret(authorization), access_token) {
            (Some(secret), _) => self.catalog.caller(&secret),
            (None, Some(secret)) => {
                let caller = self.catalog.caller(secret);
                caller.filter(|caller| caller.key.allow_in_url)
            }
            (None, None) => certificate.and_then(|one| self.catalog.caller_with_certificate(one)),
        };
        caller.ok_or(AcceptError::Unauthorized)
    }

    /// Checks all that can be known before the body is read. What is admitted goes to [`Ingest::store`].
    ///
    /// # Errors
    /// The refusal, for [`Ingest::refuse`].
    pub fn admit<'a>(&'a self, head: Head<'a>) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        match head.address {
            None => self.admit_known(self.recognize(head, Instant::now())?),
            Some(address) => self.admit_at(head, address),
        }
    }

    fn admit_known<'a>(&'a self, known: Known<'a>) -> Result<Admitted<'a>, Box<Refusal<'a>>> {
        match self.check(&known) {
            Ok(named) => Ok(Admitted {
                budget: (self.bodies).portion(&known.caller.key.bodies, self.limits.body_bytes_max),
                voucher: Voucher::Key(known),
                named,
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
            voucher,
            named,
            budget: _budget,
        } = admitted;
        let (known, body) = match (voucher, body) {
            (Voucher::Key(known), Ok(body)) => (known, body),
            (Voucher::Key(known), Err(error)) => {
                let bytes = known.head.content_length.unwrap_or(0);
                let error = self.body_refused(error);
                return self.refuse(self.refuse_known(known, Some(&named), bytes, error));
            }
            (Voucher::Signature(unproven), Ok(body)) => match self.prove(unproven, &body) {
                Ok(Proof::Good(known)) => (known, body),
                Ok(Proof::Greeting(known, greeting, say)) => {
                    return self.answer_greeting(&known, greeting, say);
                }
                Err(refusal) => return self.refuse(refusal),
            },
            (Voucher::Signature(unproven), Err(error)) => {
                return self.refuse(self.refuse_unread(unproven, error));
            }
        };
        let stored = self.store_body(&known, &named, &body).await;
        match stored {
            Ok(Stored::Greeting(greeting, say)) => self.answer_greeting(&known, greeting, say),
            Ok(Stored::Accepted(accepted)) => self.accept(&known, accepted),
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
        let Ok(caller) = self.caller(head.authorization, head.access_token, head.certificate)
        else {
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
        let form = head.form()?;
        let key = &known.caller.key;
        let named = self.read_headers(head, form, key.item_key.as_deref(), key.preset)?;
        self.gate.check()?;
        Ok(named)
    }

    /// Whether the key is taken from there, one of the stream, and within its rate.
    fn check_caller(&self, known: &Known<'_>) -> Result<(), AcceptError> {
        let key = &known.caller.key;
        check_place(&key.networks, known.head.client)?;
        let stream = known.head.stream;
        let named = stream.is_none_or(|named| *named == *key.stream);
        if !named || !self.catalog.has_stream(&key.stream) {
            return Err(AcceptError::StreamNotFound);
        }
        if let Err(refused) = known.quota {
            let retry_after_seconds = refused.reset_seconds;
            return Err(match known.tries_again_after_429() {
                true => AcceptError::RateLimited {
                    retry_after_seconds,
                },
                false => AcceptError::Unavailable {
                    reason: "too many requests",
                    retry_after_seconds,
                },
            });
        }
        Ok(())
    }

    /// What the headers say, over the item key of the connector, over that of its tool.
    fn read_headers(
        &self,
        head: &Head<'_>,
        form: Form,
        item_key: Option<&str>,
        preset: Option<&'static Preset>,
    ) -> Result<Named, AcceptError> {
        let sent = headers::item_key(head.item_key)?.map(|field| (field, "X-Item-Key".into()));
        let configured = || Some((item_key?.into(), "the connector's item_key".into()));
        // Elsewhere a request is what its caller makes of it.
        let usual = || {
            let preset = preset.filter(|_| head.address.is_some())?;
            let named_by = format!("the preset {}", preset.name);
            let field = match preset.is_generic() {
                true => preset.item_key?,
                // What has no object of its own is not to take the place of the one before.
                false => preset.item_key.unwrap_or(DELIVERY),
            };
            Some((field.into(), named_by.into()))
        };
        let chosen = sent.or_else(configured);
        Ok(Named {
            by_preset: chosen.is_none(),
            item_key: chosen.or_else(usual),
            idempotency_key: headers::idempotency_key(head.idempotency_key)?,
            form,
        })
    }

    async fn store_body(
        &self,
        known: &Known<'_>,
        named: &Named,
        body: &Bytes,
    ) -> Result<Stored, AcceptError> {
        let key = &known.caller.key;
        // The key may have been revoked while the body came.
        if key.is_gone() {
            return Err(AcceptError::Unauthorized);
        }
        if known.head.address.is_some() {
            // Of a signed request the key is known only now.
            self.check_caller(known)?;
        }
        let delivery = match self.read_delivery(known.context(), named, body)? {
            Reading::Delivery(delivery) => delivery,
            Reading::Greeting(greeting, say) => return Ok(Stored::Greeting(greeting, say)),
        };
        let test = known.caller.test;
        let outcome = match test {
            true => Outcome::Test,
            false => Outcome::Accepted,
        };
        let mut log = known.log_entry(outcome, delivery.status);
        log.bytes = body.len() as u64;
        log.item_key = delivery.item_key;
        log.sender = known.sender(delivery.event, delivery.id);
        log.idempotency_key = delivery.idempotency_key;
        log.error = delivery.odd;
        let (items, removed) = (delivery.items, delivery.removed);
        let charged = match self.make_room(known, &items, body).await {
            Ok(charged) => charged,
            // Of a repeat nothing is stored, so there is room for it.
            Err(full) => {
                let claims = self.claims(&log, &delivery.repeats, body);
                match self.journal.has_claim(claims).await? {
                    true => 0,
                    false => return Err(full),
                }
            }
        };
        let stored = self.submit_both(log, items, removed, &delivery.repeats, body);
        let stored = stored.await;
        if !matches!(&stored, Ok(accepted) if !accepted.receipt.replayed) {
            key.volume.give_back(charged);
        }
        let mut accepted = stored?;
        accepted.status = delivery.status;
        accepted.without_item_key = delivery.without_item_key;
        if known.head.endpoint == Endpoint::Webhook {
            let signs = &known.caller.key.signs;
            let is_new = delivery.without_item_key && !test;
            signs.unidentified.store(is_new, Ordering::Relaxed);
        }
        Ok(Stored::Accepted(accepted))
    }

    /// Makes durable what a delivery removes, and then what it brings: the one is a request of its own if both are there.
    /// Its repeats have either of `repeats` in common, or the idempotency key.
    async fn submit_both(
        &self,
        mut log: LogEntry,
        items: Items,
        removed: Option<Items>,
        repeats: &Repeats,
        body: &[u8],
    ) -> Result<Accepted, AcceptError> {
        let test = log.outcome == Outcome::Test;
        let count = |items: &Items| u32::try_from(items.len()).unwrap_or(u32::MAX);
        let whole = self.claims(&log, repeats, body);
        let Some(removed) = removed else {
            log.items = count(&items);
            return self.submit(log, items, whole).await;
        };
        let since = self.made_at(&log.connector);
        let part = known_by(&log, repeats).map(|once| {
            let once = [once?, " removed"].concat();
            let scope = (&*log.connector, since);
            Some(claim(scope, &log.stream, test, &once, body))
        });
        let mut removal = LogEntry {
            items: count(&removed),
            // What a removal is known by, whatever its tool is answered.
            http_status: 202,
            outcome: match test {
                true => Outcome::Test,
                false => Outcome::Removed,
            },
            ..log.clone()
        };
        if items.is_empty() {
            return self.submit(removal, removed, whole).await;
        }
        removal.request_id = Uuid::now_v7();
        self.submit(removal, removed, part).await?;
        log.items = count(&items);
        self.submit(log, items, whole).await
    }

    /// What a delivery's repeats have in common.
    fn claims(&self, log: &LogEntry, repeats: &Repeats, body: &[u8]) -> [Option<Claim>; 2] {
        let scope = (&*log.connector, self.made_at(&log.connector));
        let test = log.outcome == Outcome::Test;
        known_by(log, repeats).map(|once| Some(claim(scope, &log.stream, test, once?, body)))
    }

    fn flatten(&self, body: &[u8], named: &Named) -> Result<Items, AcceptError> {
        let by_field = named.item_key.as_ref().filter(|_| !named.is_by_delivery());
        let item_key = by_field.map(|(field, named_by)| flatten::ItemKey { field, named_by });
        let in_proportion = body.len() * GROWTH_MAX + GROWTH_FREE_BYTES;
        let limits = flatten::Limits {
            flattened_bytes_max: self.limits.flattened_bytes_max.min(in_proportion),
            item_bytes_max: self.limits.item_bytes_max,
        };
        Ok(flatten::flatten_by(body, item_key, limits)?)
    }

    /// Makes durable what passed every check.
    async fn submit(
        &self,
        log: LogEntry,
        items: Items,
        [claim, second]: [Option<Claim>; 2],
    ) -> Result<Accepted, AcceptError> {
        let stream = Arc::clone(&log.stream);
        let (bytes, outcome) = (log.bytes, log.outcome);
        let submission = Submission {
            log,
            items,
            claim,
            second,
        };
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
        Ok(Accepted {
            stream,
            receipt,
            status: 202,
            without_item_key: false,
        })
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
            volume: known.caller.key.volume.left(),
            result: Ok(Reply::Accepted(accepted)),
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
            BodyError::NoRoomForKey => AcceptError::Unavailable {
                reason: "too many bodies of this key are on their way",
                retry_after_seconds: 1,
            },
            BodyError::GaveWay => AcceptError::Unavailable {
                reason: "the body was slow, and others needed its room",
                retry_after_seconds: 1,
            },
        }
    }

    /// When the connector was made, if it was made at run time: Unix time in milliseconds.
    pub fn made_at(&self, connector: &str) -> Option<u64> {
        self.catalog.connector(connector)?.created_ms
    }

    fn too_large(&self) -> AcceptError {
        AcceptError::PayloadTooLarge {
            limit_bytes: self.limits.body_bytes_max,
        }
    }
}

/// What tells a delivery from others: its id or idempotency key, and its body.
fn known_by<'a>(log: &'a LogEntry, repeats: &'a Repeats) -> [Option<&'a str>; 2] {
    [
        repeats.id.as_deref().or(log.idempotency_key.as_deref()),
        repeats.body.as_deref(),
    ]
}

/// What a body came to.
enum Stored {
    Accepted(Accepted),
    /// There was nothing to store; and what the log is to say of it.
    Greeting(Greeting, Option<String>),
}

/// A test key's claims are apart: a rehearsal must not swallow the real request. So are those of a connector of this name
/// that is gone: whoever has the name now was not answered.
fn claim(
    (connector, since): (&str, Option<u64>),
    stream: &str,
    test: bool,
    idempotency_key: &str,
    body: &[u8],
) -> Claim {
    let mut scope = Sha256::new();
    scope.update([u8::from(test)]);
    if let Some(since) = since {
        scope.update(since.to_le_bytes());
    }
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
