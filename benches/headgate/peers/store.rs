//! What a server holds, read from its own files, or asked where it has none.
//!
//! Called after the rounds and after a kill.
//!
//! **Invariant:** files are opened read-only, and a server is never believed about what it stored if it has a file.

use std::net::SocketAddr;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};
use serde_json::{Map, Value};

use super::peer::Peer;
use crate::Result;
use crate::http::Client;
use crate::ingest::payload::{self, Shape};

/// Where to look.
pub(crate) enum Store {
    /// Nothing is kept.
    Nothing,
    /// The file with the items, and the one with the log.
    Rows { items: Connection, log: Connection },
    /// A file with a table for each stream, and no log.
    Tables(Connection),
    /// Messages in memory.
    Channels(SocketAddr),
}

impl Store {
    /// That of the server whose folder this is.
    pub(crate) fn open(peer: Peer, folder: &Path, service: SocketAddr) -> Result<Self> {
        Ok(match peer {
            Peer::Floor => Self::Nothing,
            Peer::Headgate => Self::Rows {
                items: open(&folder.join("data/pool.db"))?,
                log: open(&folder.join("data/journal.db"))?,
            },
            Peer::Node | Peer::Python => Self::Rows {
                items: open(&folder.join("data.db"))?,
                log: open(&folder.join("data.db"))?,
            },
            Peer::Datasette => Self::Tables(open(&folder.join("data.db"))?),
            Peer::Nchan => Self::Channels(service),
        })
    }

    /// Fails unless there are `keys` items, the fields of one are what was sent, and the log has `accepted` entries.
    pub(crate) fn check(&self, shape: Shape, keys: u64, accepted: u64) -> Result<()> {
        let name = shape.name();
        if let Some(count) = self.items(name)?
            && count != keys
        {
            return Err(format!("{name} has {count} items instead of {keys}").into());
        }
        if let Some(count) = self.entries(name)?
            && count != accepted
        {
            return Err(
                format!("the log of {name} has {count} entries instead of {accepted}").into(),
            );
        }
        if matches!(self, Self::Nothing | Self::Channels(_)) {
            return Ok(());
        }
        let key = payload::key_text(0);
        let found = self.fields(name, &key)?;
        let found = found.ok_or_else(|| format!("{name} has no item {key}"))?;
        let expected = payload::expected_fields(shape, 0, &found)?;
        if found != expected {
            return Err(format!("{name} holds {found}\ninstead of {expected}").into());
        }
        Ok(())
    }

    /// Fails unless so many messages were published, if there are any.
    pub(crate) fn check_messages(&self, accepted: u64) -> Result<()> {
        let Self::Channels(address) = self else {
            return Ok(());
        };
        match ask(*address, "/status", "total published messages: ")? {
            Some(count) if count == accepted => Ok(()),
            other => Err(format!("{other:?} messages published instead of {accepted}").into()),
        }
    }

    /// How many of `keys` are not there, or how many entries the log lacks, if that is more.
    pub(crate) fn lost(&self, shape: Shape, keys: impl Iterator<Item = u64>) -> Result<u64> {
        let name = shape.name();
        let (mut acknowledged, mut missing) = (0_u64, 0);
        for key in keys {
            acknowledged += 1;
            let kept = match self {
                Self::Nothing | Self::Channels(_) => false,
                _ => self.fields(name, &payload::key_text(key))?.is_some(),
            };
            missing += u64::from(!kept);
        }
        if let Self::Channels(address) = self {
            let path = format!("/pub?id={name}");
            let queued = ask(*address, &path, "queued messages: ")?.unwrap_or_default();
            return Ok(acknowledged.saturating_sub(queued));
        }
        let entries = self.entries(name)?.unwrap_or(acknowledged);
        Ok(missing.max(acknowledged.saturating_sub(entries)))
    }

    /// Items of a stream.
    fn items(&self, stream: &str) -> Result<Option<u64>> {
        match self {
            Self::Rows { items, .. } => {
                let sql = "SELECT count(*) FROM items WHERE stream = ?1";
                Ok(Some(count(items, sql, [stream])?))
            }
            Self::Tables(file) => {
                let sql = format!("SELECT count(*) FROM \"{stream}\"");
                Ok(Some(count(file, &sql, [])?))
            }
            Self::Nothing | Self::Channels(_) => Ok(None),
        }
    }

    /// Entries of the log, if there is one.
    fn entries(&self, stream: &str) -> Result<Option<u64>> {
        let Self::Rows { log, .. } = self else {
            return Ok(None);
        };
        let sql = "SELECT count(*) FROM requests WHERE stream = ?1 AND http_status = 202";
        Ok(Some(count(log, sql, [stream])?))
    }

    /// The fields of one item.
    fn fields(&self, stream: &str, key: &str) -> Result<Option<Value>> {
        match self {
            Self::Rows { items, .. } => {
                let sql = "SELECT fields FROM items WHERE stream = ?1 AND key = ?2";
                let mut statement = items.prepare_cached(sql)?;
                let found: Option<String> = statement
                    .query_row((stream, key), |row| row.get(0))
                    .optional()?;
                Ok(found.map(|text| serde_json::from_str(&text)).transpose()?)
            }
            Self::Tables(file) => {
                let sql = format!(
                    "SELECT * FROM \"{stream}\" WHERE \"{}\" = ?1",
                    payload::ITEM_KEY
                );
                let mut statement = file.prepare_cached(&sql)?;
                Ok(statement.query_row([key], columns).optional()?)
            }
            Self::Nothing | Self::Channels(_) => Ok(None),
        }
    }
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

fn count(connection: &Connection, sql: &str, parameters: impl Params) -> Result<u64> {
    let count: i64 = connection.query_row(sql, parameters, |row| row.get(0))?;
    Ok(u64::try_from(count)?)
}

/// The columns of a row as fields; text that is an array is one.
fn columns(row: &Row<'_>) -> rusqlite::Result<Value> {
    let mut fields = Map::new();
    for (place, name) in row.as_ref().column_names().into_iter().enumerate() {
        let value = match row.get_ref(place)? {
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(text) => {
                let text = String::from_utf8_lossy(text);
                let array = text.starts_with('[').then(|| serde_json::from_str(&text));
                array
                    .and_then(|value| value.ok())
                    .unwrap_or_else(|| text.into())
            }
            ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        };
        fields.insert(name.to_owned(), value);
    }
    Ok(Value::Object(fields))
}

/// The number after `prefix` in what nchan answers; `None` where there is no such channel.
fn ask(address: SocketAddr, path: &str, prefix: &str) -> Result<Option<u64>> {
    let mut client = Client::connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let (status, body) = client.exchange(request.as_bytes())?;
    let text = String::from_utf8_lossy(body);
    match status {
        404 => Ok(None),
        200 => {
            let number = text.lines().find_map(|line| line.strip_prefix(prefix));
            let number = number.and_then(|number| number.trim().parse().ok());
            Ok(Some(
                number.ok_or_else(|| format!("no \"{prefix}\" in {text}"))?,
            ))
        }
        _ => Err(format!("GET {path} answered {status}: {text}").into()),
    }
}
