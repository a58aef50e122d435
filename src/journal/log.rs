//! The request log: what is written for each request, and reading it back.
//!
//! `ingest` makes [`LogEntry`]s, the writer stores them, the admin API reads [`LogRow`]s, by pages (`journal/page.rs`).
//!
//! **Invariant**: a row holds no secret: of a key only the prefix, of the payload only its size, of headers only what
//! `ingest` found worth knowing.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use super::endpoint::Endpoint;
use super::postgres::asked;
use super::{Engine, Journal, StorageError};
use base::clock::Unix;
use base::order::Seq;
use item::batch::Action;

/// What became of a request at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Stored and on its way to the sinks.
    Accepted,
    /// Refused after the key was recognised.
    Rejected,
    /// A repeat of an accepted request.
    Duplicate,
    /// Came with a test key: checked, logged, not stored.
    Test,
    /// The same of a request of which every item is a removal.
    Removed,
    /// A greeting of a tool, or an event that is none: answered, with nothing to store.
    Handshake,
}

impl Outcome {
    /// All of them.
    pub(super) const ALL: [Outcome; 6] = [
        Outcome::Accepted,
        Outcome::Rejected,
        Outcome::Duplicate,
        Outcome::Test,
        Outcome::Removed,
        Outcome::Handshake,
    ];

    /// What the sinks are asked for, by the items themselves where they differ; none: they do not hear of it.
    pub fn action(self) -> Option<Action> {
        match self {
            Self::Accepted => Some(Action::Upsert),
            Self::Removed => Some(Action::Remove),
            Self::Rejected | Self::Duplicate | Self::Test | Self::Handshake => None,
        }
    }

    /// The number that stands in the file.
    pub(super) fn code(self) -> i64 {
        match self {
            Self::Accepted => 0,
            Self::Rejected => 1,
            Self::Duplicate => 2,
            Self::Test => 3,
            Self::Removed => 4,
            Self::Handshake => 5,
        }
    }

    /// Its place in [`Outcome::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }

    pub(super) fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Rejected,
            2 => Self::Duplicate,
            3 => Self::Test,
            4 => Self::Removed,
            5 => Self::Handshake,
            _ => Self::Accepted,
        }
    }
}

/// Who called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// Over TCP, from this address.
    Address(IpAddr),
    /// Over a Unix socket.
    Unix,
    /// Nobody in particular: the entry stands for many requests.
    Many,
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Unix => formatter.write_str("unix"),
            Self::Many => Ok(()),
        }
    }
}

impl Client {
    /// The address, if it is one's.
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Unix | Self::Many => None,
        }
    }

    pub(super) fn from_text(text: &str) -> Self {
        match text {
            "" => Self::Many,
            text => text.parse().map_or(Self::Unix, Self::Address),
        }
    }
}

/// One request, as it is written.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// UUIDv7.
    pub request_id: Uuid,
    /// When it arrived.
    pub received_at: Unix,
    /// Name of the connector.
    pub connector: Arc<str>,
    /// Name of the key's stream.
    pub stream: Arc<str>,
    /// What became of it.
    pub outcome: Outcome,
    /// Where it came in.
    pub endpoint: Endpoint,
    /// The status that was answered.
    pub http_status: u16,
    /// Number of items, 0 for a refused request.
    pub items: u32,
    /// Size of the body, as far as it is known.
    pub bytes: u64,
    /// The part of the key that may be shown.
    pub key: Arc<str>,
    /// Address of the caller.
    pub client: Client,
    /// The field that identified the items.
    pub item_key: Option<Arc<str>>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<Arc<str>>,
    /// Why it was refused, or what is odd about a repeat.
    pub error: Option<Box<str>>,
    /// Headers worth knowing: a line `name: value` for each, or `name` where the value is not kept.
    pub headers: Option<Arc<str>>,
    /// The request that it was sent again from.
    pub sent_again_from: Option<Uuid>,
    /// What the tool said of a delivery to the address of its connector.
    pub sender: Option<Box<Sender>>,
}

/// What a tool says of a delivery, and how that was verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The scheme that the delivery was verified by; none: it came with a key.
    pub scheme: Option<Box<str>>,
    /// The name of the event.
    pub event: Option<Box<str>>,
    /// The delivery's id.
    pub delivery: Option<Box<str>>,
}

impl LogEntry {
    /// A request to `POST /api/ingest` that was answered 202, of which nothing else is to be said.
    pub fn of(
        request_id: Uuid,
        received_at: Unix,
        connector: Arc<str>,
        stream: Arc<str>,
        outcome: Outcome,
    ) -> Self {
        Self {
            request_id,
            received_at,
            connector,
            stream,
            outcome,
            endpoint: Endpoint::Ingest,
            http_status: 202,
            items: 0,
            bytes: 0,
            key: Arc::default(),
            client: Client::Many,
            item_key: None,
            idempotency_key: None,
            error: None,
            headers: None,
            sent_again_from: None,
            sender: None,
        }
    }

    /// About what it takes in memory. Requests that wait are bounded by it, so an estimate is enough.
    pub(super) fn byte_len(&self) -> usize {
        let texts = [
            self.item_key.as_deref(),
            self.idempotency_key.as_deref(),
            self.error.as_deref(),
            self.headers.as_deref(),
        ];
        let sender = self.sender.iter().flat_map(|sender| {
            let Sender {
                scheme,
                event,
                delivery,
            } = &**sender;
            [scheme, event, delivery].map(Option::as_deref)
        });
        let texts = texts.into_iter().chain(sender).flatten();
        texts.map(str::len).sum()
    }

    /// Name and value of each header worth knowing; none: the value is not kept.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let lines = self.headers.as_deref().unwrap_or_default().lines();
        lines.map(|line| match line.split_once(": ") {
            Some((name, value)) => (name, Some(value)),
            None => (line, None),
        })
    }
}

/// One request, as it is read.
#[derive(Debug, Clone)]
pub struct LogRow {
    /// Position in the log.
    pub seq: Seq,
    /// What was written.
    pub entry: LogEntry,
    /// The first request, for a repeat.
    pub duplicate_of: Option<Uuid>,
}

/// Which entries a page should hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this connector's.
    pub connector: Option<Arc<str>>,
    /// Only this outcome.
    pub outcome: Option<Outcome>,
    /// Only rows before this position (the cursor).
    pub before: Option<Seq>,
    /// Received at or after.
    pub since: Option<Unix>,
    /// Received at or before.
    pub until: Option<Unix>,
    /// Only what has this text in its error, idempotency key, delivery id, key, or address, in any case of the letters A to Z.
    pub text: Option<String>,
}

impl Filter {
    /// Longest text that is looked for. Each entry is searched for it, so a long text would cost as much as the page
    /// may take.
    pub const TEXT_CHARS_MAX: usize = 200;
}

impl Journal {
    /// An entry by its id.
    pub async fn log_get(&self, request_id: Uuid) -> Result<Option<LogRow>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_get(request_id).await,
            Engine::Postgres(database) => asked(database.log_get(request_id)).await,
        }
    }

    /// What a request became when it was sent again: the newest of them first, at most 20.
    pub async fn sent_again_as(&self, request_id: Uuid) -> Result<Vec<Uuid>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.sent_again_as(request_id).await,
            Engine::Postgres(database) => asked(database.sent_again_as(request_id)).await,
        }
    }

    /// The position of the oldest entry of the log.
    pub async fn oldest_logged(&self) -> Result<Option<Seq>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.oldest_logged().await,
            Engine::Postgres(database) => asked(database.oldest_logged()).await,
        }
    }

    /// The connectors that the log has requests of, by name, at most 1,000.
    pub async fn log_connectors(&self) -> Result<Vec<String>, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_connectors().await,
            Engine::Postgres(database) => asked(database.log_connectors()).await,
        }
    }

    /// Whether the log has a request of this connector.
    pub async fn log_has_connector(&self, name: &str) -> Result<bool, StorageError> {
        match &self.engine {
            Engine::File(file) => file.log_has_connector(name).await,
            Engine::Postgres(database) => asked(database.log_has_connector(name)).await,
        }
    }
}
