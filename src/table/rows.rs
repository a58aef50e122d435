//! The items of a feed: those that the query wants, in its order.
//!
//! **Invariant**: what is returned was true at one moment. However many items are looked at, no more are held than a
//! [`Sorter`] does.

use std::collections::HashSet;

use super::cell::Row;
use super::query::{LOOKED_AT_MAX, Query};
use super::sort::Sorter;
use item::members;
use pool::{Item, PageLimit, Pool, PoolError};
use select::{ItemFilter, Record};

/// What is read at once where fields are looked for.
const PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 1 << 20,
};
/// Fields of a key with limits, at most.
const FIELDS_MAX: usize = 1_000;

/// The rows, and of how many they are.
#[derive(Debug, Default)]
pub struct Found {
    /// In their order, from the offset on.
    pub items: Vec<Item>,
    /// All that the query wants, but for limit and offset.
    pub total: usize,
}

/// Reads them. The inner error is a sentence for the caller.
///
/// # Errors
/// The data pool cannot be read.
pub async fn find(
    pool: &Pool,
    stream: &str,
    query: &Query,
) -> Result<Result<Found, String>, PoolError> {
    let mut sorter = Sorter::new(stream, &query.sort, query.offset + query.limit);
    let (mut total, mut looked_at) = (0, 0);
    let mut is_too_large = false;
    let limits = ItemFilter::default().within(query.limits.as_ref());
    let take = |item: Item| {
        let Some(item) = item.seen(stream, &limits) else {
            return true;
        };
        looked_at += 1;
        if looked_at > LOOKED_AT_MAX {
            return false;
        }
        if query.conditions.holds(&record(&item, stream)) {
            total += 1;
            is_too_large = !sorter.push(item);
        }
        !is_too_large
    };
    pool.each_item(stream, query.keys.as_deref(), take).await?;
    if looked_at > LOOKED_AT_MAX {
        return Ok(Err(format!(
            "the stream has more than {LOOKED_AT_MAX} items, the most that a feed reads; name the items with key=, or use `headgate export`, which writes all of them"
        )));
    }
    if is_too_large {
        return Ok(Err(too_large()));
    }
    let items = sorter.items().skip(query.offset);
    Ok(Ok(Found {
        items: items.collect(),
        total,
    }))
}

/// The fields that a feed has. Of what a key sees these are those of the items that it sees, in the order of keys:
/// names of other fields would say something of hidden items.
///
/// # Errors
/// The data pool cannot be read.
pub async fn fields(pool: &Pool, stream: &str, query: &Query) -> Result<Vec<String>, PoolError> {
    let Some(limits) = &query.limits else {
        return pool.fields(stream).await;
    };
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    let mut after = None;
    loop {
        let items = pool.items(stream, after.as_deref(), PAGE).await?;
        let Some(last) = items.last() else {
            return Ok(names);
        };
        after = Some(last.key.clone());
        for item in items {
            let Some(item) = item.seen(stream, limits) else {
                continue;
            };
            for (name, _) in members(&item.fields) {
                if names.len() < FIELDS_MAX && !known.contains(name) {
                    known.insert(name.to_owned());
                    names.push(name.to_owned());
                }
            }
        }
    }
}

/// What is said of a feed with too many bytes.
pub(super) fn too_large() -> String {
    "the feed would be over 16 MiB; ask for fewer rows with limit, key or where, or for fewer columns with fields".to_owned()
}

/// An item whose place among the rows is not known yet.
pub(super) fn record<'a>(item: &'a Item, stream: &'a str) -> Record<'a> {
    let position = 0;
    let row = Row {
        item,
        stream,
        position,
    };
    row.record()
}
