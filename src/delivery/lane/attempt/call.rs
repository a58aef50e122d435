//! A call of the plugin: prepared by the lane, and made without it.
//!
//! **Invariant**: no call begins or continues after the lease of the node has ended.

use std::ops::Range;

use crate::lane::{Lane, StepError, trace};
use crate::selection;
use base::lease::Lease;
use item::batch::Batch;
use plugin::{Failure, Instance, NotTaken, RecycleReason, Taken};

/// A call that is ready to be made. It borrows nothing of the lane, so that several calls can be under way at once.
pub(in crate::lane) struct PreparedCall {
    instance: Instance,
    pub(super) batch: Batch,
    /// Its spans among those of the lane.
    pub(super) spans: Range<usize>,
    lease: Option<Lease>,
}

/// Result of the preparation of a call.
pub(in crate::lane) enum Prepared {
    Call(Box<PreparedCall>),
    /// Decided without a call.
    Decided(NotTaken),
}

/// A call that was made.
pub(in crate::lane) struct Called {
    pub(super) instance: Instance,
    pub(super) spans: Range<usize>,
    /// None: the lease was over before or meanwhile.
    pub(super) result: Option<Result<Taken, NotTaken>>,
}

/// Waits until no call may be under way any more. It looks again after each sleep, because the lease is renewed
/// meanwhile.
async fn is_over(lease: &Lease) {
    while let left = lease.left()
        && !left.is_zero()
    {
        tokio::time::sleep(left).await;
    }
}

impl PreparedCall {
    pub(in crate::lane) async fn make(self) -> Called {
        let Self {
            mut instance,
            batch,
            spans,
            lease,
        } = self;
        let result = match lease {
            None => Some(instance.write(batch).await),
            Some(lease) if lease.may_begin() => tokio::select! {
                result = instance.write(batch) => Some(result),
                () = is_over(&lease) => None,
            },
            Some(_) => None,
        };
        Called {
            instance,
            spans,
            result,
        }
    }
}

impl Lane {
    /// Prepares a call with a batch: selects its fields, takes an instance and begins its spans. A batch whose fields
    /// are too large is halved, because its halves may have the space.
    pub(in crate::lane) async fn prepare(&mut self, batch: Batch) -> Result<Prepared, StepError> {
        let batch = batch.in_fill(self.last_fill());
        let batch = match selection::with_fields(&self.sink, &batch) {
            Ok(chosen) => chosen.unwrap_or(batch),
            Err(error) => {
                let reason = format!("its `fields` cannot be chosen: {error}");
                // The halves of a batch may have room.
                let failure = match batch.len() {
                    1 => Failure::Reject { reason },
                    _ => Failure::Trap { reason },
                };
                return Ok(Prepared::Decided(failure.into()));
            }
        };
        let Some(mut instance) = self.ready_instance().await? else {
            let reason = "the plugin is not loaded".to_owned();
            return Ok(Prepared::Decided(Failure::Trap { reason }.into()));
        };
        let tracer = &self.delivery.tracer;
        let first = self.spans.len();
        if tracer.is_on() {
            instance.follow(trace::begin(tracer, &self.name, &batch, &mut self.spans));
        }
        let spans = first..self.spans.len();
        Ok(Prepared::Call(Box::new(PreparedCall {
            instance,
            batch,
            spans,
            lease: self.delivery.lease.get().cloned(),
        })))
    }

    /// Takes an instance that can be called; `None` without a plugin.
    async fn ready_instance(&mut self) -> Result<Option<Instance>, StepError> {
        if let Some(instance) = self.instances.pop() {
            match instance.recycle_reason() {
                None => {
                    self.note_healthy();
                    return Ok(Some(instance));
                }
                Some(RecycleReason::Handles) => self.leaks_handles(),
                Some(RecycleReason::Age) => self.note_healthy(),
            }
        }
        Ok(match &self.plugin {
            Some(plugin) => Some(plugin.start(&self.context).await?),
            None => None,
        })
    }
}
