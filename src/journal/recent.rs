//! The newest entries in memory, so that lanes that keep up never read the file.
//!
//! **Invariant**: what is held is a gapless run of entries up to the newest one, so "from memory" and "from the file"
//! give the same entries.

use std::collections::VecDeque;
use std::sync::Arc;

use super::arrivals::Arrivals;
use super::retention::Written;
use super::{ReadRequest, Taken};
use base::order::Seq;
use item::batch::Entry;

/// Bytes of entries that stay in memory for the lanes. Eight bodies of 1 MB under way are a little more than 8 MiB, and
/// lanes would read some from the file.
const RECENT_BYTES_MAX: usize = 10 << 20;
/// What an entry costs beside its items: itself, what says how it was accepted, and what the allocator rounds up.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The newest entries, oldest first.
#[derive(Debug)]
pub(super) struct Recent {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Every accepted entry above this one is in `entries`.
    floor: Seq,
    /// What is above one of these stays, unless it is too much.
    pins: Vec<Seq>,
    /// Payload bytes written since the last retention count.
    pub(super) written: Written,
    /// Of entries that are not here any more, too.
    pub(super) arrivals: Arrivals,
}

impl Recent {
    pub(super) fn starting_after(seq: Seq) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            floor: seq,
            pins: Vec::new(),
            written: Written::default(),
            arrivals: Arrivals::default(),
        }
    }

    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.written.note(entry.seq, entry.items.byte_len());
        if let Some(arrived) = entry.arrived {
            self.arrivals.note(entry.seq, arrived);
        }
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
        while self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= cost(&oldest);
            self.floor = oldest.seq;
        }
    }

    /// Forgets what every lane has behind it.
    pub(super) fn forget_through(&mut self, seq: Seq) {
        let seq = self.pins.iter().fold(seq, |seq, pin| seq.min(*pin));
        self.arrivals.forget_through(seq);
        while let Some(oldest) = self.entries.front() {
            if oldest.seq > seq {
                break;
            }
            self.floor = oldest.seq;
            self.bytes -= cost(oldest);
            self.entries.pop_front();
        }
    }

    /// An entry that cannot be read comes next: lanes read from the store up to and including it. Memory has no gaps,
    /// because a lane would pass over what is missing.
    pub(super) fn forget_all_through(&mut self, seq: Seq) {
        self.entries.clear();
        self.bytes = 0;
        self.floor = seq;
    }

    /// From now on what is here stays; above which entry that is.
    pub(super) fn pin(&mut self) -> Seq {
        self.pins.push(self.floor);
        self.floor
    }

    /// What was pinned above this entry may go.
    pub(super) fn unpin(&mut self, after: Seq) {
        if let Some(at) = self.pins.iter().position(|pin| *pin == after) {
            self.pins.swap_remove(at);
        }
    }

    /// The entries above this one; `None` if the memory does not reach back far enough.
    pub(super) fn after(&self, seq: Seq) -> Option<impl Iterator<Item = &Arc<Entry>>> {
        let start = self.entries.partition_point(|entry| entry.seq <= seq);
        (seq >= self.floor).then(|| self.entries.range(start..))
    }

    /// `None` if the memory does not reach back far enough.
    pub(super) fn take(&self, request: &ReadRequest<'_>) -> Option<Taken> {
        if request.after < self.floor {
            return None;
        }
        let start = self
            .entries
            .partition_point(|entry| entry.seq <= request.after);
        let mut taken = Taken {
            through: request.after,
            ..Taken::default()
        };
        let mut items = 0;
        let mut bytes = 0;
        for entry in self.entries.range(start..) {
            let action = entry.items.action().unwrap_or_default();
            if (request.wanted)(&entry.stream, action) {
                items += entry.items.len();
                bytes += entry.items.byte_len();
                let full = items > request.items_max || bytes > request.bytes_max;
                if full && !taken.entries.is_empty() {
                    break;
                }
                taken.entries.push(Arc::clone(entry));
            }
            taken.through = entry.seq;
        }
        Some(taken)
    }
}

fn cost(entry: &Entry) -> usize {
    entry.items.byte_len() + ENTRY_OVERHEAD_BYTES
}
