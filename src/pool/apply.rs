//! Applying staged effects to the table `items`.
//!
//! **Invariant**: what was accepted later wins: a row is overwritten only by a request accepted later,
//! or by a later item of the same request, and a removed item comes back only with a request accepted
//! after its removal. Every change takes the next number of the one sequence.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::changes::{Change, Changes, StreamChanges};
use super::views::Views;
use super::{OnUpdate, removal};
use crate::batch::{Batch, Slice};
use crate::clock;
use crate::item::{self, ItemRef};

/// An unchanged item is written all the same: its `updated_at` tells that the source lives, and its
/// `accepted_seq` guards against older requests that are retried.
const UPSERT: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     updated_at = excluded.updated_at, request_id = excluded.request_id, \
     accepted_seq = excluded.accepted_seq, position = excluded.position \
     WHERE excluded.accepted_seq > items.accepted_seq \
     OR (excluded.accepted_seq = items.accepted_seq AND excluded.position > items.position)";
const SELECT: &str =
    "SELECT fields, accepted_seq, position, updated_at FROM items WHERE stream = ?1 AND key = ?2";
const SET_FIELDS: &str = "UPDATE items SET fields = ?3, seq = ?4 WHERE stream = ?1 AND key = ?2";
pub(super) const DELETE: &str = "DELETE FROM items WHERE stream = ?1 AND key = ?2";
const TOUCH: &str = "UPDATE items SET seq = ?3 WHERE stream = ?1 AND key = ?2";

/// What one transaction changes: hands out the numbers, keeps what renderers are to be told.
pub(super) struct Pass<'a> {
    seq: u64,
    changes: &'a Changes,
    streams: HashMap<Arc<str>, StreamChanges>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(seq: u64, changes: &'a Changes) -> Self {
        Self {
            seq,
            changes,
            streams: HashMap::new(),
        }
    }

    /// Number of the last change.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    fn next(&self) -> i64 {
        (self.seq + 1).cast_signed()
    }

    /// The change with the number [`next`](Self::next) was made; renderers are to hear of it.
    pub(super) fn tell(
        &mut self,
        stream: &Arc<str>,
        updated_ms: u64,
        change: impl FnOnce(u64) -> Change,
    ) {
        self.seq += 1;
        let wanted = match self.streams.get_mut(stream) {
            Some(of_stream) => of_stream,
            None => {
                let collected = self.changes.wants(stream).then(Vec::new);
                let new = StreamChanges {
                    stream: Arc::clone(stream),
                    changes: collected,
                    updated_ms: 0,
                };
                self.streams.entry(Arc::clone(stream)).or_insert(new)
            }
        };
        wanted.updated_ms = wanted.updated_ms.max(updated_ms);
        if let Some(changes) = &mut wanted.changes {
            changes.push(change(self.seq));
        }
    }

    /// The change was made, and renderers do not hear of it.
    fn keep_quiet(&mut self) {
        self.seq += 1;
    }

    /// The transaction is committed.
    pub(super) fn finish(self) -> Vec<StreamChanges> {
        self.streams.into_values().collect()
    }
}

/// One item of the batch with what the row needs beside it.
struct Row<'a> {
    stream: &'a Arc<str>,
    item: ItemRef<'a>,
    position: u32,
    origin: &'a Origin,
}

impl Row<'_> {
    /// Its place in the order of acceptance.
    fn order(&self) -> (i64, u32) {
        (self.origin.accepted_seq, self.position)
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
    target.views.refresh(connection)?;
    // By key: neighbours in the table are written together. Stable: the last of equal keys wins.
    rows.sort_by(|a, b| (a.stream, a.item.key).cmp(&(b.stream, b.item.key)));
    let mut upsert = connection.prepare_cached(UPSERT)?;
    for same in rows.chunk_by(|a, b| a.item.key == b.item.key && a.stream == b.stream) {
        let Some(last) = same.last() else { continue };
        let (stream, key) = (last.stream, last.item.key);
        let accepted_seq = last.origin.accepted_seq;
        let removals = &target.removals;
        if removals.covers(connection, stream, key, last.order())? {
            continue;
        }
        let merges = target.on_update.get(stream).copied() == Some(OnUpdate::Merge);
        let merged = match merges {
            true => merge_into_pool(connection, same, pass.next())?,
            false => Merged::No,
        };
        let fields = match &merged {
            Merged::No => last.item.fields,
            Merged::Newer(fields) => fields,
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
        let written = upsert.execute(params![
            &**stream,
            key,
            fields,
            pass.next(),
            last.origin.time,
            last.origin.request_id,
            accepted_seq,
            last.position,
        ])?;
        if written == 0 {
            continue;
        }
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

/// Removes every item of the batch that was not accepted later, and remembers that.
pub(super) fn delete(
    target: &mut Target<'_>,
    batch: &Batch,
    pass: &mut Pass<'_>,
) -> Result<(), rusqlite::Error> {
    for slice in batch.slices() {
        let stream = &slice.entry.stream;
        for (position, item) in slice.items() {
            let order = (slice.entry.seq.cast_signed(), position);
            let row: Option<(i64, u32)> = target
                .connection
                .prepare_cached(SELECT)?
                .query_row([&**stream, item.key], |row| Ok((row.get(1)?, row.get(2)?)))
                .optional()?;
            if row.is_some_and(|row| row > order) {
                continue;
            }
            if row.is_some() {
                target
                    .connection
                    .prepare_cached(DELETE)?
                    .execute([&**stream, item.key])?;
                pass.tell(stream, slice.entry.received_ms, |seq| {
                    Change::removed(seq, item.key)
                });
            } else {
                pass.keep_quiet();
            }
            // Also if it is not here: an older request may still bring it.
            target
                .removals
                .note(target.connection, stream, item.key, order, pass.seq())?;
        }
    }
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
            let row: Option<(String, String)> = connection
                .prepare_cached(SELECT)?
                .query_row([&**stream, item.key], |row| Ok((row.get(0)?, row.get(3)?)))
                .optional()?;
            let Some((fields, updated_at)) = row else {
                continue;
            };
            connection
                .prepare_cached(TOUCH)?
                .execute(params![&**stream, item.key, pass.next()])?;
            pass.tell(stream, slice.entry.received_ms, |seq| {
                Change::updated(seq, item.key, &fields, &updated_at)
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

/// What merging updates of one item with its row came to.
enum Merged {
    /// There is nothing to merge with.
    No,
    /// The row is older: these fields are to be written.
    Newer(String),
    /// The row is newer: the updates filled in fields that it did not have, which is written.
    FilledIn { fields: String, updated_at: String },
    /// The row has these updates already.
    Known,
}

fn merge_into_pool(
    connection: &Connection,
    updates: &[Row<'_>],
    seq: i64,
) -> Result<Merged, rusqlite::Error> {
    let mut merged: Option<String> = None;
    for update in updates {
        merged = Some(match merged {
            None => update.item.fields.to_owned(),
            Some(older) => item::merge(&older, update.item.fields),
        });
    }
    let (Some(merged), Some(last)) = (merged, updates.last()) else {
        return Ok(Merged::Known);
    };
    let row: Option<(String, (i64, u32), String)> = connection
        .prepare_cached(SELECT)?
        .query_row([&**last.stream, last.item.key], |row| {
            Ok((row.get(0)?, (row.get(1)?, row.get(2)?), row.get(3)?))
        })
        .optional()?;
    match row {
        None => Ok(Merged::Newer(merged)),
        Some((fields, order, _)) if order < last.order() => {
            Ok(Merged::Newer(item::merge(&fields, &merged)))
        }
        Some((_, order, _)) if order == last.order() => Ok(Merged::Known),
        Some((fields, _, updated_at)) => {
            let filled_in = item::merge(&merged, &fields);
            // The older fields stand first: only their number tells whether there are more.
            if item::members(&filled_in).count() == item::members(&fields).count() {
                return Ok(Merged::Known);
            }
            connection.prepare_cached(SET_FIELDS)?.execute(params![
                &**last.stream,
                last.item.key,
                filled_in,
                seq
            ])?;
            Ok(Merged::FilledIn {
                fields: filled_in,
                updated_at,
            })
        }
    }
}
