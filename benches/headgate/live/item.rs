//! What is submitted, what of it reaches a renderer, and how a delivered version is told from all others.
//!
//! Called by the servers (requests), by the senders (numbers) and by the renderers (numbers found in messages).
//!
//! **Invariant:** each version carries a revision that no other one of the whole run has, so a delivery belongs to
//! exactly one request, and a revision of ten digits says by itself which key it was sent for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use memchr::memmem::Finder;

/// The stream that is written to.
pub(crate) const STREAM: &str = "orders";

/// The stream that idle renderers watch, and nobody writes to.
pub(crate) const IDLE_STREAM: &str = "idle";

/// The field that `X-Item-Key` names.
pub(crate) const ITEM_KEY: &str = "order.id";

/// Ends the name of the field with the revision, nested (`"revision":`) and flat (`"order.revision":`).
const REVISION_FIELD: &str = "revision\":";

const REVISION_DIGITS: usize = 10;

/// The first revision has ten digits: a JSON number must not begin with 0.
const REVISION_FIRST: u64 = 1_000_000_000;

/// The next revision that nobody has.
static REVISION_NEXT: AtomicU64 = AtomicU64::new(REVISION_FIRST);

/// The item as it is submitted, about 200 bytes.
pub(crate) fn nested(key: u64, revision: u64) -> String {
    format!(
        r#"{{"order":{{"id":"{key:06}","total":129.90,"currency":"EUR","revision":{revision}}},"customer":{{"name":"Ada Lovelace","city":"London"}},"status":"confirmed","tags":["new","gifts"],"position":12}}"#
    )
}

/// The message that a renderer is sent for it, as the daemon writes it.
pub(crate) fn message(key: u64, revision: u64) -> String {
    format!(
        r#"{{"type":"update","stream":"{STREAM}","id":"1795230441:{revision}","items":[{{"key":"{key:06}","fields":{{"order.id":"{key:06}","order.total":129.90,"order.currency":"EUR","order.revision":{revision},"customer.name":"Ada Lovelace","customer.city":"London","status":"confirmed","tags":["new","gifts"],"position":12}},"updated_at":"2026-11-21T03:25:21.123Z","seq":{revision}}}]}}"#
    )
}

/// The versions of one round: their revisions, their keys, and when each was sent.
#[derive(Debug)]
pub(crate) struct Versions {
    first: u64,
    keys: u64,
    warm_up: usize,
    origin: Instant,
    /// Nanoseconds after `origin`, plus one; 0 while it was not sent.
    sent: Vec<AtomicU64>,
}

impl Versions {
    /// Revisions for `count` versions that name `keys` keys in turn; the first `warm_up` do not count.
    pub(crate) fn new(count: usize, keys: u64, warm_up: usize) -> Self {
        Self {
            first: REVISION_NEXT.fetch_add(count as u64, Ordering::Relaxed),
            keys,
            warm_up,
            origin: Instant::now(),
            sent: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.sent.len()
    }

    /// Whether this one counts.
    pub(crate) fn counts(&self, index: usize) -> bool {
        index >= self.warm_up
    }

    /// Key of a version.
    pub(crate) fn key(&self, index: usize) -> u64 {
        index as u64 % self.keys
    }

    /// Revision of a version.
    pub(crate) fn revision(&self, index: usize) -> u64 {
        self.first + index as u64
    }

    /// Notes when a version was sent.
    pub(crate) fn set_sent(&self, index: usize, at: Instant) {
        let nanos = at.saturating_duration_since(self.origin).as_nanos() as u64;
        self.sent[index].store(nanos + 1, Ordering::Release);
    }

    /// From sending a version to `at`, in µs.
    pub(crate) fn micros_until(&self, index: usize, at: Instant) -> Option<f64> {
        let sent = self.sent[index].load(Ordering::Acquire).checked_sub(1)?;
        let nanos = at.saturating_duration_since(self.origin).as_nanos() as u64;
        Some(nanos.saturating_sub(sent) as f64 / 1e3)
    }

    fn index_of(&self, revision: u64) -> Option<usize> {
        let index = usize::try_from(revision.checked_sub(self.first)?).ok()?;
        (index < self.sent.len()).then_some(index)
    }
}

/// Finds versions in messages.
#[derive(Debug)]
pub(crate) struct Search {
    revision: Finder<'static>,
}

impl Search {
    /// Prepared once for each reader.
    pub(crate) fn new() -> Self {
        Self {
            revision: Finder::new(REVISION_FIELD),
        }
    }

    /// The versions of this round whose values stand in a message.
    pub(crate) fn found<'a>(
        &'a self,
        message: &'a [u8],
        versions: &'a Versions,
    ) -> impl Iterator<Item = usize> + 'a {
        self.revision.find_iter(message).filter_map(|at| {
            let digits = message[at + REVISION_FIELD.len()..].get(..REVISION_DIGITS)?;
            let revision = std::str::from_utf8(digits).ok()?.parse().ok()?;
            versions.index_of(revision)
        })
    }
}
