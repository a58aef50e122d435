//! How many items each stream has in the pool, and their bytes.
//!
//! The writer counts with every change and stores the counts in the transaction of what they count, so that nobody ever
//! looks at all items. `ingest` and operators read what was committed.
//!
//! **Invariant**: a stream's row of `stream_sizes` says what `items` holds of it, at any moment and after any crash.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::rules::{self, Place};
use super::{Pool, PoolError};
use base::order::{ItemPosition, Seq};

const TABLE_7: &str = "
CREATE TABLE stream_sizes (
    stream TEXT PRIMARY KEY,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;
";
const COUNT: &str = "INSERT INTO stream_sizes (stream, items, bytes)
    SELECT stream, count(*), sum(octet_length(key) + octet_length(fields)) FROM items GROUP BY stream;";

/// An SQL function that stands in the `WHERE` of an upsert and is handed the bytes of the fields that are there, the
/// place of the operation that they show, and the number of their row. So the upsert itself says what it replaced,
/// and no other statement has to look first.
const REPLACES: &str = "headgate_replaces";

/// Keys that one statement looks up.
const KEYS_MAX: usize = 2_000;

/// What the pool holds of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub items: u64,
    /// The bytes of their keys and fields.
    pub bytes: u64,
}

/// The sizes of all streams, as they were committed.
#[derive(Debug, Default)]
pub struct Sizes {
    of: RwLock<HashMap<Arc<str>, Size>>,
}

/// What a transaction changes of the size of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Change {
    items: i64,
    bytes: i64,
}

/// What a transaction changes of sizes.
#[derive(Debug, Default)]
pub(super) struct Counting {
    changes: HashMap<Arc<str>, Change>,
}

thread_local! {
    /// The bytes and the number of the row that the upsert of this thread is about to replace. SQLite calls the
    /// function on the thread of the statement, so a cell of the thread carries the answer.
    static REPLACED: Cell<Option<(usize, i64)>> = const { Cell::new(None) };
    /// The place of the operation that it applies.
    static PLACE: Cell<Place> = const { Cell::new((Seq::MIN, ItemPosition::MIN)) };
}

/// Lets statements of this connection say what they replace.
pub(super) fn listen(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.create_scalar_function(REPLACES, 4, FunctionFlags::SQLITE_UTF8, |call| {
        if rules::is_behind(PLACE.get(), rules::place(call.get(1)?, call.get(2)?)) {
            return Ok(false);
        }
        let bytes = usize::try_from(call.get::<i64>(0)?).unwrap_or_default();
        REPLACED.set(Some((bytes, call.get(3)?)));
        Ok(true)
    })
}

/// An upsert of the operation at this place begins; what it replaces is asked of [`replaced`] when it is done.
pub(super) fn begin_upsert(place: Place) {
    PLACE.set(place);
    REPLACED.set(None);
}

/// The bytes of the fields that the upsert replaced, and the number of their row; none: there was no such item.
pub(super) fn replaced() -> Option<(usize, i64)> {
    REPLACED.take()
}

/// Counts everything anew: of a file that was made of what could be read of another. One of an older format is counted
/// when it is brought to this one.
pub(super) fn count_anew(connection: &Connection) -> Result<(), rusqlite::Error> {
    match sqlite::has_table(connection, "stream_sizes")? {
        true => connection.execute_batch(&format!("DELETE FROM stream_sizes; {COUNT}")),
        false => Ok(()),
    }
}

/// The step from formats without counts. What is there is counted: once for each file.
pub(super) fn from_6() -> String {
    format!("{TABLE_7} {COUNT}")
}

impl Counting {
    /// An item came, `replaced` being the bytes of the fields that it had before.
    pub(super) fn wrote(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        fields: &str,
        replaced: Option<usize>,
    ) {
        let bytes = signed(fields.len());
        match replaced {
            Some(before) => self.add(stream, 0, bytes - signed(before)),
            None => self.add(stream, 1, bytes + signed(key.len())),
        }
    }

    /// An item went that had fields of so many bytes.
    pub(super) fn removed(&mut self, stream: &Arc<str>, key: &str, fields_bytes: usize) {
        self.add(stream, -1, -signed(fields_bytes) - signed(key.len()));
    }

    fn add(&mut self, stream: &Arc<str>, items: i64, bytes: i64) {
        let change = match self.changes.get_mut(stream) {
            Some(change) => change,
            None => self.changes.entry(Arc::clone(stream)).or_default(),
        };
        change.items += items;
        change.bytes += bytes;
    }

    /// The end of the transaction.
    pub(super) fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        for (stream, change) in &self.changes {
            if *change == Change::default() {
                continue;
            }
            connection
                .prepare_cached(
                    "INSERT INTO stream_sizes (stream, items, bytes) VALUES (?1, ?2, ?3)
                     ON CONFLICT (stream) DO UPDATE SET items = items + excluded.items, bytes = bytes + excluded.bytes",
                )?
                .execute(params![&**stream, change.items, change.bytes])?;
        }
        Ok(())
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Sizes {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut statement = connection.prepare("SELECT stream, items, bytes FROM stream_sizes")?;
        let rows = statement.query_map([], |row| {
            let number = |at| {
                row.get::<_, i64>(at)
                    .map(|number| number.max(0).unsigned_abs())
            };
            let stream: String = row.get(0)?;
            let size = Size {
                items: number(1)?,
                bytes: number(2)?,
            };
            Ok((stream.into(), size))
        })?;
        Ok(Self {
            of: RwLock::new(rows.collect::<Result<_, _>>()?),
        })
    }

    /// What the file says of a stream.
    pub(super) fn read(connection: &Connection, stream: &str) -> Result<Size, rusqlite::Error> {
        let sql = "SELECT items, bytes FROM stream_sizes WHERE stream = ?1";
        let mut select = connection.prepare_cached(sql)?;
        let mut rows = select.query([stream])?;
        let Some(row) = rows.next()? else {
            return Ok(Size::default());
        };
        let number = |at| {
            row.get::<_, i64>(at)
                .map(|number| number.max(0).unsigned_abs())
        };
        Ok(Size {
            items: number(0)?,
            bytes: number(1)?,
        })
    }

    /// Another node has changed these, which are so now.
    pub(super) fn set(&self, sizes: Vec<(Arc<str>, Size)>) {
        let mut of = self.of.write().unwrap_or_else(PoisonError::into_inner);
        of.extend(sizes);
    }

    /// What the pool holds of a stream.
    pub fn of(&self, stream: &str) -> Size {
        let of = self.of.read().unwrap_or_else(PoisonError::into_inner);
        of.get(stream).copied().unwrap_or_default()
    }

    pub(super) fn committed(&self, counting: Counting) {
        if counting.changes.is_empty() {
            return;
        }
        let mut of = self.of.write().unwrap_or_else(PoisonError::into_inner);
        for (stream, change) in counting.changes {
            let size = of.entry(stream).or_default();
            size.items = size.items.saturating_add_signed(change.items);
            size.bytes = size.bytes.saturating_add_signed(change.bytes);
        }
    }
}

impl Pool {
    /// How many items each stream has, and their bytes.
    pub fn sizes(&self) -> &Arc<Sizes> {
        &self.sizes
    }

    /// What the pool holds of a stream, and, at the same moment, the bytes of the fields of those of these keys that
    /// are there. None is named twice. With two moments, an item that is stored in between would count twice.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn held<'a>(
        &self,
        stream: &str,
        keys: &[&'a str],
    ) -> Result<(Size, HashMap<&'a str, u64>), PoolError> {
        let chunks = keys.chunks(KEYS_MAX);
        let chunks: Vec<String> = chunks
            .map(|keys| serde_json::json!(keys).to_string())
            .collect();
        let stream = stream.to_owned();
        let found = self.reads.read(move |connection| {
            let moment = connection.unchecked_transaction()?;
            let size = size_of(&moment, &stream)?;
            let bytes = chunks
                .iter()
                .map(|keys| bytes_of(&moment, &stream, keys))
                .collect::<Result<Vec<_>, _>>()?;
            Ok::<_, PoolError>((size, bytes))
        });
        let (size, found) = found.await?;
        let mut held = HashMap::new();
        for (keys, found) in keys.chunks(KEYS_MAX).zip(found) {
            held.extend(found.into_iter().filter_map(|(at, bytes)| {
                let key = keys.get(usize::try_from(at).ok()?)?;
                Some((*key, bytes.unsigned_abs()))
            }));
        }
        Ok((size, held))
    }
}

fn size_of(connection: &Connection, stream: &str) -> Result<Size, rusqlite::Error> {
    let sql = "SELECT items, bytes FROM stream_sizes WHERE stream = ?1";
    let size = |row: &rusqlite::Row<'_>| {
        Ok(Size {
            items: row.get::<_, i64>(0)?.max(0).unsigned_abs(),
            bytes: row.get::<_, i64>(1)?.max(0).unsigned_abs(),
        })
    };
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([stream], size).optional()?;
    Ok(found.unwrap_or_default())
}

/// The place of each of these keys, a JSON array, that has an item, and the bytes of its fields.
fn bytes_of(
    connection: &Connection,
    stream: &str,
    keys: &str,
) -> Result<Vec<(i64, i64)>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT asked.key, octet_length(items.fields) FROM json_each(?2) AS asked
             JOIN items ON items.stream = ?1 AND items.key = asked.value",
    )?;
    let found = statement.query_map([stream, keys], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.collect()
}
