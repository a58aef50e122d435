//! What one transaction changes: the numbers of its changes, what is sent to renderers, and what the log of changes says
//! of it.
//!
//! **Invariant**: every change takes the next number of the one sequence, sent or not. Each change of a key is in the log.

use std::collections::HashMap;
use std::sync::Arc;

use super::change_log::Appending;
use super::changes::{Change, Changes, StreamChanges};
use base::clock::Unix;
use base::order::ChangeSeq;

/// What one transaction changes: hands out the numbers, keeps what is sent to renderers.
pub(super) struct ChangeSet<'a> {
    seq: ChangeSeq,
    changes: &'a Changes,
    streams: HashMap<Arc<str>, OfStream>,
    /// Changes are sent by [`publish_last`](Self::publish_last) alone. What acts cover is not shown as its source says,
    /// so the source's change is not sent.
    withheld: bool,
}

/// What it changes of a stream.
#[derive(Default)]
struct OfStream {
    /// None: nothing is sent to renderers.
    sent: Option<StreamChanges>,
    log: Appending,
}

impl OfStream {
    fn sent(&mut self, stream: &Arc<str>, changes: &Changes) -> &mut StreamChanges {
        (self.sent).get_or_insert_with(|| StreamChanges::of(stream, changes))
    }
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

    /// The change of a key with the number [`next`](Self::next) was made; it is sent to renderers. `change` is called
    /// only if someone listens to the stream, because it copies the fields.
    pub(super) fn publish(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        updated_at: Unix,
        change: impl FnOnce(ChangeSeq) -> Change,
    ) {
        self.seq += 1;
        let (changes, is_sent) = (self.changes, !self.withheld);
        self.log(stream, key, |of_stream, seq| {
            let sent = of_stream.sent(stream, changes);
            sent.updated_at = sent.updated_at.max(updated_at);
            if is_sent && let Some(changes) = &mut sent.changes {
                changes.push(change(seq));
            }
        });
    }

    /// Changes that are made now have numbers, and what renderers see of them is another matter.
    pub(super) fn withhold(&mut self, withheld: bool) {
        self.withheld = withheld;
    }

    /// Sends renderers the change of a key that was made last.
    pub(super) fn publish_last(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        change: impl FnOnce(ChangeSeq) -> Change,
    ) {
        let changes = self.changes;
        self.log(stream, key, |of_stream, seq| {
            if let Some(changes) = &mut of_stream.sent(stream, changes).changes {
                changes.push(change(seq));
            }
        });
    }

    /// The change of a key was made, and is not sent to renderers.
    pub(super) fn keep_quiet(&mut self, stream: &Arc<str>, key: &str) {
        self.seq += 1;
        self.log_last(stream, key);
    }

    /// The same of the change that was made last.
    pub(super) fn log_last(&mut self, stream: &Arc<str>, key: &str) {
        self.log(stream, key, |_, _| ());
    }

    /// A number for what changes no key by itself.
    pub(super) fn count(&mut self) {
        self.seq += 1;
    }

    /// The change of a key that was made last is in the log; then `then` has what is changed of the stream.
    fn log(&mut self, stream: &Arc<str>, key: &str, then: impl FnOnce(&mut OfStream, ChangeSeq)) {
        // An entry that is there costs no clone of the name, and no second look.
        let of_stream = match self.streams.get_mut(stream) {
            Some(of_stream) => of_stream,
            None => self.streams.entry(Arc::clone(stream)).or_default(),
        };
        of_stream.log.note(key, self.seq, !self.withheld);
        then(of_stream, self.seq);
    }

    /// What is appended to the log of each stream.
    pub(super) fn appending(&self) -> impl Iterator<Item = (&Arc<str>, &Appending)> {
        (self.streams.iter()).map(|(stream, of_stream)| (stream, &of_stream.log))
    }

    pub(super) fn finish(self) -> Vec<StreamChanges> {
        let streams = self.streams.into_values();
        streams.filter_map(|of_stream| of_stream.sent).collect()
    }
}

impl StreamChanges {
    fn of(stream: &Arc<str>, changes: &Changes) -> Self {
        Self {
            stream: Arc::clone(stream),
            changes: changes.wants(stream).then(Vec::new),
            updated_at: Unix::MIN,
        }
    }
}
