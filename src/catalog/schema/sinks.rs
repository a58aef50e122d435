//! The table of sinks.
//!
//! **Invariant**: a row without a section is of a declared sink that somebody paused.

use rusqlite::{Connection as Database, Row, params};

use super::{put, stored, time};
use crate::sink::{Pause, SinkRow};
use settings::Section;

/// A section that cannot be read becomes an empty one, so that one damaged row does not prevent a start.
pub(super) fn sink(row: &Row<'_>) -> Result<SinkRow, rusqlite::Error> {
    let section: Option<String> = row.get("section")?;
    let paused_by: Option<String> = row.get("paused_by")?;
    let paused_at = time(row, "paused_ms")?;
    Ok(SinkRow {
        name: row.get("name")?,
        // What cannot be read makes no sink, and is told then.
        section: section.map(|json| Section::of_stored(&json).unwrap_or_default()),
        created_at: time(row, "created_ms")?,
        deleting: row.get("deleting")?,
        pause: paused_by.map(|by| Pause {
            by: by.into(),
            at: paused_at,
        }),
    })
}

/// Writes what is kept of a sink, in place of what was there.
pub(crate) fn put_sink(database: &Database, sink: &SinkRow) -> Result<(), rusqlite::Error> {
    put(
        database,
        "INSERT OR REPLACE INTO sinks VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            sink.name,
            sink.section.as_ref().map(Section::stored),
            stored(sink.created_at),
            sink.deleting,
            sink.pause.as_ref().map(|pause| &*pause.by),
            sink.pause.as_ref().and_then(|pause| stored(pause.at)),
        ],
    )
}

pub(crate) fn delete_sink(database: &Database, name: &str) -> Result<(), rusqlite::Error> {
    put(database, "DELETE FROM sinks WHERE name = ?1", [name])
}
