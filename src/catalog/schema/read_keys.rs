//! The table of read keys.
//!
//! **Invariant**: what cannot be read of a key lets it see nothing.

use rusqlite::{Connection as Database, Row, params};
use serde_json::Value;

use super::{networks, put, stored, time, written_networks};
use crate::{KeyHash, ReadKey};
use base::clock;
use settings::{KeyFields, KeyWhere};

pub(super) fn read_key(row: &Row<'_>) -> Result<ReadKey, rusqlite::Error> {
    let settings = settings::ReadKey {
        name: row.get("name")?,
        description: row.get("description")?,
        // What cannot be read names none.
        streams: serde_json::from_str(&row.get::<_, String>("streams")?).unwrap_or_default(),
        expires_at: time(row, "expires_ms")?.map(clock::rfc3339),
        allow_in_url: row.get("allow_in_url")?,
        networks: networks(row)?,
        requests_per_second: row.get("requests_per_second")?,
        operate: row.get("operate")?,
        page: row.get("page")?,
        expect: row.get("expect")?,
        away_after_seconds: row.get("away_after_seconds")?,
        // What cannot be read names none.
        origins: (row.get::<_, Option<String>>("origins")?)
            .and_then(|written| serde_json::from_str(&written).ok())
            .unwrap_or_default(),
        ..limits(row)?
    };
    let hash = KeyHash::from_bytes(row.get("sha256")?);
    Ok(ReadKey {
        prefix: row.get("prefix")?,
        revoked_at: time(row, "revoked_ms")?,
        ..ReadKey::new(settings, hash, time(row, "created_ms")?)
    })
}

/// What a read key sees. It sees nothing if that cannot be read, because everything would be too much.
fn limits(row: &Row<'_>) -> Result<settings::ReadKey, rusqlite::Error> {
    let (conditions, fields): (Option<String>, Option<String>) =
        (row.get("conditions")?, row.get("fields")?);
    let conditions = conditions.map(KeyWhere::try_from).transpose();
    let fields = fields.map(KeyFields::try_from).transpose();
    let (r#where, fields) = match (conditions, fields) {
        (Ok(conditions), Ok(fields)) => (conditions, fields),
        _ => (Some(KeyWhere::nothing()), None),
    };
    Ok(settings::ReadKey {
        r#where,
        fields,
        ..settings::ReadKey::default()
    })
}

/// Writes a read key, in place of the one of its name.
pub(crate) fn put_read_key(database: &Database, key: &ReadKey) -> Result<(), rusqlite::Error> {
    put(
        database,
        "INSERT OR REPLACE INTO read_keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        params![
            key.name,
            key.hash.as_bytes(),
            key.prefix.as_deref().unwrap_or_default(),
            Value::from(key.streams.clone()).to_string(),
            key.allow_in_url,
            stored(key.expires_at),
            stored(key.revoked_at),
            stored(key.created_at),
            key.description,
            written_networks(&key.networks),
            key.requests_per_second,
            (!key.origins.is_empty()).then(|| Value::from(key.origins.clone()).to_string()),
            key.r#where.as_ref().map(|limit| limit.text()),
            key.fields.as_ref().map(|limit| limit.text()),
            key.operate,
            key.page,
            key.expect,
            key.away_after_seconds,
        ],
    )
}

pub(crate) fn delete_read_key(database: &Database, name: &str) -> Result<(), rusqlite::Error> {
    put(database, "DELETE FROM read_keys WHERE name = ?1", [name])
}
