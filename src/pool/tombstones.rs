//! Remembering for a while that items were removed.
//!
//! A removal leaves a row in `removed`, a tombstone, for two readers. Requests that were accepted before it and are
//! delivered after it do not bring the item back: for them it stays as long as such a request can still arrive. And
//! renderers that come back learn of it: for them the newest ones are kept, by count. One that is not
//! published (nothing was there) has the number 0 and is only for the first.
//!
//! A removal with a version of its source is remembered longer: what is older by that version may come from outside at any
//! time. The newest of these are kept, by count.
//!
//! Nothing here looks at a clock: how far every sink has come says what can still arrive. One that never writes the pool counts,
//! too, because it may make a dead letter that is sent again; but where it is far behind, the newest tombstones are kept for it,
//! by count.
//!
//! **Invariant**: when a removal cannot be published to renderers any more, the history's floor has risen to it: nobody
//! resumes from before it and misses it.

mod forgetting;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::past_values::Recording;
use super::rules::{self, Place};
use super::version_column::{self, Column};
use super::{Pool, PoolError, Writer};
use base::order::{ChangeSeq, ItemPosition, Seq};
use forgetting::Forgetting;
use item::batch::{Action, Entry};
use item::{ItemRef, Version};

/// Removals that are published to renderers that come back: the newest ones. Beyond it a renderer reads all items
/// again, which costs less than keeping every removal.
const PUBLISHED_MAX: i64 = 100_000;
/// Removals with a version that nothing else needs: the newest ones of each stream. Something older may come from
/// outside at any time, so no other limit ends them.
const VERSIONS_MAX: i64 = 100_000;
/// A dead letter from before the removal may be sent again at any time, and must not bring the item back. A
/// sink may have put it into another stream, but never under another key.
const NO_LETTER: &str = "NOT EXISTS (SELECT 1 FROM dead_letters AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq AND letter.removal = 0)
    AND NOT EXISTS (SELECT 1 FROM resends AS letter WHERE letter.key = removed.key AND letter.seq <= removed.accepted_seq AND letter.removal = 0)";

/// Everything up to here is behind every sink that may write the pool, waiting retries included; `?1` lists the others.
pub(super) const SETTLED: &str = "SELECT min(
    coalesce((SELECT min(seq) FROM cursors WHERE sink NOT IN (SELECT value FROM json_each(?1))), 9223372036854775807),
    coalesce((SELECT min(first_seq) FROM retries WHERE resent = 0 AND sink NOT IN (SELECT value FROM json_each(?1))) - 1, 9223372036854775807))";

/// What is known of the tombstones without looking.
#[derive(Debug)]
pub(super) struct Removals {
    /// For each stream what was removed of it.
    of: HashMap<Arc<str>, OfStream>,
    /// What this transaction removed and was not there.
    absent: Vec<(Arc<str>, String)>,
    /// Sinks that never write the pool, as a JSON list: what they are behind of brings nothing back by itself.
    bystanders: String,
    /// How many are published to renderers that come back.
    published_max: i64,
    /// How many with a version are kept of each stream.
    versions_max: i64,
    forgetting: Forgetting,
    /// Another node has changed the file since.
    pub(super) is_outdated: bool,
}

/// What is known of the tombstones of a stream.
#[derive(Debug, Clone, Copy)]
struct OfStream {
    /// The last operation that removed something: later ones without a version need not look, unless one has a version.
    last: Place,
    /// Some of them may have a version.
    versions: bool,
}

impl Removals {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement = connection.prepare(
            "SELECT stream, max(accepted_seq), count(version) FROM removed GROUP BY stream",
        )?;
        let rows = statement.query_map([], |row| {
            let of_stream = OfStream {
                last: (Seq::from_column(row.get(1)?), ItemPosition::MAX),
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
            published_max: PUBLISHED_MAX,
            versions_max: VERSIONS_MAX,
            forgetting: Forgetting {
                has_published: true,
                versions,
                ..Forgetting::default()
            },
            is_outdated: false,
        })
    }

    /// The same of a file that another node has changed; what is set stays.
    pub(super) fn load_anew(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let now = Self::load(connection)?;
        (self.of, self.forgetting, self.is_outdated) = (now.of, now.forgetting, false);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn keep_published(&mut self, published_max: i64) {
        self.published_max = published_max;
    }

    #[cfg(test)]
    pub(super) fn keep_versions(&mut self, versions_max: i64) {
        self.versions_max = versions_max;
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.absent.clear();
    }

    /// Whether an update without a version that was accepted at this place may meet a removal that matters to it. It is
    /// asked first, so that updates of a stream without removals need no look into the file.
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
                    place: rules::place(row.get(0)?, row.get(1)?),
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
                removed.place.0.to_column(),
                removed.place.1.get(),
                reached.map(|(version, _)| Column(*version)),
                reached.map(|(_, text)| text),
            ])?;
        match (seq, reached) {
            (None, None) => self.absent.push((Arc::clone(stream), key.to_owned())),
            (None, Some(_)) => {
                self.forgetting.versions.insert(Arc::clone(stream));
            }
            _ => self.forgetting.has_published = true,
        }
        self.know(stream, removed);
        Ok(())
    }

    /// Publishes to renderers under this number that the key is gone, although no removal of its source says so; 0: nothing is
    /// published, also not a removal that says so.
    pub(super) fn show(
        &mut self,
        connection: &Connection,
        stream: &Arc<str>,
        key: &str,
        seq: ChangeSeq,
    ) -> Result<(), rusqlite::Error> {
        let sql = match seq {
            ChangeSeq::MIN => "UPDATE removed SET seq = ?3 WHERE stream = ?1 AND key = ?2",
            _ => "INSERT INTO removed (stream, key, seq, accepted_seq, position) VALUES (?1, ?2, ?3, 0, 0)
                  ON CONFLICT (stream, key) DO UPDATE SET seq = excluded.seq",
        };
        let values = params![&**stream, key, seq.to_column()];
        connection.prepare_cached(sql)?.execute(values)?;
        self.forgetting.has_published = true;
        self.of.entry(Arc::clone(stream)).or_insert(OfStream {
            last: Place::default(),
            versions: false,
        });
        Ok(())
    }

    fn know(&mut self, stream: &Arc<str>, removed: &Removed) {
        let known = self.of.entry(Arc::clone(stream)).or_insert(OfStream {
            last: Place::default(),
            versions: false,
        });
        known.last = known.last.max(removed.place);
        known.versions |= removed.reached.is_some();
    }

    /// The end of a transaction: what was not there, and nothing older can bring, needs no tombstone.
    pub(super) fn finish(
        &mut self,
        connection: &Connection,
        recording: &Recording,
    ) -> Result<(), rusqlite::Error> {
        if self.absent.is_empty() {
            return Ok(());
        }
        let settled = settled_by_all(connection)?;
        let mut forget = connection.prepare_cached(&format!(
            "DELETE FROM removed WHERE stream = ?1 AND key = ?2 AND seq = 0 AND version IS NULL AND accepted_seq <= ?3 AND {NO_LETTER}"
        ))?;
        for (stream, key) in self.absent.drain(..) {
            if forget.execute(params![&*stream, key, settled.to_column()])? > 0 {
                recording.forget(connection, &stream, &key)?;
            }
        }
        Ok(())
    }

    /// What sinks that never write the pool are behind of counts as settled.
    fn settled(&self, connection: &Connection) -> Result<Seq, rusqlite::Error> {
        settled_but_for(connection, &self.bystanders)
    }
}

fn settled_by_all(connection: &Connection) -> Result<Seq, rusqlite::Error> {
    settled_but_for(connection, "[]")
}

fn settled_but_for(connection: &Connection, sinks: &str) -> Result<Seq, rusqlite::Error> {
    connection
        .prepare_cached(SETTLED)?
        .query_row([sinks], |row| row.get(0).map(Seq::from_column))
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
                    let place = (entry.seq, ItemPosition::new(position));
                    writer.remember(&entry.stream, &item, place)?;
                }
            }
            Ok(())
        })
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
