//! The spans of deliveries: one for each traced request of a batch, from the call of the sink to its settlement.
//!
//! Requests that the sink sends belong to the first of them.
//!
//! **Invariant**: without a collector, the only cost is the check for one. With a collector, a batch has a limited
//! number of spans.

use std::sync::Arc;

use uuid::Uuid;

use super::Lane;
use item::batch::{Batch, Slice};
use observe::telemetry::{Open, Parent, Push, SpanKind, Tracer, Value};
use plugin::{Failure, NotTaken, Taken};
use pool::{Effect, Settlement};

/// Maximum traced requests of a batch; others have no span, because each span is sent to the collector.
const FOLLOWED_MAX: usize = 64;

/// A traced request of a batch.
#[derive(Debug)]
pub(super) struct Followed {
    request_id: Uuid,
    span: Open,
}

/// Begins the spans of a batch; returns the context for requests of the sink.
pub(super) fn begin(
    tracer: &Tracer,
    sink: &Arc<str>,
    batch: &Batch,
    spans: &mut Vec<Followed>,
) -> Option<Parent> {
    let requests = batch.slices().iter().map(|slice| slice.entry.request_id);
    let first = spans.len();
    let room = FOLLOWED_MAX.saturating_sub(first);
    for (request_id, trace) in tracer.kept(requests, room) {
        let span = trace
            .open(format!("deliver {sink}"), SpanKind::Consumer)
            .with("headgate.sink", sink.into())
            .with("headgate.attempt", Value::Number(batch.attempt().into()))
            .with("headgate.batch_items", Value::Number(batch.len().into()));
        spans.push(Followed { request_id, span });
    }
    spans.get(first).map(|followed| followed.span.as_parent())
}

/// Records that the sink did not accept a batch.
pub(super) fn failed(spans: &mut [Followed], result: &Result<Taken, NotTaken>) {
    let Err(NotTaken { failure, .. }) = result else {
        return;
    };
    let word = match failure {
        Failure::Retry { .. } => "retry",
        Failure::Reject { .. } => "reject",
        Failure::Trap { .. } => "trap",
        Failure::NotGranted { .. } => "not_granted",
    };
    spans
        .iter_mut()
        .for_each(|followed| followed.span.fail(word));
}

impl Lane {
    /// Ends the spans of a call; with a reason if it failed.
    pub(super) fn end_spans(&mut self, error: Option<&'static str>) {
        for Followed { mut span, .. } in self.spans.drain(..) {
            if let Some(error) = error {
                span.fail(error);
            }
            self.delivery.tracer.end(span);
        }
    }

    /// Records the pushes that a settlement causes, before it is committed: renderers may receive them earlier than
    /// this lane continues.
    pub(super) fn expect_pushes(&self, settlement: &Settlement) -> Push {
        if self.spans.is_empty() {
            return Push::default();
        }
        let staged = &settlement.staged;
        let is_published = |batch: &Batch| staged.publishes.iter().any(|one| one.is(batch));
        let removed = staged.effects.iter().filter_map(|effect| match effect {
            Effect::Delete(batch) => Some(batch),
            Effect::Apply(batch) if !is_published(batch) => Some(batch),
            Effect::Apply(_) | Effect::Upsert(_) => None,
        });
        let pushed = staged.publishes.iter().chain(removed);
        let of = |slice: &Slice| {
            let own = |followed: &&Followed| followed.request_id == slice.entry.request_id;
            let followed = self.spans.iter().find(own)?;
            let stream = &slice.entry.stream;
            let push = followed.span.open("push", SpanKind::Producer);
            Some((
                Arc::clone(stream),
                push.with("headgate.stream", stream.into()),
            ))
        };
        let of = pushed.flat_map(|batch| batch.slices()).filter_map(of);
        self.delivery.tracer.expect_pushes(of.collect())
    }

    /// Records that the settlement is committed.
    pub(super) fn committed(&mut self, push: &Push) {
        if self.spans.is_empty() {
            return;
        }
        let changes = self.delivery.pool.changes();
        let newest = |stream: &str| changes.newest_followed(stream);
        self.delivery.tracer.committed(push, newest);
        self.end_spans(None);
    }
}
