//! Writing the items of a batch.
//!
//! **Invariant**: of updates of one item in a batch the last one that counts is written, once. What was left behind by a
//! higher version is in the log.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{CachedStatement, params};

use super::merged::{Merged, merge_into_pool};
use super::{Target, stored};
use crate::change_set::ChangeSet;
use crate::changes::Change;
use crate::merge::Order;
use crate::sizes;
use crate::tombstones::Removed;
use base::clock::{self, Lived, Unix};
use item::batch::{Batch, Slice};
use item::{ItemRef, Version};
use settings::OnUpdate;

/// An unchanged item is written all the same: its `updated_at` tells that the source lives, and its
/// `accepted_seq` guards against older requests that are retried.
const UPSERT: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position, merged, version, expires_ms) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     updated_at = excluded.updated_at, request_id = excluded.request_id, \
     accepted_seq = excluded.accepted_seq, position = excluded.position, merged = excluded.merged, \
     version = excluded.version, expires_ms = excluded.expires_ms \
     WHERE iif(excluded.version <> items.version, excluded.version > items.version, \
     excluded.accepted_seq > items.accepted_seq \
     OR (excluded.accepted_seq = items.accepted_seq AND excluded.position > items.position)) \
     AND headgate_replaces(octet_length(items.fields))";

/// One item of the batch with what the row needs beside it.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) stream: &'a Arc<str>,
    pub(super) item: ItemRef<'a>,
    position: u32,
    origin: &'a Origin,
}

impl Row<'_> {
    /// Its place in the order of acceptance.
    pub(super) fn order(&self) -> Order {
        (self.origin.accepted_seq, self.position)
    }

    pub(super) fn version(&self) -> Option<i64> {
        self.item.meta.version.map(Version::thousandths)
    }

    /// When it goes if nothing renews it.
    fn expires_at(&self) -> Option<Lived> {
        let seconds = self.item.meta.expire_after_seconds?;
        Some(Lived::now() + Duration::from_secs(seconds.get().into()))
    }
}

pub(super) struct Origin {
    accepted_seq: i64,
    received_at: Unix,
    time: String,
    request_id: String,
}

/// Writes every item of the batch. Renderers hear of it if `published`.
pub(crate) fn upsert(
    target: &mut Target<'_>,
    batch: &Batch,
    published: bool,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let connection = target.connection;
    let origins: Vec<Origin> = batch.slices().iter().map(origin).collect();
    let rows = rows_by_key(target, batch, &origins)?;
    let mut upsert = Upsert {
        statement: connection.prepare_cached(UPSERT)?,
        bound: None,
    };
    for same in rows.chunk_by(|a, b| a.item.key == b.item.key && a.stream == b.stream) {
        let Some(oldest) = same.first() else { continue };
        let (stream, key) = (oldest.stream, oldest.item.key);
        let merges = target.on_update.get(stream).copied() == Some(OnUpdate::Merge);
        let has_version = same.iter().any(|row| row.version().is_some());
        let removals = &target.removals;
        let removed = removals.of(connection, stream, key, oldest.order(), has_version)?;
        let versions;
        let same = match has_version {
            false => {
                let is_after = |row: &Row<'_>| {
                    removed.is_some_and(|removed| removed.is_after(row.order(), None))
                };
                &same[same.partition_point(is_after)..]
            }
            true => {
                versions = target.by_version(same, removed, merges)?;
                &versions
            }
        };
        let Some(last) = same.last() else { continue };
        let merged = match merges {
            true => merge_into_pool(connection, same, pass.next(), target.counting)?,
            false => Merged::No,
        };
        let (fields, merged) = match &merged {
            Merged::No => (last.item.fields, None),
            Merged::Newer { fields, merged } => (&**fields, merged.as_deref()),
            Merged::FilledIn { fields, updated_at } => {
                if published {
                    pass.publish(stream, Unix::MIN, |seq| {
                        Change::updated(seq, key, fields, updated_at)
                    });
                } else {
                    pass.keep_quiet();
                }
                continue;
            }
            Merged::Known => continue,
        };
        sizes::begin_upsert();
        if !upsert.write(last, fields, merged, pass.next())? {
            for row in same {
                target.note_if_stale(row)?;
            }
            continue;
        }
        (target.counting).wrote(stream, key, fields, sizes::replaced());
        if published {
            pass.publish(stream, last.origin.received_at, |seq| {
                Change::updated(seq, key, fields, &last.origin.time)
            });
        } else {
            pass.keep_quiet();
        }
    }
    Ok(())
}

/// The rows of a batch by their keys: neighbours in the table are written together. Their streams get their views.
fn rows_by_key<'a>(
    target: &mut Target<'_>,
    batch: &'a Batch,
    origins: &'a [Origin],
) -> Result<Vec<Row<'a>>, rusqlite::Error> {
    let mut rows = Vec::with_capacity(batch.len() as usize);
    for (slice, origin) in batch.slices().iter().zip(origins) {
        let stream = &slice.entry.stream;
        let first = rows.len();
        rows.extend(slice.items().map(|(position, item)| Row {
            stream,
            item,
            position,
            origin,
        }));
        let new = rows[first..].iter().map(|row: &Row<'_>| &row.item);
        target.views.note(stream, new);
    }
    target.views.store(target.connection)?;
    rows.sort_by(|a, b| {
        let (a_place, b_place) = ((a.stream, a.item.key), (b.stream, b.item.key));
        (a_place, a.order()).cmp(&(b_place, b.order()))
    });
    Ok(rows)
}

/// The statement that writes a row.
struct Upsert<'a> {
    statement: CachedStatement<'a>,
    /// Of an array nearly every row has these in common, and they stay bound.
    bound: Option<(&'a Arc<str>, &'a Origin)>,
}

impl<'a> Upsert<'a> {
    /// Whether the row was written: not if what is there is newer.
    fn write(
        &mut self,
        row: &Row<'a>,
        fields: &str,
        merged: Option<&str>,
        seq: i64,
    ) -> Result<bool, rusqlite::Error> {
        let is_bound = |(stream, origin): (&Arc<str>, &Origin)| {
            stream == row.stream && std::ptr::eq(origin, row.origin)
        };
        let statement = &mut self.statement;
        if !self.bound.is_some_and(is_bound) {
            self.bound = Some((row.stream, row.origin));
            statement.raw_bind_parameter(1, &**row.stream)?;
            statement.raw_bind_parameter(5, &row.origin.time)?;
            statement.raw_bind_parameter(6, &row.origin.request_id)?;
            statement.raw_bind_parameter(7, row.origin.accepted_seq)?;
        }
        statement.raw_bind_parameter(2, row.item.key)?;
        statement.raw_bind_parameter(3, fields)?;
        statement.raw_bind_parameter(4, seq)?;
        statement.raw_bind_parameter(8, row.position)?;
        statement.raw_bind_parameter(9, merged)?;
        statement.raw_bind_parameter(10, row.version())?;
        statement.raw_bind_parameter(11, row.expires_at().map(Lived::to_column))?;
        Ok(statement.raw_execute()? > 0)
    }
}

impl Target<'_> {
    /// Updates of one item, some of them with a version, without those that a higher version has left behind; the one
    /// that counts is the last.
    fn by_version<'a>(
        &self,
        same: &[Row<'a>],
        removed: Option<Removed>,
        merges: bool,
    ) -> Result<Vec<Row<'a>>, rusqlite::Error> {
        let mut rows: Vec<Row<'a>> = Vec::with_capacity(same.len());
        let mut highest = match same.first() {
            Some(row) => stored(self.connection, row.stream, row.item.key)?
                .filter(|_| merges)
                .and_then(|row| row.version),
            None => None,
        };
        for row in same {
            let is_removed = removed.is_some_and(|one| one.is_after(row.order(), row.version()));
            let is_lower =
                matches!((highest, row.version()), (Some(highest), Some(own)) if own < highest);
            if is_removed || is_lower {
                let by_version = |one: Removed| one.version.is_some() && row.version().is_some();
                if is_lower || removed.is_some_and(by_version) {
                    self.note_stale(row)?;
                }
                continue;
            }
            // One without a version leaves it to the order again, as in the table.
            highest = row.version();
            rows.push(row.clone());
        }
        Ok(rows)
    }

    /// The same, if it was left out for its version and not because it is there already.
    fn note_if_stale(&self, row: &Row<'_>) -> Result<(), rusqlite::Error> {
        if row.version().is_none() {
            return Ok(());
        }
        match stored(self.connection, row.stream, row.item.key)? {
            Some(there) if there.version > row.version() && there.order < row.order() => {
                self.note_stale(row)
            }
            _ => Ok(()),
        }
    }

    /// The log is to say that it changed nothing.
    fn note_stale(&self, row: &Row<'_>) -> Result<(), rusqlite::Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO stale (sink, seq, items) VALUES (?1, ?2, 1)
                 ON CONFLICT (sink, seq) DO UPDATE SET items = items + 1",
            )?
            .execute(params![self.sink, row.origin.accepted_seq])?;
        Ok(())
    }
}

fn origin(slice: &Slice) -> Origin {
    Origin {
        accepted_seq: slice.entry.seq.cast_signed(),
        received_at: slice.entry.received_at,
        time: clock::rfc3339(slice.entry.received_at),
        request_id: slice.entry.request_id.to_string(),
    }
}
