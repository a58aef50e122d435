//! Operations that a higher version has left behind: what the log says of them.
//!
//! The pool notes them as it applies operations; the request log reads.
//!
//! **Invariant**: of each request all of them are counted, and the first are kept.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{Connection, params};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

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
        let rows = sqlx::query(
            "SELECT seq, sink, items + partly AS count FROM stale
             WHERE seq IN (SELECT value FROM json_each(?1)) ORDER BY count, sink DESC",
        )
        .bind(seqs.clone())
        .fetch_all(&*self.reads)
        .await?;
        let mut found = HashMap::new();
        let mut sinks: HashMap<Seq, String> = HashMap::new();
        for row in &rows {
            let seq = Seq::from_column(row.try_get("seq")?);
            let left = LeftBehind {
                first: Vec::new(),
                count: row.try_get::<i64, _>("count")?.unsigned_abs(),
            };
            found.insert(seq, left);
            sinks.insert(seq, row.try_get("sink")?);
        }
        if found.is_empty() {
            return Ok(found);
        }
        let rows = sqlx::query(
            "SELECT seq, sink, position, key, version, reached, taken FROM stale_items
             WHERE seq IN (SELECT value FROM json_each(?1)) ORDER BY seq, position",
        )
        .bind(seqs)
        .fetch_all(&*self.reads)
        .await?;
        for row in &rows {
            let seq = Seq::from_column(row.try_get("seq")?);
            let sink: &str = row.try_get("sink")?;
            if let Some(left) = found.get_mut(&seq)
                && sinks.get(&seq).is_some_and(|one| one == sink)
            {
                left.first.push(Stale::read(row)?);
            }
        }
        Ok(found)
    }
}

impl Stale {
    fn read(row: &SqliteRow) -> Result<Self, PoolError> {
        let taken: Option<&str> = row.try_get("taken")?;
        Ok(Self {
            item: ItemPosition::new(row.try_get("position")?),
            key: row.try_get("key")?,
            version: row.try_get("version")?,
            reached: row.try_get("reached")?,
            taken: taken
                .and_then(|taken| serde_json::from_str(taken).ok())
                .unwrap_or_default(),
        })
    }
}
