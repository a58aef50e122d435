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
        let page = |after: &str, rows: u32| {
            let wanted = keys.as_ref().map(|_| "?4");
            let sql = shown_items(wanted, "key > ?2", "ORDER BY key LIMIT ?3");
            let query = sqlx::query(sql)
                .bind(stream.to_owned())
                .bind(after.to_owned())
                .bind(rows);
            match &keys {
                Some(keys) => query.bind(keys.clone()),
                None => query,
            }
        };
        let rows = page(after.unwrap_or_default(), limit.rows).fetch(&*self.reads);
        let items = read_items(rows, limit).await?;
        let bytes: usize = items.iter().map(|item| item.fields.len()).sum();
        let is_full = items.len() >= limit.rows as usize || bytes >= limit.bytes;
        let more = match items.last().filter(|_| is_full) {
            Some(last) => {
                let next = page(&last.key, 1).fetch_optional(&*self.reads);
                next.await?.is_some()
            }
            None => false,
        };
        Ok(SnapshotPage {
            changes: items.iter().map(Item::as_change).collect(),
            more,
        })
    }
}
