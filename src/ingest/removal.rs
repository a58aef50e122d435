//! Removals: requests without a body, whose item goes.
//!
//! `http` calls [`Ingest::remove`] for callers, and [`Ingest::remove_for_operator`].
//!
//! **Invariant**: a removal is checked, stored and answered like a submission of one operation.

use std::time::Instant;

use uuid::Uuid;

use super::request::{Accepted, Answer, Head, Known};
use super::{Ingest, flatten, headers};
use crate::error::AcceptError;
use base::clock::{Lived, Unix};
use item::{Action, ItemMeta, Items, ItemsWriter};
use journal::log::{Client, Endpoint};
use journal::{LogEntry, Outcome};

/// Stands in the log in place of a connector for what operators remove: no connector has this name.
const OPERATOR: &str = "";

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
    ) -> Result<(Items, Option<Box<str>>), AcceptError> {
        self.check_caller(known)?;
        let own = &known.caller.key;
        if !own.may_delete() {
            return Err(AcceptError::NotAllowed {
                connector: own.connector.clone(),
            });
        }
        let removal = (
            removed(key)?,
            headers::idempotency_key(known.head.idempotency_key)?,
        );
        self.gate.check()?;
        Ok(removal)
    }

    async fn submit_removal(
        &self,
        known: &Known<'_>,
        (items, idempotency_key): (Items, Option<Box<str>>),
        key: &str,
    ) -> Result<Accepted, AcceptError> {
        let outcome = match known.caller.test {
            true => Outcome::Test,
            false => Outcome::Accepted,
        };
        let mut log = known.log_entry(outcome, 202);
        let body = format!("DELETE {key}");
        let claim = (idempotency_key.as_deref()).map(|id| self.claim(&log, id, body.as_bytes()));
        log.idempotency_key = idempotency_key;
        let committing = self.follow(known);
        let stored = self
            .submit(log, Lived::at(known.started), items, [claim, None])
            .await;
        self.end_commit(known, committing, &stored);
        stored
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
        let (connector, stream) = (OPERATOR.into(), stream.into());
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
        self.submit(log, Lived::now(), items, [None; 2]).await
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
        .push_with(key, "{}", Action::Remove, ItemMeta::default())
        .map_err(|error| AcceptError::invalid(error.to_string()))?;
    Ok(items.into_items())
}
