//! Results of a call with a batch.
//!
//! **Invariant**: the texts of a guest are shortened, and secrets are masked, before anything else uses them.

use std::ops::Range;
use std::time::Duration;

use thiserror::Error;

use super::Failure;
use super::host::Host;
use super::host::bindings::exports::headgate::sink::{operations, removals, sink as world};
use item::batch::{Action, Batch};
use pool::{Effect, Staged};

/// Maximum bytes of a guest's reason: it is stored with each dead letter.
const REASON_BYTES_MAX: usize = 4_096;

/// Progress of a guest with a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Number of items, from the first one, that are settled permanently: accepted, or rejected.
    pub taken: u32,
    /// Positions of permanently rejected items, with the guest's reasons. Those below `taken` apply.
    pub refused: Vec<(Range<u32>, String)>,
}

/// A batch that was not accepted, or only in part. The staged effects of the failed call are dropped.
#[derive(Debug, Error)]
#[error("{failure}")]
pub struct NotTaken {
    pub failure: Failure,
    /// The part that is settled nevertheless.
    pub progress: Progress,
    /// Staged effects of the calls before the failed one. They belong to settled items.
    pub staged: Staged,
}

impl NotTaken {
    /// The same result for a batch that was accepted up to `start`. Earlier runs were accepted, so that a retry must
    /// not send them again.
    pub(super) fn after(self, start: u32, before: Taken) -> Self {
        let rejected = before.rejected.into_iter();
        let rejected = rejected.map(|(index, reason)| (index..index + 1, reason));
        let refused = self.progress.refused.into_iter();
        let shifted = |index: u32| index.saturating_add(start);
        let refused = refused.map(|(range, why)| (shifted(range.start)..shifted(range.end), why));
        Self {
            failure: self.failure,
            progress: Progress {
                taken: start + self.progress.taken,
                refused: rejected.chain(refused).collect(),
            },
            staged: before.staged,
        }
    }
}

impl From<Failure> for NotTaken {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            progress: Progress::default(),
            staged: Staged::default(),
        }
    }
}

/// A batch that a guest accepted.
#[derive(Debug, Default)]
pub struct Taken {
    /// Its effects, which are committed with the cursor.
    pub staged: Staged,
    /// Items that it rejects permanently: their position in the batch, and the reason.
    pub rejected: Vec<(u32, String)>,
}

/// A change of an item in the data pool, or a message to renderers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemChange {
    /// `upsert`, `delete` or `publish`.
    pub action: &'static str,
    pub stream: String,
    pub key: String,
    /// The fields of an update, as JSON.
    pub fields: Option<String>,
}

impl Taken {
    /// The staged changes of items, in order.
    pub fn changes(&self) -> Vec<ItemChange> {
        let mut changes = Vec::new();
        let mut add = |action: Option<&'static str>, batch: &Batch| {
            for slice in batch.slices() {
                for (_, item) in slice.items() {
                    let of_item = match item.action {
                        Action::Upsert => "upsert",
                        Action::Remove => "delete",
                    };
                    let action = action.unwrap_or(of_item);
                    changes.push(ItemChange {
                        action,
                        stream: slice.entry.stream.to_string(),
                        key: item.key.to_owned(),
                        fields: (action == "upsert").then(|| item.fields.to_owned()),
                    });
                }
            }
        };
        for effect in &self.staged.effects {
            match effect {
                Effect::Upsert(batch) => add(Some("upsert"), batch),
                Effect::Delete(batch) => add(Some("delete"), batch),
                Effect::Apply(batch) => add(None, batch),
            }
        }
        for batch in &self.staged.publishes {
            add(Some("publish"), batch);
        }
        changes
    }

    /// The result for the items from `start` on.
    pub(super) fn add(&mut self, start: u32, later: Self) {
        self.staged.add(later.staged);
        let rejected = later.rejected.into_iter();
        self.rejected
            .extend(rejected.map(|(index, reason)| (start + index, reason)));
    }
}

/// The rejected items of a call, with the guest's reasons. A position outside of the batch is a fault of the guest, so
/// that nothing it says of this batch counts.
pub(super) fn rejected_by(
    result: wasmtime::Result<Result<(), world::WriteError>>,
    host: &Host,
    len: u32,
) -> Result<Vec<(u32, String)>, Failure> {
    let redacted = |reason: String| shortened(host.redactor().redact(reason));
    let trap = |reason: String| Failure::Trap { reason };
    Err(match result {
        Ok(Ok(())) => return Ok(Vec::new()),
        Ok(Err(world::WriteError::RejectItems(rejections))) => {
            let rejected: Vec<(u32, String)> = rejections
                .into_iter()
                .map(|one| (one.index, redacted(one.reason)))
                .collect();
            match rejected.iter().find(|(index, _)| *index >= len) {
                Some((index, _)) => trap(format!("it rejects item {index}; the batch has {len}")),
                None => return Ok(rejected),
            }
        }
        Ok(Err(world::WriteError::Retry(retry))) => Failure::Retry {
            after: retry.after_ms.map(Duration::from_millis),
            reason: redacted(retry.reason),
        },
        Ok(Err(world::WriteError::Reject(reason))) => Failure::Reject {
            reason: redacted(reason),
        },
        Err(error) if host.is_not_granted => Failure::NotGranted {
            reason: redacted(error.root_cause().to_string()),
        },
        Err(error) => trap(redacted(host.describe(&error))),
    })
}

/// The errors of these interfaces are those of `sink`, which their types cannot express.
macro_rules! as_write_error {
    ($interface:ident, $error:ident) => {
        impl From<$interface::$error> for world::WriteError {
            fn from(error: $interface::$error) -> Self {
                match error {
                    $interface::$error::Retry(retry) => Self::Retry(world::Retry {
                        after_ms: retry.after_ms,
                        reason: retry.reason,
                    }),
                    $interface::$error::Reject(reason) => Self::Reject(reason),
                    $interface::$error::RejectItems(items) => {
                        let items = items.into_iter().map(|one| world::Rejection {
                            index: one.index,
                            reason: one.reason,
                        });
                        Self::RejectItems(items.collect())
                    }
                }
            }
        }
    };
}

as_write_error!(removals, RemoveError);
as_write_error!(operations, ApplyError);

/// The beginning of a long reason.
pub(super) fn shortened(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        reason.push('…');
    }
    reason
}
