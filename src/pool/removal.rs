//! Removing items, and remembering for a while that they were removed.
//!
//! `http` removes for callers. A removal leaves a row in `removed`: renderers that come back learn of
//! it, and requests that were accepted before it and are delivered after it do not bring the item back.
//!
//! **Invariant**: when a removal is forgotten, the history's floor has risen to it: nobody resumes from
//! before it and misses it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::apply::Pass;
use super::changes::Change;
use super::{Pool, PoolError, history};
use crate::clock;

/// How long removals are remembered, at least: longer than a renderer is away and a retry takes.
const REMOVED_KEPT_MS: u64 = 7 * 86_400_000;
/// Removals that are forgotten in one transaction.
const FORGET_CHUNK: u32 = 1_000;
/// A dead letter from before the removal may be sent again at any time, and must not bring the item back. A
/// sink may have put it into another stream, but never under another key.
const NOT_NEEDED: &str = "NOT EXISTS (SELECT 1 FROM dead_letters AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq)
    AND NOT EXISTS (SELECT 1 FROM resends AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq)";

/// For each stream, up to which accepted request something was removed: later requests need not look.
#[derive(Debug, Default)]
pub(super) struct Removals(HashMap<Arc<str>, i64>);

impl Removals {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement =
            connection.prepare("SELECT stream, max(accepted_seq) FROM removed GROUP BY stream")?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
        rows.collect::<Result<_, _>>().map(Self)
    }

    /// Whether the item was removed by something that was accepted later than this.
    pub(super) fn covers(
        &self,
        connection: &Connection,
        stream: &str,
        key: &str,
        order: (i64, u32),
    ) -> Result<bool, rusqlite::Error> {
        if self.0.get(stream).is_none_or(|last| *last < order.0) {
            return Ok(false);
        }
        let removed: Option<(i64, u32)> = connection
            .prepare_cached(
                "SELECT accepted_seq, position FROM removed WHERE stream = ?1 AND key = ?2",
            )?
            .query_row([stream, key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(removed.is_some_and(|removed| removed >= order))
    }

    /// Remembers a removal, unless a later one is known.
    pub(super) fn note(
        &mut self,
        connection: &Connection,
        stream: &Arc<str>,
        key: &str,
        order: (i64, u32),
        seq: u64,
    ) -> Result<(), rusqlite::Error> {
        connection
            .prepare_cached(
                "INSERT INTO removed (stream, key, seq, accepted_seq, position, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (stream, key) DO UPDATE SET seq = excluded.seq,
                 position = iif(excluded.accepted_seq > accepted_seq, excluded.position, max(excluded.position, position)),
                 accepted_seq = max(excluded.accepted_seq, accepted_seq), at_ms = excluded.at_ms",
            )?
            .execute(params![
                &**stream,
                key,
                seq.cast_signed(),
                order.0,
                order.1,
                clock::unix_ms().cast_signed(),
            ])?;
        let last = self.0.entry(Arc::clone(stream)).or_insert(0);
        *last = order.0.max(*last);
        Ok(())
    }
}

impl Pool {
    /// Removes an item, for everything that was accepted up to the request `accepted_seq`. Returns the
    /// number of the change, or `None` if there is no such item. With `expected` it may still be on its
    /// way here, and is removed in advance. On disk when it returns. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing was removed then.
    pub fn remove(
        &self,
        stream: &Arc<str>,
        key: &str,
        accepted_seq: u64,
        expected: bool,
    ) -> Result<Option<u64>, PoolError> {
        let mut writer = self.lock();
        let mut pass = Pass::new(writer.seq, &self.changes);
        let accepted_seq = accepted_seq.cast_signed();
        // This one commit is flushed: no entry of the journal can bring it back.
        writer
            .connection
            .execute_batch("PRAGMA synchronous = FULL")?;
        let removed = writer.in_transaction(|writer| {
            let connection = &writer.connection;
            let gone = connection
                .prepare_cached(super::apply::DELETE)?
                .execute([&**stream, key])?;
            // What waits for a retry is behind every cursor and may hold the item.
            if gone == 0 && !expected && !retries_wait(connection)? {
                return Ok(false);
            }
            pass.tell(stream, 0, |seq| Change::removed(seq, key));
            // After everything that the request holds.
            let order = (accepted_seq, u32::MAX);
            let removals = &mut writer.removals;
            removals.note(connection, stream, key, order, pass.seq())?;
            history::store(connection, pass.seq())?;
            Ok(true)
        });
        writer
            .connection
            .execute_batch("PRAGMA synchronous = NORMAL")?;
        if !removed? {
            return Ok(None);
        }
        let seq = pass.seq();
        self.committed(writer, pass);
        Ok(Some(seq))
    }

    /// Forgets removals of more than a week ago. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn forget_removed(&self) -> Result<(), PoolError> {
        let before_ms = clock::unix_ms().saturating_sub(REMOVED_KEPT_MS);
        // The lock is given back between chunks: lanes go on meanwhile.
        while self.forget_chunk(before_ms)? {}
        Ok(())
    }

    fn forget_chunk(&self, before_ms: u64) -> Result<bool, PoolError> {
        let mut writer = self.lock();
        let floor = writer.in_transaction(|writer| {
            let connection = &writer.connection;
            let floor: Option<i64> = connection.query_row(
                &format!("SELECT max(seq) FROM (SELECT seq FROM removed WHERE at_ms < ?1 AND {NOT_NEEDED} ORDER BY seq LIMIT ?2)"),
                params![before_ms.cast_signed(), FORGET_CHUNK],
                |row| row.get(0),
            )?;
            let Some(floor) = floor else { return Ok(None) };
            connection.execute(
                &format!("DELETE FROM removed WHERE seq <= ?1 AND at_ms < ?2 AND {NOT_NEEDED}"),
                params![floor, before_ms.cast_signed()],
            )?;
            connection.execute("UPDATE history SET floor = max(floor, ?1)", [floor])?;
            Ok(Some(floor.unsigned_abs()))
        })?;
        if let Some(floor) = floor {
            writer.dirty = true;
            self.floor
                .fetch_max(floor, std::sync::atomic::Ordering::AcqRel);
        }
        Ok(floor.is_some())
    }
}

fn retries_wait(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM retries)")?
        .query_row([], |row| row.get(0))
}
