//! Sending a request again: what is kept of it goes through the pipeline once more, as a new request.
//!
//! The admin API calls [`Ingest::send_again`] and shows [`Ingest::kept`].
//!
//! **Invariant**: what is sent again is durable before anybody is told, like every accepted request. Items of an
//! accepted request do not overwrite what was accepted after it, unless that is asked for. A refused request is run by
//! the connector's settings of today; nothing is logged of one that is refused again.

mod again;
mod error;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use uuid::Uuid;

use super::interpret::Repeats;
use super::removal::BUILT_IN;
use super::{Accepted, Ingest};
use base::clock::{Lived, Unix};
use catalog::Connector;
pub use error::AgainError;
use item::batch::Entry;
use item::{ItemMeta, Items, ItemsWriter};
use journal::log::{Client, Endpoint, LogRow};
use journal::{LogEntry, Outcome, RejectedBody, StorageError};
use pool::{DeadLetter, Pool};
use settings::BUILT_IN_CONNECTORS;

/// What is kept of a request.
#[derive(Debug)]
pub enum Kept {
    /// The items of an accepted request.
    Items(Arc<Entry>),
    /// The body of a refused one.
    Body(RejectedBody),
    /// Nothing: why, and what to do.
    Nothing(&'static str),
}

/// What a request became.
#[derive(Debug)]
pub struct SentAgain {
    /// The request that was sent again.
    pub from: LogEntry,
    /// The new one; or the one that was accepted first with its idempotency key. None: all its items were left.
    pub accepted: Option<Accepted>,
    /// Items that were left as they are: they were changed or removed by something accepted later.
    pub items_left: u32,
}

/// What is to become of items that were changed since.
#[derive(Debug, Clone, Copy)]
pub enum Newer<'a> {
    /// They stay as they are in this pool. Without it, an old request would overwrite what was accepted since.
    Stays(&'a Pool),
    /// They are overwritten.
    IsOverwritten,
}

impl Ingest {
    /// What is kept of a request.
    pub async fn kept(&self, row: &LogRow) -> Result<Kept, StorageError> {
        Ok(match row.entry.outcome {
            Outcome::Accepted => match self.journal.entry(row.seq).await? {
                Some(entry) => Kept::Items(entry),
                None => Kept::Nothing(ITEMS_GONE),
            },
            Outcome::Rejected => match self.journal.refused_body(row.seq).await? {
                Some(body) => Kept::Body(body),
                None => Kept::Nothing(body_gone(&row.entry)),
            },
            Outcome::Duplicate => Kept::Nothing(
                "nothing is kept of a repeat: the first request with its idempotency key has the items",
            ),
            Outcome::Test => Kept::Nothing(
                "nothing is kept of a request with a test key; send it with a live key",
            ),
            Outcome::Removed => Kept::Nothing(REMOVAL),
            Outcome::Handshake => Kept::Nothing(CHALLENGE),
        })
    }

    /// Sends what is kept of a request again, as the new request `id` of whoever calls. `newer` is about the items of
    /// an accepted request; what was refused has no older place in the order.
    ///
    /// # Errors
    /// See [`AgainError`].
    pub async fn send_again(
        &self,
        request_id: Uuid,
        id: Uuid,
        client: Client,
        newer: Newer<'_>,
    ) -> Result<SentAgain, AgainError> {
        let started = Instant::now();
        self.gate.check()?;
        let (from, kept) = self.to_send(request_id).await?;
        let received_at = Unix::now();
        let mut log = LogEntry {
            request_id: id,
            received_at,
            outcome: Outcome::Accepted,
            http_status: 202,
            key: "".into(),
            client,
            idempotency_key: None,
            error: None,
            headers: None,
            sent_again_from: Some(from.request_id),
            ..from.clone()
        };
        let (items, repeats, body) = match kept {
            Kept::Body(kept) => {
                let connector = self.connector_of(&from)?;
                let again = self.run_again(&kept, &connector, &from.key, &mut log)?;
                (again.items, again.repeats, kept.body)
            }
            Kept::Items(entry) => {
                let items = self.not_newer(&from, &entry, newer).await?;
                (items, Repeats::default(), Bytes::new())
            }
            Kept::Nothing(why) => return Err(AgainError::NotKept(why)),
        };
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let items_left = match from.outcome {
            Outcome::Accepted => from.items.saturating_sub(count),
            _ => 0,
        };
        if items_left > 0 && count == 0 {
            return Ok(SentAgain {
                from,
                accepted: None,
                items_left,
            });
        }
        let claims = self.claims(&log, &repeats, &body);
        let items = (items, self.merges(&log.stream));
        let submitted = self.submit(log, Lived::at(started), items, claims, None);
        let accepted = submitted.await?;
        self.note(Some(&from.connector), received_at, started, &Ok(&accepted));
        Ok(SentAgain {
            from,
            accepted: Some(accepted),
            items_left,
        })
    }

    /// Sends an item that a sink gave up again, as a request of its own behind everything that was accepted, without its
    /// version: it takes the place of what is newer. Once: a repeat for the same dead letter is the first request. It
    /// has no version, because the pool would leave it out where something newer is there.
    ///
    /// # Errors
    /// The stream is gone, or nothing can be stored now; nothing was stored then.
    pub async fn send_letter(
        &self,
        sink: &str,
        letter: &DeadLetter,
        client: Client,
    ) -> Result<Accepted, AgainError> {
        self.gate.check()?;
        self.check_stream(&letter.stream)?;
        let mut items = ItemsWriter::new(usize::MAX, letter.key.len() + letter.fields.len());
        let meta = ItemMeta {
            version: None,
            ..letter.meta
        };
        items
            .push_with(&letter.key, &letter.fields, letter.action, meta)
            .map_err(|_| AgainError::NotKept(ITEMS_GONE))?;
        let log = LogEntry {
            endpoint: Endpoint::Items,
            client,
            sent_again_from: Uuid::try_parse(&letter.request_id).ok(),
            ..LogEntry::of(
                Uuid::now_v7(),
                Unix::now(),
                BUILT_IN.into(),
                Arc::clone(&letter.stream),
                Outcome::Accepted,
            )
        };
        let id = format!("dead letter {} of {sink}", letter.id);
        let claim = self.claim(&log, &id, letter.fields.as_bytes());
        let items = (items.into_items(), self.merges(&log.stream));
        Ok(self
            .submit(log, Lived::now(), items, [Some(claim), None], None)
            .await?)
    }

    /// A request of the log, and what is kept of it.
    async fn to_send(&self, request_id: Uuid) -> Result<(LogEntry, Kept), AgainError> {
        let row = self.journal.log_get(request_id).await?;
        let row = row.ok_or(AgainError::NotFound)?;
        if let Some(first) = row.duplicate_of {
            return Err(AgainError::Duplicate(first));
        }
        match (row.entry.outcome, self.kept(&row).await?) {
            (Outcome::Accepted | Outcome::Rejected, Kept::Nothing(why)) => {
                Err(AgainError::NotKept(why))
            }
            (_, Kept::Nothing(why)) => Err(AgainError::NothingToSend(why)),
            (_, kept) => Ok((row.entry, kept)),
        }
    }

    /// The items of an accepted request, without those that must stay as they are.
    async fn not_newer(
        &self,
        from: &LogEntry,
        entry: &Entry,
        newer: Newer<'_>,
    ) -> Result<Items, AgainError> {
        if !BUILT_IN_CONNECTORS.contains(&&*from.connector) {
            self.connector_of(from)?;
        }
        self.check_stream(&entry.stream)?;
        let Newer::Stays(pool) = newer else {
            return overwriting(&entry.items);
        };
        let merges = self.merges(&entry.stream);
        let newer = pool.newer_than(entry, merges).await?;
        if newer.is_empty() {
            return Ok(entry.items.clone());
        }
        let mut older = ItemsWriter::new(usize::MAX, entry.items.byte_len());
        for item in entry.items.iter().filter(|item| !newer.contains(item.key)) {
            // Part of what fitted before.
            let fits = older.push_item(&item);
            fits.map_err(|_| AgainError::NotKept(ITEMS_GONE))?;
        }
        Ok(older.into_items())
    }

    fn connector_of(&self, from: &LogEntry) -> Result<Arc<Connector>, AgainError> {
        let connector = self.catalog.connector(&from.connector);
        connector.ok_or_else(|| AgainError::NoConnector(from.connector.clone()))
    }

    fn check_stream(&self, stream: &str) -> Result<(), AgainError> {
        match self.catalog.has_stream(stream) {
            true => Ok(()),
            false => Err(AgainError::NoStream(stream.into())),
        }
    }
}

const CHALLENGE: &str = "the request was a challenge of the tool, or an event without data";
const REMOVAL: &str = "the request removed an item; to remove it again, send DELETE again";
const ITEMS_GONE: &str = "its items are not kept any more: every sink has them, and storage.payload_retention_minutes or payload_retention_bytes is over. Dead letters of a sink can be resent; otherwise the sender must send the request again";

/// The same items without a version: they take the place of any.
fn overwriting(items: &Items) -> Result<Items, AgainError> {
    if items.iter().all(|item| item.meta.version.is_none()) {
        return Ok(items.clone());
    }
    let mut whole = ItemsWriter::new(usize::MAX, items.byte_len());
    for item in items {
        let mut unversioned = item;
        unversioned.meta.version = None;
        unversioned.sent_version = "";
        let fits = whole.push_item(&unversioned);
        fits.map_err(|_| AgainError::NotKept(ITEMS_GONE))?;
    }
    Ok(whole.into_items())
}

/// Why the body of a refused request is not there.
fn body_gone(entry: &LogEntry) -> &'static str {
    match (entry.endpoint, entry.http_status) {
        (Endpoint::Webhook, 413) => {
            "a body over the limit is not kept; raise limits.max_body_bytes, and have the sender send the request again"
        }
        (Endpoint::Webhook, _) => {
            "its body is not kept, or not any more: it did not come whole, or its tool writes its secret into it, or storage.rejected_retention_minutes or rejected_retention_bytes is over; the sender must send the request again"
        }
        _ => {
            "the body of a rejected request is kept only for /api/webhook; the sender must send the request again"
        }
    }
}
