//! The tables of `catalog.db`: what was made at run time, and the audit log.
//!
//! What can be set of a stream or a connector is one column of JSON: an option more is none of this file's business.
//!
//! **Invariant**: a change is flushed to the disk before it is answered, whatever `storage.durability` says: there
//! are few.

mod read_keys;
mod sinks;

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection as Database, Row, params};
use serde::Serialize;
use serde_json::Value;

use super::audit::{acts, chain};
use super::ingest_key::KeyRow;
use super::rows::Rows;
use super::{CatalogError, Connector, KeyHash, Stream, problems, screens, uses};
use base::clock::Unix;
pub(super) use read_keys::{delete_read_key, put_read_key};
use settings::Networks;
pub(super) use sinks::{delete_sink, put_sink};

/// Its name in the data folder.
pub const FILE: &str = "catalog.db";
/// Stands in `PRAGMA user_version`.
pub const FORMAT: i64 = 12;

/// Format 1. Keys name their connectors and streams by name: either may be declared, or gone.
const TABLES: &str = "
CREATE TABLE streams (
    name TEXT PRIMARY KEY,
    on_update TEXT NOT NULL,
    stale_after_seconds INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE connectors (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    item_key TEXT,
    requests_per_second INTEGER,
    burst INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE keys (
    connector TEXT NOT NULL,
    name TEXT NOT NULL,
    sha256 BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    stream TEXT NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (connector, name)
) WITHOUT ROWID;
CREATE TABLE read_keys (
    name TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    streams TEXT NOT NULL,
    allow_in_url INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL,
    client TEXT NOT NULL,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    connector TEXT,
    before TEXT,
    after TEXT
);
";

/// Format 1 did not know when keys were used.
const KEY_USES_2: &str = "
CREATE TABLE key_uses (
    sha256 BLOB PRIMARY KEY,
    used_ms INTEGER NOT NULL
) WITHOUT ROWID;
";

/// Whether keys of a connector may remove items: by default as their kind says.
const MAY_DELETE_2: &str = "
ALTER TABLE connectors ADD COLUMN may_delete INTEGER;
";

/// Settings of streams and connectors as they are declared, in one column, and descriptions.
const SETTINGS_3: &str = "
ALTER TABLE streams ADD COLUMN settings TEXT;
UPDATE streams SET settings = json_object('name', name, 'on_update', on_update,
    'stale_after_seconds', stale_after_seconds);
ALTER TABLE streams DROP COLUMN on_update;
ALTER TABLE streams DROP COLUMN stale_after_seconds;
ALTER TABLE connectors ADD COLUMN settings TEXT;
UPDATE connectors SET settings = json_object('name', name, 'kind', kind, 'item_key', item_key,
    'may_delete', json(CASE may_delete WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE 'null' END),
    'requests_per_second', requests_per_second, 'burst', burst);
ALTER TABLE connectors DROP COLUMN kind;
ALTER TABLE connectors DROP COLUMN item_key;
ALTER TABLE connectors DROP COLUMN may_delete;
ALTER TABLE connectors DROP COLUMN requests_per_second;
ALTER TABLE connectors DROP COLUMN burst;
ALTER TABLE keys ADD COLUMN description TEXT;
ALTER TABLE read_keys ADD COLUMN description TEXT;
";

/// Keys that may stand in a URL, and secrets that tools sign with: these are kept as they are.
const SIGNING_4: &str = "
ALTER TABLE keys ADD COLUMN allow_in_url INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN verify TEXT;
";

/// From where keys are taken.
const NETWORKS_5: &str = "
ALTER TABLE keys ADD COLUMN networks TEXT;
ALTER TABLE read_keys ADD COLUMN networks TEXT;
";

/// The audit log is a chain; entries that are there are chained when the file is opened.
const AUDIT_CHAIN_5: &str = "
ALTER TABLE audit ADD COLUMN previous BLOB;
ALTER TABLE audit ADD COLUMN digest BLOB;
";

/// How often read keys may poll.
const POLLS_6: &str = "
ALTER TABLE read_keys ADD COLUMN requests_per_second INTEGER;
";

/// Pages of which origins may read with a key.
const ORIGINS_7: &str = "
ALTER TABLE read_keys ADD COLUMN origins TEXT;
";

/// How many streams of the same name were deleted before a stream.
const LIVES_8: &str = "
ALTER TABLE streams ADD COLUMN life INTEGER NOT NULL DEFAULT 0;
";

/// Sinks that were made at run time, with their sections; and which sinks somebody paused, declared ones too, which have
/// no section here.
const SINKS_9: &str = "
CREATE TABLE sinks (
    name TEXT PRIMARY KEY,
    section TEXT,
    created_ms INTEGER,
    deleting INTEGER NOT NULL DEFAULT 0,
    paused_by TEXT,
    paused_ms INTEGER
) WITHOUT ROWID;
";

/// What read keys see.
const LIMITS_10: &str = "
ALTER TABLE read_keys ADD COLUMN conditions TEXT;
ALTER TABLE read_keys ADD COLUMN fields TEXT;
";

/// Read keys that may act.
const OPERATE_11: &str = "
ALTER TABLE read_keys ADD COLUMN operate INTEGER NOT NULL DEFAULT 0;
";

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

/// What screens should show, and which of them should always be there.
const SCREENS_12: &str = "
ALTER TABLE read_keys ADD COLUMN page TEXT;
ALTER TABLE read_keys ADD COLUMN expect INTEGER NOT NULL DEFAULT 0;
ALTER TABLE read_keys ADD COLUMN away_after_seconds INTEGER NOT NULL DEFAULT 60;
";

/// The tables of an older format.
#[cfg(test)]
pub(super) fn of_format(format: u32) -> String {
    match format {
        1 => TABLES.to_owned(),
        2 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2}"),
        3 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3}"),
        4 => format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4}"),
        _ => format!(
            "{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {NETWORKS_5} {AUDIT_CHAIN_5}"
        ),
    }
}

/// Makes the tables that others make when they are first needed.
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

pub(super) fn open(path: &Path) -> Result<Database, CatalogError> {
    let database = sqlite::open_writer(path, sqlite::Synchronous::Full)?;
    let eleven = format!("{OPERATE_11} {SCREENS_12}");
    let ten = format!("{LIMITS_10} {eleven}");
    let eight = format!("{LIVES_8} {SINKS_9} {ten}");
    let five = format!("{NETWORKS_5} {AUDIT_CHAIN_5} {POLLS_6} {ORIGINS_7} {eight}");
    let from = [
        &*format!("{TABLES} {KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{KEY_USES_2} {MAY_DELETE_2} {SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{SETTINGS_3} {SIGNING_4} {five}"),
        &format!("{SIGNING_4} {five}"),
        &five,
        &format!("{POLLS_6} {ORIGINS_7} {eight}"),
        &format!("{ORIGINS_7} {eight}"),
        &eight,
        &format!("{SINKS_9} {ten}"),
        &ten,
        &eleven,
        SCREENS_12,
    ];
    sqlite::upgrade(&database, FORMAT, &from)?;
    chain::complete(&database)?;
    Ok(database)
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

/// From where a key is taken. What cannot be read lets nobody in.
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

/// What can be set, as it is written down and stands in the audit log.
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

/// How many streams of this name were deleted, as the audit trail has it.
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
