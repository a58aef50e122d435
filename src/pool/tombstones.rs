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
//! Nothing here looks at a clock: how far every sink that may write the pool has come says what can still arrive.
//!
//! **Invariant**: when renderers cannot be told of a removal any more, the history's floor has risen to it: nobody
//! resumes from before it and misses it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::rules::{self, Place};
use super::version_column::{self, Column};
use super::{Pool, PoolError, Writer};
use base::order::ChangeSeq;
use item::batch::{Action, Entry};
use item::{ItemRef, Version};

/// Removals that renderers can be told of: the newest ones.
const TOLD_MAX: i64 = 100_000;
/// Removals with a version that nothing else needs: the newest ones of each stream.
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

/// Everything up to here is behind every sink that may write the pool, waiting retries included; `?1` lists the others.
const SETTLED: &str = "SELECT min(
    coalesce((SELECT min(seq) FROM cursors WHERE sink NOT IN (SELECT value FROM json_each(?1))), 9223372036854775807),
    coalesce((SELECT min(first_seq) FROM retries WHERE resent = 0 AND sink NOT IN (SELECT value FROM json_each(?1))) - 1, 9223372036854775807))";

/// What is known of the tombstones without looking.
#[derive(Debug)]
pub(super) struct Removals {
    /// For each stream what was removed of it.
    of: HashMap<Arc<str>, OfStream>,
    /// What this transaction removed and was not there.
    absent: Vec<(Arc<str>, String)>,
    /// Sinks that never write the pool, as a JSON list: what they are behind of brings nothing back.
    bystanders: String,
    /// How many renderers can be told of.
    told_max: i64,
    /// How many with a version are kept of each stream.
    versions_max: i64,
    forgetting: Forgetting,
}

/// What is known of the tombstones of a stream.
#[derive(Debug, Clone, Copy)]
struct OfStream {
    /// The last operation that removed something: later ones without a version need not look, unless one has a version.
    last: Place,
    /// Some of them may have a version.
    versions: bool,
}

/// How far forgetting has come.
#[derive(Debug, Default)]
struct Forgetting {
    /// Renderers were told of removals since the excess was counted.
    told: bool,
    /// Up to this number there are more than are kept for renderers.
    excess: Option<ChangeSeq>,
    /// Streams with removals that have a version and were not counted yet.
    versions: HashSet<Arc<str>>,
    /// Up to here tombstones without a number were looked at: request, stream and key.
    at: (i64, String, String),
    /// When it began at the first one.
    began: Option<Instant>,
}

impl Removals {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement = connection.prepare(
            "SELECT stream, max(accepted_seq), count(version) FROM removed GROUP BY stream",
        )?;
        let rows = statement.query_map([], |row| {
            let of_stream = OfStream {
                last: (row.get(1)?, u32::MAX),
                versions: row.get::<_, i64>(2)? > 0,
            };
            Ok((row.get::<_, String>(0)?.into(), of_stream))
        })?;
        let of: HashMap<Arc<str>, OfStream> = rows.collect::<Result<_, _>>()?;
        let with_versions = of.iter().filter(|(_, one)| one.versions);
        let versions = with_versions
            .map(|(stream, _)| Arc::clone(stream))
            .collect();
        Ok(Self {
            of,
            absent: Vec::new(),
            bystanders: "[]".to_owned(),
            told_max: TOLD_MAX,
            versions_max: VERSIONS_MAX,
            forgetting: Forgetting {
                told: true,
                versions,
                ..Forgetting::default()
            },
        })
    }

    #[cfg(test)]
    pub(super) fn keep_published(&mut self, told_max: i64) {
        self.told_max = told_max;
    }

    #[cfg(test)]
    pub(super) fn keep_versions(&mut self, versions_max: i64) {
        self.versions_max = versions_max;
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.absent.clear();
    }

    /// Whether an update without a version that was accepted at this place may meet a removal that matters to it.
    pub(super) fn concern(&self, stream: &str, place: Place) -> bool {
        let of = self.of.get(stream);
        of.is_some_and(|of| of.versions || rules::is_behind(place, of.last))
    }

    /// How the item was removed, if that is known.
    pub(super) fn of(
        &self,
        connection: &Connection,
        stream: &str,
        key: &str,
    ) -> Result<Option<Removed>, rusqlite::Error> {
        if !self.of.contains_key(stream) {
            return Ok(None);
        }
        connection
            .prepare_cached(
                "SELECT accepted_seq, position, version, version_text FROM removed WHERE stream = ?1 AND key = ?2",
            )?
            .query_row([stream, key], |row| {
                Ok(Removed {
                    place: (row.get(0)?, row.get(1)?),
                    reached: version_column::with_text(row, 2)?,
                })
            })
            .optional()
    }

    /// Remembers a removal, and what its key has reached, with the number of its change; none: nothing was there.
    pub(super) fn note(
        &mut self,
        connection: &Connection,
        stream: &Arc<str>,
        key: &str,
        removed: &Removed,
        seq: Option<ChangeSeq>,
    ) -> Result<(), rusqlite::Error> {
        let reached = removed.reached.as_ref();
        connection
            .prepare_cached(
                "INSERT INTO removed (stream, key, seq, accepted_seq, position, version, version_text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (stream, key) DO UPDATE SET seq = max(excluded.seq, seq), accepted_seq = excluded.accepted_seq,
                 position = excluded.position, version = excluded.version, version_text = excluded.version_text",
            )?
            .execute(params![
                &**stream,
                key,
                seq.map_or(0, ChangeSeq::to_column),
                removed.place.0,
                removed.place.1,
                reached.map(|(version, _)| Column(*version)),
                reached.map(|(_, text)| text),
            ])?;
        match (seq, reached) {
            (None, None) => self.absent.push((Arc::clone(stream), key.to_owned())),
            (None, Some(_)) => {
                self.forgetting.versions.insert(Arc::clone(stream));
            }
            _ => self.forgetting.told = true,
        }
        self.know(stream, removed);
        Ok(())
    }

    fn know(&mut self, stream: &Arc<str>, removed: &Removed) {
        let known = self.of.entry(Arc::clone(stream)).or_insert(OfStream {
            last: (0, 0),
            versions: false,
        });
        known.last = known.last.max(removed.place);
        known.versions |= removed.reached.is_some();
    }

    /// The end of a transaction: what was not there, and nothing older can bring, needs no tombstone.
    pub(super) fn finish(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if self.absent.is_empty() {
            return Ok(());
        }
        let settled = self.settled(connection)?;
        let mut forget = connection.prepare_cached(&format!(
            "DELETE FROM removed WHERE stream = ?1 AND key = ?2 AND seq = 0 AND version IS NULL AND accepted_seq <= ?3 AND {NO_LETTER}"
        ))?;
        for (stream, key) in self.absent.drain(..) {
            forget.execute(params![&*stream, key, settled])?;
        }
        Ok(())
    }

    fn settled(&self, connection: &Connection) -> Result<i64, rusqlite::Error> {
        connection
            .prepare_cached(SETTLED)?
            .query_row([&self.bystanders], |row| row.get(0))
    }

    /// A chunk of what renderers are not told of any more; returns the number of the last one. What may still hold
    /// something older up stays, without a number.
    fn forget_published(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<ChangeSeq>, rusqlite::Error> {
        let forgetting = &mut self.forgetting;
        if forgetting.excess.is_none() && forgetting.told {
            forgetting.excess = connection
                .prepare_cached(
                    "SELECT seq FROM removed WHERE seq > 0 ORDER BY seq DESC LIMIT 1 OFFSET ?1",
                )?
                .query_row([self.told_max], |row| {
                    row.get(0).map(ChangeSeq::from_column)
                })
                .optional()?;
            forgetting.told = false;
        }
        let Some(excess) = forgetting.excess else {
            return Ok(None);
        };
        let settled = self.settled(connection)?;
        let through: Option<i64> = connection
            .prepare_cached(
                "SELECT max(seq) FROM (SELECT seq FROM removed WHERE seq > 0 AND seq <= ?1 ORDER BY seq LIMIT ?2)",
            )?
            .query_row(params![excess.to_column(), CHUNK], |row| row.get(0))?;
        let Some(through) = through else {
            self.forgetting.excess = None;
            return Ok(None);
        };
        connection
            .prepare_cached(&format!(
                "DELETE FROM removed WHERE seq > 0 AND seq <= ?1 AND version IS NULL AND accepted_seq <= ?2 AND {NO_LETTER}"
            ))?
            .execute([through, settled])?;
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

    /// Looks at a chunk of the tombstones that renderers are not told of; true if there may be more.
    fn forget_others(&mut self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let settled = self.settled(connection)?;
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
        let rows = select.query_map(params![settled, accepted_seq, stream, key], |row| {
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

/// Forgets how an item was removed: it is back, and its row says what its key has reached.
pub(super) fn forget(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<(), rusqlite::Error> {
    let sql = "DELETE FROM removed WHERE stream = ?1 AND key = ?2";
    connection.prepare_cached(sql)?.execute([stream, key])?;
    Ok(())
}

/// How an item was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removed {
    /// The last operation that changed the key.
    pub(super) place: Place,
    /// What the key has reached, and its text.
    pub(super) reached: Option<(Version, String)>,
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
                    let place = (entry.seq.cast_signed(), position);
                    writer.remember(&entry.stream, &item, place)?;
                }
            }
            Ok(())
        })
    }

    /// Forgets removals that nobody needs any more, for a moment, or until `stop` says so. How far `bystanders` are does not
    /// matter to it: they never write the pool. Blocks.
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

    /// Whether it is worth a transaction to look.
    fn may_forget(&self) -> Result<bool, PoolError> {
        let writer = self.lock();
        let Forgetting {
            told,
            excess,
            versions,
            ..
        } = &writer.removals.forgetting;
        let others = "SELECT EXISTS (SELECT 1 FROM removed WHERE seq = 0 AND version IS NULL)";
        Ok(*told
            || !versions.is_empty()
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
                .fetch_max(floor.get(), std::sync::atomic::Ordering::AcqRel);
        }
        Ok(more)
    }
}

impl Writer {
    /// Remembers a removal of which nothing is known, if the key has no item and no other removal.
    fn remember(
        &mut self,
        stream: &Arc<str>,
        item: &ItemRef<'_>,
        place: Place,
    ) -> Result<(), rusqlite::Error> {
        let known = "SELECT EXISTS (SELECT 1 FROM items WHERE stream = ?1 AND key = ?2)
            OR EXISTS (SELECT 1 FROM removed WHERE stream = ?1 AND key = ?2)";
        let mut known = self.connection.prepare_cached(known)?;
        if known.query_row([&**stream, item.key], |row| row.get(0))? {
            return Ok(());
        }
        let text = item.version_text().map(Cow::into_owned);
        let reached = item.meta.version.zip(text);
        let removed = Removed { place, reached };
        (self.removals).note(&self.connection, stream, item.key, &removed, None)
    }
}
