//! Past values of fields: in streams with `history`, the last ones that each field of each item had, with the request that
//! wrote each.
//!
//! `apply` hands in what each operation changed. Operators read it ([`Pool::past_values`]), beside what they wrote themselves.
//!
//! A value is recorded by the transaction that applies it, which also takes away what is beyond `history`. Operations are
//! compared one by one, so that what is recorded does not depend on batches. A removal is recorded too, and an item that
//! comes back goes on where it was. What was recorded of a removed item goes with its tombstone: keys that come once and
//! never again do not fill the disk.
//!
//! **Invariant**: what was recorded up to the number where recording began is of another stream of that name, or of before
//! `history` was off: nobody sees it, and it goes. An operation is recorded once, also if it is applied again to a pool that
//! had lost it.

mod read;
mod sweep;

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::rules::{Place, State};
use super::{Pool, PoolError, Writer};
use base::clock::Unix;
use base::order::ChangeSeq;
use item::members;
pub use read::{PastKind, PastPlace, PastValue};
use sweep::Sweep;

/// The values, those of a field numbered from 1 on, and the streams whose values are recorded. `value` is null where a
/// request ended the field, and `removed` says that it removed the item. A stream that is `dirty` may have values beyond
/// `keep` or up to `since`.
pub(super) const TABLES_13: &str = "
CREATE TABLE past_values (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    field TEXT NOT NULL,
    n INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    accepted_seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    value TEXT,
    removed INTEGER NOT NULL,
    PRIMARY KEY (stream, key, field, n)
) WITHOUT ROWID;
CREATE TABLE recorded_streams (
    stream TEXT PRIMARY KEY,
    keep INTEGER NOT NULL,
    since INTEGER NOT NULL,
    dirty INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The number of the newest value of a field, and whether this operation is recorded already, because a pool that had
/// lost the operation applies it again.
const NEWEST: &str =
    "SELECT coalesce(max(n), 0), coalesce(max(accepted_seq = ?4 AND position = ?5), 0)
    FROM past_values WHERE stream = ?1 AND key = ?2 AND field = ?3";
const INSERT: &str = "INSERT INTO past_values (stream, key, field, n, seq, accepted_seq, position, at_ms, request_id, value, removed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const TRIM: &str =
    "DELETE FROM past_values WHERE stream = ?1 AND key = ?2 AND field = ?3 AND n <= ?4";

/// The streams whose values are recorded.
#[derive(Debug, Default)]
pub(super) struct Recording {
    wanted: HashMap<Arc<str>, u32>,
    /// As the file has them.
    of: HashMap<Arc<str>, Recorded>,
    sweep: Sweep,
    /// What was set is not written yet, or need not be.
    is_put_off: bool,
}

/// A stream whose values are recorded, or were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    /// So many values of each field; 0: none any more. If it is raised before what a lower one takes away is deleted, that
    /// is there again.
    keep: u32,
    /// What has a number up to this one counts no more.
    since: ChangeSeq,
    dirty: bool,
}

/// The operation that changed something.
#[derive(Debug, Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) place: Place,
    pub(super) received_at: Unix,
    pub(super) request_id: &'a str,
}

/// What one operation changed of an item.
#[derive(Debug)]
pub(super) struct Differences<'a> {
    by: By<'a>,
    /// Names as JSON writes them, with the values; none: the field is gone.
    fields: Vec<(String, Option<String>)>,
    /// With the whole item.
    removed: bool,
}

impl<'a> Differences<'a> {
    /// Between the fields of an item before and after; none: there is none. A value that an update repeats is not
    /// recorded, otherwise it would push out others.
    pub(super) fn between(before: Option<&str>, after: Option<&str>, by: By<'a>) -> Self {
        let mut left: HashMap<&str, &str> = members(before.unwrap_or("{}")).collect();
        let mut fields: Vec<(String, Option<String>)> = members(after.unwrap_or("{}"))
            .filter(|(name, value)| left.remove(name) != Some(*value))
            .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
            .collect();
        fields.extend(left.into_keys().map(|name| (name.to_owned(), None)));
        Self {
            by,
            fields,
            removed: after.is_none(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Part of the transaction that applies the operation. Of each field `keep` values stay.
    pub(super) fn record(
        &self,
        connection: &Connection,
        (stream, key): (&str, &str),
        keep: u32,
        seq: ChangeSeq,
    ) -> Result<(), rusqlite::Error> {
        let (accepted, position) = (self.by.place.0.to_column(), self.by.place.1.get());
        for (field, value) in &self.fields {
            let (newest, is_known): (i64, bool) = connection
                .prepare_cached(NEWEST)?
                .query_row(params![stream, key, field, accepted, position], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
            if is_known {
                continue;
            }
            let n = newest + 1;
            connection.prepare_cached(INSERT)?.execute(params![
                stream,
                key,
                field,
                n,
                seq.to_column(),
                accepted,
                position,
                self.by.received_at.to_column(),
                self.by.request_id,
                value,
                self.removed,
            ])?;
            let over = n - i64::from(keep);
            if over > 0 {
                connection
                    .prepare_cached(TRIM)?
                    .execute(params![stream, key, field, over])?;
            }
        }
        Ok(())
    }
}

/// The fields of the item, if there is one.
pub(super) fn fields_of<'a>(state: &State<'a>) -> Option<std::borrow::Cow<'a, str>> {
    state.item.as_ref().map(|item| item.fields.json())
}

impl Recording {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut select =
            connection.prepare("SELECT stream, keep, since, dirty FROM recorded_streams")?;
        let rows = select.query_map([], |row| {
            let recorded = Recorded {
                keep: row.get(1)?,
                since: ChangeSeq::from_column(row.get(2)?),
                dirty: row.get(3)?,
            };
            Ok((row.get(0)?, recorded))
        })?;
        Ok(Self {
            of: rows.collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// The same of a file that another node has changed; what is set stays.
    pub(super) fn load_anew(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        self.of = Self::load(connection)?.of;
        self.sweep = Sweep::default();
        Ok(())
    }

    /// How many values of each field are kept of this stream.
    pub(super) fn keep(&self, stream: &str) -> u32 {
        self.of.get(stream).map_or(0, |recorded| recorded.keep)
    }

    /// The tombstone of a key is gone: what was recorded of its item goes, too, unless it is back.
    pub(super) fn forget(
        &self,
        connection: &Connection,
        stream: &str,
        key: &str,
    ) -> Result<(), rusqlite::Error> {
        if self.keep(stream) > 0 {
            let sql = "DELETE FROM past_values WHERE stream = ?1 AND key = ?2
                AND NOT EXISTS (SELECT 1 FROM items WHERE stream = ?1 AND key = ?2)";
            connection.prepare_cached(sql)?.execute([stream, key])?;
        }
        Ok(())
    }

    /// What the file is to have of streams where that is something else than it has, at this number.
    fn differing(&self, now: ChangeSeq) -> Vec<(Arc<str>, Recorded)> {
        let gone = self.of.iter().filter_map(|(stream, has)| {
            let is_gone = has.keep > 0 && !self.wanted.contains_key(stream);
            let off = Recorded {
                keep: 0,
                dirty: true,
                ..*has
            };
            is_gone.then(|| (Arc::clone(stream), off))
        });
        let set = self.wanted.iter().filter_map(|(stream, &keep)| {
            let to = match self.of.get(stream) {
                Some(has) if has.keep == keep => return None,
                Some(has) if has.keep > 0 => Recorded {
                    keep,
                    since: has.since,
                    dirty: has.dirty || keep < has.keep,
                },
                has => Recorded {
                    keep,
                    since: now,
                    dirty: has.is_some(),
                },
            };
            Some((Arc::clone(stream), to))
        });
        gone.chain(set).collect()
    }
}

impl Pool {
    /// From now on so many values of each field are kept of these streams, and none of others. If that cannot be written
    /// now, it is when values are [swept](Pool::sweep_past_values). Blocks.
    pub fn set_history(&self, keep: HashMap<Arc<str>, u32>) {
        let is_logged = {
            let mut writer = self.lock();
            writer.recording.wanted = keep;
            writer.recording.is_put_off = true;
            writer.commits.are_logged()
        };
        // With a log this may be behind, and who follows may wait for whoever calls this: what is settled next writes it.
        if is_logged {
            return;
        }
        if let Err(error) = self.apply_history() {
            tracing::warn!(%error, "what is set of the history of streams counts a little later");
        }
    }

    /// Has the file say what is set, if that was put off. Blocks.
    ///
    /// # Errors
    /// SQLite's; the log's.
    pub fn write_history(&self) -> Result<(), PoolError> {
        let is_put_off = self.lock().recording.is_put_off;
        match is_put_off {
            true => self.apply_history(),
            false => Ok(()),
        }
    }

    /// Has the file say what is set.
    fn apply_history(&self) -> Result<(), PoolError> {
        {
            let mut writer = self.lock();
            if writer.recording.differing(writer.seq).is_empty() {
                writer.recording.is_put_off = false;
                return Ok(());
            }
        }
        let store = |writer: &mut Writer| {
            let differing = writer.recording.differing(writer.seq);
            for (stream, to) in &differing {
                writer
                    .connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO recorded_streams (stream, keep, since, dirty) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![&**stream, to.keep, to.since.to_column(), to.dirty])?;
            }
            Ok(differing)
        };
        self.write_then(store, |writer, differing| {
            writer.recording.of.extend(differing);
            writer.recording.sweep = Sweep::default();
            writer.recording.is_put_off = false;
        })
    }
}
