//! A pool that was damaged and lacks items: sinks that write it look back once.
//!
//! A repair notes it in the file, delivery asks when it makes a lane.
//!
//! **Invariant**: a sink looks back in the transaction that forgets that it must. An item is overwritten only by a later
//! one, so what is delivered again changes nothing that is there.

use rusqlite::{Connection, params};

use super::{Pool, PoolError};
use base::order::Seq;

/// Every sink that has a cursor must look back. Only a pool that was rebuilt has this table.
pub(super) fn note(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS rebuilt (sink TEXT PRIMARY KEY) WITHOUT ROWID;
         INSERT OR IGNORE INTO rebuilt (sink) SELECT sink FROM cursors;",
    )
}

impl Pool {
    /// If the pool was rebuilt since the sink ran last, and it is one that `writes_pool` only, its cursor goes back
    /// to `to`. Returns the cursor. Other sinks have lost nothing, and would send everything twice otherwise.
    pub fn look_back(
        &self,
        sink: &str,
        cursor: Seq,
        to: Seq,
        writes_pool: bool,
    ) -> Result<Seq, PoolError> {
        self.write(|writer| {
            let connection = &writer.connection;
            if !sqlite::has_table(connection, "rebuilt")? {
                return Ok(cursor);
            }
            let must = connection.execute("DELETE FROM rebuilt WHERE sink = ?1", [sink])? > 0;
            if !must || !writes_pool || to >= cursor {
                return Ok(cursor);
            }
            let values = params![sink, to.to_column()];
            connection.execute("UPDATE cursors SET seq = ?2 WHERE sink = ?1", values)?;
            // What was said of these entries goes, because they are delivered once more.
            connection.execute("DELETE FROM progress WHERE sink = ?1 AND seq > ?2", values)?;
            connection.execute("DELETE FROM stale WHERE sink = ?1 AND seq > ?2", values)?;
            connection.execute(
                "DELETE FROM stale_items WHERE sink = ?1 AND seq > ?2",
                values,
            )?;
            Ok(to)
        })
    }
}
