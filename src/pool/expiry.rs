//! Items that were not renewed in time go.
//!
//! The daemon calls it now and then.
//!
//! **Invariant**: an item goes at its own place in the order of acceptance: what was accepted after it brings it back,
//! what was accepted before it does not. How old it is, is measured in time lived.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::params;

use super::change_set::ChangeSet;
use super::changes::Change;
use super::tombstones::Removed;
use super::{Pool, PoolError, Writer, version_column};
use base::clock::{Lived, Unix};

/// Items that go in one transaction.
const CHUNK: u32 = 200;
/// It ends after this time, at the next chunk; the next call goes on.
const TIME: Duration = Duration::from_millis(100);

impl Pool {
    /// Removes what has expired, for a moment or until `stop` says so, and tells renderers. Says when the next item
    /// expires, if any does. Blocks.
    ///
    /// # Errors
    /// SQLite's; what was removed before stays so.
    pub fn expire(&self, stop: impl Fn() -> bool) -> Result<Option<Lived>, PoolError> {
        let now = Lived::now();
        // The lock is given back between chunks: lanes go on meanwhile.
        let began = Instant::now();
        loop {
            let next = self.next_to_expire()?;
            if next.is_none_or(|next| next > now) || began.elapsed() >= TIME || stop() {
                return Ok(next);
            }
            self.change(|writer, pass| writer.expire(now, pass))?;
        }
    }

    fn next_to_expire(&self) -> Result<Option<Lived>, PoolError> {
        let sql = "SELECT min(expires_ms) FROM items WHERE expires_ms IS NOT NULL";
        let writer = self.lock();
        let mut select = writer.connection.prepare_cached(sql)?;
        let next: Option<i64> = select.query_row([], |row| row.get(0))?;
        Ok(next.map(Lived::from_column))
    }
}

/// An item that goes.
struct Expired {
    stream: Arc<str>,
    key: String,
    fields_bytes: usize,
    removed: Removed,
}

impl Writer {
    fn expire(&mut self, now: Lived, pass: &mut ChangeSet<'_>) -> Result<(), rusqlite::Error> {
        let connection = &self.connection;
        let expired: Vec<Expired> = {
            let mut select = connection.prepare_cached(
                "SELECT stream, key, accepted_seq, position, version, version_text, octet_length(fields) FROM items
                 WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2",
            )?;
            let rows = select.query_map(params![now.to_column(), CHUNK], |row| {
                Ok(Expired {
                    stream: row.get(0)?,
                    key: row.get(1)?,
                    removed: Removed {
                        place: (row.get(2)?, row.get(3)?),
                        reached: version_column::with_text(row, 4)?,
                    },
                    fields_bytes: usize::try_from(row.get::<_, i64>(6)?).unwrap_or(0),
                })
            })?;
            rows.collect::<Result<_, _>>()?
        };
        let mut delete =
            connection.prepare_cached("DELETE FROM items WHERE stream = ?1 AND key = ?2")?;
        for Expired {
            stream,
            key,
            fields_bytes,
            removed,
        } in &expired
        {
            delete.execute([&**stream, key])?;
            self.counting.removed(stream, key, *fields_bytes);
            pass.publish(stream, Unix::MIN, |seq| Change::removed(seq, key));
            self.removals
                .note(connection, stream, key, removed, pass.seq())?;
        }
        Ok(())
    }
}
