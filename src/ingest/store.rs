//! From a body that somebody vouched for to its receipt.
//!
//! The pipeline and sending again come here.
//!
//! **Invariant**: what is accepted is durable before anybody is told. A request is one entry of the journal, whatever its
//! operations are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::interpret::{Reading, Repeats};
use super::quota_check::Room;
use super::request::{Known, Named};
use super::{Accepted, Ingest};
use crate::error::AcceptError;
use base::clock::Lived;
use catalog::IngestKey;
use item::{Action, Items};
use journal::log::Endpoint;
use journal::{Claim, LogEntry, Outcome, Recheck, Submission};
use settings::{OnUpdate, quoted};
use webhook::handshake::Challenge;

/// What a body came to.
pub(super) enum Stored {
    Accepted(Accepted),
    /// There was nothing to store; and what the log is to say of it.
    Challenge(Challenge, Option<String>),
}

impl Ingest {
    /// Reads a body, finds room for its items and makes them durable.
    pub(super) async fn store_body(
        &self,
        known: &Known<'_>,
        named: &Named,
        body: &Bytes,
    ) -> Result<Stored, AcceptError> {
        let key = &known.caller.key;
        // The key may have been revoked, or its stream deleted, while the body came.
        if key.is_gone() {
            return Err(self.why_gone(key));
        }
        if known.head.address.is_some() {
            // Of a signed request the key is known only now.
            self.check_caller(known)?;
        }
        let flattening = known.span("flatten");
        let read = self.read_delivery(known.context(), named, body);
        self.end_span(flattening, &read);
        let delivery = match read? {
            Reading::Delivery(delivery) => delivery,
            Reading::Challenge(challenge, say) => return Ok(Stored::Challenge(challenge, say)),
        };
        let test = known.caller.test;
        // Said before others share the bytes, which would be copied then.
        let items = delivery.items.accepted(key.rules.merges);
        let mut log = known.log_entry(known.outcome(), delivery.status);
        log.bytes = body.len() as u64;
        log.item_key = delivery.item_key;
        log.sender = known.sender(delivery.event, delivery.id);
        log.idempotency_key = delivery.idempotency_key;
        log.error = delivery.odd;
        check_count(key, items.len())?;
        let room = match self.make_room(known, &items, body).await {
            Ok(room) => room,
            // Of a repeat nothing is stored, so there is room for it.
            Err(_) if self.is_repeat(&log, &delivery.repeats, body).await? => Room::NONE,
            Err(full) => return Err(full),
        };
        let committing = self.follow(known);
        let arrived = Lived::at(known.started);
        let claims = self.claims(&log, &delivery.repeats, body);
        let items = (items, key.rules.merges);
        let stored = self.submit(log, arrived, items, claims, Some(key)).await;
        self.end_commit(known, committing, &stored);
        let is_new = matches!(&stored, Ok(accepted) if !accepted.receipt.replayed);
        self.leave_room(room, key, is_new);
        let mut accepted = stored.map_err(|error| self.why_not(key, error))?;
        accepted.status = delivery.status;
        accepted.answer = delivery.answer;
        accepted.without_item_key = delivery.without_item_key;
        if known.head.endpoint == Endpoint::Webhook {
            let signs = &known.caller.key.signs;
            let is_new = delivery.without_item_key && !test;
            signs.unidentified.store(is_new, Ordering::Relaxed);
        }
        Ok(Stored::Accepted(accepted))
    }

    /// Why a request was not stored whose key may have been revoked meanwhile.
    fn why_not(&self, key: &IngestKey, error: AcceptError) -> AcceptError {
        match error {
            AcceptError::Unauthorized => self.why_gone(key),
            error => error,
        }
    }

    /// Whether it was taken before. It is asked only if a limit would reject the request, because the journal finds out
    /// in any case.
    async fn is_repeat(
        &self,
        log: &LogEntry,
        repeats: &Repeats,
        body: &Bytes,
    ) -> Result<bool, AcceptError> {
        let claims = self.claims(log, repeats, body);
        Ok(self.journal.has_claim(claims).await?)
    }

    /// Whether updates are merged into what a stream has. It is stored with the items, because the setting may change
    /// before they are applied.
    pub(super) fn merges(&self, stream: &str) -> bool {
        let stream = self.catalog.stream(stream);
        stream.is_some_and(|stream| stream.on_update == OnUpdate::Merge)
    }

    /// Makes durable what passed every check: the items, and whether updates in their stream are merged. Repeats have
    /// either of the claims in common. Where other nodes can revoke the key, it is looked at again before anything is
    /// stored, because this node may not know of the revocation yet.
    pub(super) async fn submit(
        &self,
        mut log: LogEntry,
        arrived: Lived,
        (items, merges): (Items, bool),
        [claim, second]: [Option<Claim>; 2],
        key: Option<&Arc<IngestKey>>,
    ) -> Result<Accepted, AcceptError> {
        log.items = u32::try_from(items.len()).unwrap_or(u32::MAX);
        if log.outcome == Outcome::Accepted && items.action() == Some(Action::Remove) {
            log.outcome = Outcome::Removed;
            // What a removal is known by, whatever its tool is answered.
            log.http_status = 202;
        }
        let stream = Arc::clone(&log.stream);
        let (bytes, outcome) = (log.bytes, log.outcome);
        let submission = Submission {
            log,
            arrived,
            items: items.accepted(merges),
            claim,
            second,
            recheck: key.filter(|_| self.journal.is_shared()).map(|key| {
                let key = Arc::clone(key);
                Recheck::new(move || !key.is_gone())
            }),
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
            answer: None,
            without_item_key: false,
        })
    }
}

/// Whether the connector takes so many items in one request.
fn check_count(key: &IngestKey, count: usize) -> Result<(), AcceptError> {
    let max = key.settings.max_items_per_request as usize;
    if max == 0 || count <= max {
        return Ok(());
    }
    Err(AcceptError::invalid(format!(
        "the request has {count} items, and `max_items_per_request` of the connector {} is {max}; split it into smaller requests",
        quoted(&key.connector)
    )))
}
