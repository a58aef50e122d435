//! Remembering for a while that items were removed.
//!
//! A removal leaves a row in `removed`, a tombstone, for two readers. Requests that were accepted before it and are
//! delivered after it do not bring the item back: for them it stays as long as such a request can still arrive. And
//! renderers that come back learn of it: for them the newest ones are kept, by count. One that nobody is told of
//! (nothing was there) has the number 0 and is only for the first.
//!
//! A removal with a version of its source is remembered longer: what is older by that version may come from outside at any
//! time. The newest of these are kept, by count.
//!
//! Nothing here looks at a clock: how far every sink has come says what can still arrive.
//!
//! **Invariant**: when renderers cannot be told of a removal any more, the history's floor has risen to it: nobody
//! resumes from before it and misses it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::{Pool, PoolError, low_water};
use item::Version;
use item::batch::{Action, Entry};

/// Removals that renderers can be told of: the newest ones.
const TOLD_MAX: i64 = 100_000;
/// Removals with a version that nothing else needs: the newest ones.
const VERSIONS_MAX: i64 = 100_000;
/// Tombstones that are looked at in one transaction.
const CHUNK: u32 = 1_000;
/// Forgetting ends after this time, at the next chunk.
const FORGET_TIME: Duration = Duration::from_millis(100);
/// Tombstones that dead letters held up are looked at again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// A dead letter from before the removal may be sent again at any time, and must not bring the item back. A
/// sink may have put it into another stream, but never under another key.
const NO_LETTER: &str = "NOT EXISTS (SELECT 1 FROM dead_letters AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq AND letter.removal = 0)
    AND NOT EXISTS (SELECT 1 FROM resends AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq AND letter.removal = 0)";

/// What is known of the tombstones without looking.
#[derive(Debug)]
pub(super) struct Removals {
    /// For each stream, up to which accepted request something was removed: later requests need not look.
    last: HashMap<Arc<str>, i64>,
    /// What this transaction removed and was not there.
    absent: Vec<(Arc<str>, String)>,
    /// How many renderers can be told of.
    told_max: i64,
    forgetting: Forgetting,
}

/// How far forgetting has come.
#[derive(Debug, Default)]
struct Forgetting {
    /// Renderers were told of removals since the excess was counted.
    told: bool,
    /// Up to this number there are more than are kept for renderers.
    excess: Option<i64>,
    /// There are removals with a version that were not counted yet.
    versions: bool,
    /// Up to here tombstones without a number were looked at: request, stream and key.
    at: (i64, String, String),
    /// When it began at the first one.
    began: Option<Instant>,
}

impl Removals {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement =
            connection.prepare("SELECT stream, max(accepted_seq) FROM removed GROUP BY stream")?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
        Ok(Self {
            last: rows.collect::<Result<_, _>>()?,
            absent: Vec::new(),
            told_max: TOLD_MAX,
            forgetting: Forgetting {
                told: true,
                versions: true,
                ..Forgetting::default()
            },
        })
    }

    #[cfg(test)]
    pub(super) fn keep_published(&mut self, told_max: i64) {
        self.told_max = told_max;
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.absent.clear();
    }

    /// How the item was removed, if that matters to what was accepted at `oldest` or later, or has a version.
    pub(super) fn of(
        &self,
        connection: &Connection,
        stream: &str,
        key: &str,
        oldest: (i64, u32),
        has_version: bool,
    ) -> Result<Option<Removed>, rusqlite::Error> {
        let last = self.last.get(stream);
        if last.is_none_or(|last| *last < oldest.0 && !has_version) {
            return Ok(None);
        }
        connection
            .prepare_cached(
                "SELECT accepted_seq, position, version FROM removed WHERE stream = ?1 AND key = ?2",
            )?
            .query_row([stream, key], |row| {
                Ok(Removed {
                    order: (row.get(0)?, row.get(1)?),
                    version: row.get(2)?,
                })
            })
            .optional()
    }

    /// Remembers a removal with the number of its change; 0: nothing was there.
    pub(super) fn note(
        &mut self,
        connection: &Connection,
        stream: &Arc<str>,
        key: &str,
        removed: Removed,
        seq: u64,
    ) -> Result<(), rusqlite::Error> {
        let Removed { order, version } = removed;
        connection
            .prepare_cached(
                "INSERT INTO removed (stream, key, seq, accepted_seq, position, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (stream, key) DO UPDATE SET seq = max(excluded.seq, seq),
                 version = CASE WHEN excluded.version IS NULL AND (excluded.accepted_seq, excluded.position) > (accepted_seq, position)
                     THEN NULL ELSE max(coalesce(excluded.version, version), coalesce(version, excluded.version)) END,
                 position = CASE WHEN (excluded.accepted_seq, excluded.position) > (accepted_seq, position)
                     THEN excluded.position ELSE position END,
                 accepted_seq = max(excluded.accepted_seq, accepted_seq)",
            )?
            .execute(params![
                &**stream,
                key,
                seq.cast_signed(),
                order.0,
                order.1,
                version,
            ])?;
        match seq {
            0 if version.is_none() => self.absent.push((Arc::clone(stream), key.to_owned())),
            0 => self.forgetting.versions = true,
            _ => self.forgetting.told = true,
        }
        let last = self.last.entry(Arc::clone(stream)).or_insert(0);
        *last = order.0.max(*last);
        Ok(())
    }

    /// The end of a transaction: what was not there, and nothing older can bring, needs no tombstone.
    pub(super) fn finish(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if self.absent.is_empty() {
            return Ok(());
        }
        let low_water = low_water(connection)?;
        let mut forget = connection.prepare_cached(&format!(
            "DELETE FROM removed WHERE stream = ?1 AND key = ?2 AND seq = 0 AND version IS NULL AND accepted_seq <= ?3 AND {NO_LETTER}"
        ))?;
        for (stream, key) in self.absent.drain(..) {
            forget.execute(params![&*stream, key, low_water])?;
        }
        Ok(())
    }

    /// A chunk of what renderers are not told of any more; returns the number of the last one. What may still hold
    /// something older up stays, without a number.
    fn forget_published(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<i64>, rusqlite::Error> {
        let forgetting = &mut self.forgetting;
        if forgetting.excess.is_none() && forgetting.told {
            forgetting.excess = connection
                .prepare_cached(
                    "SELECT seq FROM removed WHERE seq > 0 ORDER BY seq DESC LIMIT 1 OFFSET ?1",
                )?
                .query_row([self.told_max], |row| row.get(0))
                .optional()?;
            forgetting.told = false;
        }
        let Some(excess) = forgetting.excess else {
            return Ok(None);
        };
        let through: Option<i64> = connection
            .prepare_cached(
                "SELECT max(seq) FROM (SELECT seq FROM removed WHERE seq > 0 AND seq <= ?1 ORDER BY seq LIMIT ?2)",
            )?
            .query_row(params![excess, CHUNK], |row| row.get(0))?;
        let Some(through) = through else {
            forgetting.excess = None;
            return Ok(None);
        };
        connection
            .prepare_cached(&format!(
                "DELETE FROM removed WHERE seq > 0 AND seq <= ?1 AND version IS NULL AND accepted_seq <= ?2 AND {NO_LETTER}"
            ))?
            .execute([through, low_water(connection)?])?;
        connection
            .prepare_cached("UPDATE removed SET seq = 0 WHERE seq > 0 AND seq <= ?1")?
            .execute([through])?;
        self.forgetting.versions = true;
        connection
            .prepare_cached("UPDATE history SET floor = max(floor, ?1)")?
            .execute([through])?;
        Ok(Some(through))
    }

    /// Looks at a chunk of the tombstones that renderers are not told of; true if there may be more.
    fn forget_others(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
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
        let low_water = low_water(connection)?;
        let rows = select.query_map(params![low_water, accepted_seq, stream, key], |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?))
        })?;
        let looked_at: Vec<((i64, String, String), bool)> = rows.collect::<Result<_, _>>()?;
        let mut forget =
            connection.prepare_cached("DELETE FROM removed WHERE stream = ?1 AND key = ?2")?;
        for ((_, stream, key), over) in &looked_at {
            if *over {
                forget.execute([stream, key])?;
            }
        }
        let more = looked_at.len() >= CHUNK as usize;
        if let Some((last, _)) = looked_at.into_iter().next_back() {
            forgetting.at = last;
        }
        Ok(more)
    }

    /// A chunk of the removals with a version that are too many; true if there may be more.
    fn forget_versions(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        if !self.forgetting.versions {
            return Ok(false);
        }
        let forgotten = connection
            .prepare_cached(
                "UPDATE removed SET version = NULL WHERE (stream, key) IN (
                     SELECT stream, key FROM removed INDEXED BY removed_versions
                     WHERE seq = 0 AND version IS NOT NULL AND accepted_seq <= (
                         SELECT accepted_seq FROM removed INDEXED BY removed_versions
                         WHERE seq = 0 AND version IS NOT NULL ORDER BY accepted_seq DESC LIMIT 1 OFFSET ?1)
                     ORDER BY accepted_seq LIMIT ?2)",
            )?
            .execute(params![VERSIONS_MAX, CHUNK])?;
        // What has none any more is looked at like the others.
        self.forgetting.versions = forgotten > 0;
        Ok(forgotten > 0)
    }
}

/// How an item was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// The place of the removal in the order of acceptance.
    pub(super) order: (i64, u32),
    /// What its source counted, or said the time was.
    pub(super) version: Option<i64>,
}

impl Removed {
    /// Whether an update is older.
    pub(super) fn is_after(&self, order: (i64, u32), version: Option<i64>) -> bool {
        match (self.version, version) {
            (Some(own), Some(other)) if own != other => own > other,
            _ => order <= self.order,
        }
    }
}

impl Pool {
    /// Remembers removals that a new sink may be behind: what it is about to be handed may be older. Blocks.
    ///
    /// # Errors
    /// SQLite's; nothing was remembered.
    pub fn remember_removals(&self, entries: &[Arc<Entry>]) -> Result<(), PoolError> {
        self.write(|writer| {
            writer.removals.begin();
            for entry in entries {
                let removals = entry.items.iter().zip(0..);
                for (item, position) in removals.filter(|(item, _)| item.action == Action::Remove) {
                    let removed = Removed {
                        order: (entry.seq.cast_signed(), position),
                        version: item.meta.version.map(Version::thousandths),
                    };
                    let (removals, stream) = (&mut writer.removals, &entry.stream);
                    removals.note(&writer.connection, stream, item.key, removed, 0)?;
                }
            }
            Ok(())
        })
    }

    /// Forgets removals that nobody needs any more, for a moment, or until `stop` says so. Blocks.
    pub fn forget_removed(&self, stop: impl Fn() -> bool) -> Result<(), PoolError> {
        if !self.may_forget()? {
            return Ok(());
        }
        let began = Instant::now();
        // The lock is given back between chunks: lanes go on meanwhile.
        while self.forget_chunk()? && began.elapsed() < FORGET_TIME && !stop() {}
        Ok(())
    }

    /// Whether it is worth a transaction to look.
    fn may_forget(&self) -> Result<bool, PoolError> {
        let writer = self.lock();
        let Forgetting {
            told,
            excess,
            versions,
            ..
        } = writer.removals.forgetting;
        let others = "SELECT EXISTS (SELECT 1 FROM removed WHERE seq = 0 AND version IS NULL)";
        Ok(told
            || versions
            || excess.is_some()
            || writer.connection.query_row(others, [], |row| row.get(0))?)
    }

    /// True if there may be more.
    fn forget_chunk(&self) -> Result<bool, PoolError> {
        let (floor, more) = self.write(|writer| {
            let connection = &writer.connection;
            let floor = writer.removals.forget_published(connection)?;
            let versions = writer.removals.forget_versions(connection)?;
            let more = writer.removals.forget_others(connection)?;
            Ok((floor, more || versions || floor.is_some()))
        })?;
        if let Some(floor) = floor {
            self.floor
                .fetch_max(floor.unsigned_abs(), std::sync::atomic::Ordering::AcqRel);
        }
        Ok(more)
    }
}
