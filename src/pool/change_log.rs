//! The log of changes in the file: which keys changed, and under which numbers.
//!
//! A transaction appends a row for each stream that it changes. A reader takes the keys from the rows after its position
//! and looks each of them up. An index of the items by number would lead there directly, but every update moves an entry
//! of such an index, which is a third of an update's work.
//!
//! A stream's log holds as many keys as the stream has items, twice, and at least [`KEPT_MIN`]. Whoever needs more reads
//! all items instead, which is less.
//!
//! **Invariant**: the row of the log that covers the number of an item, a tombstone or a shown form names its key, unless
//! the row was cut off. Rows of a stream cover all its changes after the `previous` of the first row.

mod read;

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{Pool, Sizes};
use base::order::ChangeSeq;
#[cfg(test)]
pub(super) use read::rows_sql;
pub(super) use read::{ChangedRow, Keys, StateKind, sizes_sql};

/// `seq` is the last number that a row covers, `previous` that of the row before it, 0 if there never was one. `total`
/// counts the keys of the stream's rows up to this one, those that were cut off included. `visible` is 0 where nothing that
/// is shown changed.
const TABLE: &str = "
CREATE TABLE change_log (
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    total INTEGER NOT NULL,
    visible INTEGER NOT NULL,
    keys TEXT NOT NULL,
    PRIMARY KEY (stream, seq)
) WITHOUT ROWID;
DROP INDEX items_by_seq;
DROP INDEX removed_by_seq;
DROP INDEX shown_by_seq;
";
/// The log that the rows of the other tables imply. It depends on their content alone, so that all copies get the same one.
const FILL: &str = "
INSERT INTO change_log (stream, seq, previous, total, visible, keys)
    WITH changed AS (
        SELECT stream, seq, key FROM items WHERE seq > 0
        UNION SELECT stream, seq, key FROM removed WHERE seq > 0
        UNION SELECT stream, seq, key FROM shown WHERE seq > 0
    ), numbered AS (
        SELECT stream, seq, key, row_number() OVER by_seq AS number, dense_rank() OVER by_seq AS rank
        FROM changed WINDOW by_seq AS (PARTITION BY stream ORDER BY seq)
    ), grouped AS (
        SELECT stream, max(seq) AS seq, max(number) AS total, json_group_array(key ORDER BY seq, key) AS keys
        FROM numbered GROUP BY stream, (rank - 1) / 256
    )
    SELECT stream, seq, lag(seq, 1, 0) OVER (PARTITION BY stream ORDER BY seq), total, 1, keys FROM grouped;
";
const TAIL: &str = "SELECT seq, total FROM change_log WHERE stream = ?1 ORDER BY seq DESC LIMIT 1";
const APPEND: &str = "INSERT INTO change_log (stream, seq, previous, total, visible, keys) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const FIRST_KEPT: &str =
    "SELECT seq FROM change_log WHERE stream = ?1 AND total > ?2 ORDER BY seq LIMIT 1";
const CUT: &str = "DELETE FROM change_log WHERE stream = ?1 AND seq < ?2";

/// Keys of a row, about: a reader takes whole rows. A larger row would be read whole for a few of its keys.
const KEYS_MAX: u64 = 256;
/// Keys that the log of a stream with few items holds. A small stream that changes often keeps some, so that a screen
/// that was away need not begin again.
const KEPT_MIN: u64 = 50_000;
/// After so many keys it is looked whether there are too many, so that most transactions delete nothing.
const CUT_EVERY: u64 = 1_024;

/// The step from formats with indexes by number.
pub(super) fn from_14() -> String {
    format!("{TABLE} {FILL}")
}

/// Fills the log anew: of a file that was made of what could be read of another. One of an older format is filled when it
/// is brought to this one.
pub(super) fn fill_anew(connection: &Connection) -> Result<(), rusqlite::Error> {
    match sqlite::has_table(connection, "change_log")? {
        true => connection.execute_batch(&format!("DELETE FROM change_log; {FILL}")),
        false => Ok(()),
    }
}

/// What a transaction appends to the log of a stream.
#[derive(Debug, Default)]
pub(super) struct Appending {
    full: Vec<LogRow>,
    last: LogRow,
}

#[derive(Debug, Default)]
struct LogRow {
    seq: ChangeSeq,
    count: u64,
    is_visible: bool,
    /// A JSON array that is not closed yet.
    keys: String,
}

impl Appending {
    /// The change with this number is one of this key. A key may be noted twice under one number: first as changed beneath
    /// what is shown, and then as visible.
    pub(super) fn note(&mut self, key: &str, seq: ChangeSeq, is_visible: bool) {
        let is_full = self.last.count >= KEYS_MAX;
        let is_other = self.last.count > 0 && self.last.is_visible != is_visible;
        // A row ends between two numbers only, because its own number says how far it covers.
        if (is_full || is_other) && seq > self.last.seq {
            self.full.push(std::mem::take(&mut self.last));
        }
        let row = &mut self.last;
        row.keys.push(if row.count == 0 { '[' } else { ',' });
        item::string_into(key, &mut row.keys);
        row.count += 1;
        row.is_visible |= is_visible;
        row.seq = seq;
    }
}

/// Where the log of each stream ends, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct LogEnds {
    of: HashMap<Arc<str>, LogEnd>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LogEnd {
    seq: ChangeSeq,
    /// It counts keys that were cut off, too, so that how many there are is a difference of two rows.
    total: u64,
}

impl LogEnds {
    /// The file may say something else now: a transaction was rolled back, or another node's was applied.
    pub(super) fn forget(&mut self) {
        self.of.clear();
    }

    /// Part of every transaction that changes items: appends, and cuts off what is too much.
    pub(super) fn append(
        &mut self,
        connection: &Connection,
        stream: &Arc<str>,
        appending: &Appending,
        sizes: &Sizes,
    ) -> Result<(), rusqlite::Error> {
        let end = match self.of.get_mut(stream) {
            Some(end) => end,
            None => {
                let end = LogEnd::read(connection, stream)?;
                self.of.entry(Arc::clone(stream)).or_insert(end)
            }
        };
        let began = end.total;
        let mut append = connection.prepare_cached(APPEND)?;
        for row in appending.full.iter().chain([&appending.last]) {
            let total = end.total + row.count;
            append.execute(params![
                &**stream,
                row.seq.to_column(),
                end.seq.to_column(),
                total.cast_signed(),
                row.is_visible,
                format!("{}]", row.keys),
            ])?;
            *end = LogEnd {
                seq: row.seq,
                total,
            };
        }
        if end.total / CUT_EVERY > began / CUT_EVERY {
            let kept = KEPT_MIN.max(2 * sizes.of(stream).items);
            cut(connection, stream, end.total.saturating_sub(kept))?;
        }
        Ok(())
    }
}

impl LogEnd {
    fn read(connection: &Connection, stream: &str) -> Result<Self, rusqlite::Error> {
        let end = connection
            .prepare_cached(TAIL)?
            .query_row([stream], |row| {
                Ok(Self {
                    seq: ChangeSeq::from_column(row.get(0)?),
                    total: row.get::<_, i64>(1)?.unsigned_abs(),
                })
            })
            .optional()?;
        Ok(end.unwrap_or_default())
    }
}

/// Cuts off rows up to this total.
fn cut(connection: &Connection, stream: &str, through: u64) -> Result<(), rusqlite::Error> {
    if through == 0 {
        return Ok(());
    }
    let first: Option<i64> = connection
        .prepare_cached(FIRST_KEPT)?
        .query_row(params![stream, through.cast_signed()], |row| row.get(0))
        .optional()?;
    if let Some(first) = first {
        connection
            .prepare_cached(CUT)?
            .execute(params![stream, first])?;
    }
    Ok(())
}

impl Pool {
    /// Cuts off what the log of a stream has beyond so many keys.
    #[cfg(test)]
    pub(super) fn cut_log(&self, stream: &str, kept: u64) {
        let cut_off = self.write(|writer| {
            let end = LogEnd::read(&writer.connection, stream)?;
            cut(&writer.connection, stream, end.total.saturating_sub(kept))
        });
        cut_off.expect("it writes");
    }
}
