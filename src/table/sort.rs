//! Items in the order of their fields: for feeds, and for lists on pages.
//!
//! **Invariant**: however many items are looked at, no more are held than twice what may be shown, and [`BYTES_MAX`] of
//! them. The order is total: what is equal in all fields is in the order of keys.

use std::cmp::Ordering;

use super::natural;
use super::rows::record;
use pool::Item;
use select::{Decimal, Own, Record, SortBy, Source, Value};

/// About how much the items take that are held while others are looked at.
const BYTES_MAX: usize = 64 << 20;

/// The first items of an order, of all that it is given.
#[derive(Debug)]
pub struct Sorter<'a> {
    stream: &'a str,
    by: &'a [SortBy],
    max: usize,
    kept: Vec<(Vec<Rank>, Item)>,
    bytes: usize,
}

impl<'a> Sorter<'a> {
    pub fn new(stream: &'a str, by: &'a [SortBy], max: usize) -> Self {
        Self {
            stream,
            by,
            max,
            kept: Vec::new(),
            bytes: 0,
        }
    }

    /// Looks at an item. False: the first ones alone have too many bytes. Items are sorted when twice the rows are
    /// held, so that not each item costs a sort.
    pub fn push(&mut self, item: Item) -> bool {
        self.bytes += bytes(&item);
        self.kept
            .push((ranks(&record(&item, self.stream), self.by), item));
        if self.kept.len() >= 2 * self.max || self.bytes > BYTES_MAX {
            shorten(&mut self.kept, self.max, self.by);
            self.bytes = self.kept.iter().map(|(_, item)| bytes(item)).sum();
        }
        self.bytes <= BYTES_MAX
    }

    /// The first ones, in their order.
    pub fn items(mut self) -> impl Iterator<Item = Item> {
        shorten(&mut self.kept, self.max, self.by);
        self.kept.into_iter().map(|(_, item)| item)
    }
}

fn bytes(item: &Item) -> usize {
    item.fields.len() + item.key.len()
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
