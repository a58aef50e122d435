//! When each ingest key was used last, over restarts.
//!
//! A request notes it in memory. The daemon has it written once a minute and when it stops; what is missing after a
//! crash it adds from the request log.
//!
//! **Invariant**: no request waits for this, and a time only rises.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::entries::Entries;
use super::{Catalog, IngestKey, KeyHash};

/// Tells the keys what is written of them, and forgets keys that are gone.
pub(super) fn load(connection: &Connection, entries: &Entries) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT sha256, used_ms FROM key_uses")?;
    let rows = statement.query_map([], |row| {
        let hash = KeyHash::from_bytes(row.get(0)?);
        Ok((hash, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    let mut used = rows.collect::<Result<HashMap<_, _>, _>>()?;
    for key in keys(entries) {
        if let Some(used_ms) = used.remove(&key.hash) {
            key.was_used(used_ms, true);
        }
    }
    for gone in used.keys() {
        connection.execute("DELETE FROM key_uses WHERE sha256 = ?1", [gone.as_bytes()])?;
    }
    Ok(())
}

fn keys(entries: &Entries) -> impl Iterator<Item = &Arc<IngestKey>> {
    let connectors = entries.connectors.values();
    connectors.flat_map(|connector| &connector.keys)
}

impl Catalog {
    /// A key that begins so was used at this Unix time in milliseconds, or later.
    pub fn note_use(&self, connector: &str, prefix: &str, used_ms: u64) {
        let Some(connector) = self.connector(connector).filter(|_| !prefix.is_empty()) else {
            return;
        };
        for key in connector.keys.iter().filter(|key| *key.prefix() == *prefix) {
            key.was_used(used_ms, false);
        }
    }

    /// Writes when keys were used, where that has changed. Blocks.
    pub fn keep_uses(&self) {
        let entries = self.now();
        let used: Vec<(&Arc<IngestKey>, u64)> = keys(&entries)
            .filter_map(|key| Some((key, key.unwritten_use()?)))
            .collect();
        if used.is_empty() {
            return;
        }
        let written = self.write(&mut self.store(), |store| {
            Ok(write(&store.connection, &used)?)
        });
        if let Err(error) = written {
            tracing::warn!(%error, "when keys were used last cannot be written now; it is tried again");
            return;
        }
        for (key, used_ms) in used {
            key.was_used(used_ms, true);
        }
    }
}

fn write(connection: &Connection, used: &[(&Arc<IngestKey>, u64)]) -> Result<(), rusqlite::Error> {
    let mut upsert = connection
        .prepare_cached("INSERT OR REPLACE INTO key_uses (sha256, used_ms) VALUES (?1, ?2)")?;
    for (key, used_ms) in used {
        upsert.execute(params![key.hash.as_bytes(), used_ms.cast_signed()])?;
    }
    Ok(())
}
