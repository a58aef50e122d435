//! What one transaction changes: the numbers of its changes, and what renderers are to be told.
//!
//! **Invariant**: every change takes the next number of the one sequence, told or not.

use std::collections::HashMap;
use std::sync::Arc;

use super::changes::{Change, Changes, StreamChanges};
use base::clock::Unix;
use base::order::ChangeSeq;

/// What one transaction changes: hands out the numbers, keeps what renderers are to be told.
pub(super) struct ChangeSet<'a> {
    seq: ChangeSeq,
    changes: &'a Changes,
    streams: HashMap<Arc<str>, StreamChanges>,
}

impl<'a> ChangeSet<'a> {
    pub(super) fn new(seq: ChangeSeq, changes: &'a Changes) -> Self {
        Self {
            seq,
            changes,
            streams: HashMap::new(),
        }
    }

    /// Number of the last change.
    pub(super) fn seq(&self) -> ChangeSeq {
        self.seq
    }

    pub(super) fn next(&self) -> ChangeSeq {
        self.seq + 1
    }

    /// The change with the number [`next`](Self::next) was made; renderers are to hear of it.
    pub(super) fn publish(
        &mut self,
        stream: &Arc<str>,
        updated_at: Unix,
        change: impl FnOnce(ChangeSeq) -> Change,
    ) {
        self.seq += 1;
        let wanted = match self.streams.get_mut(stream) {
            Some(of_stream) => of_stream,
            None => {
                let collected = self.changes.wants(stream).then(Vec::new);
                let new = StreamChanges {
                    stream: Arc::clone(stream),
                    changes: collected,
                    updated_at: Unix::MIN,
                };
                self.streams.entry(Arc::clone(stream)).or_insert(new)
            }
        };
        wanted.updated_at = wanted.updated_at.max(updated_at);
        if let Some(changes) = &mut wanted.changes {
            changes.push(change(self.seq));
        }
    }

    /// The change was made, and renderers do not hear of it.
    pub(super) fn keep_quiet(&mut self) {
        self.seq += 1;
    }

    /// The transaction is committed.
    pub(super) fn finish(self) -> Vec<StreamChanges> {
        self.streams.into_values().collect()
    }
}
