//! Removing the items of a batch.
//!
//! **Invariant**: a removal is remembered whether its item is here or not; of what was accepted after it nothing goes.

use std::sync::Arc;

use rusqlite::params;

use super::{SET_FIELDS, Stored, Target, stored};
use crate::change_set::ChangeSet;
use crate::changes::Change;
use crate::merge::Order;
use crate::tombstones::Removed;
use base::clock::Unix;
use item::batch::Batch;
use item::{ItemMeta, Version};

const DELETE: &str = "DELETE FROM items WHERE stream = ?1 AND key = ?2";

/// Removes every item of the batch, as far as it was not accepted later, and remembers that.
pub(crate) fn delete(
    target: &mut Target<'_>,
    batch: &Batch,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let connection = target.connection;
    for slice in batch.slices() {
        let stream = &slice.entry.stream;
        for (position, item) in slice.items() {
            let order = (slice.entry.seq.cast_signed(), position);
            let removed = Removed {
                order,
                version: item.meta.version.map(Version::thousandths),
            };
            let row = stored(connection, stream, item.key)?;
            let there = (row.as_ref()).is_some_and(|row| removed.is_after(row.order, row.version));
            if there {
                connection
                    .prepare_cached(DELETE)?
                    .execute([&**stream, item.key])?;
                let bytes = row.as_ref().map_or(0, |row| row.json.len());
                target.counting.removed(stream, item.key, bytes);
                pass.publish(stream, Unix::MIN, |seq| Change::removed(seq, item.key));
            } else if let Some(row) = &row
                && (row.version.is_none() || removed.version.is_none())
            {
                remove_older_fields(target, stream, item.key, row, order, pass)?;
            }
            let removed = remembered(removed, &item.meta, row.as_ref(), slice.entry.received_at);
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
    meta: &ItemMeta,
    row: Option<&Stored>,
    received_at: Unix,
) -> Removed {
    let of_row = row.and_then(|row| row.version);
    let arrival = meta
        .is_removal_in_time()
        .then(|| received_at.ms().saturating_mul(1_000).cast_signed());
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
    pass: &mut ChangeSet<'_>,
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
    pass.publish(stream, Unix::MIN, |seq| {
        Change::updated(seq, key, &json, &row.updated_at)
    });
    Ok(())
}
