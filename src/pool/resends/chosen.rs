//! Takes the dead letters that are sent next.
//!
//! **Invariant**: they are taken in the order in which their requests were accepted.

use std::borrow::Cow;

use rusqlite::named_params;

use super::CHUNK_MAX;
use super::selection::{LaterChanges, ResendLimits, Selection};
use crate::apply::Stored;
use crate::rules::{self, Place};
use crate::{Part, Writer};
use base::order::{ItemPosition, Seq};
use settings::OnUpdate;

/// A dead letter that is about to be sent again.
pub(super) struct Chosen {
    pub(super) id: i64,
    pub(super) seq: Seq,
    pub(super) position: ItemPosition,
    /// What is sent of it.
    pub(super) fields: String,
}

impl Writer {
    /// What fits into one retry, in order of acceptance; unreadable ones are left.
    pub(super) fn first_letters(
        &self,
        sink: &str,
        selection: &Selection,
        newest: i64,
        limits: ResendLimits,
        later: LaterChanges<'_>,
    ) -> Result<Vec<Chosen>, rusqlite::Error> {
        let sql = format!(
            "SELECT id, seq, position, stream, key, fields, removal FROM dead_letters
             WHERE {} AND fields <> '' ORDER BY seq, position, id",
            selection.condition()
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement
            .query(named_params! { ":sink": sink, ":newest": newest, ":chosen": selection })?;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < limits.items_max.clamp(1, CHUNK_MAX)
            && let Some(row) = rows.next()?
        {
            let (stream, key) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
            let (fields, removes) = (row.get_ref(5)?.as_str()?, row.get(6)?);
            let place = rules::place(row.get(1)?, row.get(2)?);
            let sent = match later {
                LaterChanges::Overwritten => Some(fields.into()),
                LaterChanges::Stays { unsettled, .. }
                    if unsettled.get(key).is_some_and(|last| *last > place.0) =>
                {
                    None
                }
                LaterChanges::Stays { in_pool, .. } => {
                    self.sent(in_pool, (stream, key), place, removes, fields)?
                }
            };
            let Some(sent) = sent else { continue };
            bytes += sent.len() + key.len();
            if bytes > limits.bytes_max && !chunk.is_empty() {
                break;
            }
            chunk.push(Chosen {
                id: row.get(0)?,
                seq: place.0,
                position: place.1,
                fields: sent.into_owned(),
            });
        }
        Ok(chunk)
    }

    /// What is sent of a dead letter so that what was accepted later stays, as far as the pool knows of it; none: nothing.
    fn sent<'a>(
        &self,
        in_pool: bool,
        (stream, key): (&str, &str),
        place: Place,
        removes: bool,
        fields: &'a str,
    ) -> Result<Option<Cow<'a, str>>, rusqlite::Error> {
        let stored = Stored::of(&self.connection, &self.removals, stream, key)?;
        let state = stored.state();
        let merges = self.on_update.get(stream) == Some(&OnUpdate::Merge);
        Ok(match merges {
            _ if state.place <= place => Some(fields.into()),
            // The pool has it remove what is older and no more; another sink would remove the whole item.
            true if removes => (in_pool && state.item.is_some()).then(|| fields.into()),
            true => rules::unchanged_since(state, place, fields).map(Cow::Owned),
            false => None,
        })
    }
}

/// Places, in order, as runs of consecutive items.
pub(super) fn parts(places: impl Iterator<Item = Place>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (seq, position) in places {
        match parts.last_mut() {
            Some(Part(last, _, end, _)) if *last == seq && *end == position => *end = *end + 1,
            _ => parts.push(Part(seq, position, position + 1, false)),
        }
    }
    parts
}
