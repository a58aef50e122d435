//! Outgoing HTTP of sinks: `wasi:http` with a client of our own.
//!
//! A plugin whose sink has an `http` table gets an [`Egress`] with it; each instance asks through its [`Calls`]. Which
//! addresses may be dialled is in `egress/address.rs`, how they are dialled in `egress/dial.rs`, what a body may be in
//! `egress/body.rs`.
//!
//! **Invariant**: a request leaves only for a host that the configuration lists, over a connection whose address was
//! checked when it was dialled, and connections are never shared between sinks. A header of the configuration is added
//! after the guest let go of the request; nothing that a guest or a log sees has it.

mod address;
mod body;
mod dial;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpHooks,
};

use crate::batch::Batch;
use crate::config;
use address::Addresses;
use body::{Answer, Outgoing};
use dial::{DialError, Dialer};

/// How long a connection without requests is kept. Servers close theirs after five seconds and more; one that was
/// closed meanwhile is noticed before a request is written.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Time to find an address and to connect to it.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time before the deadline of a call in which its requests end, so that the guest can still say what happened.
const FAREWELL_MAX: Duration = Duration::from_millis(250);
/// Bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of a body that a guest hands over at once: it may begin as many as it has handles.
const PIECE_BYTES_MAX: usize = 32 << 10;
/// Bytes of the headers of a request.
const FIELDS_BYTES_MAX: usize = 32 << 10;
/// Refusals of a sink that are told to the operator, until it is loaded again.
const TOLD_MAX: usize = 50;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const AGENT: &str = concat!("headgate/", env!("CARGO_PKG_VERSION"));

/// What `wasi:http` itself bounds.
pub(super) fn context() -> WasiHttpCtx {
    let mut context = WasiHttpCtx::new();
    context.set_field_size_limit(FIELDS_BYTES_MAX);
    context
}

/// What one sink may call, and its connections.
pub(super) struct Egress {
    hosts: Vec<config::Host>,
    headers: Vec<(HeaderName, HeaderValue)>,
    time_max: Duration,
    request_bytes_max: u64,
    response_bytes_max: u64,
    requests_max: u32,
    concurrency_max: usize,
    slots: Arc<Semaphore>,
    connections: Connections,
    /// What the operator was told already.
    told: Mutex<HashSet<String>>,
}

/// The pool of connections; the certificates of the system are wanted only where a host is called over TLS.
enum Connections {
    Plain(Client<Dialer, Outgoing>),
    Tls(Client<HttpsConnector<Dialer>, Outgoing>),
}

impl Egress {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// A host is called over TLS and the machine has no certificate authorities.
    pub(super) fn new(settings: &config::Http) -> io::Result<Self> {
        let hosts = settings.hosts();
        let time_max = Duration::from_millis(settings.timeout_ms);
        let dialer = Dialer::new(
            Addresses::new(settings.networks()),
            time_max.min(CONNECT_TIME_MAX),
        );
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_max_idle_per_host(settings.concurrency_max)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(HEAD_BYTES_MAX);
        let connections = if hosts.iter().any(config::Host::is_encrypted) {
            let connector = HttpsConnectorBuilder::new()
                .with_native_roots()?
                .https_or_http()
                .enable_http1()
                .wrap_connector(dialer);
            Connections::Tls(builder.build(connector))
        } else {
            Connections::Plain(builder.build(dialer))
        };
        let headers = settings.headers.iter().filter_map(|(name, secret)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(secret.reveal()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        Ok(Self {
            hosts,
            headers: headers.collect(),
            time_max,
            request_bytes_max: settings.request_bytes_max,
            response_bytes_max: settings.response_bytes_max,
            requests_max: settings.requests_max,
            concurrency_max: settings.concurrency_max,
            slots: Arc::new(Semaphore::new(settings.concurrency_max)),
            connections,
            told: Mutex::default(),
        })
    }

    fn allows(&self, target: &Target) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|host| host.matches(target.encrypted, &target.host, target.port))
    }

    /// Tells the operator, once for each host and setting.
    fn tell(&self, sink: &str, target: &Target, setting: &str, message: &str) {
        let host = target.to_string();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX && told.insert(format!("{setting} {host}")) {
            tracing::warn!(sink, host = %host.escape_debug(), setting, "{message}");
        }
    }

    /// Sends a request that was checked, and waits for the head of the answer.
    async fn send(
        &self,
        request: Request<Outgoing>,
        options: RequestOptions,
        deadline: Instant,
    ) -> Result<Response<Answer>, Failed> {
        let first_byte = options
            .first_byte_timeout
            .and_then(|time| Instant::now().checked_add(time))
            .map_or(deadline, |at| at.min(deadline));
        let answering = async {
            // Never closed.
            let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
            let response = match &self.connections {
                Connections::Plain(client) => client.request(request).await,
                Connections::Tls(client) => client.request(request).await,
            };
            (response, slot)
        };
        let (response, slot) = tokio::time::timeout_at(first_byte, answering)
            .await
            .map_err(|_| Failed::new(Error::ConnectionReadTimeout))?;
        let response = response.map_err(|error| Failed::of(&error))?;
        let declared = hyper::body::Body::size_hint(response.body()).lower();
        if declared > self.response_bytes_max {
            return Err(Failed::new(Error::HttpResponseBodySize(Some(declared))));
        }
        Ok(response.map(|body| {
            let between = options.between_bytes_timeout;
            Answer::new(body, self.response_bytes_max, deadline, between, slot)
        }))
    }
}

/// Where a request goes.
#[derive(Debug, Clone)]
struct Target {
    encrypted: bool,
    host: String,
    port: u16,
}

impl Target {
    fn of(uri: &Uri) -> Option<Self> {
        let encrypted = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        // A name and a password in a URL are the guest's way around the headers of the configuration.
        if authority.as_str().contains('@') {
            return None;
        }
        let port = match authority.port() {
            Some(port) => Some(port.as_u16()).filter(|port| *port > 0)?,
            None => config::default_port(encrypted),
        };
        let host = authority.host().to_ascii_lowercase();
        Some(Self {
            encrypted,
            host,
            port,
        })
    }

    /// As the header `Host` has it.
    fn authority(&self) -> String {
        if self.port == config::default_port(self.encrypted) {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// As the setting `hosts` has it.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.encrypted { "" } else { "http://" };
        write!(f, "{scheme}{}", self.authority())
    }
}

/// Why there is no answer: for the guest, and for the operator.
struct Failed {
    code: Error,
    /// The address that may not be called.
    prohibited: Option<std::net::IpAddr>,
    words: String,
}

impl Failed {
    fn new(code: Error) -> Self {
        Self {
            words: code.to_string(),
            code,
            prohibited: None,
        }
    }

    /// Reads the chain of causes.
    fn of(error: &legacy::Error) -> Self {
        let mut prohibited = None;
        let mut code = None;
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let _ = write!(words, ": {error}");
            if let Some(dialled) = error.downcast_ref::<DialError>() {
                if let DialError::Prohibited(address) = dialled {
                    prohibited = Some(*address);
                }
                code = Some(dialled.code());
            } else if let Some(Error::HttpRequestBodySize(size)) = error.downcast_ref() {
                code = Some(Error::HttpRequestBodySize(*size));
            } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
                code = Some(of_hyper(error));
            }
            cause = error.source();
        }
        let code = code.unwrap_or_else(|| {
            // Dialling has errors of its own: what else fails before there is a connection is TLS.
            if error.is_connect() && words.contains("certificate") {
                Error::TlsCertificateError
            } else if error.is_connect() {
                Error::TlsProtocolError
            } else {
                Error::ConnectionTerminated
            }
        });
        Self {
            code,
            prohibited,
            words,
        }
    }
}

fn of_hyper(error: &hyper::Error) -> Error {
    if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if error.is_parse() {
        Error::HttpProtocolError
    } else if error.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else {
        Error::ConnectionTerminated
    }
}

/// The requests of one instance.
pub(super) struct Calls {
    sink: Arc<str>,
    egress: Option<Arc<Egress>>,
    call: Option<Call>,
}

/// The call that is under way.
struct Call {
    /// What tells the batch from all others, of other daemons too.
    batch: String,
    deadline: Instant,
    requests: u32,
    /// How many requests went to each target.
    keys: HashMap<[u8; 32], u32>,
}

impl Calls {
    pub(super) fn new(sink: Arc<str>, egress: Option<Arc<Egress>>) -> Self {
        Self {
            sink,
            egress,
            call: None,
        }
    }

    /// A new call, which may take so long.
    pub(super) fn begin(&mut self, batch: &Batch, time_max: Duration) {
        if self.egress.is_none() {
            return;
        }
        let request_id = batch.slices().first().map(|slice| slice.entry.request_id);
        let farewell = FAREWELL_MAX.min(time_max / 4);
        self.call = Some(Call {
            batch: format!("{} {}", request_id.unwrap_or_default(), batch.id()),
            deadline: Instant::now() + time_max.saturating_sub(farewell),
            requests: 0,
            keys: HashMap::new(),
        });
    }

    /// The call is over.
    pub(super) fn end(&mut self) {
        self.call = None;
    }

    /// Whether the guest keeps a request or an answer.
    pub(super) fn under_way(&self) -> bool {
        let egress = self.egress.as_ref();
        egress.is_some_and(|egress| egress.slots.available_permits() < egress.concurrency_max)
    }

    /// Checks a request and makes it ready.
    fn prepare(&mut self, request: Request<WasiBody>) -> Result<Prepared, Error> {
        let (Some(egress), Some(target)) = (&self.egress, Target::of(request.uri())) else {
            return Err(Error::HttpRequestUriInvalid);
        };
        let sink = &*self.sink;
        let Some(call) = &mut self.call else {
            let message = "the sink calls somebody outside of `write`, which it may not";
            egress.tell(sink, &target, "none", message);
            return Err(Error::HttpRequestDenied);
        };
        if !egress.allows(&target) {
            let message = "the sink may not call this host; to allow it, add it to `hosts` of the sink's `http` table";
            egress.tell(sink, &target, "http.hosts", message);
            return Err(Error::HttpRequestDenied);
        }
        if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
            return Err(Error::HttpRequestMethodInvalid);
        }
        if call.requests >= egress.requests_max {
            let message = "the sink sends more requests in one call than `requests_max` of its `http` table allows";
            egress.tell(sink, &target, "http.requests_max", message);
            return Err(Error::HttpRequestDenied);
        }
        call.requests += 1;
        let (mut head, body) = request.into_parts();
        let declared = head.headers.get(header::CONTENT_LENGTH);
        let declared: Option<u64> = declared.and_then(|value| value.to_str().ok()?.parse().ok());
        if declared.is_some_and(|bytes| bytes > egress.request_bytes_max) {
            let message = "the sink sends more than `request_bytes_max` of its `http` table allows";
            egress.tell(sink, &target, "http.request_bytes_max", message);
            return Err(Error::HttpRequestBodySize(declared));
        }
        let key = call.key(sink, &head.method, &target, head.uri.path());
        complete(
            &mut head.headers,
            &target,
            &head.method,
            &key,
            &egress.headers,
        )?;
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
    /// The same for the same request of the same batch, however often it is delivered; requests to other targets
    /// don't change it.
    fn key(&mut self, sink: &str, method: &Method, target: &Target, path: &str) -> String {
        let text = format!("{sink} {} {method} {target}{path}", self.batch);
        let digest: [u8; 32] = Sha256::digest(text).into();
        let count = self.keys.entry(digest).or_default();
        *count += 1;
        let mut key = String::new();
        for byte in &digest[..16] {
            let _ = write!(key, "{byte:02x}");
        }
        if *count > 1 {
            let _ = write!(key, "-{count}");
        }
        key
    }
}

/// Sets the headers that are not the guest's to choose.
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

/// A request that may be sent.
struct Prepared {
    sink: Arc<str>,
    egress: Arc<Egress>,
    target: Target,
    request: Request<Outgoing>,
    deadline: Instant,
}

impl Prepared {
    async fn send(self, options: RequestOptions) -> Result<Response<Answer>, Error> {
        let sent = self.egress.send(self.request, options, self.deadline).await;
        sent.map_err(|failed| {
            let (sink, target) = (&*self.sink, &self.target);
            if let Some(address) = failed.prohibited {
                let message = format!(
                    "the host is at {address}, which is not a public address; to allow it, add its network to `networks` of the sink's `http` table"
                );
                self.egress.tell(sink, target, "http.networks", &message);
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
        let prepared = self.prepare(request);
        Box::new(async move {
            let response = prepared?.send(options.unwrap_or_default()).await?;
            let worker: Worker = Box::new(std::future::ready(Ok(())));
            Ok((response.map(BodyExt::boxed_unsync), worker))
        })
    }
}
