//! When each ingest key was used last, and what it stored today, over restarts.
//!
//! A request notes it in memory. The daemon has it written once a minute and when it stops. After a crash it adds from the
//! request log when keys were used last; of what was stored today the last minute is not counted then.
//!
//! **Invariant**: no request waits for this, and a time only rises.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::entries::Entries;
use super::{Catalog, IngestKey, KeyHash};
use base::clock::Unix;

/// Files of earlier versions have no such table.
const VOLUMES: &str = "CREATE TABLE IF NOT EXISTS key_volumes (
    sha256 BLOB PRIMARY KEY, day INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID";

/// Tells the keys what is written of them, and forgets keys that are gone.
pub(super) fn load(connection: &Connection, entries: &Entries) -> Result<(), rusqlite::Error> {
    load_volumes(connection, entries)?;
    let mut statement = connection.prepare("SELECT sha256, used_ms FROM key_uses")?;
    let rows = statement.query_map([], |row| {
        let hash = KeyHash::from_bytes(row.get(0)?);
        Ok((hash, Unix::from_column(row.get(1)?)))
    })?;
    let mut used = rows.collect::<Result<HashMap<_, _>, _>>()?;
    for key in keys(entries) {
        if let Some(used_at) = used.remove(&key.hash) {
            key.was_used(used_at, true);
        }
    }
    for gone in used.keys() {
        connection.execute("DELETE FROM key_uses WHERE sha256 = ?1", [gone.as_bytes()])?;
    }
    Ok(())
}

fn load_volumes(connection: &Connection, entries: &Entries) -> Result<(), rusqlite::Error> {
    connection.execute_batch(VOLUMES)?;
    let mut statement = connection.prepare("SELECT sha256, day, bytes FROM key_volumes")?;
    let rows = statement.query_map([], |row| {
        let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
        Ok((KeyHash::from_bytes(row.get(0)?), (number(1)?, number(2)?)))
    })?;
    let mut stored = rows.collect::<Result<HashMap<_, _>, _>>()?;
    for key in keys(entries) {
        if let Some(day) = stored.remove(&key.hash) {
            key.volume.restore(day);
        }
    }
    for gone in stored.keys() {
        connection.execute(
            "DELETE FROM key_volumes WHERE sha256 = ?1",
            [gone.as_bytes()],
        )?;
    }
    Ok(())
}

fn keys(entries: &Entries) -> impl Iterator<Item = &Arc<IngestKey>> {
    let connectors = entries.connectors.values();
    connectors.flat_map(|connector| &connector.keys)
}

impl Catalog {
    /// A key that begins so was used at this time or later.
    pub fn note_use(&self, connector: &str, prefix: &str, used_at: Unix) {
        let Some(connector) = self.connector(connector).filter(|_| !prefix.is_empty()) else {
            return;
        };
        for key in connector.keys.iter().filter(|key| *key.prefix() == *prefix) {
            key.was_used(used_at, false);
        }
    }

    /// Writes when keys were used and what they stored today, where that has changed. Blocks.
    pub fn keep_uses(&self) {
        let entries = self.now();
        let used: Vec<(&Arc<IngestKey>, Unix)> = keys(&entries)
            .filter_map(|key| Some((key, key.unwritten_use()?)))
            .collect();
        let stored: Vec<(&Arc<IngestKey>, (u64, u64))> = keys(&entries)
            .filter_map(|key| Some((key, key.volume.unwritten()?)))
            .collect();
        if used.is_empty() && stored.is_empty() {
            return;
        }
        let written = self.write(&mut self.store(), |store| {
            write_volumes(&store.connection, &stored)?;
            Ok(write(&store.connection, &used)?)
        });
        if let Err(error) = written {
            tracing::warn!(%error, "when keys were used last cannot be written now; it is tried again");
            return;
        }
        for (key, day) in stored {
            key.volume.note_written(day);
        }
        for (key, used_at) in used {
            key.was_used(used_at, true);
        }
    }
}

fn write(connection: &Connection, used: &[(&Arc<IngestKey>, Unix)]) -> Result<(), rusqlite::Error> {
    let mut upsert = connection
        .prepare_cached("INSERT OR REPLACE INTO key_uses (sha256, used_ms) VALUES (?1, ?2)")?;
    for (key, used_at) in used {
        upsert.execute(params![key.hash.as_bytes(), used_at.to_column()])?;
    }
    Ok(())
}

fn write_volumes(
    connection: &Connection,
    stored: &[(&Arc<IngestKey>, (u64, u64))],
) -> Result<(), rusqlite::Error> {
    let mut upsert = connection.prepare_cached(
        "INSERT OR REPLACE INTO key_volumes (sha256, day, bytes) VALUES (?1, ?2, ?3)",
    )?;
    for (key, (day, bytes)) in stored {
        upsert.execute(params![
            key.hash.as_bytes(),
            day.cast_signed(),
            bytes.cast_signed()
        ])?;
    }
    Ok(())
}
