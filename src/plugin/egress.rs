//! Outgoing HTTP of sinks: `wasi:http`, and the interface `http`, with one client.
//!
//! A plugin whose sink has an `http` table has an [`Egress`]; each instance sends requests through its [`Calls`].
//! `egress/address.rs` checks addresses, `egress/dial.rs` connects, `egress/body.rs` limits bodies, and
//! `egress/calls.rs` is the interface to the instance.
//!
//! **Invariant**: a request is sent only to a host in the configuration, over a connection whose address was checked
//! when it was opened. Sinks never share connections. Headers of the configuration are added after the guest has
//! finished the request; no guest and no log can read them.

mod address;
mod body;
mod calls;
mod dial;
mod failed;
mod target;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error, RequestOptions, WasiHttpCtx};

pub(super) use address::Addresses;
use body::{Answer, Outgoing};
pub(super) use dial::Dialer;
use failed::Failed;
pub(super) use failed::in_words;
pub(super) use target::Target;

pub(super) use calls::Calls;

/// Time before an idle connection is closed. Servers close theirs after five seconds or more; a connection that the
/// server has closed is detected before a request is written.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum time to resolve an address and to connect to it.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum bytes of the head of a response. A receiver could otherwise fill the memory with headers.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of the headers of a request.
pub(super) const FIELDS_BYTES_MAX: usize = 32 << 10;
/// Maximum number of rejected hosts of a sink that are logged, until it is loaded again, because a guest could name a
/// new host each time.
const LOGGED_MAX: usize = 50;

/// Limits for `wasi:http`.
pub(super) fn context() -> WasiHttpCtx {
    let mut context = WasiHttpCtx::new();
    context.set_field_size_limit(FIELDS_BYTES_MAX);
    context
}

/// The hosts that one sink can call, and its connections.
pub(super) struct Egress {
    hosts: Vec<settings::Host>,
    headers: Vec<(HeaderName, HeaderValue)>,
    time_max: Duration,
    request_bytes_max: u64,
    response_bytes_max: u64,
    requests_max: u32,
    concurrency_max: usize,
    slots: Arc<Semaphore>,
    connections: Connections,
    /// Rejected hosts that were logged.
    logged: Mutex<HashSet<String>>,
}

/// Sends a request over the pool of connections. It is boxed: the compiler would need very long to check all parts of
/// the client wherever a sink is used.
type Connections = Box<dyn Fn(Request<Outgoing>) -> ResponseFuture + Send + Sync>;

impl Egress {
    /// Opens no connection yet. Certificate authorities are read only if a host needs TLS, because a machine without
    /// them can still call the others.
    ///
    /// # Errors
    /// A host is called over TLS and the machine has no certificate authorities.
    pub(super) fn new(settings: &settings::Http) -> io::Result<Self> {
        let hosts = settings.hosts();
        let time_max = *settings.timeout_ms;
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
        // The certificates of the system are wanted only where a host is called over TLS.
        let connections: Connections = if hosts.iter().any(settings::Host::is_encrypted) {
            let connector = HttpsConnectorBuilder::new()
                .with_native_roots()?
                .https_or_http()
                .enable_http1()
                .wrap_connector(dialer);
            let client = builder.build(connector);
            Box::new(move |request| client.request(request))
        } else {
            let client = builder.build(dialer);
            Box::new(move |request| client.request(request))
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
            logged: Mutex::default(),
        })
    }

    /// Maximum bytes of a request body.
    pub(super) fn body_max(&self) -> usize {
        usize::try_from(self.request_bytes_max).unwrap_or(usize::MAX)
    }

    fn allows(&self, target: &Target) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|host| target.is(host))
    }

    /// Logs a rejected host, once for each host and setting. A retry would otherwise log the same refusal again and
    /// again.
    fn log_refusal(&self, sink: &str, target: &Target, setting: &str, message: &str) {
        let host = target.to_string();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MAX && logged.insert(format!("{setting} {host}")) {
            tracing::warn!(sink, host = %host.escape_debug(), setting, "{message}");
        }
    }

    /// Sends a checked request, and waits for the head of the response. The wait for a slot counts toward the time, so
    /// that a call ends at its deadline.
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
            ((self.connections)(request).await, slot)
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
