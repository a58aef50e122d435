//! The spans of a request in the pipeline.
//!
//! **Invariant**: of a request that is not followed nothing is done. A trace is kept for deliveries before its request is
//! handed to the journal, and forgotten if that takes nothing: a lane may be faster than the answer.

use super::Ingest;
use super::request::{Accepted, Known};
use crate::error::AcceptError;
use observe::telemetry::{Open, SpanKind};

impl Known<'_> {
    /// A part of its way that begins now.
    pub(super) fn span(&self, name: &'static str) -> Option<Open> {
        let open = self.head.trace?.open(name, SpanKind::Internal);
        let key = &self.caller.key;
        let open = open.with("headgate.stream", (&key.stream).into());
        Some(open.with("headgate.connector", (&key.connector).into()))
    }
}

impl Ingest {
    /// It is over, well or not.
    pub(super) fn end_span<T>(&self, span: Option<Open>, result: &Result<T, AcceptError>) {
        let Some(mut span) = span else { return };
        if let Err(error) = result {
            span.fail(error.status().1);
        }
        self.tracer.end(span);
    }

    /// From here on deliveries find the trace of a request. It is kept before the journal has the request, because a
    /// lane may be faster than the answer.
    pub(super) fn follow(&self, known: &Known<'_>) -> Option<Open> {
        let span = known.span("commit")?;
        if let Some(trace) = known.head.trace {
            self.tracer.keep(known.head.request_id, trace);
        }
        Some(span)
    }

    pub(super) fn end_commit(
        &self,
        known: &Known<'_>,
        span: Option<Open>,
        stored: &Result<Accepted, AcceptError>,
    ) {
        if span.is_none() {
            return;
        }
        let is_delivered = matches!(stored, Ok(accepted) if !accepted.receipt.replayed);
        if !is_delivered || known.caller.test {
            self.tracer.forget(known.head.request_id);
        }
        self.end_span(span, stored);
    }
}
