//! The operations of a batch.
//!
//! **Invariant**: an operation is compared by what was stored with its entry when it was accepted.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::{Operation, Place, Reached};
use base::clock::{self, Lived, Unix};
use base::order::{ItemPosition, Seq};
use item::batch::{Batch, Slice};
use item::{ItemRef, Version};
use settings::OnUpdate;

/// One item of the batch with what its operation needs beside it.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) stream: &'a Arc<str>,
    pub(super) item: ItemRef<'a>,
    pub(super) position: ItemPosition,
    pub(super) removes: bool,
    pub(super) origin: &'a Origin,
}

/// What the operations of a slice have in common.
pub(super) struct Origin {
    /// What updates did in the stream when they were accepted. None: it is not known, or they were put into another
    /// one. A later change of the setting does not concern them, because they were accepted under this one.
    on_update: Option<OnUpdate>,
    /// A sink has made them: they come after all that there is of their keys, because a retry may be taken after a
    /// later batch.
    pub(super) is_made: bool,
    pub(super) accepted_seq: Seq,
    pub(super) received_at: Unix,
    /// The same in time lived; of what was read from a file, now.
    arrived: Lived,
    pub(super) time: String,
    pub(super) request_id: String,
}

impl Origin {
    pub(super) fn of(slice: &Slice, batch: &Batch) -> Self {
        let entry = &slice.entry;
        let merges = entry.items.merges().filter(|_| !batch.is_moved());
        Self {
            on_update: merges.map(|merges| match merges {
                true => OnUpdate::Merge,
                false => OnUpdate::Replace,
            }),
            is_made: batch.is_made(),
            accepted_seq: entry.seq,
            received_at: entry.received_at,
            arrived: entry.arrived.unwrap_or_else(Lived::now),
            time: clock::rfc3339(entry.received_at),
            request_id: entry.request_id.to_string(),
        }
    }
}

impl<'a> Row<'a> {
    /// Its place in the order of acceptance.
    pub(super) fn place(&self) -> Place {
        (self.origin.accepted_seq, self.position)
    }

    /// What it does as an update, in a stream that does `of_stream` now.
    fn on_update(&self, of_stream: OnUpdate) -> OnUpdate {
        match self.item.meta.is_whole {
            true => OnUpdate::Replace,
            false => self.origin.on_update.unwrap_or(of_stream),
        }
    }

    /// It is an update without a version that takes the place of what is there. These need no read of the row, because
    /// what they leave does not depend on it.
    pub(super) fn is_plain_update(&self, of_stream: OnUpdate) -> bool {
        !self.removes
            && !self.origin.is_made
            && self.item.meta.version.is_none()
            && self.on_update(of_stream) == OnUpdate::Replace
    }

    /// As an operation on what was changed at `changed`.
    pub(super) fn operation(
        &self,
        of_stream: OnUpdate,
        index: usize,
        changed: Place,
    ) -> Operation<'a> {
        let version = self.item.meta.version;
        let reaches = match version {
            None if self.removes && self.item.meta.is_removal_in_time() => {
                let millionths = i128::from(self.origin.received_at.ms()) * 1_000_000;
                Some((
                    Version::from_millionths(millionths),
                    self.origin.time.clone().into(),
                ))
            }
            _ => version.zip(self.item.version_text()),
        };
        Operation {
            place: match self.origin.is_made {
                true => self.place().max((changed.0, changed.1 + 1)),
                false => self.place(),
            },
            fields: (!self.removes).then_some(self.item.fields),
            version,
            on_update: self.on_update(of_stream),
            reaches: reaches.map(|(version, text)| Reached { version, text }),
            index,
        }
    }

    /// When its item expires if nothing renews it. It counts from acceptance, so that a lane that is behind does not
    /// prolong it.
    pub(super) fn expires_at(&self) -> Option<Lived> {
        let seconds = self.item.meta.expire_after_seconds?;
        Some(self.origin.arrived + Duration::from_secs(seconds.get().into()))
    }
}
