//! What a batcher is given.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::client::Receipt;
use crate::error::Error;
use crate::field;

/// The longest body that a daemon accepts by default.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What identifies an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemKey {
    /// The field of this name, such as `order.id`.
    Field(String),
    /// The connector has an `item_key` in the daemon's configuration.
    OfConnector,
}

impl From<&str> for ItemKey {
    fn from(field: &str) -> Self {
        Self::Field(field.to_owned())
    }
}

/// What [`Batcher::add`](crate::Batcher::add) does when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Waits for space.
    #[default]
    Wait,
    /// Fails with `FULL`.
    Fail,
    /// Drops the oldest item; `on_rejected` receives it with `DROPPED`. Not with a spool.
    DropOldest,
}

/// The state of the connection to Headgate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Headgate answered the last request with a word about its items, or there was none.
    #[default]
    Ok,
    /// Requests do not reach Headgate, or Headgate is unavailable.
    Retrying,
    /// Headgate rejects the key, the stream or the request: somebody has to do something, such as
    /// [`Client::set_key`](crate::Client::set_key). Items are kept meanwhile.
    Blocked,
}

impl State {
    /// As all client libraries name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

type OnAccepted = Arc<dyn Fn(&Receipt, &[&RawValue]) + Send + Sync>;
type OnRejected = Arc<dyn Fn(&[&RawValue], &Error) + Send + Sync>;
type OnState = Arc<dyn Fn(State, Option<&str>) + Send + Sync>;

/// How a [`Batcher`](crate::Batcher) works.
#[derive(Clone)]
pub struct BatcherOptions {
    /// What identifies an item. Demanded: without it, items are known by their position in a request, and the second batch
    /// overwrites the first.
    pub item_key: Option<ItemKey>,
    /// The expected stream of the key: if the key is for another one, requests are rejected.
    pub stream: Option<String>,
    /// Items of a batch.
    pub max_items: usize,
    /// Bytes of a request with several items.
    pub max_bytes: usize,
    /// How long an item waits for others. With a spool, while older batches wait: 1 s at least.
    pub linger: Duration,
    /// Bytes of items in memory. An item that exceeds it is accepted alone.
    pub queue_bytes: usize,
    /// What `add` does when the queue is full.
    pub when_full: WhenFull,
    /// An item that waits is replaced in its place by a newer one with the same key: for sensors and scores.
    pub latest_only: bool,
    /// A directory that is the queue: what was added longer ago than `linger` survives a crash.
    pub spool: Option<PathBuf>,
    /// Bytes of the batches in it. A file counts as 4 KiB at least.
    pub spool_bytes: u64,
    /// Receives each accepted request with its items.
    pub on_accepted: Option<OnAccepted>,
    /// Receives items that will not be sent any more, with the reason.
    pub on_rejected: Option<OnRejected>,
    /// Receives each change of the state, and each code that blocks. With `SPOOL` it reports the disk under the spool.
    pub on_state: Option<OnState>,
}

impl Default for BatcherOptions {
    fn default() -> Self {
        Self {
            item_key: None,
            stream: None,
            max_items: 1000,
            max_bytes: 1_000_000,
            linger: Duration::from_millis(100),
            queue_bytes: 16 << 20,
            when_full: WhenFull::Wait,
            latest_only: false,
            spool: None,
            spool_bytes: 1 << 30,
            on_accepted: None,
            on_rejected: None,
            on_state: None,
        }
    }
}

/// Callbacks cannot be shown.
impl fmt::Debug for BatcherOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatcherOptions")
            .field("item_key", &self.item_key)
            .field("spool", &self.spool)
            .finish_non_exhaustive()
    }
}

impl BatcherOptions {
    /// The defaults, and what identifies an item.
    pub fn new(item_key: impl Into<ItemKey>) -> Self {
        Self {
            item_key: Some(item_key.into()),
            ..Self::default()
        }
    }

    /// The name of the field, unless the connector has it.
    pub(crate) fn field(&self) -> Option<&str> {
        match &self.item_key {
            Some(ItemKey::Field(name)) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.item_key {
            None => {
                return Err(Error::usage(
                    "a batcher needs item_key, the field that identifies each item; if the connector has one in its \
                     configuration, give ItemKey::OfConnector",
                ));
            }
            Some(ItemKey::Field(name)) => field::check_name(name)?,
            Some(ItemKey::OfConnector) if self.latest_only => {
                return Err(Error::usage(
                    "latest_only requires the name of the item key; set it",
                ));
            }
            Some(ItemKey::OfConnector) => {}
        }
        if self.when_full == WhenFull::DropOldest && self.spool.is_some() {
            return Err(Error::usage(
                "DropOldest is not allowed with a spool; use Wait or Fail",
            ));
        }
        let limits = [self.max_items, self.max_bytes, self.queue_bytes];
        if limits.contains(&0) || self.spool_bytes == 0 || self.max_bytes > REQUEST_BYTES_MAX {
            return Err(Error::usage(format!(
                "limits of a batcher must be positive, and max_bytes at most {REQUEST_BYTES_MAX}"
            )));
        }
        Ok(())
    }
}
