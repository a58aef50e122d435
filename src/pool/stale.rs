//! Operations that a higher version has left behind: what the log says of them.
//!
//! The pool notes them as it applies operations; the request log reads.
//!
//! **Invariant**: of each request all of them are counted, and the first are kept.

use std::borrow::Cow;

use rusqlite::{Connection, params};
use sqlx::Row;

use super::{Pool, PoolError};

/// Of each request so many are kept.
const KEPT_MAX: i64 = 20;

/// One that was left behind.
pub(super) struct Noted<'a> {
    pub(super) position: u32,
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
    pub item: u32,
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
    seq: i64,
    noted: &Noted<'_>,
) -> Result<(), rusqlite::Error> {
    let partly = !noted.taken.is_empty();
    let count: i64 = connection
        .prepare_cached(
            "INSERT INTO stale (sink, seq, items, partly) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (sink, seq) DO UPDATE SET items = items + ?3, partly = partly + ?4 RETURNING items + partly",
        )?
        .query_row(params![sink, seq, !partly, partly], |row| row.get(0))?;
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
            seq,
            noted.position,
            noted.key,
            noted.version,
            noted.reached,
            taken
        ])?;
    Ok(())
}

impl Pool {
    /// The operations of a request that a higher version has left behind, the first of them, and how many there are. What
    /// several sinks that write the pool say of the same operation is said once.
    pub async fn stale_of(&self, seq: u64) -> Result<(Vec<Stale>, u64), PoolError> {
        let rows = sqlx::query(
            "SELECT position, key, version, reached, taken FROM stale_items
             WHERE seq = ?1 AND sink = (SELECT sink FROM stale WHERE seq = ?1 ORDER BY items + partly DESC, sink LIMIT 1)
             ORDER BY position LIMIT ?2",
        )
        .bind(seq.cast_signed())
        .bind(KEPT_MAX)
        .fetch_all(&*self.reads)
        .await?;
        let count: Option<i64> =
            sqlx::query_scalar("SELECT max(items + partly) FROM stale WHERE seq = ?1")
                .bind(seq.cast_signed())
                .fetch_one(&*self.reads)
                .await?;
        let stale = rows.iter().map(|row| {
            let taken: Option<&str> = row.try_get("taken")?;
            Ok(Stale {
                item: row.try_get("position")?,
                key: row.try_get("key")?,
                version: row.try_get("version")?,
                reached: row.try_get("reached")?,
                taken: taken
                    .and_then(|taken| serde_json::from_str(taken).ok())
                    .unwrap_or_default(),
            })
        });
        let stale = stale.collect::<Result<Vec<_>, PoolError>>()?;
        Ok((stale, count.unwrap_or(0).unsigned_abs()))
    }
}
