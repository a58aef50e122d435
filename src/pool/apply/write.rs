//! Writing what operations have made of a key.
//!
//! **Invariant**: a key has a row or a tombstone in the end, of what the last operation that counted left. Where an update
//! overwrites without a look, an older tombstone stays beside the row, and the row counts.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, params};

use super::operation::{Origin, Row};
use super::row_numbers::RowNumbers;
use super::stored::{Stored, StoredRow};
use super::{State, Target};
use crate::change_set::ChangeSet;
use crate::changes::Change;
use crate::rules::{Reached, Shown};
use crate::sizes;
use crate::tombstones::{self, Removed};
use crate::version_column::Column;
use base::clock::{Lived, Unix};
use base::order::ChangeSeq;

/// Of an update without a version in a stream whose updates replace: what was reached stays. An unchanged item is written
/// all the same: its `updated_at` tells that the source lives.
const UPSERT: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position, expires_ms) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     updated_at = excluded.updated_at, request_id = excluded.request_id, \
     accepted_seq = excluded.accepted_seq, position = excluded.position, merged = NULL, \
     expires_ms = excluded.expires_ms \
     WHERE headgate_replaces(octet_length(items.fields), items.accepted_seq, items.position, items.rowid)";
/// The same of a row that is there, if its number is still the one that is remembered. The `+` keep SQLite from looking the
/// key up.
const UPDATE: &str = "UPDATE items SET fields = ?3, seq = ?4, updated_at = ?5, request_id = ?6, \
     accepted_seq = ?7, position = ?8, merged = NULL, expires_ms = ?9 \
     WHERE rowid = ?10 AND +key = ?2 AND +stream = ?1 AND headgate_replaces(octet_length(fields), accepted_seq, position, rowid)";
/// Whatever it shows now. It is made anew if it had gone in between.
const WRITE: &str = "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position, merged, version, version_text, floor, expires_ms, removed_seq, removed_position) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?15, ?16) \
     ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq, \
     created_at = iif(?14, excluded.created_at, created_at), \
     updated_at = excluded.updated_at, request_id = excluded.request_id, \
     accepted_seq = excluded.accepted_seq, position = excluded.position, merged = excluded.merged, \
     version = excluded.version, version_text = excluded.version_text, floor = excluded.floor, \
     expires_ms = excluded.expires_ms, removed_seq = excluded.removed_seq, removed_position = excluded.removed_position";
/// It shows the same update, with some fields more or less.
const SET_FIELDS: &str = "UPDATE items SET fields = ?3, merged = ?4, floor = ?5, seq = ?6, accepted_seq = ?7, position = ?8, removed_seq = ?9, removed_position = ?10 WHERE stream = ?1 AND key = ?2";
const SET_FLOOR: &str = "UPDATE items SET floor = ?3, removed_seq = ?4, removed_position = ?5 WHERE stream = ?1 AND key = ?2";
const DELETE: &str = "DELETE FROM items WHERE stream = ?1 AND key = ?2";

/// Overwrites rows without a look at them.
pub(super) struct Overwriting<'a> {
    connection: &'a Connection,
    /// Each is prepared when the first row needs it. Batches of one item would prepare both for one row otherwise.
    upsert: Option<Overwrite<'a>>,
    update: Option<Overwrite<'a>>,
}

/// A statement that overwrites a row.
struct Overwrite<'a> {
    statement: CachedStatement<'a>,
    /// Of an array nearly every row has these in common, and they stay bound.
    bound: Option<(&'a Arc<str>, &'a Origin)>,
}

impl<'a> Overwriting<'a> {
    pub(super) fn on(connection: &'a Connection) -> Self {
        Self {
            connection,
            upsert: None,
            update: None,
        }
    }

    /// The bytes of the fields that were there, if there were any; `None`: nothing was written, as what is there is behind
    /// nothing of it.
    pub(super) fn write(
        &mut self,
        numbers: &mut RowNumbers,
        row: &Row<'a>,
        seq: ChangeSeq,
    ) -> Result<Option<Option<usize>>, rusqlite::Error> {
        let remembered = numbers.find(row.stream, row.item.key);
        if let Some(number) = remembered.number {
            sizes::begin_upsert(row.place());
            let update = Overwrite::of(&mut self.update, self.connection, UPDATE)?;
            update.statement.raw_bind_parameter(10, number)?;
            if update.write(row, seq)? {
                return Ok(Some(sizes::replaced().map(|(bytes, _)| bytes)));
            }
        }
        sizes::begin_upsert(row.place());
        let upsert = Overwrite::of(&mut self.upsert, self.connection, UPSERT)?;
        if !upsert.write(row, seq)? {
            return Ok(None);
        }
        let replaced = sizes::replaced();
        let number = replaced.map(|(_, number)| number);
        numbers.note(
            remembered,
            number.unwrap_or_else(|| self.connection.last_insert_rowid()),
        );
        Ok(Some(replaced.map(|(bytes, _)| bytes)))
    }
}

impl<'a> Overwrite<'a> {
    fn of<'s>(
        slot: &'s mut Option<Self>,
        connection: &'a Connection,
        sql: &str,
    ) -> Result<&'s mut Self, rusqlite::Error> {
        let overwrite = match slot.take() {
            Some(overwrite) => overwrite,
            None => Self {
                statement: connection.prepare_cached(sql)?,
                bound: None,
            },
        };
        Ok(slot.insert(overwrite))
    }

    /// Whether a row was written.
    fn write(&mut self, row: &Row<'a>, seq: ChangeSeq) -> Result<bool, rusqlite::Error> {
        let is_bound = |(stream, origin): (&Arc<str>, &Origin)| {
            stream == row.stream && std::ptr::eq(origin, row.origin)
        };
        let statement = &mut self.statement;
        if !self.bound.is_some_and(is_bound) {
            self.bound = Some((row.stream, row.origin));
            statement.raw_bind_parameter(1, &**row.stream)?;
            statement.raw_bind_parameter(5, &row.origin.time)?;
            statement.raw_bind_parameter(6, &row.origin.request_id)?;
            statement.raw_bind_parameter(7, row.origin.accepted_seq.to_column())?;
        }
        statement.raw_bind_parameter(2, row.item.key)?;
        statement.raw_bind_parameter(3, row.item.fields)?;
        statement.raw_bind_parameter(4, seq.to_column())?;
        statement.raw_bind_parameter(8, row.position.get())?;
        statement.raw_bind_parameter(9, row.expires_at().map(Lived::to_column))?;
        Ok(statement.raw_execute()? > 0)
    }
}

/// What operations have made of a key.
pub(super) struct After<'a> {
    pub(super) state: State<'a>,
    /// Whether any of them counted, or was taken in part.
    pub(super) changed: bool,
    /// Whether what they changed is recorded.
    pub(super) is_recorded: bool,
}

/// Writes what the operations `same` have made of a key, if that is something else than `before`.
pub(super) fn store(
    target: &mut Target<'_>,
    same: &[Row<'_>],
    before: &Stored,
    After {
        state,
        changed,
        is_recorded,
    }: &After<'_>,
    published: bool,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let Some(first) = same.first() else {
        return Ok(());
    };
    let key = Key {
        stream: first.stream,
        key: first.item.key,
        // Renderers hear of every removal, be it of some fields.
        published: published || same.iter().any(|row| row.removes),
    };
    if !changed {
        let (before, after) = (before.state(), state);
        return match (before.floor, before.removed) == (after.floor, after.removed) {
            true => Ok(()),
            false => key.set_floor(target, state),
        };
    }
    match (&state.item, before.row()) {
        (Some(item), row) => match (item.by.and_then(|by| same.get(by)), row) {
            (Some(by), row) => {
                if let Stored::Tombstone(_) = before {
                    tombstones::forget(target.connection, key.stream, key.key)?;
                }
                key.write(target, item, by, row, state, pass)
            }
            (None, Some(row)) => key.set_fields(target, item, row, state, pass),
            (None, None) => Ok(()),
        },
        (None, row) => {
            if row.is_none() && *is_recorded {
                // What came and went in between has a number, too.
                pass.keep_quiet(key.stream, key.key);
            }
            let is_numbered = row.is_some() || *is_recorded;
            key.remove(target, row, state, is_numbered, pass)
        }
    }
}

/// A key that is written.
struct Key<'a> {
    stream: &'a Arc<str>,
    key: &'a str,
    published: bool,
}

impl Key<'_> {
    /// The item shows an update that it has not shown before.
    fn write(
        &self,
        target: &mut Target<'_>,
        item: &Shown<'_>,
        by: &Row<'_>,
        row: Option<&StoredRow>,
        state: &State<'_>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let fields = item.fields.json();
        let reached = state.reached.as_ref();
        let (version, text) = columns(reached);
        let mut write = target.connection.prepare_cached(WRITE)?;
        write.execute(params![
            &**self.stream,
            self.key,
            fields,
            pass.next().to_column(),
            by.origin.time,
            by.origin.request_id,
            state.place.0.to_column(),
            state.place.1.get(),
            item.fields.runs(state.written()),
            version,
            text,
            state.floor.map(Column),
            by.expires_at().map(Lived::to_column),
            item.is_new,
            state.removed.0.to_column(),
            state.removed.1.get(),
        ])?;
        (target.counting).wrote(
            self.stream,
            self.key,
            &fields,
            row.map(|row| row.json.len()),
        );
        self.publish(pass, by.origin.received_at, |seq| {
            Change::updated(seq, self.key, &fields, &by.origin.time)
        });
        Ok(())
    }

    /// The item shows what it has shown before, but for some fields.
    fn set_fields(
        &self,
        target: &mut Target<'_>,
        item: &Shown<'_>,
        row: &StoredRow,
        state: &State<'_>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let fields = item.fields.json();
        let mut set = target.connection.prepare_cached(SET_FIELDS)?;
        set.execute(params![
            &**self.stream,
            self.key,
            fields,
            item.fields.runs(state.written()),
            state.floor.map(Column),
            pass.next().to_column(),
            state.place.0.to_column(),
            state.place.1.get(),
            state.removed.0.to_column(),
            state.removed.1.get(),
        ])?;
        (target.counting).wrote(self.stream, self.key, &fields, Some(row.json.len()));
        self.publish(pass, Unix::MIN, |seq| {
            Change::updated(seq, self.key, &fields, &row.updated_at)
        });
        Ok(())
    }

    /// A removal took nothing, and keeps away what is older than it. Otherwise an older update that comes late would
    /// bring back what the removal took.
    fn set_floor(&self, target: &Target<'_>, state: &State<'_>) -> Result<(), rusqlite::Error> {
        let mut set = target.connection.prepare_cached(SET_FLOOR)?;
        set.execute(params![
            &**self.stream,
            self.key,
            state.floor.map(Column),
            state.removed.0.to_column(),
            state.removed.1.get()
        ])?;
        Ok(())
    }

    /// There is no item any more. Also if there was none, the removal is remembered. Something older may come late and
    /// must not bring the item back.
    fn remove(
        &self,
        target: &mut Target<'_>,
        row: Option<&StoredRow>,
        state: &State<'_>,
        is_numbered: bool,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        if let Some(row) = row {
            let mut delete = target.connection.prepare_cached(DELETE)?;
            delete.execute([&**self.stream, self.key])?;
            (target.counting).removed(self.stream, self.key, row.json.len());
            pass.publish(self.stream, self.key, Unix::MIN, |seq| {
                Change::removed(seq, self.key)
            });
        }
        let reached = state.reached.as_ref();
        let removed = Removed {
            place: state.place,
            reached: reached.map(|one| (one.version, one.text.clone().into_owned())),
        };
        let seq = is_numbered.then(|| pass.seq());
        (target.removals).note(target.connection, self.stream, self.key, &removed, seq)
    }

    fn publish(
        &self,
        pass: &mut ChangeSet<'_>,
        updated_at: Unix,
        change: impl FnOnce(ChangeSeq) -> Change,
    ) {
        match self.published {
            true => pass.publish(self.stream, self.key, updated_at, change),
            false => pass.keep_quiet(self.stream, self.key),
        }
    }
}

/// What stands in the columns for a version.
fn columns<'a>(reached: Option<&'a Reached<'_>>) -> (Option<Column>, Option<&'a str>) {
    let version = reached.map(|reached| Column(reached.version));
    (version, reached.map(|reached| &*reached.text))
}
