//! The items of a feed: those that the query wants, in its order.
//!
//! **Invariant**: what is returned was true at one moment. However many items are looked at, no more are held than twice
//! what may be shown, and [`BYTES_MAX`] of them.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::cell::Row;
use super::natural;
use super::query::{LOOKED_AT_MAX, Query};
use item::members;
use pool::{Item, PageLimit, Pool, PoolError};
use select::{Decimal, ItemFilter, Own, Record, SortBy, Source, Value};

/// About how much the items take that are held while others are looked at.
const BYTES_MAX: usize = 64 << 20;

/// What is read at once where fields are looked for.
const PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 1 << 20,
};
/// Fields of a key with limits, at most.
const FIELDS_MAX: usize = 1_000;

/// The rows, and of how many they are.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In their order, from the offset on.
    pub(super) items: Vec<Item>,
    /// All that the query wants, but for limit and offset.
    pub(super) total: usize,
}

/// Reads them. The inner error is a sentence for the caller.
pub(super) async fn find(
    pool: &Pool,
    stream: &str,
    query: &Query,
) -> Result<Result<Found, String>, PoolError> {
    let kept_max = query.offset + query.limit;
    let (mut kept, mut bytes) = (Vec::new(), 0);
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
        if !query.conditions.holds(&record(&item, stream)) {
            return true;
        }
        total += 1;
        bytes += item.fields.len() + item.key.len();
        kept.push((ranks(&record(&item, stream), &query.sort), item));
        if kept.len() >= 2 * kept_max || bytes > BYTES_MAX {
            shorten(&mut kept, kept_max, &query.sort);
            bytes = kept
                .iter()
                .map(|(_, item)| item.fields.len() + item.key.len())
                .sum();
            is_too_large = bytes > BYTES_MAX;
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
    shorten(&mut kept, kept_max, &query.sort);
    let items = kept.into_iter().skip(query.offset).map(|(_, item)| item);
    Ok(Ok(Found {
        items: items.collect(),
        total,
    }))
}

/// The fields that a feed has. Of what a key sees these are those of the items that it sees, in the order of keys.
pub(super) async fn fields(
    pool: &Pool,
    stream: &str,
    query: &Query,
) -> Result<Vec<String>, PoolError> {
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

/// What an item is sorted by.
#[derive(Debug, PartialEq, Eq)]
enum Rank {
    Number(Decimal),
    Text(String),
    Absent,
}

fn ranks(record: &Record<'_>, sort: &[SortBy]) -> Vec<Rank> {
    let rank = |by: &SortBy| match record.value(&by.source) {
        // Rows are counted when they are sorted.
        _ if by.source == Source::Own(Own::Position) => Rank::Absent,
        Value::Number(text) => match Decimal::parse(&text) {
            Some(number) => Rank::Number(number),
            None => Rank::Text(text.into_owned()),
        },
        Value::Empty => Rank::Absent,
        other => Rank::Text(other.text().to_owned()),
    };
    sort.iter().map(rank).collect()
}

/// Sorts, and leaves out what is behind the last row that may be shown.
fn shorten(kept: &mut Vec<(Vec<Rank>, Item)>, kept_max: usize, sort: &[SortBy]) {
    kept.sort_unstable_by(|(ranks, item), (other_ranks, other)| {
        let pairs = ranks.iter().zip(other_ranks).zip(sort);
        let mut orders = pairs.map(|((one, other), by)| compare(one, other, by.descends));
        let first = orders.find(|order| order.is_ne());
        first.unwrap_or_else(|| natural::compare(&item.key, &other.key))
    });
    kept.truncate(kept_max);
}

/// Numbers before texts; what has no value comes last, whichever way the order goes.
fn compare(one: &Rank, other: &Rank, descends: bool) -> Ordering {
    let order = match (one, other) {
        (Rank::Absent, Rank::Absent) => return Ordering::Equal,
        (Rank::Absent, _) => return Ordering::Greater,
        (_, Rank::Absent) => return Ordering::Less,
        (Rank::Number(one), Rank::Number(other)) => one.cmp(other),
        (Rank::Number(_), Rank::Text(_)) => Ordering::Less,
        (Rank::Text(_), Rank::Number(_)) => Ordering::Greater,
        (Rank::Text(one), Rank::Text(other)) => natural::compare(one, other),
    };
    if descends { order.reverse() } else { order }
}
