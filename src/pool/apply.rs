//! Applying staged effects to the table `items`.
//!
//! **Invariant**: what is written is what [`rules`] makes of the operations of a key, one after the other in the order of
//! acceptance. Every change takes the next number of the one sequence.

mod operation;
mod row_numbers;
mod stored;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::acts::{self, ActStreams, Acting, Before, Did};
use super::change_set::ChangeSet;
use super::changes::Change;
use super::past_values::{By, Differences, Recording, fields_of};
use super::rules::{self, Became, State};
use super::sizes::Counting;
use super::stale;
use super::tombstones::Removals;
use super::views::Views;
use item::batch::{Action, Batch};
use operation::{Origin, Row};
pub(crate) use row_numbers::RowNumbers;
use settings::OnUpdate;
pub(crate) use stored::Stored;
use write::Overwriting;

const TOUCH: &str = "UPDATE items SET seq = ?3 WHERE stream = ?1 AND key = ?2";

/// What is worked with beside the batch.
pub(super) struct Target<'a> {
    pub(super) connection: &'a Connection,
    pub(super) views: &'a mut Views,
    pub(super) on_update: &'a HashMap<Arc<str>, OnUpdate>,
    pub(super) removals: &'a mut Removals,
    pub(super) acts: &'a mut ActStreams,
    pub(super) recording: &'a Recording,
    /// So many values of each field are kept of the stream that is written.
    pub(super) keep: u32,
    pub(super) counting: &'a mut Counting,
    pub(super) row_numbers: &'a mut RowNumbers,
    pub(super) sink: &'a str,
}

/// Does with every item of the batch what `action` says, or its own action if there is none. Renderers hear of what is
/// removed, and of the rest if `published`.
pub(super) fn apply(
    target: &mut Target<'_>,
    batch: &Batch,
    action: Option<Action>,
    published: bool,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let connection = target.connection;
    let origins: Vec<Origin> = (batch.slices().iter())
        .map(|slice| Origin::of(slice, batch))
        .collect();
    let rows = rows_by_key(target, batch, &origins, action)?;
    let mut overwriting = Overwriting::on(connection);
    for of_stream in rows.chunk_by(|a, b| a.stream == b.stream) {
        target.keep = (of_stream.first()).map_or(0, |first| target.recording.keep(first.stream));
        for same in of_stream.chunk_by(|a, b| a.item.key == b.item.key) {
            if target.acts_concern(same) {
                target.beneath_acts(same, published, pass)?;
                continue;
            }
            match target.needs_no_look(same) {
                Some(last) => target.overwrite(last, &mut overwriting, published, pass)?,
                None => _ = target.one_by_one(same, published, pass)?,
            }
        }
    }
    Ok(())
}

impl Target<'_> {
    fn on_update(&self, stream: &Arc<str>) -> OnUpdate {
        self.on_update.get(stream).copied().unwrap_or_default()
    }

    /// The last of the operations of a key, if all that it needs to know is the place of what is there: of updates
    /// without a version the last one counts, and what was reached stays. Such a key costs one statement instead of a
    /// read and a write.
    fn needs_no_look<'r, 'a>(&self, same: &'r [Row<'a>]) -> Option<&'r Row<'a>> {
        let first = same.first()?;
        let of_stream = self.on_update(first.stream);
        let plain = self.keep == 0
            && same.iter().all(|row| row.is_plain_update(of_stream))
            && !self.removals.concern(first.stream, first.place());
        same.last().filter(|_| plain)
    }

    /// The update takes the place of what is there.
    fn overwrite<'r>(
        &mut self,
        row: &Row<'r>,
        overwriting: &mut Overwriting<'r>,
        published: bool,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let written = overwriting.write(self.row_numbers, row, pass.next())?;
        let Some(replaced) = written else {
            return Ok(());
        };
        let (key, fields) = (row.item.key, row.item.fields);
        (self.counting).wrote(row.stream, key, fields, replaced);
        if !published {
            pass.keep_quiet(row.stream, key);
            return Ok(());
        }
        pass.publish(row.stream, key, row.origin.received_at, |seq| {
            Change::updated(seq, key, fields, &row.origin.time)
        });
        Ok(())
    }

    fn acts_concern(&self, same: &[Row<'_>]) -> bool {
        let first = same.first();
        first.is_some_and(|first| self.acts.concern(first.stream, first.item.key))
    }

    /// The source goes on beneath what operators have made of the key.
    fn beneath_acts(
        &mut self,
        same: &[Row<'_>],
        published: bool,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let Some(Row { stream, item, .. }) = same.first() else {
            return Ok(());
        };
        let before = Before::of(self.connection, stream, item.key, pass)?;
        let did = Did {
            took_away: self.one_by_one(same, published, pass)?,
            published: published || same.iter().any(|row| row.removes),
        };
        self.acting().beneath(stream, item.key, &before, did, pass)
    }

    fn acting(&mut self) -> Acting<'_> {
        Acting {
            connection: self.connection,
            views: self.views,
            acts: self.acts,
            removals: self.removals,
        }
    }

    /// Applies the operations of a key to what is there, and writes what that comes to, once. True: a removal among them
    /// took the item, or would have taken one.
    fn one_by_one(
        &mut self,
        same: &[Row<'_>],
        published: bool,
        pass: &mut ChangeSet<'_>,
    ) -> Result<bool, rusqlite::Error> {
        let Some(Row { stream, item, .. }) = same.first() else {
            return Ok(false);
        };
        let on_update = self.on_update(stream);
        let before = Stored::of(self.connection, self.removals, stream, item.key)?;
        let mut state = before.state();
        let (mut changed, mut took_away) = (false, false);
        let mut past = Vec::new();
        for (row, index) in same.iter().zip(0..) {
            let became;
            let earlier = (self.keep > 0).then(|| fields_of(&state));
            let operation = row.operation(on_update, index, state.place);
            (state, became) = rules::apply(state, &operation);
            changed |= matches!(became, Became::Applied | Became::Partly(_));
            took_away |= row.removes && became == Became::Applied && state.item.is_none();
            self.note_if_stale(row, &state, &became)?;
            if let Some(earlier) = earlier {
                let now = fields_of(&state);
                let by = By {
                    place: operation.place,
                    received_at: row.origin.received_at,
                    request_id: &row.origin.request_id,
                };
                past.push(Differences::between(earlier.as_deref(), now.as_deref(), by));
            }
        }
        past.retain(|one| !one.is_empty());
        let after = write::After {
            state,
            changed,
            is_recorded: !past.is_empty(),
        };
        write::store(self, same, &before, &after, published, pass)?;
        for one in &past {
            one.record(self.connection, (stream, item.key), self.keep, pass.seq())?;
        }
        Ok(took_away)
    }

    /// The log is to say what was left out of an operation for its version. Otherwise a sender could not find out why
    /// its update does not show.
    fn note_if_stale(
        &self,
        row: &Row<'_>,
        state: &State<'_>,
        became: &Became<'_>,
    ) -> Result<(), rusqlite::Error> {
        let taken = match became {
            Became::Applied | Became::Again => return Ok(()),
            Became::Stale => &[][..],
            Became::Partly(taken) => taken,
        };
        let Some(reached) = &state.reached else {
            return Ok(());
        };
        let seq = row.origin.accepted_seq;
        let version = row.item.version_text().unwrap_or_default();
        let one = stale::Noted {
            position: row.position,
            key: row.item.key,
            version: &version,
            reached: &reached.text,
            taken,
        };
        stale::note(self.connection, self.sink, seq, &one)
    }
}

/// The operations of a batch by their keys: neighbours in the table are written together. Streams get their views.
/// Pages of the file are written once then, because neighbors share them.
fn rows_by_key<'a>(
    target: &mut Target<'_>,
    batch: &'a Batch,
    origins: &'a [Origin],
    action: Option<Action>,
) -> Result<Vec<Row<'a>>, rusqlite::Error> {
    let mut rows = Vec::with_capacity(batch.len() as usize);
    for (slice, origin) in batch.slices().iter().zip(origins) {
        let stream = &slice.entry.stream;
        let first = rows.len();
        rows.extend(slice.items().map(|(position, item)| Row {
            stream,
            item,
            position,
            removes: action.unwrap_or(item.action) == Action::Remove,
            origin,
        }));
        let new = rows[first..].iter().filter(|row: &&Row<'_>| !row.removes);
        target.views.note(stream, new.map(|row| &row.item));
    }
    target.views.store(target.connection)?;
    rows.sort_by(|a, b| {
        let (a_key, b_key) = ((a.stream, a.item.key), (b.stream, b.item.key));
        (a_key, a.place()).cmp(&(b_key, b.place()))
    });
    Ok(rows)
}

/// Publishes to renderers what the pool holds of the batch's items, whoever wrote it. Items that the pool does
/// not hold are passed over: renderers see what the pool holds, and nothing else.
pub(super) fn publish(
    target: &mut Target<'_>,
    batch: &Batch,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let mut published = HashSet::new();
    for slice in batch.slices() {
        let stream = &slice.entry.stream;
        for (_, item) in slice.items() {
            if !published.insert((stream, item.key)) {
                continue;
            }
            if target.acts.concern(stream, item.key) {
                acts::published_again(&mut target.acting(), stream, item.key, pass)?;
                continue;
            }
            let Some(row) = stored::row(target.connection, stream, item.key)? else {
                continue;
            };
            target.connection.prepare_cached(TOUCH)?.execute(params![
                &**stream,
                item.key,
                pass.next().to_column()
            ])?;
            pass.publish(stream, item.key, slice.entry.received_at, |seq| {
                Change::updated(seq, item.key, &row.json, &row.updated_at)
            });
        }
    }
    Ok(())
}
