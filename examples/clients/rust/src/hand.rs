//! A batch, and what is known of the one that is being sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::queue::Entry;
use crate::verdict;

/// How many parts have room in the file that says what is in hand.
const PARTS_MAX: usize = 200;

/// The items of one request, in memory.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Its idempotency key, and the name of its file.
    pub(crate) key: String,
    /// None: the connector has one.
    pub(crate) item_key: Option<String>,
    /// That it is meant for, if that is known.
    pub(crate) stream: Option<String>,
    /// Since 1970.
    pub(crate) created: Duration,
    pub(crate) entries: Vec<Entry>,
    /// The number of the first item.
    pub(crate) first: u64,
}

/// A part of a batch: its first item's place, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// Since when Headgate may have accepted what is sent next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// By the clock on the wall, since 1970.
    pub(crate) since: Duration,
    /// A moment of the clock that nobody can set, and how old the mark was then.
    pub(crate) at: Duration,
    pub(crate) age: Duration,
}

impl Mark {
    pub(crate) fn age(&self, lived: Duration) -> Duration {
        self.age + lived.saturating_sub(self.at)
    }
}

/// The batch that is being sent.
#[derive(Debug, Clone)]
pub(crate) struct Hand {
    pub(crate) batch: Arc<Batch>,
    /// Of its file; 0 if it has none.
    pub(crate) room: u64,
    /// What is left of it.
    pub(crate) parts: Vec<Span>,
    /// It was not cut.
    pub(crate) whole: bool,
    pub(crate) mark: Option<Mark>,
}

impl Batch {
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }
}

/// A list of items.
pub(crate) fn body_of(entries: &[Entry]) -> Vec<u8> {
    let bytes: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let mut body = Vec::with_capacity(bytes + 1);
    for (at, entry) in entries.iter().enumerate() {
        body.push(if at == 0 { b'[' } else { b',' });
        body.extend_from_slice(entry.raw.get().as_bytes());
    }
    if entries.is_empty() {
        body.push(b'[');
    }
    body.push(b']');
    body
}

pub(crate) fn raws(entries: &[Entry]) -> Vec<&RawValue> {
    entries.iter().map(|entry| &*entry.raw).collect()
}

impl Hand {
    pub(crate) fn new(batch: Arc<Batch>, room: u64) -> Self {
        let count = batch.entries.len();
        Self {
            batch,
            room,
            parts: vec![Span { from: 0, count }],
            whole: true,
            mark: None,
        }
    }

    /// What is sent next.
    pub(crate) fn part(&self) -> &[Entry] {
        match self.parts.first() {
            Some(next) => &self.batch.entries[next.from..next.from + next.count],
            None => &[],
        }
    }

    pub(crate) fn body(&self) -> Bytes {
        body_of(self.part()).into()
    }

    /// The batch's key, or that of a part: the same whenever the same part is cut out of the same batch.
    pub(crate) fn part_key(&self) -> String {
        match self.parts.first() {
            Some(part) if !self.whole => {
                format!("{}/{}/{}", self.batch.key, part.from, part.count)
            }
            _ => self.batch.key.clone(),
        }
    }

    /// The items that are neither accepted nor rejected.
    pub(crate) fn rest(&self) -> Vec<&RawValue> {
        let spans = self.parts.iter();
        let entries = spans.flat_map(|span| &self.batch.entries[span.from..span.from + span.count]);
        entries.map(|entry| &*entry.raw).collect()
    }

    /// How many those are.
    pub(crate) fn left(&self) -> usize {
        self.parts.iter().map(|span| span.count).sum()
    }

    /// Cuts what is next: the items that an error names stand alone, or else it is halved. False if that is no use.
    pub(crate) fn cut(&mut self, error: Option<&Error>) -> bool {
        let Some(next) = self.parts.first().copied().filter(|next| next.count > 1) else {
            return false;
        };
        let named = error.map_or_else(Vec::new, |error| verdict::named(error, next.count));
        let rest = self.parts.split_off(1);
        self.parts = divided(next, &named);
        self.parts.extend(rest);
        if self.parts.len() > PARTS_MAX {
            // None of the last ones was sent yet: they may be one.
            self.parts.truncate(PARTS_MAX);
            if let Some(last) = self.parts.last_mut() {
                last.count = self.batch.entries.len() - last.from;
            }
        }
        (self.whole, self.mark) = (false, None);
        true
    }
}

fn divided(part: Span, named: &[usize]) -> Vec<Span> {
    let span = |begin: usize, end: usize| Span {
        from: part.from + begin,
        count: end - begin,
    };
    if named.is_empty() {
        let half = part.count / 2;
        return vec![span(0, half), span(half, part.count)];
    }
    let mut parts = Vec::new();
    let mut begin = 0;
    for item in named {
        if begin < *item {
            parts.push(span(begin, *item));
        }
        parts.push(span(*item, item + 1));
        begin = item + 1;
    }
    if begin < part.count {
        parts.push(span(begin, part.count));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_items_stand_alone_and_what_names_none_is_halved() {
        let check = |from: usize, count: usize, named: &[usize], parts: &[(usize, usize)]| {
            let found = divided(Span { from, count }, named);
            let found: Vec<_> = found.iter().map(|part| (part.from, part.count)).collect();
            assert_eq!(found, parts);
        };
        check(0, 5, &[], &[(0, 2), (2, 3)]);
        check(10, 2, &[], &[(10, 1), (11, 1)]);
        check(0, 5, &[2], &[(0, 2), (2, 1), (3, 2)]);
        check(7, 5, &[0, 4], &[(7, 1), (8, 3), (11, 1)]);
        check(0, 4, &[1, 2], &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    }
}
