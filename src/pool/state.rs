//! Small durable data of the sinks' own.
//!
//! A sink reads it during a call; what it sets commits with its cursor.
//!
//! **Invariant**: no sink sees the data of another.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Pool, PoolError};

/// With the cursor, because a value of a call that is repeated would count twice.
pub(super) fn store(
    connection: &Connection,
    sink: &str,
    changes: &[(String, Option<Vec<u8>>)],
) -> Result<(), rusqlite::Error> {
    for (key, value) in changes {
        match value {
            Some(value) => connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO sink_state (sink, key, value) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![sink, key, value])?,
            None => connection
                .prepare_cached("DELETE FROM sink_state WHERE sink = ?1 AND key = ?2")?
                .execute([sink, key])?,
        };
    }
    Ok(())
}

impl Pool {
    /// The value of a key of a sink. Blocks.
    pub fn sink_value(&self, sink: &str, key: &str) -> Result<Option<Vec<u8>>, PoolError> {
        let value = self
            .lock()
            .connection
            .prepare_cached("SELECT value FROM sink_state WHERE sink = ?1 AND key = ?2")?
            .query_row([sink, key], |row| row.get(0))
            .optional()?;
        Ok(value)
    }

    /// Number of a sink's keys. Blocks.
    pub fn sink_keys(&self, sink: &str) -> Result<u64, PoolError> {
        let keys: i64 = self
            .lock()
            .connection
            .prepare_cached("SELECT count(*) FROM sink_state WHERE sink = ?1")?
            .query_row([sink], |row| row.get(0))?;
        Ok(keys.unsigned_abs())
    }
}
