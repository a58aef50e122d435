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
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

pub use super::endpoint::Endpoint;
use super::segment_index::{CLOSED, EVERY};
use super::segments::{self, WITHIN_MS};
use super::{Journal, StorageError};
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

    fn from_text(text: &str) -> Self {
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
    pub item_key: Option<Box<str>>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<Box<str>>,
    /// Why it was refused, or what is odd about a repeat.
    pub error: Option<Box<str>>,
    /// Headers worth knowing: a line `name: value` for each, or `name` where the value is not kept.
    pub headers: Option<Box<str>>,
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
            key: "".into(),
            client: Client::Many,
            item_key: None,
            idempotency_key: None,
            error: None,
            headers: None,
            sent_again_from: None,
            sender: None,
        }
    }

    /// About what it takes in memory.
    pub(super) fn byte_len(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        let texts = [
            &self.item_key,
            &self.idempotency_key,
            &self.error,
            &self.headers,
        ];
        let sender = self.sender.iter().flat_map(|sender| {
            let Sender {
                scheme,
                event,
                delivery,
            } = &**sender;
            [scheme, event, delivery]
        });
        texts.into_iter().chain(sender).map(text).sum()
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
    /// Longest text that is looked for.
    pub const TEXT_CHARS_MAX: usize = 200;
}

pub(super) const COLUMNS: &str = "SELECT seq, request_id, received_ms, connector, stream, outcome, endpoint, \
     http_status, items, bytes, key, client, item_key, idempotency_key, duplicate_of, errors, headers, sent_again_from, sender FROM requests WHERE ";

impl Journal {
    pub async fn log_get(&self, request_id: Uuid) -> Result<Option<LogRow>, StorageError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(of_id()))
            .bind(request_id.as_bytes().to_vec())
            .bind(segments::id_time(request_id.as_bytes()).to_column())
            .fetch_optional(self.reads())
            .await?;
        row.as_ref().map(read_row).transpose()
    }

    /// What a request became when it was sent again: the newest of them first, at most 20.
    pub async fn sent_again_as(&self, request_id: Uuid) -> Result<Vec<Uuid>, StorageError> {
        let sql = "SELECT r.request_id FROM log_sent_again s JOIN requests r ON r.seq = s.seq
             WHERE s.sent_again_from = ? ORDER BY s.seq DESC LIMIT 20";
        let found: Vec<Vec<u8>> = sqlx::query_scalar(sql)
            .bind(request_id.as_bytes().to_vec())
            .fetch_all(self.reads())
            .await?;
        let ids = found.iter().filter_map(|id| Uuid::from_slice(id).ok());
        Ok(ids.collect())
    }

    /// The position of the oldest entry of the log.
    pub async fn oldest_logged(&self) -> Result<Option<Seq>, StorageError> {
        let oldest: Option<i64> = sqlx::query_scalar("SELECT min(seq) FROM requests")
            .fetch_one(self.reads())
            .await?;
        Ok(oldest.map(Seq::from_column))
    }

    /// The connectors that the log has requests of, by name, at most 1,000.
    pub async fn log_connectors(&self) -> Result<Vec<String>, StorageError> {
        // A step for each name, however many requests there are.
        let sql = format!(
            "WITH RECURSIVE names (name) AS (
                 SELECT min(connector) FROM log_marks WHERE connector > '{EVERY}'
                 UNION ALL SELECT (SELECT min(connector) FROM log_marks WHERE connector > name)
                     FROM names WHERE name IS NOT NULL
             ) SELECT name FROM names WHERE EXISTS (
                 SELECT 1 FROM log_marks WHERE connector = name AND last_seq >= (SELECT min(seq) FROM requests))
             UNION SELECT connector FROM requests WHERE seq > {CLOSED} AND connector > '{EVERY}'
             ORDER BY 1 LIMIT 1000"
        );
        let names = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
        Ok(names.fetch_all(self.reads()).await?)
    }

    /// Whether the log has a request of this connector.
    pub async fn log_has_connector(&self, name: &str) -> Result<bool, StorageError> {
        // Of the oldest stretch some may be gone.
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM log_marks WHERE connector = ?1 AND last_seq >= (SELECT min(seq) FROM requests))
                 OR EXISTS (SELECT 1 FROM requests WHERE seq > {CLOSED} AND connector = ?1)"
        );
        let found = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(name.to_owned());
        Ok(found.fetch_one(self.reads()).await?)
    }
}

/// Finds an entry by its id and the time in it: among the late ones, in the stretches that the time is in, and in what is
/// behind them all.
pub(super) fn of_id() -> String {
    format!(
        "{COLUMNS} seq IN (
             SELECT seq FROM log_late WHERE request_id = ?1
             UNION ALL SELECT r.seq FROM json_each('{WITHIN_MS:?}') AS width
                 CROSS JOIN log_spans AS s INDEXED BY log_spans_by_id CROSS JOIN requests AS r
                 WHERE s.ids_within_ms = width.value AND s.newest_id_ms BETWEEN ?2 AND ?2 + width.value
                     AND s.oldest_id_ms <= ?2 AND r.seq BETWEEN s.first_seq AND s.last_seq AND r.request_id = ?1
             UNION ALL SELECT seq FROM requests WHERE seq > {CLOSED} AND request_id = ?1
         ) LIMIT 1"
    )
}

pub(super) fn read_row(row: &SqliteRow) -> Result<LogRow, StorageError> {
    let id = |name: &str| -> Result<Option<Uuid>, sqlx::Error> {
        let bytes: Option<Vec<u8>> = row.try_get(name)?;
        Ok(bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok()))
    };
    let text = |name: &str| -> Result<Option<Box<str>>, sqlx::Error> {
        let text: Option<String> = row.try_get(name)?;
        Ok(text.map(String::into_boxed_str))
    };
    let number = |name: &str| -> Result<u64, sqlx::Error> {
        let number: i64 = row.try_get(name)?;
        Ok(number.unsigned_abs())
    };
    Ok(LogRow {
        seq: Seq::from_column(row.try_get("seq")?),
        duplicate_of: id("duplicate_of")?,
        entry: LogEntry {
            request_id: id("request_id")?.unwrap_or_default(),
            received_at: Unix::from_column(row.try_get("received_ms")?),
            connector: row.try_get::<String, _>("connector")?.into(),
            stream: row.try_get::<String, _>("stream")?.into(),
            outcome: Outcome::from_code(row.try_get("outcome")?),
            endpoint: Endpoint::from_code(row.try_get("endpoint")?),
            http_status: u16::try_from(number("http_status")?).unwrap_or_default(),
            items: u32::try_from(number("items")?).unwrap_or(u32::MAX),
            bytes: number("bytes")?,
            key: row.try_get::<String, _>("key")?.into(),
            client: Client::from_text(row.try_get("client")?),
            item_key: text("item_key")?,
            idempotency_key: text("idempotency_key")?,
            error: text("errors")?,
            headers: text("headers")?,
            sent_again_from: id("sent_again_from")?,
            // What cannot be read says nothing.
            sender: text("sender")?.and_then(|json| serde_json::from_str(&json).ok()),
        },
    })
}
