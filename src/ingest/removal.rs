//! Removals: requests without a body, whose item goes.
//!
//! `http` calls [`Ingest::remove`] for callers, and [`Ingest::remove_for_operator`].
//!
//! **Invariant**: a removal is checked, stored and answered like a submission of one operation.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::request::{Accepted, Answer, Head, Known};
use super::{Ingest, flatten, headers};
use crate::error::AcceptError;
use base::clock::{Lived, Unix};
use item::{Action, ItemMeta, Items, ItemsWriter};
use journal::log::{Client, Endpoint};
use journal::{Claim, JournalError, LogEntry, Outcome};

/// Stands in the log in place of a connector for what operators remove: no connector has this name, because the
/// catalog refuses it.
const OPERATOR: &str = "operator";
/// The connector of what the daemon itself submits.
pub(super) const BUILT_IN: &str = "headgate";

/// The data of an act of an operator.
#[derive(Debug, Clone, Copy)]
pub struct OperatorData<'a> {
    /// The same in each submission of it: a submission that is repeated after a crash stores nothing more.
    pub id: Uuid,
    pub stream: &'a str,
    pub key: &'a str,
    /// The JSON text of the flat object; none: the item is to go.
    pub fields: Option<&'a str>,
}

impl Ingest {
    /// Checks a removal of the item `key`, makes it durable, and says what to answer.
    pub async fn remove(&self, head: Head<'_>, key: &str) -> Answer {
        let known = match self.recognize(head, Instant::now()) {
            Ok(known) => known,
            Err(refusal) => return self.refuse(refusal),
        };
        let result = match self.admit_removal(&known, key) {
            Ok(removal) => self.submit_removal(&known, removal, key).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(accepted) => self.accept(&known, accepted),
            Err(error) => self.refuse(self.refuse_known(known, None, 0, error)),
        }
    }

    /// Everything that is to be known of a removal: its item without fields, and its idempotency key.
    fn admit_removal(
        &self,
        known: &Known<'_>,
        key: &str,
    ) -> Result<(Items, Option<Arc<str>>), AcceptError> {
        self.check_caller(known)?;
        let own = &known.caller.key;
        if !own.may_delete() {
            return Err(AcceptError::NotAllowed {
                connector: own.connector.clone(),
            });
        }
        let removal = (
            removed(&[key])?,
            headers::idempotency_key(known.head.idempotency_key)?,
        );
        self.gate.check()?;
        Ok(removal)
    }

    async fn submit_removal(
        &self,
        known: &Known<'_>,
        (items, idempotency_key): (Items, Option<Arc<str>>),
        key: &str,
    ) -> Result<Accepted, AcceptError> {
        let mut log = known.log_entry(known.outcome(), 202);
        let body = format!("DELETE {key}");
        let claim = (idempotency_key.as_deref()).map(|id| self.claim(&log, id, body.as_bytes()));
        log.idempotency_key = idempotency_key;
        let merges = known.caller.key.rules.merges;
        let committing = self.follow(known);
        let stored = self
            .submit(
                log,
                Lived::at(known.started),
                (items, merges),
                [claim, None],
                Some(&known.caller.key),
            )
            .await;
        self.end_commit(known, committing, &stored);
        stored
    }

    /// Removes items for an operator, with one request.
    ///
    /// # Errors
    /// No item can have this key, or nothing can be stored now.
    pub async fn remove_for_operator(
        &self,
        request_id: Uuid,
        client: Client,
        stream: &str,
        keys: &[&str],
    ) -> Result<Accepted, AcceptError> {
        let by = (OPERATOR, request_id, client);
        self.remove_by(by, stream, keys).await
    }

    /// Stores the data of an act of an operator once, however often it is submitted, and says as which request. An item takes
    /// the place of the whole item, whatever its stream does with updates, has no version, and expires as the stream says;
    /// without fields it is removed.
    ///
    /// # Errors
    /// No item can have this key, or nothing can be stored now. With [`AcceptError::Unavailable`] it may have been stored.
    pub async fn put_for_operator(
        &self,
        act: OperatorData<'_>,
        request_id: Uuid,
        client: Client,
        expire_after_seconds: Option<NonZeroU32>,
    ) -> Result<Accepted, AcceptError> {
        check_key(act.key)?;
        let items = match act.fields {
            None => removed(&[act.key])?,
            Some(fields) => {
                let mut items = ItemsWriter::new(usize::MAX, 0);
                let meta = ItemMeta {
                    expire_after_seconds,
                    is_whole: true,
                    ..ItemMeta::default()
                };
                let pushed = items.push_with(act.key, fields, Action::Upsert, meta);
                pushed.map_err(|error| AcceptError::invalid(error.to_string()))?;
                items.into_items()
            }
        };
        let by = (OPERATOR, request_id, client);
        self.submit_by(by, act.stream, items, Some(act.id)).await
    }

    /// Whether the data of this act was accepted in the last 24 hours.
    ///
    /// # Errors
    /// Nobody can tell now.
    pub async fn has_act(&self, id: Uuid, stream: &str) -> Result<bool, JournalError> {
        let (connector, stream) = (OPERATOR.into(), stream.into());
        let log = LogEntry::of(id, Unix::now(), connector, stream, Outcome::Accepted);
        let claims = [Some(self.claim_of_act(&log, id)), None];
        self.journal.has_claim(claims).await
    }

    /// What the submissions of one act have in common.
    fn claim_of_act(&self, log: &LogEntry, id: Uuid) -> Claim {
        self.claim(log, &id.to_string(), b"")
    }

    /// Removes items of a stream that is deleted, or is made again; at most as many as one request may have. Through
    /// the journal and not in the pool, so that every sink receives the removals.
    ///
    /// # Errors
    /// Nothing can be stored now.
    pub async fn remove_former(
        &self,
        client: Client,
        stream: &str,
        keys: &[&str],
    ) -> Result<Accepted, AcceptError> {
        self.remove_by((BUILT_IN, Uuid::now_v7(), client), stream, keys)
            .await
    }

    async fn remove_by(
        &self,
        by: (&str, Uuid, Client),
        stream: &str,
        keys: &[&str],
    ) -> Result<Accepted, AcceptError> {
        self.submit_by(by, stream, removed(keys)?, None).await
    }

    async fn submit_by(
        &self,
        (connector, request_id, client): (&str, Uuid, Client),
        stream: &str,
        items: Items,
        act: Option<Uuid>,
    ) -> Result<Accepted, AcceptError> {
        self.gate.check()?;
        let (connector, stream) = (connector.into(), stream.into());
        let received_at = Unix::now();
        let log = LogEntry {
            endpoint: Endpoint::Items,
            client,
            ..LogEntry::of(
                request_id,
                received_at,
                connector,
                stream,
                Outcome::Accepted,
            )
        };
        let merges = self.merges(&log.stream);
        let claim = act.map(|id| self.claim_of_act(&log, id));
        self.submit(log, Lived::now(), (items, merges), [claim, None], None)
            .await
    }
}

/// Items that are to go, without fields.
fn removed(keys: &[&str]) -> Result<Items, AcceptError> {
    let mut items = ItemsWriter::new(usize::MAX, 0);
    for key in keys {
        check_key(key)?;
        let pushed = items.push_with(key, "{}", Action::Remove, ItemMeta::default());
        pushed.map_err(|error| AcceptError::invalid(error.to_string()))?;
    }
    Ok(items.into_items())
}

fn check_key(key: &str) -> Result<(), AcceptError> {
    match (1..=flatten::ITEM_KEY_BYTES_MAX).contains(&key.len()) {
        true => Ok(()),
        false => Err(AcceptError::invalid(format!(
            "the key of an item has 1 to {} bytes; check the end of the path",
            flatten::ITEM_KEY_BYTES_MAX
        ))),
    }
}
