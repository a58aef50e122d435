//! When each ingest key was used last, or refused because it had ended, and what it stored today, over restarts.
//!
//! A request notes it in memory. The daemon has it written once a minute and when it stops. After a crash it adds from the
//! request log when keys were used last; of what was stored today the last minute is not counted then.
//!
//! **Invariant**: no request waits for this, and a time only rises.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::entries::Entries;
use super::last_time::LastTime;
use super::{Catalog, IngestKey, KeyHash};
use base::clock::Unix;

/// Files of earlier versions have no such tables.
pub(super) const LATER_TABLES: &str = "CREATE TABLE IF NOT EXISTS key_volumes (
    sha256 BLOB PRIMARY KEY, day INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_refusals (
    sha256 BLOB PRIMARY KEY, refused_ms INTEGER NOT NULL) WITHOUT ROWID;";

/// A table with the time of each key, and where its key has that time.
struct Times {
    select: &'static str,
    put: &'static str,
    delete: &'static str,
    of: fn(&IngestKey) -> &LastTime,
}

const TIMES: [Times; 2] = [
    Times {
        select: "SELECT sha256, used_ms FROM key_uses",
        put: "INSERT OR REPLACE INTO key_uses (sha256, used_ms) VALUES (?1, ?2)",
        delete: "DELETE FROM key_uses WHERE sha256 = ?1",
        of: |key| &key.used,
    },
    Times {
        select: "SELECT sha256, refused_ms FROM key_refusals",
        put: "INSERT OR REPLACE INTO key_refusals (sha256, refused_ms) VALUES (?1, ?2)",
        delete: "DELETE FROM key_refusals WHERE sha256 = ?1",
        of: |key| &key.refused,
    },
];

/// A key that is gone, and what takes away the row of it that is left.
pub(super) type Gone = (&'static str, KeyHash);

/// Tells the keys what is written of them; of what several nodes share, not what they stored. Returns what is written of keys that are gone, to [`forget`] it.
pub(super) fn load(
    connection: &Connection,
    entries: &Entries,
    is_shared: bool,
) -> Result<Vec<Gone>, rusqlite::Error> {
    connection.execute_batch(LATER_TABLES)?;
    let mut gone = match is_shared {
        true => Vec::new(),
        false => load_volumes(connection, entries)?,
    };
    gone.append(&mut raise(connection, entries)?);
    Ok(gone)
}

/// Forgets keys that are gone. A table would otherwise keep a row for every key that ever was.
pub(super) fn forget(connection: &Connection, gone: &[Gone]) -> Result<(), rusqlite::Error> {
    for (delete, hash) in gone {
        connection.execute(delete, [hash.as_bytes()])?;
    }
    Ok(())
}

/// Tells the keys when they were used; of those that are gone nothing is done.
pub(super) fn raise(
    connection: &Connection,
    entries: &Entries,
) -> Result<Vec<Gone>, rusqlite::Error> {
    let mut gone = Vec::new();
    for times in &TIMES {
        let mut statement = connection.prepare(times.select)?;
        let rows = statement.query_map([], |row| {
            let hash = KeyHash::from_bytes(row.get(0)?);
            Ok((hash, Unix::from_column(row.get(1)?)))
        })?;
        let mut known = rows.collect::<Result<HashMap<_, _>, _>>()?;
        for key in keys(entries) {
            if let Some(at) = known.remove(&key.hash) {
                (times.of)(key).raise(at, true);
            }
        }
        gone.extend(known.into_keys().map(|hash| (times.delete, hash)));
    }
    Ok(gone)
}

fn load_volumes(connection: &Connection, entries: &Entries) -> Result<Vec<Gone>, rusqlite::Error> {
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
    let delete = "DELETE FROM key_volumes WHERE sha256 = ?1";
    Ok(stored.into_keys().map(|hash| (delete, hash)).collect())
}

fn keys(entries: &Entries) -> impl Iterator<Item = &Arc<IngestKey>> {
    let connectors = entries.connectors.values();
    connectors.flat_map(|connector| &connector.keys)
}

impl Catalog {
    /// A key that begins so was used at this time or later. It goes by the prefix, because the request log has no
    /// digest.
    pub fn note_use(&self, connector: &str, prefix: &str, used_at: Unix) {
        let Some(connector) = self.connector(connector).filter(|_| !prefix.is_empty()) else {
            return;
        };
        for key in connector.keys.iter().filter(|key| *key.prefix() == *prefix) {
            key.used.raise(used_at, false);
        }
    }

    /// Writes when keys were used and refused, and what they stored today, where that has changed. No request writes
    /// it, because each would be a commit more. Blocks.
    pub fn keep_uses(&self) {
        let entries = self.now();
        let mut times = Vec::new();
        for table in &TIMES {
            let unwritten =
                |key: &Arc<IngestKey>| Some((table, Arc::clone(key), (table.of)(key).unwritten()?));
            times.extend(keys(&entries).filter_map(unwritten));
        }
        let own = keys(&entries).filter(|_| !self.is_shared);
        let stored: Vec<(&Arc<IngestKey>, (u64, u64))> = own
            .filter_map(|key| Some((key, key.volume.unwritten()?)))
            .collect();
        if times.is_empty() && stored.is_empty() {
            return;
        }
        let written = self.write(|store| {
            write_volumes(&store.connection, &stored)?;
            for (table, key, at) in &times {
                let mut put = store.connection.prepare_cached(table.put)?;
                put.execute(params![key.hash.as_bytes(), at.to_column()])?;
            }
            Ok(())
        });
        if let Err(error) = written {
            tracing::warn!(%error, "cannot store when keys were last used, retrying");
            return;
        }
        for (key, day) in stored {
            key.volume.note_written(day);
        }
        for (table, key, at) in times {
            (table.of)(&key).raise(at, true);
        }
    }
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
