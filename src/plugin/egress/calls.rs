//! The requests of one instance through `wasi:http` and `http`.
//!
//! **Invariant**: a request is checked and completed here before it is sent; none is sent outside of `write`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody,
    WasiHttpHooks,
};

use super::Egress;
use super::body::{Answer, Outgoing};
use super::target::Target;
use crate::SinkContext;
use crate::trial::{Trial, taken, whole};
use base::text::hex;
use item::batch::{Batch, Span};
use observe::telemetry::Parent;

/// Time before the deadline of a call in which its requests end, so that the guest can still report it.
const FAREWELL_MAX: Duration = Duration::from_millis(250);
/// Bytes of a body that a guest passes at once: it can begin as many bodies as it has handles. With larger pieces, all
/// of them together would use much memory.
const PIECE_BYTES_MAX: usize = 32 << 10;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const AGENT: &str = concat!("headgate/", env!("CARGO_PKG_VERSION"));
/// The requests of one instance.
pub(crate) struct Calls {
    sink: Arc<str>,
    /// The selection of the sink, and the templates that make its requests. It is part of each key, because another
    /// template makes another body of the same items.
    shape: String,
    egress: Option<Arc<Egress>>,
    /// It was called with a batch. Templates that are parsed later would otherwise change the keys of a retry.
    has_begun: bool,
    call: Option<Call>,
    /// The span of its requests, if a request of the batch is traced.
    parent: Option<Parent>,
    trial: Option<Arc<Trial>>,
}

/// The current call.
struct Call {
    /// Distinguishes the items of the batch from all others, even those of other daemons.
    all: [u8; 32],
    /// Distinguishes the items of the next request. A retry may come in another batch, and needs the same key.
    carried: [u8; 32],
    deadline: Instant,
    requests: u32,
    /// The number of requests with the same items to each target. A receiver would otherwise take the second request
    /// for a repetition of the first.
    keys: HashMap<[u8; 32], u32>,
}

impl Calls {
    pub(crate) fn new(context: &SinkContext, egress: Option<Arc<Egress>>) -> Self {
        Self {
            sink: Arc::clone(&context.sink),
            shape: context.selection.to_string(),
            egress,
            has_begun: false,
            call: None,
            parent: None,
            trial: context.trial.clone(),
        }
    }

    /// Records that the guest parsed a template. After its first batch, this changes no key.
    pub(crate) fn shape(&mut self, template: &str) {
        if !self.has_begun {
            self.shape.push_str(template);
        }
    }

    /// Requests of the next calls belong to this span.
    pub(crate) fn follow(&mut self, parent: Option<Parent>) {
        self.parent = parent;
    }

    /// Begins a call with a time limit.
    pub(crate) fn begin(&mut self, batch: &Batch, time_max: Duration) {
        if self.egress.is_none() {
            return;
        }
        self.has_begun = true;
        let all = batch.identity(Span::ALL).unwrap_or_default();
        let farewell = FAREWELL_MAX.min(time_max / 4);
        self.call = Some(Call {
            all,
            carried: all,
            deadline: Instant::now() + time_max.saturating_sub(farewell),
            requests: 0,
            keys: HashMap::new(),
        });
    }

    /// Sets the items of the next requests in this call; without items they belong to the whole batch.
    pub(crate) fn carry(&mut self, batch: &Batch, span: Span) {
        if let Some(call) = &mut self.call {
            call.carried = batch.identity(span).unwrap_or(call.all);
        }
    }

    /// Ends the call.
    pub(crate) fn end(&mut self) {
        self.call = None;
    }

    /// Whether the guest keeps a request or a response. Such an instance is replaced, because the handle would keep a
    /// slot of the sink.
    pub(crate) fn under_way(&self) -> bool {
        let egress = self.egress.as_ref();
        egress.is_some_and(|egress| egress.slots.available_permits() < egress.concurrency_max)
    }

    /// Checks a request now; it is sent when the result is awaited. A trial sends nothing unless it is allowed to.
    pub(crate) fn send(
        &mut self,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> impl Future<Output = Result<Response<WasiBody>, Error>> + Send + use<> {
        let (prepared, trial) = (self.prepare(request), self.trial.clone());
        async move {
            let prepared = prepared?;
            match trial {
                None => Ok(prepared.send(options).await?.map(BodyExt::boxed_unsync)),
                Some(trial) => prepared.try_out(&trial, options).await,
            }
        }
    }

    /// Checks a request and prepares it. A call outside of `write` is refused, because its items and its deadline are
    /// not known.
    fn prepare(&mut self, request: Request<WasiBody>) -> Result<Prepared, Error> {
        let (Some(egress), Some(target)) = (&self.egress, Target::of(request.uri())) else {
            return Err(Error::HttpRequestUriInvalid);
        };
        let sink = &*self.sink;
        let Some(call) = &mut self.call else {
            let message = "the sink makes a call outside of `write`, which is not allowed";
            egress.log_refusal(sink, &target, "none", message);
            return Err(Error::HttpRequestDenied);
        };
        if !egress.allows(&target) {
            let message = "the sink may not call this host; to allow it, add it to `hosts` of the sink's `http` table";
            egress.log_refusal(sink, &target, "http.hosts", message);
            return Err(Error::HttpRequestDenied);
        }
        if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
            return Err(Error::HttpRequestMethodInvalid);
        }
        if call.requests >= egress.requests_max {
            let message = "the sink sends more requests in one call than `requests_max` of its `http` table allows";
            egress.log_refusal(sink, &target, "http.requests_max", message);
            return Err(Error::HttpRequestDenied);
        }
        call.requests += 1;
        let (mut head, body) = request.into_parts();
        let declared = head.headers.get(header::CONTENT_LENGTH);
        let declared: Option<u64> = declared.and_then(|value| value.to_str().ok()?.parse().ok());
        if declared.is_some_and(|bytes| bytes > egress.request_bytes_max) {
            let message = "the sink sends more than `request_bytes_max` of its `http` table allows";
            egress.log_refusal(sink, &target, "http.request_bytes_max", message);
            return Err(Error::HttpRequestBodySize(declared));
        }
        let of = (sink, &*self.shape);
        let key = call.key(of, &head.method, &target, head.uri.path());
        complete(
            &mut head.headers,
            &target,
            &head.method,
            &key,
            &egress.headers,
        )?;
        if let Some(parent) = &self.parent {
            trace(&mut head.headers, parent);
        }
        let body = Outgoing::new(body, egress.request_bytes_max);
        Ok(Prepared {
            sink: Arc::clone(&self.sink),
            egress: Arc::clone(egress),
            deadline: call.deadline.min(Instant::now() + egress.time_max),
            request: Request::from_parts(head, body),
            target,
        })
    }
}

impl Call {
    /// The key of a request. It is the same for the same items, in any batch and any attempt. Requests with other items
    /// or to other targets do not change it. Another selection of fields or another template makes another body, which
    /// must not have a key that was used.
    fn key(
        &mut self,
        (sink, shape): (&str, &str),
        method: &Method,
        target: &Target,
        path: &str,
    ) -> String {
        let mut digest = Sha256::new();
        digest.update(format!("{sink}\0{shape}{method}\0{target}{path}\0"));
        digest.update(self.carried);
        let digest: [u8; 32] = digest.finalize().into();
        let count = self.keys.entry(digest).or_default();
        *count += 1;
        let mut key = hex(&digest[..16]);
        if *count > 1 {
            let _ = write!(key, "-{count}");
        }
        key
    }
}

/// Sets the headers that the guest cannot choose. Headers of the configuration come last, so that a guest cannot
/// replace them.
fn complete(
    headers: &mut HeaderMap,
    target: &Target,
    method: &Method,
    key: &str,
    own: &[(HeaderName, HeaderValue)],
) -> Result<(), Error> {
    for name in [header::TE, header::TRAILER, header::EXPECT] {
        headers.remove(name);
    }
    let host = HeaderValue::from_str(&target.authority());
    headers.insert(
        header::HOST,
        host.map_err(|_| Error::HttpRequestUriInvalid)?,
    );
    let agent = headers.entry(header::USER_AGENT);
    agent.or_insert(HeaderValue::from_static(AGENT));
    if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
        && let Ok(key) = HeaderValue::from_str(key)
    {
        headers.entry(IDEMPOTENCY_KEY).or_insert(key);
    }
    for (name, value) in own {
        headers.insert(name, value.clone());
    }
    Ok(())
}

/// Sets the span of the request, unless the guest or the configuration has set it. The state of another trace is
/// removed, because it would not fit the new span.
fn trace(headers: &mut HeaderMap, parent: &Parent) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    let Ok(value) = HeaderValue::from_str(&parent.traceparent) else {
        return;
    };
    headers.insert(TRACEPARENT, value);
    headers.remove(TRACESTATE);
    let state = parent.tracestate.as_deref();
    if let Some(Ok(state)) = state.map(HeaderValue::from_str) {
        headers.insert(TRACESTATE, state);
    }
}

/// A request that can be sent.
struct Prepared {
    sink: Arc<str>,
    egress: Arc<Egress>,
    target: Target,
    request: Request<Outgoing>,
    deadline: Instant,
}

impl Prepared {
    /// Records the request in a trial, and sends it if the trial is allowed to. The body is read as a whole first, so
    /// that the trial can show it.
    async fn try_out(
        mut self,
        trial: &Trial,
        options: RequestOptions,
    ) -> Result<Response<WasiBody>, Error> {
        let max = self.egress.request_bytes_max;
        let (head, body) = self.request.into_parts();
        let bytes = tokio::time::timeout_at(self.deadline, body.collect()).await;
        let bytes = bytes
            .map_err(|_| Error::ConnectionWriteTimeout)??
            .to_bytes();
        let request = Request::from_parts(head, bytes);
        trial.note_request(&request);
        if !trial.sends() {
            return Ok(taken());
        }
        self.request = request.map(|bytes| Outgoing::new(whole(bytes), max));
        Ok(self.send(options).await?.map(BodyExt::boxed_unsync))
    }

    async fn send(self, options: RequestOptions) -> Result<Response<Answer>, Error> {
        let sent = self.egress.send(self.request, options, self.deadline).await;
        sent.map_err(|failed| {
            let (sink, target) = (&*self.sink, &self.target);
            if let Some(address) = failed.prohibited {
                let message = format!(
                    "the host is at {address}, which is not a public address; to allow it, add its network to `networks` of the sink's `http` table"
                );
                self.egress.log_refusal(sink, target, "http.networks", &message);
            } else {
                tracing::debug!(sink, host = %target, error = %failed.words, "a request of the sink failed");
            }
            failed.code
        })
    }
}

type Worker = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for Calls {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| DEFAULT_FORBIDDEN_HEADERS.contains(name))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE_BYTES_MAX
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Worker,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Worker), Error>> + Send> {
        let answering = self.send(request, options.unwrap_or_default());
        Box::new(async move {
            let response = answering.await?;
            let worker: Worker = Box::new(std::future::ready(Ok(())));
            Ok((response, worker))
        })
    }
}
