//! Entries and batches: accepted requests on their way to the sinks.
//!
//! The journal makes entries, delivery cuts batches out of them, plugins hold batches by handle and
//! the pool reads their items. Plain data.
//!
//! What a sink may ask of a batch is in `batch/read.rs`, how it makes another of it in `batch/derive.rs`.
//!
//! **Invariant**: the bytes of an entry's items are shared, never copied, between all batches and
//! all sinks; a batch never changes.

mod derive;
mod origin;
mod read;
mod slice;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

pub use crate::Action;
use crate::{ItemRef, Items};
use base::clock::{Lived, Unix};
use base::order::Seq;
pub use derive::{DeriveError, MadeError};
pub use origin::{BatchOrigin, Fill};
pub use read::{Form, Span};
pub use slice::Slice;

/// One accepted request, as read back from the journal.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Position in the order of acceptance; rises with each request.
    pub seq: Seq,
    /// The identifier that the caller was given.
    pub request_id: Uuid,
    /// The stream that the items belong to.
    pub stream: Arc<str>,
    /// When the request arrived.
    pub received_at: Unix,
    /// The same in time lived, from which its deadlines count. What was read from a file came a little earlier. None: that is
    /// not known.
    pub arrived: Option<Lived>,
    /// Its operations, in the order in which they were sent.
    pub items: Items,
}

/// What becomes of an item where a sink receives some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is handed on as it is.
    Kept,
    /// It is handed on as a removal.
    Leaves,
    /// It is not for the sink.
    Skipped,
}

/// What a sink is handed in one call.
#[derive(Debug, Clone)]
pub struct Batch {
    slices: Arc<[Slice]>,
    attempt: u32,
    items: u32,
    /// Of a derived batch: what tells it from others of the same items.
    suffix: Option<Arc<str>>,
    origin: BatchOrigin,
    /// The filling of the sink that it belongs to, or comes after.
    fill: Option<Fill>,
    /// Of a derived batch: bytes that it takes beside those of the batch that it was made of.
    own_bytes: usize,
    /// The items were put into another stream.
    moved: bool,
}

impl Batch {
    /// A batch of these slices, in order; `attempt` is 1 for the first delivery.
    pub fn new(slices: Vec<Slice>, attempt: u32) -> Self {
        let items = slices.iter().map(Slice::len).sum();
        Self {
            slices: slices.into(),
            attempt,
            items,
            suffix: None,
            origin: BatchOrigin::Journal,
            fill: None,
            own_bytes: 0,
            moved: false,
        }
    }

    /// A batch of items that lie elsewhere than in the journal.
    pub fn of(origin: BatchOrigin, slices: Vec<Slice>, attempt: u32) -> Self {
        Self {
            origin,
            ..Self::new(slices, attempt)
        }
    }

    /// What is asked of all items; none if it is not the same of all.
    pub fn action(&self) -> Option<Action> {
        let mut slices = self.slices.iter().map(Slice::action);
        let first = slices.next().unwrap_or(Some(Action::Upsert))?;
        slices.all(|action| action == Some(first)).then_some(first)
    }

    /// The slices of these that have the items that are kept, as few as that takes.
    pub fn kept(
        slices: Vec<Slice>,
        mut keeps: impl FnMut(&Slice, &ItemRef<'_>) -> bool,
    ) -> Vec<Slice> {
        let mut kept = Vec::with_capacity(slices.len());
        for slice in slices {
            let mut begin = slice.start;
            let mut cut = |end: u32| {
                let (start, next) = (std::mem::replace(&mut begin, end + 1), end);
                (start < next).then(|| Slice {
                    start,
                    end: next,
                    ..slice.clone()
                })
            };
            for ((_, item), at) in slice.items().zip(slice.start..) {
                if !keeps(&slice, &item) {
                    kept.extend(cut(at));
                }
            }
            kept.extend(cut(slice.end));
        }
        kept
    }

    /// The slices of these that have what is left of the items once it is decided what becomes of each.
    pub fn sorted(
        slices: &[Slice],
        mut fate: impl FnMut(&Slice, &ItemRef<'_>) -> Fate,
    ) -> Vec<Slice> {
        let mut kept: Vec<Slice> = Vec::with_capacity(slices.len());
        for slice in slices {
            let leaving = slice.clone().leaving();
            for ((_, item), at) in slice.items().zip(slice.start..) {
                let from = match fate(slice, &item) {
                    Fate::Kept => slice,
                    Fate::Leaves => &leaving,
                    Fate::Skipped => continue,
                };
                Slice::add(&mut kept, from, at);
            }
        }
        kept
    }

    /// The items without removals.
    pub fn updates(&self) -> Batch {
        if self.action() == Some(Action::Upsert) {
            return self.clone();
        }
        let runs = self.runs_of_one_action().into_iter();
        let updates = runs.filter(|run| run.action() == Some(Action::Upsert));
        let slices = updates.flat_map(|run| run.slices.to_vec()).collect();
        self.with(slices)
    }

    /// Other slices, known by the same words.
    fn with(&self, slices: Vec<Slice>) -> Self {
        Self {
            origin: self.origin,
            fill: self.fill,
            moved: self.moved,
            suffix: self.suffix.clone(),
            ..Self::new(slices, self.attempt)
        }
    }

    /// The items in their order, in batches as long as all of their items ask the same.
    pub fn runs_of_one_action(&self) -> Vec<Batch> {
        if self.action().is_some() {
            return vec![self.clone()];
        }
        let mut runs: Vec<(Action, Vec<Slice>)> = Vec::new();
        for slice in self.slices.iter() {
            for ((_, item), at) in slice.items().zip(slice.start..) {
                let part = || Slice {
                    start: at,
                    end: at + 1,
                    ..slice.clone()
                };
                let Some((_, run)) = runs.last_mut().filter(|(of, _)| *of == item.action) else {
                    runs.push((item.action, vec![part()]));
                    continue;
                };
                match run.last_mut() {
                    Some(last) if at > slice.start => last.end += 1,
                    _ => run.push(part()),
                }
            }
        }
        let runs = runs.into_iter();
        runs.map(|(_, slices)| self.with(slices)).collect()
    }

    /// Where its items lie.
    pub fn origin(&self) -> BatchOrigin {
        self.origin
    }

    /// Whether the items were put into another stream than the one that they were accepted in. All of them are in the
    /// same one then.
    pub fn is_moved(&self) -> bool {
        self.moved
    }

    /// Whether a sink has made the items.
    pub fn is_made(&self) -> bool {
        self.origin == BatchOrigin::Made
    }

    /// The items of these streams.
    pub fn of_streams(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let slices = self.slices.iter();
        let slices = slices.filter(|slice| wanted(&slice.entry.stream));
        Self {
            origin: self.origin,
            fill: self.fill,
            ..Self::new(slices.cloned().collect(), self.attempt)
        }
    }

    /// The slices, in order of acceptance.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Number of items.
    pub fn len(&self) -> u32 {
        self.items
    }

    /// Whether the batch holds no item.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Whether both are the same batch, not only equal ones.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slices, &other.slices)
    }

    /// 1 on the first delivery.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The two halves of a batch of at least two items, each a batch for its first delivery.
    pub fn halves(&self) -> Option<(Batch, Batch)> {
        (self.items >= 2).then(|| self.split_at(self.items / 2))
    }

    /// The first `count` items, and the others: each a batch for its first delivery, empty if there are none.
    pub fn split_at(&self, count: u32) -> (Batch, Batch) {
        let mut left = Vec::new();
        let mut right = Vec::new();
        let mut room = count;
        for slice in self.slices.iter() {
            let taken = slice.len().min(room);
            let middle = slice.start + taken;
            room -= taken;
            if taken > 0 {
                left.push(Slice {
                    end: middle,
                    ..slice.clone()
                });
            }
            if middle < slice.end {
                right.push(Slice {
                    start: middle,
                    ..slice.clone()
                });
            }
        }
        let part = |slices| Batch {
            origin: self.origin,
            fill: self.fill,
            ..Batch::new(slices, 1)
        };
        (part(left), part(right))
    }
}

/// The first 64 bits of a digest.
fn short(digest: &[u8]) -> String {
    let first = digest.first_chunk();
    let number = first.map_or(0, |first| u64::from_be_bytes(*first));
    format!("{number:016x}")
}

impl fmt::Display for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} items)", self.id(), self.items)
    }
}
