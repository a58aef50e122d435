//! Applying staged upserts to the table `items`.
//!
//! **Invariant**: what was accepted later wins: a row is overwritten only by a higher sequence
//! number, or by a later item of the same request.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::OnUpdate;
use super::views::Views;
use crate::batch::{Batch, Slice};
use crate::clock;
use crate::item::{self, ItemRef};

/// An unchanged item is written all the same: its `updated_at` tells that the source lives, and its
/// `seq` guards against older requests that are retried.
const UPSERT: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, position) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     updated_at = excluded.updated_at, request_id = excluded.request_id, position = excluded.position \
     WHERE excluded.seq > items.seq OR (excluded.seq = items.seq AND excluded.position > items.position)";
const SELECT: &str = "SELECT fields, seq, position FROM items WHERE stream = ?1 AND key = ?2";
const SET_FIELDS: &str = "UPDATE items SET fields = ?3 WHERE stream = ?1 AND key = ?2";

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
        (self.origin.seq, self.position)
    }
}

struct Origin {
    seq: i64,
    time: String,
    request_id: String,
}

pub(super) fn upsert(
    connection: &Connection,
    views: &mut Views,
    on_update: &HashMap<Arc<str>, OnUpdate>,
    batch: &Batch,
) -> Result<(), rusqlite::Error> {
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
        views.note(stream, rows[first..].iter().map(|row| &row.item));
    }
    views.refresh(connection)?;
    // By key: neighbours in the table are written together. Stable: the last of equal keys wins.
    rows.sort_by(|a, b| (a.stream, a.item.key).cmp(&(b.stream, b.item.key)));
    let mut upsert = connection.prepare_cached(UPSERT)?;
    for same in rows.chunk_by(|a, b| a.item.key == b.item.key && a.stream == b.stream) {
        let Some(last) = same.last() else { continue };
        let merge = on_update.get(last.stream).copied() == Some(OnUpdate::Merge);
        let mut merged = None;
        if merge {
            merged = merge_into_pool(connection, same)?;
            if merged.is_none() {
                continue;
            }
        }
        upsert.execute(rusqlite::params![
            &**last.stream,
            last.item.key,
            merged.as_deref().unwrap_or(last.item.fields),
            last.origin.seq,
            last.origin.time,
            last.origin.request_id,
            last.position,
        ])?;
    }
    Ok(())
}

fn origin(slice: &Slice) -> Origin {
    Origin {
        seq: slice.entry.seq.cast_signed(),
        time: clock::rfc3339(slice.entry.received_ms),
        request_id: slice.entry.request_id.to_string(),
    }
}

/// The fields after merging updates of one item into its row. `None` if the row is newer: then the
/// updates only fill in fields that it does not have, and this function has done so.
fn merge_into_pool(
    connection: &Connection,
    updates: &[Row<'_>],
) -> Result<Option<String>, rusqlite::Error> {
    let mut merged: Option<String> = None;
    for update in updates {
        merged = Some(match merged {
            None => update.item.fields.to_owned(),
            Some(older) => item::merge(&older, update.item.fields),
        });
    }
    let (Some(merged), Some(last)) = (merged, updates.last()) else {
        return Ok(None);
    };
    let row: Option<(String, (i64, u32))> = connection
        .prepare_cached(SELECT)?
        .query_row([&**last.stream, last.item.key], |row| {
            Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))
        })
        .optional()?;
    match row {
        None => Ok(Some(merged)),
        Some((fields, order)) if order < last.order() => Ok(Some(item::merge(&fields, &merged))),
        Some((_, order)) if order == last.order() => Ok(None),
        Some((fields, _)) => {
            connection.prepare_cached(SET_FIELDS)?.execute([
                &**last.stream,
                last.item.key,
                &item::merge(&merged, &fields),
            ])?;
            Ok(None)
        }
    }
}
