//! Traces: the way of a request in spans, sent to a collector as OTLP.
//!
//! `http` begins a trace, `ingest`, `delivery` and `live` add spans to it, `daemon` runs the exporter. What a caller says
//! of its own trace is in `telemetry/context.rs`, the span of a push in `telemetry/pushes.rs`, the collector's format in
//! `telemetry/otlp.rs`, sending in `telemetry/export.rs`.
//!
//! A request outlives its answer, so its trace is kept in memory by the request's id, for so many requests
//! (`KEPT_MAX`): deliveries look there, retries too. A restart forgets it; what is delivered then has no spans.
//!
//! **Invariant**: without a collector nothing is allocated, locked or asked of the clock. With one, nothing waits: a span
//! that finds no room is counted and gone, and no request is ever refused for one.

mod context;
mod export;
mod otlp;
mod pushes;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::metrics::Metrics;
use base::clock;
use base::order::ChangeSeq;
pub use context::Parent;
use context::{Caller, SpanId, TraceId};
pub use export::Exporter;
pub use pushes::Push;
use pushes::Pushes;
use settings::Otlp;

/// Spans that wait for the exporter.
const SPANS_MAX: usize = 8_192;
/// Requests whose traces are kept for their deliveries; the oldest go first.
const KEPT_MAX: usize = 8_192;

/// Makes spans, or none if there is no collector.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    spans: mpsc::Sender<Span>,
    /// Of requests whose callers have no trace, so many in a hundred have one.
    sample_percent: u32,
    kept: Mutex<Kept>,
    pushes: Pushes,
    metrics: Arc<Metrics>,
}

/// Traces by the ids of their requests.
#[derive(Debug, Default)]
struct Kept {
    traces: HashMap<Uuid, Trace>,
    oldest: VecDeque<Uuid>,
}

/// The trace of a request that is followed.
#[derive(Debug, Clone)]
pub struct Trace {
    id: TraceId,
    /// The span of the request itself, which is the parent of the others.
    root: SpanId,
    /// The caller's span.
    caller: Option<SpanId>,
    /// `tracestate`, as it came.
    state: Option<Arc<str>>,
    /// One moment by both clocks: all times of a trace are counted from it, so that they are in order.
    began: Instant,
    began_unix_ns: u64,
}

/// What a span is about, in the words of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of the daemon's own.
    Internal = 1,
    /// A request that came.
    Server = 2,
    /// Something is handed on.
    Producer = 4,
    /// Something is delivered.
    Consumer = 5,
}

/// What is said of a span.
#[derive(Debug, Clone)]
pub enum Value {
    Text(Cow<'static, str>),
    /// A name that is shared.
    Name(Arc<str>),
    Number(u64),
}

/// A part of a request's way that has begun.
#[derive(Debug, Clone)]
pub struct Open {
    trace: Trace,
    id: SpanId,
    parent: Option<SpanId>,
    name: Cow<'static, str>,
    kind: SpanKind,
    began: Instant,
    attributes: Vec<(&'static str, Value)>,
    /// What went wrong, in a word.
    error: Option<&'static str>,
}

/// One that is over.
#[derive(Debug)]
struct Span {
    open: Open,
    ended: Instant,
}

impl Tracer {
    /// A tracer and what sends its spans, if the settings name a collector.
    pub fn new(settings: &Otlp, metrics: &Arc<Metrics>) -> (Self, Option<Exporter>) {
        let Some(endpoint) = &settings.endpoint else {
            return (Self::default(), None);
        };
        let (sender, receiver) = mpsc::channel(SPANS_MAX);
        let exporter = match Exporter::new(endpoint, settings, receiver, Arc::clone(metrics)) {
            Ok(exporter) => exporter,
            Err(error) => {
                tracing::error!(%error, "traces cannot be sent, and none are made");
                return (Self::default(), None);
            }
        };
        let inner = Inner {
            spans: sender,
            sample_percent: settings.sample_percent,
            kept: Mutex::default(),
            pushes: Pushes::default(),
            metrics: Arc::clone(metrics),
        };
        (Self(Some(Arc::new(inner))), Some(exporter))
    }

    /// Whether there is a collector.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The trace of a request that begins now: its caller's, if that is followed, or a new one for as many as are wanted.
    /// `header` gives the values of the header of a name.
    pub fn begin<'a, Values: Iterator<Item = &'a [u8]>>(
        &self,
        header: impl Fn(&'static str) -> Values,
    ) -> Option<Trace> {
        let inner = self.0.as_ref()?;
        let caller = Caller::of(header("traceparent"));
        let is_followed = match &caller {
            Some(caller) => caller.sampled,
            None => base::backoff::jitter(100) < inner.sample_percent,
        };
        if !is_followed {
            return None;
        }
        let state = caller
            .is_some()
            .then(|| context::state(header("tracestate")));
        Some(Trace {
            id: caller
                .as_ref()
                .map_or_else(context::new_trace, |caller| caller.trace),
            root: context::new_span(),
            caller: caller.map(|caller| caller.span),
            state: state.flatten(),
            began: Instant::now(),
            began_unix_ns: clock::unix_ns(),
        })
    }

    /// Keeps a trace for the deliveries of its request.
    pub fn keep(&self, request_id: Uuid, trace: &Trace) {
        let Some(inner) = &self.0 else { return };
        let mut kept = inner.kept();
        if kept.traces.insert(request_id, trace.clone()).is_none() {
            kept.oldest.push_back(request_id);
        }
        if kept.oldest.len() > KEPT_MAX
            && let Some(oldest) = kept.oldest.pop_front()
        {
            kept.traces.remove(&oldest);
        }
    }

    /// Nothing of this request will be delivered. Its place among the oldest stays, because finding it would take a
    /// search.
    pub fn forget(&self, request_id: Uuid) {
        if let Some(inner) = &self.0 {
            inner.kept().traces.remove(&request_id);
        }
    }

    /// The traces of those of these requests that are followed, at most `max`, each once.
    pub fn kept(&self, requests: impl Iterator<Item = Uuid>, max: usize) -> Vec<(Uuid, Trace)> {
        let mut found: Vec<(Uuid, Trace)> = Vec::new();
        let Some(inner) = self.0.as_ref().filter(|_| max > 0) else {
            return found;
        };
        let kept = inner.kept();
        for id in requests {
            if found.last().is_some_and(|(last, _)| *last == id) {
                continue;
            }
            if let Some(trace) = kept.traces.get(&id) {
                found.push((id, trace.clone()));
                if found.len() == max {
                    break;
                }
            }
        }
        found
    }

    /// A span is over.
    pub fn end(&self, open: Open) {
        self.end_at(open, Instant::now());
    }

    fn end_at(&self, open: Open, ended: Instant) {
        let Some(inner) = &self.0 else { return };
        if inner.spans.try_send(Span { open, ended }).is_err() {
            inner.metrics.spans_dropped.inc();
        }
    }

    /// These are about to be committed, each with the stream whose renderers hear of it.
    pub fn expect_pushes(&self, of: Vec<(Arc<str>, Open)>) -> Push {
        match &self.0 {
            Some(inner) => inner.pushes.expect(of),
            None => Push::default(),
        }
    }

    /// They are committed. `newest` is the number of the last change of a stream, if anybody follows it.
    pub fn committed(&self, push: &Push, newest: impl Fn(&str) -> Option<ChangeSeq>) {
        if let Some(inner) = &self.0 {
            let over = inner.pushes.committed(push, newest);
            over.into_iter()
                .for_each(|(open, at)| self.end_at(open, at));
        }
    }

    /// The first of its renderers may have been sent everything of a stream up to here.
    pub fn pushed(&self, stream: &str, through: ChangeSeq) {
        if let Some(inner) = &self.0 {
            let now = Instant::now();
            let over = inner.pushes.pushed(stream, through, now);
            over.into_iter().for_each(|open| self.end_at(open, now));
        }
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trace {
    /// The span of the request itself.
    pub fn root(&self, name: impl Into<Cow<'static, str>>) -> Open {
        Open {
            id: self.root,
            parent: self.caller,
            began: self.began,
            ..self.open(name, SpanKind::Server)
        }
    }

    /// A part of its way that begins now.
    pub fn open(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Open {
        Open {
            id: context::new_span(),
            parent: Some(self.root),
            trace: self.clone(),
            name: name.into(),
            kind,
            began: Instant::now(),
            attributes: Vec::new(),
            error: None,
        }
    }
}

impl Open {
    /// Says something of it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.attributes.push((name, value));
        self
    }

    /// It began when its request did.
    #[must_use]
    pub fn since_the_beginning(mut self) -> Self {
        self.began = self.trace.began;
        self
    }

    /// It went wrong, in a word.
    pub fn fail(&mut self, error: &'static str) {
        self.error = Some(error);
    }

    /// A part of it that begins now.
    pub fn open(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        Self {
            parent: Some(self.id),
            ..self.trace.open(name, kind)
        }
    }

    /// What a request says that is sent in the course of it.
    pub fn as_parent(&self) -> Parent {
        Parent::new(&self.trace.id, &self.id, self.trace.state.clone())
    }
}

impl From<&Arc<str>> for Value {
    fn from(name: &Arc<str>) -> Self {
        Self::Name(Arc::clone(name))
    }
}

#[cfg(test)]
mod tests;
