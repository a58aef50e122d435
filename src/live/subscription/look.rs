//! What the pool's memory has behind the positions of a subscription, of all streams at one moment.
//!
//! **Invariant**: a stream is skipped only if nothing in it was for the client.

use std::sync::Arc;

use super::{Following, MESSAGE_BYTES_MAX, Subscription};
use base::order::ChangeSeq;
use pool::changes::{Change, Reading, Recent};

/// What is to be sent next.
#[derive(Debug)]
pub(super) enum Look {
    Nothing,
    /// Changes of the stream at this place.
    Changes {
        at: usize,
        changes: Vec<Arc<Change>>,
        /// There are no more, of any stream.
        is_all: bool,
        /// Number of the last change.
        head: ChangeSeq,
    },
    /// The stream at this place has changes that only the file still has.
    Behind(usize),
}

impl Following {
    /// The only keys that the client follows; `None`: all.
    pub(super) fn keys(&self) -> Option<&[String]> {
        self.view.as_ref().and_then(|view| view.keys())
    }

    /// Skips to the last change if no change for the client came. Otherwise a quiet stream would hold back the
    /// position, and a client that resumes would receive more again.
    fn skip(&mut self, reading: &Reading<'_>) -> bool {
        let is_skipped = self.snapshot.is_none()
            && reading.has_nothing_after(&self.stream, self.keys(), self.position);
        if is_skipped {
            // A read from the file can be ahead of the memory.
            self.position = self.position.max(reading.head);
        }
        is_skipped
    }

    fn look(&self, at: usize, reading: &Reading<'_>) -> Look {
        match reading.after(&self.stream, self.keys(), self.position, MESSAGE_BYTES_MAX) {
            Recent::Nothing => Look::Nothing,
            Recent::Changes { changes, is_all } => Look::Changes {
                at,
                changes,
                is_all,
                head: reading.head,
            },
            Recent::Behind => Look::Behind(at),
        }
    }
}

impl Subscription {
    /// Returns the changes of the first stream that has some up to `through`. One lock is taken for all streams, so
    /// that a renderer waits for it once a change.
    pub(super) fn look(&mut self, through: ChangeSeq) -> Look {
        let reading = self.live.pool.changes().read();
        let mut found = Look::Nothing;
        // Also the streams behind it, so that the ids of the messages cover all streams.
        for (at, following) in self.streams.iter_mut().enumerate() {
            if following.skip(&reading) || following.position >= through {
                continue;
            }
            match &mut found {
                Look::Nothing => found = following.look(at, &reading),
                Look::Changes { is_all, .. } => *is_all = false,
                Look::Behind(_) => {}
            }
        }
        found
    }

    /// Skips to the last change in the streams where no change for the client came.
    pub(super) fn skip_foreign(&mut self) {
        let reading = self.live.pool.changes().read();
        for following in &mut self.streams {
            following.skip(&reading);
        }
    }
}
