//! What the memory has for a reader at one moment.
//!
//! **Invariant**: nothing is recorded while there is a [`Reading`].

use std::sync::{Arc, MutexGuard};

use super::{Change, Logs};
use base::order::ChangeSeq;

/// What the memory has for a reader.
#[derive(Debug)]
pub enum Recent {
    /// These, oldest first.
    Changes {
        changes: Vec<Arc<Change>>,
        is_all: bool,
    },
    /// The reader is at the newest change of the stream.
    Nothing,
    /// The memory does not reach back to the reader's position: read the file.
    Behind,
}

/// What the memory has at one moment. One lock for several streams, so that they are read at one position.
#[derive(Debug)]
pub struct Reading<'a> {
    pub(super) logs: MutexGuard<'a, Logs>,
    /// Number of the last change.
    pub head: ChangeSeq,
}

impl Reading<'_> {
    /// The changes of a stream, or of some of its keys, after a position, oldest first, about `bytes_max` of them.
    pub fn after(
        &self,
        stream: &str,
        keys: Option<&[String]>,
        position: ChangeSeq,
        bytes_max: usize,
    ) -> Recent {
        let Some(log) = self.logs.streams.get(stream) else {
            return Recent::Behind;
        };
        if position < log.floor {
            return Recent::Behind;
        }
        match keys {
            None => about(
                log.changes.range(position + 1..).map(|(_, one)| one),
                bytes_max,
            ),
            Some(keys) => {
                let mut changes: Vec<_> = log.of_keys_after(keys, position).collect();
                changes.sort_unstable_by_key(|change| change.seq);
                about(changes.into_iter(), bytes_max)
            }
        }
    }

    /// Whether the memory knows that the stream, or some of its keys, did not change after a position.
    pub fn has_nothing_after(
        &self,
        stream: &str,
        keys: Option<&[String]>,
        position: ChangeSeq,
    ) -> bool {
        let Some(log) = self.logs.streams.get(stream) else {
            return false;
        };
        position >= log.floor
            && match keys {
                Some(keys) => log.of_keys_after(keys, position).next().is_none(),
                None => (log.changes.last_key_value()).is_none_or(|(last, _)| *last <= position),
            }
    }
}

/// The first of these, about so many bytes of them.
fn about<'a>(changes: impl Iterator<Item = &'a Arc<Change>>, bytes_max: usize) -> Recent {
    let (mut bytes, mut is_all) = (0, true);
    let mut found = Vec::new();
    for change in changes {
        if !found.is_empty() && bytes + change.json.len() > bytes_max {
            is_all = false;
            break;
        }
        bytes += change.json.len();
        found.push(Arc::clone(change));
    }
    match found.is_empty() {
        true => Recent::Nothing,
        false => Recent::Changes {
            changes: found,
            is_all,
        },
    }
}
