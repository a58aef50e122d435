//! Reads the items of a page.
//!
//! **Invariant**: a page reads at most [`READ_MAX`] items and about [`READ_BYTES_MAX`] bytes, by an index. It begins
//! after the last item of the previous page, by change or key. Only a page that is sorted by a field begins at a row
//! number; it reads and sorts the items again each time, within the same limits.

use std::slice;

use super::ITEMS;
use super::query::{ItemQuery, Next, Order};
use crate::frame::NoPage;
use base::order::ChangeSeq;
use feed::Sorter;
use http::filter::conditions;
use operate::Operator;
use pool::{Item, PageLimit, PoolError};
use select::{ItemFilter, SortBy};

/// Maximum items that are read for a page.
pub(super) const READ_MAX: usize = 5_000;
const READ_BYTES_MAX: usize = 64 << 20;
/// Items per read if not all of them are shown.
const CHUNK: u32 = 500;
/// Maximum bytes of items per read.
const BYTES_MAX: usize = 4 << 20;

pub(in super::super) struct ItemPage {
    pub(super) items: Vec<Item>,
    /// The start of the next page, if there may be one.
    pub(super) next: Option<Next>,
    /// The items were sorted among this number of items, which is not all, because a page reads a bounded number of
    /// them.
    pub(super) among: Option<usize>,
}

/// Reads the page of a query.
pub(in super::super) async fn read(
    operator: &Operator,
    stream: &str,
    query: &ItemQuery,
) -> Result<ItemPage, NoPage> {
    let filter = conditions(&query.filters.join(","))?;
    let mut reading = Reading {
        operator,
        stream,
        query,
        after: query.after.clone(),
        before: query.before.map(ChangeSeq::new),
        read: 0,
        bytes: 0,
    };
    let page = match &query.order {
        Order::Field(by) => reading.sorted(&filter, by).await?,
        Order::Updated | Order::Key => reading.in_order(&filter).await?,
    };
    Ok(page)
}

/// Reads items in chunks, in the order of an index.
struct Reading<'a> {
    operator: &'a Operator,
    stream: &'a str,
    query: &'a ItemQuery,
    /// The next chunk begins after this key, or before this change.
    after: Option<String>,
    before: Option<ChangeSeq>,
    /// The items and bytes that were read.
    read: usize,
    bytes: usize,
}

impl Reading<'_> {
    async fn in_order(&mut self, filter: &ItemFilter) -> Result<ItemPage, PoolError> {
        let mut page = ItemPage {
            items: self.exact(filter).await?,
            next: None,
            among: None,
        };
        let rows = match self.query.filters.is_empty() {
            true => ITEMS as u32 + 1,
            false => CHUNK,
        };
        loop {
            let (some, is_end) = self.chunk(rows).await?;
            let mut last = None;
            for item in some {
                if page.items.len() >= ITEMS {
                    page.next = page.items.last().map(|last| self.query.behind(last));
                    return Ok(page);
                }
                last = Some(self.query.behind(&item));
                page.items.extend(item.seen(self.stream, filter));
            }
            if is_end {
                return Ok(page);
            }
            if self.is_enough() || page.items.len() >= ITEMS {
                page.next = last;
                return Ok(page);
            }
        }
    }

    async fn sorted(&mut self, filter: &ItemFilter, by: &SortBy) -> Result<ItemPage, PoolError> {
        let from = self.query.from;
        let mut sorter = Sorter::new(self.stream, slice::from_ref(by), from + ITEMS + 1);
        for item in self.exact(filter).await? {
            sorter.push(item);
        }
        let is_all = loop {
            let (some, is_end) = self.chunk(CHUNK).await?;
            for item in some {
                if let Some(item) = item.seen(self.stream, filter) {
                    sorter.push(item);
                }
            }
            if is_end || self.is_enough() {
                break is_end;
            }
        };
        let mut items: Vec<Item> = sorter.items().skip(from).take(ITEMS + 1).collect();
        let has_more = items.len() > ITEMS;
        items.truncate(ITEMS);
        Ok(ItemPage {
            items,
            next: has_more.then_some(Next::From(from + ITEMS)),
            among: (!is_all).then_some(self.read),
        })
    }

    /// The item whose key is exactly the prefix, on the first page only.
    async fn exact(&self, filter: &ItemFilter) -> Result<Vec<Item>, PoolError> {
        let prefix = &self.query.prefix;
        if self.after.is_some() || prefix.is_empty() {
            return Ok(Vec::new());
        }
        let exact = self.operator.pool.item(self.stream, prefix).await?;
        let seen = exact.and_then(|item| item.seen(self.stream, filter));
        Ok(seen.into_iter().collect())
    }

    /// The next items. `true`: no more items follow.
    async fn chunk(&mut self, rows: u32) -> Result<(Vec<Item>, bool), PoolError> {
        let limit = PageLimit {
            rows,
            bytes: BYTES_MAX,
        };
        let (pool, prefix) = (&self.operator.pool, &self.query.prefix);
        let some = match self.query.reads_by_key() {
            true => {
                let after = self.after.as_deref();
                let items = pool.items_with_prefix(self.stream, prefix, after, limit);
                items.await?
            }
            false => pool.newest_items(self.stream, self.before, limit).await?,
        };
        let bytes: usize = some.iter().map(|item| item.fields.len()).sum();
        self.read += some.len();
        self.bytes += bytes;
        if let Some(last) = some.last() {
            self.after = Some(last.key.clone());
            self.before = Some(last.seq);
        }
        let is_end = some.len() < rows as usize && bytes < BYTES_MAX;
        Ok((some, is_end))
    }

    fn is_enough(&self) -> bool {
        self.read >= READ_MAX || self.bytes >= READ_BYTES_MAX
    }
}
