//! What the file has of a key.
//!
//! **Invariant**: where there is a row, a tombstone of the same key says nothing any more.

use rusqlite::{Connection, OptionalExtension};

use crate::rules::{Fields, Place, Reached, Shown, State, place};
use crate::tombstones::{Removals, Removed};
use crate::version_column::{version, with_text};
use item::Version;

const SELECT: &str = "SELECT fields, merged, accepted_seq, position, updated_at, version, version_text, floor, removed_seq, removed_position FROM items WHERE stream = ?1 AND key = ?2";

/// What the file has of a key.
pub(crate) enum Stored {
    Row(StoredRow),
    Tombstone(Removed),
    Nothing,
}

/// A row of `items`.
pub(crate) struct StoredRow {
    pub(super) json: String,
    /// What fields were written by, where that differs from the key. Most rows have none, because all fields come from
    /// one request.
    merged: Option<String>,
    place: Place,
    pub(super) updated_at: String,
    reached: Option<(Version, String)>,
    floor: Option<Version>,
    removed: Place,
}

impl Stored {
    pub(crate) fn of(
        connection: &Connection,
        removals: &Removals,
        stream: &str,
        key: &str,
    ) -> Result<Self, rusqlite::Error> {
        if let Some(row) = row(connection, stream, key)? {
            return Ok(Self::Row(row));
        }
        let removed = removals.of(connection, stream, key)?;
        Ok(removed.map_or(Self::Nothing, Self::Tombstone))
    }

    pub(super) fn row(&self) -> Option<&StoredRow> {
        match self {
            Self::Row(row) => Some(row),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> State<'_> {
        match self {
            Self::Row(row) => State {
                item: Some(Shown {
                    fields: Fields::of(&row.json, row.merged.as_deref()),
                    by: None,
                    is_new: false,
                }),
                reached: reached(row.reached.as_ref()),
                floor: row.floor,
                removed: row.removed,
                place: row.place,
            },
            Self::Tombstone(removed) => State {
                item: None,
                reached: reached(removed.reached.as_ref()),
                floor: removed.reached.as_ref().map(|(version, _)| *version),
                removed: removed.place,
                place: removed.place,
            },
            Self::Nothing => State::default(),
        }
    }
}

/// A row of `items`, if it is there.
pub(super) fn row(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<Option<StoredRow>, rusqlite::Error> {
    connection
        .prepare_cached(SELECT)?
        .query_row([stream, key], |row| {
            Ok(StoredRow {
                json: row.get(0)?,
                merged: row.get(1)?,
                place: place(row.get(2)?, row.get(3)?),
                updated_at: row.get(4)?,
                reached: with_text(row, 5)?,
                floor: version(row, 7)?,
                removed: place(row.get(8)?, row.get(9)?),
            })
        })
        .optional()
}

fn reached(reached: Option<&(Version, String)>) -> Option<Reached<'_>> {
    let (version, text) = reached?;
    Some(Reached {
        version: *version,
        text: text.as_str().into(),
    })
}
