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
    /// Renderers are told by [`publish_last`](Self::publish_last) alone.
    withheld: bool,
}

impl<'a> ChangeSet<'a> {
    pub(super) fn new(seq: ChangeSeq, changes: &'a Changes) -> Self {
        Self {
            seq,
            changes,
            streams: HashMap::new(),
            withheld: false,
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
        let (seq, withheld) = (self.seq, self.withheld);
        let of_stream = self.of_stream(stream);
        of_stream.updated_at = of_stream.updated_at.max(updated_at);
        if let Some(changes) = &mut of_stream.changes
            && !withheld
        {
            changes.push(change(seq));
        }
    }

    fn of_stream(&mut self, stream: &Arc<str>) -> &mut StreamChanges {
        // An entry that is there costs no clone of the name.
        if !self.streams.contains_key(stream) {
            let new = StreamChanges {
                stream: Arc::clone(stream),
                changes: self.changes.wants(stream).then(Vec::new),
                updated_at: Unix::MIN,
            };
            self.streams.insert(Arc::clone(stream), new);
        }
        self.streams
            .get_mut(stream)
            .expect("the entry was made if it was not there")
    }

    /// Changes that are made now have numbers, and what renderers see of them is another matter.
    pub(super) fn withhold(&mut self, withheld: bool) {
        self.withheld = withheld;
    }

    /// Renderers are to hear of the change that was made last.
    pub(super) fn publish_last(
        &mut self,
        stream: &Arc<str>,
        change: impl FnOnce(ChangeSeq) -> Change,
    ) {
        let seq = self.seq;
        if let Some(changes) = &mut self.of_stream(stream).changes {
            changes.push(change(seq));
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
