//! Memory that flattening needs for the length of a request, kept for the next one of the same thread.
//!
//! **Invariant**: what is kept is empty and small, whatever the last request was.

use std::cell::Cell;

use super::seen::Seen;

/// Larger text than this is given back, so that one large request does not keep memory for all that follow.
const TEXT_BYTES_MAX: usize = 4_096;
/// More levels than this are given back.
const LEVELS_MAX: usize = 128;

thread_local! {
    static KEPT: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// What to come back to when an object ends.
pub(super) struct Outer {
    pub(super) path_len: usize,
    pub(super) object: u32,
}

/// The parts of a `Flattener` that hold nothing between two requests.
pub(super) struct Scratch {
    pub(super) path: String,
    pub(super) outer: Vec<Outer>,
    pub(super) seen: Box<Seen>,
    pub(super) rewritten: String,
    pub(super) nesting: Vec<bool>,
}

impl Scratch {
    /// What the last request of this thread left, or a new one.
    pub(super) fn take() -> Self {
        KEPT.take().unwrap_or_else(|| Self {
            path: String::with_capacity(64),
            outer: Vec::new(),
            seen: Box::new(Seen::new()),
            rewritten: String::new(),
            nesting: Vec::new(),
        })
    }

    /// Leaves it to the next request, unless this one was far larger than most.
    pub(super) fn keep(mut self) {
        let is_small = self.seen.is_small()
            && self.path.capacity().max(self.rewritten.capacity()) <= TEXT_BYTES_MAX
            && self.outer.capacity().max(self.nesting.capacity()) <= LEVELS_MAX;
        if is_small {
            self.outer.clear();
            self.nesting.clear();
            KEPT.set(Some(self));
        }
    }
}
