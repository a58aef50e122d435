//! Forgetting tombstones that nobody needs any more, a chunk at a time.
//!
//! Delivery asks for it now and then ([`Pool::forget_removed`]).
//!
//! **Invariant**: lanes go on between chunks; when a removal cannot be published to renderers any more, the floor of the
//! history has risen to it in the same transaction.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::{NO_LETTER, Removals, settled_by_all};
use crate::past_values::Recording;
use crate::{Pool, PoolError};
use base::order::{ChangeSeq, Seq};

/// Tombstones that are looked at in one transaction, because lanes wait meanwhile.
const CHUNK: u32 = 1_000;
/// Forgetting ends after this time, at the next chunk.
const FORGET_TIME: Duration = Duration::from_millis(100);
/// Tombstones that dead letters held up are looked at again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// How far forgetting has come.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    /// Removals were published to renderers since the excess was counted.
    pub(super) has_published: bool,
    /// Up to this number there are more than are kept for renderers. It is kept, because each chunk would count all of
    /// them otherwise.
    pub(super) excess: Option<ChangeSeq>,
    /// Streams with removals that have a version and were not counted yet.
    pub(super) versions: HashSet<Arc<str>>,
    /// Up to here tombstones without a number were looked at: request, stream and key.
    pub(super) at: (i64, String, String),
    /// When it began at the first one.
    pub(super) began: Option<Instant>,
}

impl Removals {
    /// A chunk of what is not published to renderers any more; returns the number of the last one. What may still hold
    /// something older up stays, without a number.
    fn forget_published(
        &mut self,
        connection: &Connection,
        recording: &Recording,
    ) -> Result<Option<ChangeSeq>, rusqlite::Error> {
        let forgetting = &mut self.forgetting;
        if forgetting.excess.is_none() && forgetting.has_published {
            forgetting.excess = connection
                .prepare_cached(
                    "SELECT seq FROM removed WHERE seq > 0 ORDER BY seq DESC LIMIT 1 OFFSET ?1",
                )?
                .query_row([self.published_max], |row| {
                    row.get(0).map(ChangeSeq::from_column)
                })
                .optional()?;
            forgetting.has_published = false;
        }
        let Some(excess) = forgetting.excess else {
            return Ok(None);
        };
        let settled = settled_by_all(connection)?;
        let through: Option<i64> = connection
            .prepare_cached(
                "SELECT max(seq) FROM (SELECT seq FROM removed WHERE seq > 0 AND seq <= ?1 ORDER BY seq LIMIT ?2)",
            )?
            .query_row(params![excess.to_column(), CHUNK], |row| row.get(0))?;
        let Some(through) = through else {
            self.forgetting.excess = None;
            return Ok(None);
        };
        let mut delete = connection.prepare_cached(&format!(
            "DELETE FROM removed WHERE seq > 0 AND seq <= ?1 AND version IS NULL AND accepted_seq <= ?2 AND {NO_LETTER} RETURNING stream, key"
        ))?;
        let rows = delete.query_map([through, settled.to_column()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        for gone in rows.collect::<Result<Vec<(String, String)>, _>>()? {
            recording.forget(connection, &gone.0, &gone.1)?;
        }
        let mut end = connection.prepare_cached(
            "UPDATE removed SET seq = 0 WHERE seq > 0 AND seq <= ?1 RETURNING stream",
        )?;
        let streams = end.query_map([through], |row| row.get::<_, Arc<str>>(0))?;
        for stream in streams {
            self.forgetting.versions.insert(stream?);
        }
        connection
            .prepare_cached("UPDATE history SET floor = max(floor, ?1)")?
            .execute([through])?;
        Ok(Some(ChangeSeq::from_column(through)))
    }

    /// Up to here no sink needs tombstones that are not published to renderers. For those that never write the pool
    /// the newest are kept, by count. Otherwise a dead letter of such a sink that is sent again would bring a removed
    /// item back.
    fn needed_by_none(&self, connection: &Connection) -> Result<Seq, rusqlite::Error> {
        let (by_all, by_writers) = (settled_by_all(connection)?, self.settled(connection)?);
        if by_all == by_writers {
            return Ok(by_all);
        }
        let excess = connection
            .prepare_cached(
                "SELECT accepted_seq FROM removed WHERE seq = 0 AND version IS NULL
                 ORDER BY accepted_seq DESC LIMIT 1 OFFSET ?1",
            )?
            .query_row([self.published_max], |row| row.get(0).map(Seq::from_column))
            .optional()?;
        Ok(excess.map_or(by_all, |excess| by_all.max(excess.min(by_writers))))
    }

    /// Looks at a chunk of the tombstones that are not published to renderers; true if there may be more.
    fn forget_others(
        &mut self,
        connection: &Connection,
        recording: &Recording,
    ) -> Result<bool, rusqlite::Error> {
        let settled = self.needed_by_none(connection)?;
        let forgetting = &mut self.forgetting;
        if forgetting
            .began
            .is_none_or(|began| began.elapsed() >= AGAIN_AFTER)
        {
            forgetting.at = (0, String::new(), String::new());
            forgetting.began = Some(Instant::now());
        }
        let mut select = connection.prepare_cached(&format!(
            "SELECT accepted_seq, stream, key, {NO_LETTER} FROM removed
             WHERE seq = 0 AND version IS NULL AND accepted_seq <= ?1 AND (accepted_seq, stream, key) > (?2, ?3, ?4)
             ORDER BY accepted_seq, stream, key LIMIT {CHUNK}"
        ))?;
        let (accepted_seq, stream, key) = &forgetting.at;
        let rows = select.query_map(
            params![settled.to_column(), accepted_seq, stream, key],
            |row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?)),
        )?;
        let looked_at: Vec<((i64, String, String), bool)> = rows.collect::<Result<_, _>>()?;
        let mut forget =
            connection.prepare_cached("DELETE FROM removed WHERE stream = ?1 AND key = ?2")?;
        for ((_, stream, key), over) in &looked_at {
            if *over {
                forget.execute([stream, key])?;
                recording.forget(connection, stream, key)?;
            }
        }
        let more = looked_at.len() >= CHUNK as usize;
        if let Some((last, _)) = looked_at.into_iter().next_back() {
            forgetting.at = last;
        }
        Ok(more)
    }

    /// A chunk of the removals with a version of which a stream has too many; true if there may be more. What has none any
    /// more is looked at like the others.
    fn forget_versions(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let Some(stream) = self.forgetting.versions.iter().next().cloned() else {
            return Ok(false);
        };
        let forgotten = connection
            .prepare_cached(
                "UPDATE removed SET version = NULL, version_text = NULL WHERE (stream, key) IN (
                     SELECT stream, key FROM removed INDEXED BY removed_versions
                     WHERE stream = ?3 AND seq = 0 AND version IS NOT NULL AND accepted_seq <= (
                         SELECT accepted_seq FROM removed INDEXED BY removed_versions
                         WHERE stream = ?3 AND seq = 0 AND version IS NOT NULL ORDER BY accepted_seq DESC LIMIT 1 OFFSET ?1)
                     ORDER BY accepted_seq LIMIT ?2)",
            )?
            .execute(params![self.versions_max, CHUNK, &*stream])?;
        if forgotten == 0 {
            self.forgetting.versions.remove(&stream);
        }
        Ok(true)
    }
}

impl Pool {
    /// Forgets removals that nobody needs any more, for a moment, or until `stop` says so. `bystanders` never write
    /// the pool: for them it keeps only so many, because a receiver that is far behind would hold every removal.
    /// Blocks.
    ///
    /// # Errors
    /// SQLite's; what was forgotten before stays so.
    pub fn forget_removed(
        &self,
        bystanders: &[String],
        stop: impl Fn() -> bool,
    ) -> Result<(), PoolError> {
        self.lock().removals.bystanders = serde_json::json!(bystanders).to_string();
        if !self.may_forget()? {
            return Ok(());
        }
        let began = Instant::now();
        // The lock is given back between chunks: lanes go on meanwhile.
        while self.forget_chunk()? && began.elapsed() < FORGET_TIME && !stop() {}
        Ok(())
    }

    /// Whether it is worth a transaction to look. An idle daemon writes nothing.
    fn may_forget(&self) -> Result<bool, PoolError> {
        let writer = self.lock();
        let Forgetting {
            has_published,
            excess,
            versions,
            ..
        } = &writer.removals.forgetting;
        let others = "SELECT EXISTS (SELECT 1 FROM removed WHERE seq = 0 AND version IS NULL)";
        Ok(*has_published
            || !versions.is_empty()
            || excess.is_some()
            || writer.connection.query_row(others, [], |row| row.get(0))?)
    }

    /// True if there may be more.
    fn forget_chunk(&self) -> Result<bool, PoolError> {
        let (floor, more) = self.write(|writer| {
            let connection = &writer.connection;
            let recording = &writer.recording;
            let floor = writer.removals.forget_published(connection, recording)?;
            let versions = writer.removals.forget_versions(connection)?;
            let more = writer.removals.forget_others(connection, recording)?;
            Ok((floor, more || versions || floor.is_some()))
        })?;
        if let Some(floor) = floor {
            self.floor
                .fetch_max(floor.get(), std::sync::atomic::Ordering::AcqRel);
        }
        Ok(more)
    }
}
