//! Reading items: a page by key, one, or what changed since.
//!
//! `http` and `live` call it. Each call is one read transaction.
//!
//! **Invariant**: what is returned was true at one moment, and no change up to
//! [`Page::through`] is missing from it.

mod row;
mod snapshot;

use std::sync::atomic::Ordering;
use std::{iter, mem};

use rusqlite::{Row, params_from_iter};
use tokio::sync::mpsc;

use super::change_log::{ChangedRow, StateKind};
use super::changes::Change;
use super::{Pool, PoolError, Position};
use base::order::ChangeSeq;
use row::read_items;
pub use row::{Item, overridden_in};
pub use snapshot::SnapshotPage;

/// Rows of `items` that are shown as they are: all of them, in a stream without acts. That is asked once.
pub(super) const AS_STORED: &str = "(NOT EXISTS (SELECT 1 FROM shown WHERE stream = ?1)
    OR NOT EXISTS (SELECT 1 FROM shown WHERE shown.stream = ?1 AND shown.key = items.key))";
/// The same of `removed`.
pub(super) const GONE: &str = "(NOT EXISTS (SELECT 1 FROM shown WHERE stream = ?1)
    OR NOT EXISTS (SELECT 1 FROM shown WHERE shown.stream = ?1 AND shown.key = removed.key))";

/// Items that a reader of a whole stream hands on at once, and how many such pieces wait at most.
const PIECE_ITEMS: usize = 256;
const PIECES_MAX: usize = 2;

/// Items as they are shown, with a condition on `items` and on `shown`: those with a key of the JSON array `keys`, or all.
fn shown_items(keys: Option<&str>, condition: &str, end: &str) -> String {
    // The join has each key looked up. With `key IN` SQLite reads the whole stream.
    let (wanted, is_wanted) = match keys {
        None => (String::new(), ""),
        Some(keys) => (
            format!("(SELECT DISTINCT value FROM json_each({keys})) AS wanted CROSS JOIN"),
            "AND key = wanted.value",
        ),
    };
    format!(
        "SELECT key, fields, updated_at, seq, request_id, '' AS overridden FROM {wanted} items
         WHERE stream = ?1 {is_wanted} AND {condition} AND {AS_STORED}
         UNION ALL SELECT key, fields, updated_at, seq, request_id, overridden FROM {wanted} shown
         WHERE stream = ?1 {is_wanted} AND fields IS NOT NULL AND {condition} {end}"
    )
}

/// Some changes of a stream.
#[derive(Debug)]
pub struct Page {
    /// Oldest first.
    pub changes: Vec<Change>,
    /// Every change of the stream up to here has been read.
    pub through: ChangeSeq,
    /// There are changes after `through`.
    pub more: bool,
    /// Nothing is missing. If not, the file does not reach back to the position any more: read all items.
    pub is_whole: bool,
}

/// The newest item alone.
const ONE: PageLimit = PageLimit {
    rows: 1,
    bytes: usize::MAX,
};

/// How much a page holds.
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    pub rows: u32,
    /// About so many bytes of JSON.
    pub bytes: usize,
}

impl Pool {
    /// The position of the last change.
    pub fn position(&self) -> Position {
        Position {
            epoch: self.epoch(),
            seq: self.changes.head(),
        }
    }

    /// Whether this is the copy of a node: others change it, too.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Whether everything that changed after the position can still be told.
    pub fn reaches_back_to(&self, position: Position) -> bool {
        self.resumes_from(position) && position.seq <= self.changes.head()
    }

    /// The same for who follows what changes. Another node of a cluster may have told of changes that this copy does not have
    /// yet: they are not told again, and what comes after them is. A copy that is behind does not send such a renderer
    /// back to an older state.
    pub fn resumes_from(&self, position: Position) -> bool {
        position.epoch == self.epoch()
            && position.seq >= ChangeSeq::new(self.floor.load(Ordering::Acquire))
            && (self.is_logged || position.seq <= self.changes.head())
    }

    /// At most `limit` keys of a stream, those after `after`, in their order.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn keys_after(
        &self,
        stream: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, PoolError> {
        let sql = "SELECT key FROM items WHERE stream = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
        let values = (stream.to_owned(), after.to_owned(), limit);
        Ok(self.reads.rows(sql, values, |row| row.get(0)).await?)
    }

    /// What changed in a stream, or of some of its keys, after a position: the newest value of each item.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn changed_after(
        &self,
        stream: &str,
        keys: Option<&[String]>,
        position: ChangeSeq,
        limit: PageLimit,
    ) -> Result<Page, PoolError> {
        let page = self.changed_rows(StateKind::Shown, stream, keys, position, limit);
        let page = page.await?;
        Ok(Page {
            changes: page.rows.into_iter().map(ChangedRow::into_change).collect(),
            through: page.through,
            more: page.more,
            is_whole: page.is_whole,
        })
    }

    /// The items of a stream after a key, in the order of their keys.
    pub async fn items(
        &self,
        stream: &str,
        after: Option<&str>,
        limit: PageLimit,
    ) -> Result<Vec<Item>, PoolError> {
        self.items_with_prefix(stream, "", after, limit).await
    }

    /// The items of a stream whose keys are longer than `prefix` and begin with it, in the order of their keys; those
    /// after a key.
    pub async fn items_with_prefix(
        &self,
        stream: &str,
        prefix: &str,
        after: Option<&str>,
        limit: PageLimit,
    ) -> Result<Vec<Item>, PoolError> {
        // No byte of UTF-8 is 0xFF: what begins with the prefix is below the prefix with that behind it. No key is empty.
        let end = [prefix.as_bytes(), &[0xFF]].concat();
        let range = "key > ?2 AND key < CAST(?3 AS TEXT)";
        let sql = shown_items(None, range, "ORDER BY key LIMIT ?4");
        let after = after.unwrap_or_default().max(prefix).to_owned();
        let values = (stream.to_owned(), after, end, limit.rows);
        let items = self
            .reads
            .read(move |connection| read_items(connection, &sql, values, limit));
        Ok(items.await?)
    }

    pub async fn item(&self, stream: &str, key: &str) -> Result<Option<Item>, PoolError> {
        let sql = shown_items(None, "key = ?2", "");
        let values = [stream.to_owned(), key.to_owned()];
        Ok(self.reads.first(sql, values, Item::read).await?)
    }

    /// The items of a stream that were written last, below a number of changes, newest first.
    pub async fn newest_items(
        &self,
        stream: &str,
        before: Option<ChangeSeq>,
        limit: PageLimit,
    ) -> Result<Vec<Item>, PoolError> {
        let rows = self.newest_rows(StateKind::Shown, stream, before, limit);
        let rows = rows.await?.into_iter();
        Ok(rows.map(Item::from).collect())
    }

    /// The item of a stream that was written last.
    pub async fn newest_item(&self, stream: &str) -> Result<Option<Item>, PoolError> {
        Ok(self.newest_items(stream, None, ONE).await?.pop())
    }

    /// The items of a stream, or those of them that have one of `keys`, one after the other, until `take` wants no more;
    /// all of one moment. In one read transaction, so that an export has no item twice and misses none.
    pub async fn each_item(
        &self,
        stream: &str,
        keys: Option<&[String]>,
        mut take: impl FnMut(Item) -> bool,
    ) -> Result<(), PoolError> {
        let sql = shown_items(keys.map(|_| "?2"), "TRUE", "");
        let keys = keys.map(|keys| serde_json::json!(keys).to_string());
        let values: Vec<String> = iter::once(stream.to_owned()).chain(keys).collect();
        let (pieces, mut read) = mpsc::channel(PIECES_MAX);
        let reading = self.reads.read(move |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(values))?;
            let mut piece = Vec::with_capacity(PIECE_ITEMS);
            while let Some(row) = rows.next()? {
                piece.push(Item::read(row)?);
                if piece.len() == PIECE_ITEMS {
                    let full = mem::replace(&mut piece, Vec::with_capacity(PIECE_ITEMS));
                    if pieces.blocking_send(full).is_err() {
                        return Ok(());
                    }
                }
            }
            // Nobody is left to say it to if it fails.
            let _ = pieces.blocking_send(piece);
            Ok::<_, PoolError>(())
        });
        let taking = async move {
            while let Some(piece) = read.recv().await {
                if !piece.into_iter().all(&mut take) {
                    break;
                }
            }
        };
        tokio::join!(reading, taking).0
    }

    /// The fields that a stream's items have or had, as JSON writes their names, in the order in which they were first
    /// seen.
    pub async fn fields(&self, stream: &str) -> Result<Vec<String>, PoolError> {
        let sql = "SELECT name FROM view_fields WHERE stream = ?1 ORDER BY position";
        let names = (self.reads).rows(sql, [stream.to_owned()], |row| row.get(0));
        Ok(names.await?)
    }

    /// Number of the last change of a stream, or of a later one: what was forgotten still counts.
    pub async fn last_change(&self, stream: &str) -> Result<ChangeSeq, PoolError> {
        // What waits behind a hold is no change of what is shown.
        let sql = "SELECT max(coalesce((SELECT seq FROM change_log WHERE stream = ?1 AND visible ORDER BY seq DESC LIMIT 1), 0),
                        coalesce((SELECT previous FROM change_log WHERE stream = ?1 ORDER BY seq LIMIT 1), 0),
                        (SELECT floor FROM history))";
        let last = |row: &Row<'_>| row.get(0).map(ChangeSeq::from_column);
        Ok(self.reads.row(sql, [stream.to_owned()], last).await?)
    }

    /// How many items a stream has; at most `max` are counted. An exact number of a large stream would read all of it.
    pub async fn count(&self, stream: &str, max: u32) -> Result<u32, PoolError> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM items WHERE stream = ?1 AND {AS_STORED}
             UNION ALL SELECT 1 FROM shown WHERE stream = ?1 AND fields IS NOT NULL LIMIT ?2)"
        );
        let count = self
            .reads
            .row(sql, (stream.to_owned(), max), |row| row.get(0));
        Ok(count.await?)
    }

    /// Name of a stream's view in the file; none until its first item.
    pub async fn view(&self, stream: &str) -> Result<Option<String>, PoolError> {
        let sql = "SELECT view FROM views WHERE stream = ?1";
        let view = (self.reads).first(sql, [stream.to_owned()], |row| row.get(0));
        Ok(view.await?)
    }

    /// When the newest data of a stream arrived, RFC 3339; `None` for an empty stream.
    pub async fn newest_data(&self, stream: &str) -> Result<Option<String>, PoolError> {
        let newest = self.newest_rows(StateKind::Source, stream, None, ONE);
        Ok(newest.await?.pop().map(|row| row.updated_at))
    }
}
