//! All items of a stream, page by page.
//!
//! **Invariant**: a page that says that there is no more is the last one.

use super::row::{Item, read_items};
use super::{PageLimit, shown_items};
use crate::changes::Change;
use crate::{Pool, PoolError};

/// Some items of a stream, in the order of their keys.
#[derive(Debug)]
pub struct SnapshotPage {
    /// Each item as a change with the number of its last one.
    pub changes: Vec<Change>,
    /// There are items with later keys.
    pub more: bool,
}

impl Pool {
    /// The items of a stream, or those with these keys, after a key.
    ///
    /// # Errors
    /// SQLite's.
    pub async fn snapshot(
        &self,
        stream: &str,
        keys: Option<&[String]>,
        after: Option<&str>,
        limit: PageLimit,
    ) -> Result<SnapshotPage, PoolError> {
        let keys = keys.map(|keys| serde_json::json!(keys).to_string());
        let (stream, after) = (stream.to_owned(), after.unwrap_or_default().to_owned());
        let page = self.reads.read(move |connection| {
            let sql = shown_items(
                keys.as_ref().map(|_| "?4"),
                "key > ?2",
                "ORDER BY key LIMIT ?3",
            );
            let page = |after: &str, rows: u32| {
                let page = PageLimit { rows, ..limit };
                match &keys {
                    Some(keys) => read_items(connection, &sql, (&stream, after, rows, keys), page),
                    None => read_items(connection, &sql, (&stream, after, rows), page),
                }
            };
            let items = page(&after, limit.rows)?;
            let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
            let is_full = items.len() >= limit.rows as usize || bytes >= limit.bytes;
            let more = match items.last().filter(|_| is_full) {
                Some(last) => !page(&last.key, 1)?.is_empty(),
                None => false,
            };
            Ok(SnapshotPage {
                changes: items.iter().map(Item::as_change).collect(),
                more,
            })
        });
        page.await
    }
}
