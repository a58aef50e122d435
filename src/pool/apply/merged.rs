//! Merging updates of one item with its row.
//!
//! **Invariant**: a field is that of the update that counts for it, in whatever order the updates come.

use rusqlite::{Connection, params};

use super::upsert::Row;
use super::{SET_FIELDS, Stored, stored};
use crate::sizes::Counting;
use item;

/// What merging updates of one item with its row came to.
pub(super) enum Merged {
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

/// Merges updates of one item with its row. Only a row that is newer than they are is written here.
pub(super) fn merge_into_pool(
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
