//! Operations that a higher version has left behind: what the log says of them.
//!
//! The pool notes them as it applies operations; the request log reads.
//!
//! **Invariant**: of each request all of them are counted, and the first are kept.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::{Pool, PoolError, delivery_status};
use base::order::{ItemPosition, Seq};

/// Of each request so many are kept, because a request can have any number of them; the others are counted.
const KEPT_MAX: i64 = 20;

/// One that was left behind.
pub(super) struct Noted<'a> {
    pub(super) position: ItemPosition,
    pub(super) key: &'a str,
    pub(super) version: &'a str,
    pub(super) reached: &'a str,
    /// The fields that it was taken in all the same.
    pub(super) taken: &'a [Cow<'a, str>],
}

/// The same, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Its position in the request.
    pub item: ItemPosition,
    /// The key of its item.
    pub key: String,
    /// Its version, as it was sent.
    pub version: String,
    /// What its key had reached.
    pub reached: String,
    /// The fields that it was taken in all the same, as nothing newer had written them.
    pub taken: Vec<String>,
}

/// Part of the transaction that applies the operation.
pub(super) fn note(
    connection: &Connection,
    sink: &str,
    seq: Seq,
    noted: &Noted<'_>,
) -> Result<(), rusqlite::Error> {
    let partly = !noted.taken.is_empty();
    let count: i64 = connection
        .prepare_cached(
            "INSERT INTO stale (sink, seq, items, partly) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (sink, seq) DO UPDATE SET items = items + ?3, partly = partly + ?4 RETURNING items + partly",
        )?
        .query_row(params![sink, seq.to_column(), !partly, partly], |row| row.get(0))?;
    if count > KEPT_MAX {
        return Ok(());
    }
    let taken = partly.then(|| serde_json::to_string(noted.taken).unwrap_or_default());
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO stale_items (sink, seq, position, key, version, reached, taken) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            sink,
            seq.to_column(),
            noted.position.get(),
            noted.key,
            noted.version,
            noted.reached,
            taken
        ])?;
    Ok(())
}

/// What was left behind of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The first operations, at most 20, by their positions.
    pub first: Vec<Stale>,
    /// How many operations there are.
    pub count: u64,
}

impl Pool {
    /// What was left behind of each of these requests. Of sinks that write the pool the one counts that left most behind:
    /// what several say of the same operation is said once.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn left_behind(&self, seqs: &[Seq]) -> Result<HashMap<Seq, LeftBehind>, PoolError> {
        let seqs = delivery_status::list(seqs);
        self.reads
            .read(move |connection| Ok(left_behind(connection, &seqs)?))
            .await
    }
}

/// The same for a list of numbers.
fn left_behind(
    connection: &Connection,
    seqs: &str,
) -> Result<HashMap<Seq, LeftBehind>, rusqlite::Error> {
    let mut found = HashMap::new();
    let mut sinks: HashMap<Seq, String> = HashMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT seq, sink, items + partly AS count FROM stale
         WHERE seq IN (SELECT value FROM json_each(?1)) ORDER BY count, sink DESC",
    )?;
    let mut rows = statement.query([seqs])?;
    while let Some(row) = rows.next()? {
        let seq = Seq::from_column(row.get(0)?);
        let left = LeftBehind {
            first: Vec::new(),
            count: row.get::<_, i64>(2)?.unsigned_abs(),
        };
        found.insert(seq, left);
        sinks.insert(seq, row.get(1)?);
    }
    if found.is_empty() {
        return Ok(found);
    }
    let mut statement = connection.prepare_cached(
        "SELECT seq, sink, position, key, version, reached, taken FROM stale_items
         WHERE seq IN (SELECT value FROM json_each(?1)) ORDER BY seq, position",
    )?;
    let mut rows = statement.query([seqs])?;
    while let Some(row) = rows.next()? {
        let seq = Seq::from_column(row.get(0)?);
        let sink: String = row.get(1)?;
        if let Some(left) = found.get_mut(&seq)
            && sinks.get(&seq) == Some(&sink)
        {
            left.first.push(Stale::read(row)?);
        }
    }
    Ok(found)
}

impl Stale {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let taken: Option<String> = row.get("taken")?;
        Ok(Self {
            item: ItemPosition::new(row.get("position")?),
            key: row.get("key")?,
            version: row.get("version")?,
            reached: row.get("reached")?,
            taken: taken
                .and_then(|taken| serde_json::from_str(&taken).ok())
                .unwrap_or_default(),
        })
    }
}
