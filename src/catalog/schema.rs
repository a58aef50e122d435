//! The tables of `catalog.db`: what was made at run time, and the audit log.
//!
//! What can be set of a stream or a connector is one column of JSON: an option more is none of this file's business.
//!
//! **Invariant**: a change is flushed to the disk before it is answered, whatever `storage.durability` says: there
//! are few.

mod formats;
mod read_keys;
mod sinks;

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection as Database, Row, params};
use serde::Serialize;
use serde_json::Value;

use super::audit::acts;
use super::ingest_key::KeyRow;
use super::rows::Rows;
use super::{CatalogError, Connector, KeyHash, Stream, problems, screens, uses};
use base::clock::Unix;
#[cfg(test)]
pub(super) use formats::of_format;
pub(super) use formats::open;
pub(super) use read_keys::{delete_read_key, put_read_key};
use settings::Networks;
pub(super) use sinks::{delete_sink, put_sink};

/// Its name in the data folder.
pub const FILE: &str = "catalog.db";
/// Stands in `PRAGMA user_version`. A file with a larger number is not opened, because this version would not keep what
/// the newer one added.
pub const FORMAT: i64 = 12;

/// The streams of a catalog that nobody need use, by name; none if there is no file.
///
/// # Errors
/// The file cannot be read.
pub fn streams_of(path: &Path) -> Result<Vec<String>, CatalogError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let database = sqlite::open_reader(path, &Arc::default())?;
    Ok(all(
        &database,
        "SELECT name FROM streams ORDER BY name",
        |row| row.get(0),
    )?)
}

/// Makes the tables that others make when they are first needed. A repair calls it, because the rows that it saves
/// would otherwise have no table.
pub fn make_later(connection: &Database) -> Result<(), rusqlite::Error> {
    let later = [
        uses::LATER_TABLES,
        problems::TABLE,
        screens::TABLE,
        acts::TABLE,
    ];
    later
        .into_iter()
        .try_for_each(|tables| connection.execute_batch(tables))
}

/// Everything that was made at run time.
pub(super) fn load(database: &Database) -> Result<Rows, rusqlite::Error> {
    Ok(Rows {
        streams: all(database, "SELECT * FROM streams", stream)?,
        connectors: all(database, "SELECT * FROM connectors", connector)?,
        keys: all(database, "SELECT * FROM keys", key)?,
        read_keys: all(database, "SELECT * FROM read_keys", read_keys::read_key)?,
        sinks: all(database, "SELECT * FROM sinks", sinks::sink)?,
    })
}

fn all<T>(
    database: &Database,
    sql: &str,
    read: fn(&Row<'_>) -> Result<T, rusqlite::Error>,
) -> Result<Vec<T>, rusqlite::Error> {
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([], read)?;
    rows.collect()
}

fn stream(row: &Row<'_>) -> Result<Stream, rusqlite::Error> {
    let settings = settings::written_stream(row.get("name")?, &settings(row)?);
    Ok(Stream {
        life: row.get::<_, i64>("life")?.unsigned_abs(),
        ..Stream::new(settings, time(row, "created_ms")?)
    })
}

fn connector(row: &Row<'_>) -> Result<Connector, rusqlite::Error> {
    let settings = settings::written_connector(row.get("name")?, &settings(row)?);
    Ok(Connector::new(settings, time(row, "created_ms")?))
}

fn settings(row: &Row<'_>) -> Result<String, rusqlite::Error> {
    Ok(row.get::<_, Option<_>>("settings")?.unwrap_or_default())
}

fn key(row: &Row<'_>) -> Result<KeyRow, rusqlite::Error> {
    Ok(KeyRow {
        connector: row.get("connector")?,
        name: row.get("name")?,
        description: row.get("description")?,
        hash: KeyHash::from_bytes(row.get("sha256")?),
        prefix: row.get("prefix")?,
        stream: row.get("stream")?,
        expires_at: time(row, "expires_ms")?,
        revoked_at: time(row, "revoked_ms")?,
        created_at: time(row, "created_ms")?,
        allow_in_url: row.get("allow_in_url")?,
        networks: networks(row)?,
        verify: (row.get::<_, Option<String>>("verify")?)
            .map(|json| Arc::new(settings::written_verify(&json))),
    })
}

/// From where a key is taken. What cannot be read lets nobody in. An empty list would otherwise admit everybody.
fn networks(row: &Row<'_>) -> Result<Networks, rusqlite::Error> {
    let Some(written) = row.get::<_, Option<String>>("networks")? else {
        return Ok(Networks::default());
    };
    Ok(serde_json::from_str(&written).unwrap_or_else(|_| Networks::nowhere()))
}

fn written_networks(networks: &Networks) -> Option<String> {
    (!networks.is_empty()).then(|| Value::from(networks.texts()).to_string())
}

fn time(row: &Row<'_>, column: &str) -> Result<Option<Unix>, rusqlite::Error> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Unix::from_column))
}

fn stored(time: Option<Unix>) -> Option<i64> {
    time.map(Unix::to_column)
}

/// What can be set, as it is written down and stands in the audit log. Keys have rows of their own.
pub(super) fn shown(settings: &impl Serialize) -> Value {
    let mut settings = serde_json::to_value(settings).unwrap_or_default();
    if let Some(settings) = settings.as_object_mut() {
        settings.shift_remove("keys");
    }
    settings
}

/// Writes a stream, in place of the one of its name.
pub(super) fn put_stream(database: &Database, stream: &Stream) -> Result<(), rusqlite::Error> {
    put(
        database,
        "INSERT OR REPLACE INTO streams (name, settings, created_ms, life) VALUES (?1, ?2, ?3, ?4)",
        params![
            stream.name,
            shown(&stream.settings).to_string(),
            stored(stream.created_at),
            stream.life.cast_signed(),
        ],
    )
}

/// Writes a connector, in place of the one of its name.
pub(super) fn put_connector(
    database: &Database,
    connector: &Connector,
) -> Result<(), rusqlite::Error> {
    put(
        database,
        "INSERT OR REPLACE INTO connectors (name, settings, created_ms) VALUES (?1, ?2, ?3)",
        params![
            connector.name,
            shown(&*connector.settings).to_string(),
            stored(connector.created_at),
        ],
    )
}

/// Writes a key, in place of the one of its name.
pub(super) fn put_key(database: &Database, key: &KeyRow) -> Result<(), rusqlite::Error> {
    put(
        database,
        "INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            key.connector,
            key.name,
            key.hash.as_bytes(),
            key.prefix.as_deref().unwrap_or_default(),
            key.stream,
            stored(key.expires_at),
            stored(key.revoked_at),
            stored(key.created_at),
            key.description,
            key.allow_in_url,
            key.verify.as_ref().map(|one| one.revealed().to_string()),
            written_networks(&key.networks),
        ],
    )
}

/// How many streams of this name were deleted, as the audit trail has it. The audit log is counted, because the row of
/// a deleted stream is gone.
pub(super) fn deleted_streams(database: &Database, name: &str) -> Result<u64, rusqlite::Error> {
    let sql =
        "SELECT count(*) FROM audit WHERE kind = 'stream' AND action = 'delete' AND name = ?1";
    let count: i64 = database.query_row(sql, [name], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

pub(super) fn delete_stream(database: &Database, name: &str) -> Result<(), rusqlite::Error> {
    put(database, "DELETE FROM streams WHERE name = ?1", [name])
}

/// Deletes a connector; its keys stay.
pub(super) fn delete_connector(database: &Database, name: &str) -> Result<(), rusqlite::Error> {
    put(database, "DELETE FROM connectors WHERE name = ?1", [name])
}

/// Deletes all keys of a connector, whether or not there is one.
pub(super) fn delete_keys(database: &Database, connector: &str) -> Result<(), rusqlite::Error> {
    put(
        database,
        "DELETE FROM keys WHERE connector = ?1",
        [connector],
    )
}

pub(super) fn delete_key(
    database: &Database,
    connector: &str,
    name: &str,
) -> Result<(), rusqlite::Error> {
    let sql = "DELETE FROM keys WHERE connector = ?1 AND name = ?2";
    put(database, sql, [connector, name])
}

fn put(
    database: &Database,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<(), rusqlite::Error> {
    database.prepare_cached(sql)?.execute(params)?;
    Ok(())
}
