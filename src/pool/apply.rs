//! Applying staged effects to the table `items`.
//!
//! **Invariant**: what was accepted later wins, unless both have a version and the other's is higher: a row is
//! overwritten only by a request accepted later,
//! or by a later item of the same request, and a removed item comes back only with a request accepted
//! after its removal, and only with what came after it. In whatever order a sink hands items over, the outcome is
//! that of the order of acceptance. Every change takes the next number of the one sequence.

mod delete;
mod merged;
mod upsert;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::change_set::ChangeSet;
use super::changes::Change;
use super::merge::{Fields, Order};
use super::sizes::Counting;
use super::tombstones::Removals;
use super::views::Views;
pub(super) use delete::delete;
use item::batch::Batch;
use settings::OnUpdate;
pub(super) use upsert::upsert;

const SELECT: &str = "SELECT fields, merged, accepted_seq, position, updated_at, version FROM items WHERE stream = ?1 AND key = ?2";
const SET_FIELDS: &str =
    "UPDATE items SET fields = ?3, merged = ?4, seq = ?5 WHERE stream = ?1 AND key = ?2";
const TOUCH: &str = "UPDATE items SET seq = ?3 WHERE stream = ?1 AND key = ?2";

/// What is worked with beside the batch.
pub(super) struct Target<'a> {
    pub(super) connection: &'a Connection,
    pub(super) views: &'a mut Views,
    pub(super) on_update: &'a HashMap<Arc<str>, OnUpdate>,
    pub(super) removals: &'a mut Removals,
    pub(super) counting: &'a mut Counting,
    /// Who does it.
    pub(super) sink: &'a str,
}

/// Tells renderers what the pool holds of the batch's items, whoever wrote it. Items that the pool does
/// not hold are passed over: renderers see what the pool holds, and nothing else.
pub(super) fn publish(
    connection: &Connection,
    batch: &Batch,
    pass: &mut ChangeSet<'_>,
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
            pass.publish(stream, slice.entry.received_at, |seq| {
                Change::updated(seq, item.key, &row.json, &row.updated_at)
            });
        }
    }
    Ok(())
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
