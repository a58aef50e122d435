//! What a copy of `pool.db` says of where it stands, and how a pool begins a life of its own as a copy.
//!
//! A backup asks the first, a restore does the second.
//!
//! **Invariant**: a restored pool resumes no position of the life that it was copied from, and gives none of its
//! numbers to another change.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use base::order::{ChangeSeq, Epoch, Seq};

use super::{PoolError, acts, change_log, history, rebuilt, schema, sizes, views};
use sqlite::has_table;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyState {
    /// The epoch of its positions.
    pub epoch: Epoch,
    /// The cursor of each sink, by name.
    pub cursors: Vec<(String, Seq)>,
    /// Every sink has what was accepted up to here behind it, retries included.
    pub low_water: Seq,
}

/// Whether a pool that nobody need use has had items of a stream; not if there is none.
///
/// # Errors
/// The file cannot be read.
pub fn has_had(path: &Path, stream: &str) -> Result<bool, PoolError> {
    if !path.exists() {
        return Ok(false);
    }
    let connection = sqlite::open_reader(path, &Arc::default())?;
    let sql = "SELECT EXISTS (SELECT 1 FROM items WHERE stream = ?1)";
    Ok(connection.query_row(sql, [stream], |row| row.get(0))?)
}

/// The number of the last change of a pool that nobody writes, and up to where every sink has what was accepted.
///
/// # Errors
/// The file cannot be read.
pub fn numbers(path: &Path) -> Result<(ChangeSeq, Seq), PoolError> {
    let connection = sqlite::open_reader(path, &Arc::default())?;
    let seq = history::read(&connection)?.seq;
    Ok((seq, copy_state(&connection)?.low_water))
}

/// Looks into a pool.
pub fn copy_state(connection: &Connection) -> Result<CopyState, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT sink, seq FROM cursors ORDER BY sink")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, Seq::from_column(row.get(1)?))))?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get(0).map(Seq::from_column));
    Ok(CopyState {
        epoch: connection.query_row("SELECT epoch FROM history", [], |row| {
            row.get(0).map(Epoch::from_column)
        })?,
        cursors: rows.collect::<Result<_, _>>()?,
        low_water: number(
            "SELECT min(coalesce((SELECT min(seq) FROM cursors), 0),
                        coalesce((SELECT min(first_seq) FROM retries WHERE NOT resent) - 1, 9223372036854775807))",
        )?,
    })
}

/// Makes an empty pool at `path`.
pub fn make(path: &Path) -> Result<(), PoolError> {
    schema::open_writer(path).map(drop)
}

/// Makes the tables that are made when they are first needed, because a repair salvages only into tables that exist.
pub fn make_later(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(acts::INTENTS)
}

/// Makes what was salvaged of a damaged pool a pool of its own. What its views show is learned from the items, unless
/// `views_are_whole`. With `again`, sinks that write the pool look back ([`super::Pool::look_back`]). The sequence
/// continues behind the highest number that any table has, so that none is given twice.
pub fn begin_salvaged(
    connection: &Connection,
    views_are_whole: bool,
    again: bool,
) -> Result<(), rusqlite::Error> {
    connection.execute_batch(
        "INSERT INTO history (epoch, seq, floor) SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM history);
         DELETE FROM history WHERE rowid > (SELECT min(rowid) FROM history);
         UPDATE history SET seq = max(seq, coalesce((SELECT max(seq) FROM items), 0), coalesce((SELECT max(seq) FROM removed), 0));",
    )?;
    if has_table(connection, "acts")? && has_table(connection, "shown")? {
        connection.execute_batch(
            "UPDATE history SET seq = max(seq, coalesce((SELECT max(seq) FROM shown), 0), coalesce((SELECT max(n) FROM acts), 0));",
        )?;
    }
    if has_table(connection, "past_values")? && has_table(connection, "recorded_streams")? {
        connection.execute_batch(
            "UPDATE history SET seq = max(seq, coalesce((SELECT max(seq) FROM past_values), 0), coalesce((SELECT max(since) FROM recorded_streams), 0));",
        )?;
    }
    history::begin_anew(connection)?;
    if !views_are_whole {
        views::learn(connection)?;
    }
    if again {
        rebuilt::note(connection)?;
    }
    change_log::fill_anew(connection)?;
    sizes::count_anew(connection)
}

/// Makes the copy at `path` a pool of its own: it has another epoch, and the numbers of changes go on far above those that
/// the other life may have given out since. Returns the new epoch. Otherwise a renderer of the other life could resume
/// here and miss changes.
///
/// # Errors
/// SQLite's; the file was written by a newer version.
pub fn begin_anew(path: &Path) -> Result<Epoch, PoolError> {
    let connection = schema::open_writer(path)?;
    Ok(history::begin_anew(&connection)?)
}
