//! Applying staged effects to the table `items`.
//!
//! **Invariant**: what was accepted later wins, unless both have a version and the other's is higher: a row is
//! overwritten only by a request accepted later,
//! or by a later item of the same request, and a removed item comes back only with a request accepted
//! after its removal, and only with what came after it. In whatever order a sink hands items over, the outcome is
//! that of the order of acceptance. Every change takes the next number of the one sequence.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::changes::Change;
use super::merge::{Fields, Order};
use super::pass::Pass;
use super::removal::{self, Removed};
use super::sizes::{self, Counting};
use super::views::Views;
use crate::batch::{Batch, Slice};
use crate::clock;
use crate::config::OnUpdate;
use crate::item::{self, ItemRef, Standing};

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
const SELECT: &str = "SELECT fields, merged, accepted_seq, position, updated_at, version FROM items WHERE stream = ?1 AND key = ?2";
const SET_FIELDS: &str =
    "UPDATE items SET fields = ?3, merged = ?4, seq = ?5 WHERE stream = ?1 AND key = ?2";
const DELETE: &str = "DELETE FROM items WHERE stream = ?1 AND key = ?2";
const TOUCH: &str = "UPDATE items SET seq = ?3 WHERE stream = ?1 AND key = ?2";

/// One item of the batch with what the row needs beside it.
#[derive(Clone)]
struct Row<'a> {
    stream: &'a Arc<str>,
    item: ItemRef<'a>,
    position: u32,
    origin: &'a Origin,
}

impl Row<'_> {
    /// Its place in the order of acceptance.
    fn order(&self) -> Order {
        (self.origin.accepted_seq, self.position)
    }

    fn version(&self) -> Option<i64> {
        self.item.standing.version
    }

    /// When it goes if nothing renews it: milliseconds of time lived.
    fn expires_ms(&self) -> Option<i64> {
        let seconds = self.item.standing.expire_after_seconds?;
        let ms = clock::lived_ms() + u64::from(seconds.get()) * 1_000;
        Some(ms.cast_signed())
    }
}

struct Origin {
    accepted_seq: i64,
    received_ms: u64,
    time: String,
    request_id: String,
}

/// What an upsert works with beside the batch.
pub(super) struct Target<'a> {
    pub(super) connection: &'a Connection,
    pub(super) views: &'a mut Views,
    pub(super) on_update: &'a HashMap<Arc<str>, OnUpdate>,
    pub(super) removals: &'a mut removal::Removals,
    pub(super) counting: &'a mut Counting,
    /// Who does it.
    pub(super) sink: &'a str,
}

/// Writes every item of the batch. Renderers hear of it if `published`.
pub(super) fn upsert(
    target: &mut Target<'_>,
    batch: &Batch,
    published: bool,
    pass: &mut Pass<'_>,
) -> Result<(), rusqlite::Error> {
    let connection = target.connection;
    let origins: Vec<Origin> = batch.slices().iter().map(origin).collect();
    let mut rows = Vec::with_capacity(batch.len() as usize);
    for (slice, origin) in batch.slices().iter().zip(&origins) {
        let stream = &slice.entry.stream;
        let first = rows.len();
        rows.extend(slice.items().map(|(position, item)| Row {
            stream,
            item,
            position,
            origin,
        }));
        target
            .views
            .note(stream, rows[first..].iter().map(|row| &row.item));
    }
    target.views.store(connection)?;
    // By key: neighbours in the table are written together.
    rows.sort_by(|a, b| {
        let (a_place, b_place) = ((a.stream, a.item.key), (b.stream, b.item.key));
        (a_place, a.order()).cmp(&(b_place, b.order()))
    });
    let mut upsert = connection.prepare_cached(UPSERT)?;
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
                    pass.tell(stream, 0, |seq| {
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
        let written = upsert.execute(params![
            &**stream,
            key,
            fields,
            pass.next(),
            last.origin.time,
            last.origin.request_id,
            last.origin.accepted_seq,
            last.position,
            merged,
            last.version(),
            last.expires_ms(),
        ])?;
        if written == 0 {
            for row in same {
                target.note_if_stale(row)?;
            }
            continue;
        }
        (target.counting).wrote(stream, key, fields, sizes::replaced());
        if published {
            pass.tell(stream, last.origin.received_ms, |seq| {
                Change::updated(seq, key, fields, &last.origin.time)
            });
        } else {
            pass.keep_quiet();
        }
    }
    Ok(())
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

/// Removes every item of the batch, as far as it was not accepted later, and remembers that.
pub(super) fn delete(
    target: &mut Target<'_>,
    batch: &Batch,
    pass: &mut Pass<'_>,
) -> Result<(), rusqlite::Error> {
    let connection = target.connection;
    for slice in batch.slices() {
        let stream = &slice.entry.stream;
        for (position, item) in slice.items() {
            let order = (slice.entry.seq.cast_signed(), position);
            let removed = Removed {
                order,
                version: item.standing.version,
            };
            let row = stored(connection, stream, item.key)?;
            let there = (row.as_ref()).is_some_and(|row| removed.is_after(row.order, row.version));
            if there {
                connection
                    .prepare_cached(DELETE)?
                    .execute([&**stream, item.key])?;
                let bytes = row.as_ref().map_or(0, |row| row.json.len());
                target.counting.removed(stream, item.key, bytes);
                pass.tell(stream, 0, |seq| Change::removed(seq, item.key));
            } else if let Some(row) = &row
                && (row.version.is_none() || removed.version.is_none())
            {
                remove_older_fields(target, stream, item.key, row, order, pass)?;
            }
            let removed = remembered(
                removed,
                &item.standing,
                row.as_ref(),
                slice.entry.received_ms,
            );
            // Also if it is not here: an older request may still bring it, or some of its fields.
            let seq = if there { pass.seq() } else { 0 };
            target
                .removals
                .note(connection, stream, item.key, removed, seq)?;
        }
    }
    Ok(())
}

/// What is remembered of a removal: without a version of its own, that of what it removed; and where the tool's versions
/// are known to be times, at least the time of its arrival, so that what comes late does not bring the item back.
fn remembered(
    removed: Removed,
    standing: &Standing,
    row: Option<&Stored>,
    received_ms: u64,
) -> Removed {
    let of_row = row.and_then(|row| row.version);
    let arrival = standing
        .is_removal_in_time()
        .then(|| received_ms.saturating_mul(1_000).cast_signed());
    Removed {
        version: removed.version.or_else(|| of_row.max(arrival)),
        ..removed
    }
}

/// Removes from a newer item the fields that it has of updates up to this place.
fn remove_older_fields(
    target: &mut Target<'_>,
    stream: &Arc<str>,
    key: &str,
    row: &Stored,
    order: Order,
    pass: &mut Pass<'_>,
) -> Result<(), rusqlite::Error> {
    let mut fields = row.fields();
    if !fields.remove_through(order) {
        return Ok(());
    }
    let json = fields.json();
    let merged = fields.merged(row.order);
    (target.connection)
        .prepare_cached(SET_FIELDS)?
        .execute(params![&**stream, key, json, merged, pass.next()])?;
    (target.counting).wrote(stream, key, &json, Some(row.json.len()));
    pass.tell(stream, 0, |seq| {
        Change::updated(seq, key, &json, &row.updated_at)
    });
    Ok(())
}

/// Tells renderers what the pool holds of the batch's items, whoever wrote it. Items that the pool does
/// not hold are passed over: renderers see what the pool holds, and nothing else.
pub(super) fn publish(
    connection: &Connection,
    batch: &Batch,
    pass: &mut Pass<'_>,
) -> Result<(), rusqlite::Error> {
    let mut told = HashSet::new();
    for slice in batch.slices() {
        let stream = &slice.entry.stream;
        for (_, item) in slice.items() {
            if !told.insert((stream, item.key)) {
                continue;
            }
            let Some(row) = stored(connection, stream, item.key)? else {
                continue;
            };
            connection
                .prepare_cached(TOUCH)?
                .execute(params![&**stream, item.key, pass.next()])?;
            pass.tell(stream, slice.entry.received_ms, |seq| {
                Change::updated(seq, item.key, &row.json, &row.updated_at)
            });
        }
    }
    Ok(())
}

fn origin(slice: &Slice) -> Origin {
    Origin {
        accepted_seq: slice.entry.seq.cast_signed(),
        received_ms: slice.entry.received_ms,
        time: clock::rfc3339(slice.entry.received_ms),
        request_id: slice.entry.request_id.to_string(),
    }
}

/// A row of `items`.
struct Stored {
    json: String,
    merged: Option<String>,
    order: Order,
    updated_at: String,
    version: Option<i64>,
}

impl Stored {
    fn fields(&self) -> Fields<'_> {
        Fields::of(&self.json, self.order, self.merged.as_deref())
    }
}

fn stored(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<Option<Stored>, rusqlite::Error> {
    connection
        .prepare_cached(SELECT)?
        .query_row([stream, key], |row| {
            Ok(Stored {
                json: row.get(0)?,
                merged: row.get(1)?,
                order: (row.get(2)?, row.get(3)?),
                updated_at: row.get(4)?,
                version: row.get(5)?,
            })
        })
        .optional()
}

/// What merging updates of one item with its row came to.
enum Merged {
    /// There is nothing to merge with: the last update is the item.
    No,
    /// The row is older, or there is none: this is to be written.
    Newer {
        fields: String,
        merged: Option<String>,
    },
    /// The row is newer: the updates changed fields that it had not or had of older ones, which is written.
    FilledIn { fields: String, updated_at: String },
    /// The row has these updates already.
    Known,
}

fn merge_into_pool(
    connection: &Connection,
    updates: &[Row<'_>],
    seq: i64,
    counting: &mut Counting,
) -> Result<Merged, rusqlite::Error> {
    let Some(last) = updates.last() else {
        return Ok(Merged::Known);
    };
    let row = stored(connection, last.stream, last.item.key)?;
    let is_higher = |update: &Row<'_>| {
        let there = row.as_ref().and_then(|row| row.version);
        matches!((there, update.version()), (Some(there), Some(own)) if own > there)
    };
    let newer = row.as_ref().is_none_or(|row| row.order < last.order()) || is_higher(last);
    if newer && updates.len() == 1 && row.as_ref().is_none_or(|row| names_all_of(last, row)) {
        return Ok(Merged::No);
    }
    let mut fields = row.as_ref().map(Stored::fields).unwrap_or_default();
    let mut changed = false;
    for update in updates {
        if row.as_ref().is_none_or(|row| row.order != update.order()) {
            changed |= fields.update(update.item.fields, update.order(), is_higher(update));
        }
    }
    match &row {
        Some(row) if !newer => {
            if !changed {
                return Ok(Merged::Known);
            }
            let (json, merged) = (fields.json(), fields.merged(row.order));
            connection.prepare_cached(SET_FIELDS)?.execute(params![
                &**last.stream,
                last.item.key,
                json,
                merged,
                seq
            ])?;
            counting.wrote(last.stream, last.item.key, &json, Some(row.json.len()));
            let updated_at = row.updated_at.clone();
            Ok(Merged::FilledIn {
                fields: json,
                updated_at,
            })
        }
        _ => Ok(Merged::Newer {
            merged: fields.merged(last.order()),
            fields: fields.json(),
        }),
    }
}

/// By far the most frequent update names the same fields in the same order.
fn names_all_of(update: &Row<'_>, row: &Stored) -> bool {
    let old = item::members(&row.json).map(|(name, _)| name);
    let new = item::members(update.item.fields).map(|(name, _)| name);
    old.eq(new)
}
