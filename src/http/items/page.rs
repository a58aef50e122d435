//! A page of the items that match a filter.
//!
//! **Invariant**: no matching item is missing between two pages, and none is in both.

use pool::{Item, PageLimit, Pool, PoolError};
use select::ItemFilter;

use super::PAGE_BYTES_MAX;

/// Rows per read of the pool.
const ROWS: u32 = 1_000;
/// Maximum items that are read for one page. A page that reaches it can have fewer items than `limit`; its `next`
/// continues there. A filter that matches nothing would read the whole stream otherwise.
const LOOKED_AT_MAX: usize = 100_000;

/// Reads up to `limit` items after a key; also returns the cursor of the next page.
pub(super) async fn read(
    pool: &Pool,
    stream: &str,
    filter: &ItemFilter,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<Item>, Option<String>), PoolError> {
    if let Some(keys) = filter.keys() {
        return of_keys(pool, stream, filter, keys, after.as_deref(), limit).await;
    }
    let mut page = Page::new(limit);
    let (mut after, mut looked_at) = (after, 0);
    loop {
        // One row more than `limit` shows whether there is a next page.
        let rows = match filter.is_empty() {
            true => u32::try_from(limit + 1).unwrap_or(ROWS),
            false => ROWS,
        };
        let bytes = PAGE_BYTES_MAX;
        let items = pool
            .items(stream, after.as_deref(), PageLimit { rows, bytes })
            .await?;
        let read: usize = items.iter().map(|item| item.fields.len()).sum();
        let is_last = items.len() < rows as usize && read < bytes;
        looked_at += items.len();
        after = items.last().map(|item| item.key.clone());
        for item in items {
            if !page.add(stream, filter, item) {
                return Ok(page.ended());
            }
        }
        if is_last {
            return Ok((page.items, None));
        }
        // A reader with limits must not receive the key of a hidden item.
        if looked_at >= LOOKED_AT_MAX && !filter.hides() {
            return Ok((page.items, after));
        }
    }
}

async fn of_keys(
    pool: &Pool,
    stream: &str,
    filter: &ItemFilter,
    keys: &[String],
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Item>, Option<String>), PoolError> {
    let after = after.unwrap_or_default();
    let mut keys: Vec<&String> = keys.iter().filter(|key| &***key > after).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut page = Page::new(limit);
    for key in keys {
        if let Some(item) = pool.item(stream, key).await?
            && !page.add(stream, filter, item)
        {
            return Ok(page.ended());
        }
    }
    Ok((page.items, None))
}

/// Matching items.
struct Page {
    items: Vec<Item>,
    bytes: usize,
    limit: usize,
}

impl Page {
    fn new(limit: usize) -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
            limit,
        }
    }

    /// Adds an item if it matches. `false`: it matches, but the page is full.
    fn add(&mut self, stream: &str, filter: &ItemFilter, item: Item) -> bool {
        let Some(item) = item.seen(stream, filter) else {
            return true;
        };
        if self.items.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX {
            return false;
        }
        self.bytes += item.fields.len();
        self.items.push(item);
        true
    }

    /// The items, and the key of the last one as the cursor of the next page.
    fn ended(self) -> (Vec<Item>, Option<String>) {
        let next = self.items.last().map(|item| item.key.clone());
        (self.items, next)
    }
}
