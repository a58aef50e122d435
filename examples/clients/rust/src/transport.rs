//! One attempt: a request, and its answer, which is complete or none. Also the clocks and the chance that pauses need, so
//! that the conformance kit can put its own in their place.
//!
//! **Invariant**: the key goes into `Authorization` and nowhere else, no redirect is followed, and after anything but a
//! complete answer of Headgate the connection is not used again.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use tokio::runtime::Runtime;

use crate::client::Cancel;
use crate::error::{Error, code};
use crate::{lock, uuid, verdict};

/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What a slow uplink carries: an attempt has so much longer for its body.
const BYTES_PER_SECOND: u32 = 16 << 10;

/// A request, the same for all its attempts.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// How long one attempt may take.
    pub(crate) fn limit(&self, attempt: Duration) -> Duration {
        let seconds = self.body.len() as f64 / f64::from(BYTES_PER_SECOND);
        attempt.saturating_add(Duration::from_secs_f64(seconds))
    }
}

/// A complete answer, whoever gave it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Reply {
    Complete(Answer),
    /// `left`: bytes of the request may have left.
    Nothing {
        error: Error,
        left: bool,
    },
}

/// What the kit replaces: both clocks, chance, the way to the daemon, a disk that is full.
pub(crate) trait World: Send + Sync {
    /// Since 1970.
    fn now(&self) -> Duration;
    /// By a clock that nobody can set.
    fn lived(&self) -> Duration;
    /// From 0 to 1.
    fn random(&self) -> f64;
    /// One attempt.
    fn exchange(&self, call: &Call, key: &str, limit: Duration, cancel: &Cancel) -> Reply;
    /// True if the whole pause passed.
    fn sleep(&self, pause: Duration, cancel: &Cancel) -> bool;
    /// Whether files can be made.
    fn disk_is_writable(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The clock that people see: for dates of answers, and for ages over the end of a process.
#[expect(
    clippy::disallowed_methods,
    reason = "a package of its own has its own clocks"
)]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// The real one: HTTP on a thread of its own.
pub(crate) struct Http {
    /// Always there; taken out where it ends.
    runtime: Option<Runtime>,
    client: Mutex<reqwest::Client>,
    route: Route,
    user_agent: HeaderValue,
    began: Instant,
}

/// How an address is reached.
#[derive(Debug, Clone)]
struct Route {
    /// What paths are appended to.
    base: String,
    socket: Option<String>,
    /// A proxy that the environment names is not meant for this machine.
    is_local: bool,
}

impl Http {
    pub(crate) fn new(address: &str, user_agent: &str) -> Result<Self, Error> {
        let route = Route::of(address)?;
        let client = route.client()?;
        let own = format!("headgate-rust/{} {user_agent}", crate::VERSION);
        let user_agent = HeaderValue::from_str(own.trim()).map_err(|_| {
            Error::usage("the user agent has characters that are not allowed in a header")
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("headgate-send")
            .enable_all()
            .build()
            .map_err(|error| Error::usage(format!("can't start a thread: {error}")))?;
        Ok(Self {
            runtime: Some(runtime),
            client: Mutex::new(client),
            route,
            user_agent,
            began: Instant::now(),
        })
    }

    /// Waits for something on the own thread: the caller may itself be one of an asynchronous program.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.as_ref()?.spawn(async move {
            // Nobody receives it where the caller is gone.
            drop(sender.send(work.await));
        });
        receiver.recv().ok()
    }

    fn request(&self, call: &Call, key: &str, left: &Arc<AtomicBool>) -> reqwest::RequestBuilder {
        let mut headers = call.headers.clone();
        if let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {key}")) {
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        headers.insert(hyper::header::USER_AGENT, self.user_agent.clone());
        let client = lock(&self.client).clone();
        let url = format!("{}{}", self.route.base, call.path);
        let request = client.request(call.method.clone(), url).headers(headers);
        if call.body.is_empty() {
            return request;
        }
        request.body(reqwest::Body::wrap(WatchedBody {
            bytes: Some(call.body.clone()),
            left: left.clone(),
        }))
    }

    /// What comes over the connection next may not be the answer to the next request.
    fn disconnect(&self) {
        if let Ok(client) = self.route.client() {
            *lock(&self.client) = client;
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl World for Http {
    fn now(&self) -> Duration {
        wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn lived(&self) -> Duration {
        self.began.elapsed()
    }

    fn random(&self) -> f64 {
        uuid::random() as f64 / u64::MAX as f64
    }

    fn exchange(&self, call: &Call, key: &str, limit: Duration, cancel: &Cancel) -> Reply {
        let left = Arc::new(AtomicBool::new(false));
        let request = self.request(call, key, &left);
        let cancel = cancel.0.clone();
        let nothing = |error, left| Reply::Nothing { error, left };
        let reply = self.wait(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => nothing(Error::canceled(None), false),
                reply = tokio::time::timeout(limit, answer(request)) => {
                    reply.unwrap_or_else(|_| nothing(Error::timeout(), false))
                }
            }
        });
        let ended = "the thread that sends has ended";
        let reply = reply.unwrap_or_else(|| {
            let error = Error::retryable(code::CONNECTION, ended);
            nothing(error, true)
        });
        match reply {
            Reply::Complete(answer) => {
                if call.method != Method::GET && verdict::envelope(&answer).is_none() {
                    self.disconnect();
                }
                Reply::Complete(answer)
            }
            Reply::Nothing {
                error,
                left: is_out,
            } => nothing(error, is_out || left.load(Ordering::Acquire)),
        }
    }

    fn sleep(&self, pause: Duration, cancel: &Cancel) -> bool {
        let cancel = cancel.0.clone();
        let passed = self.wait(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => false,
                () = tokio::time::sleep(pause) => true,
            }
        });
        passed.unwrap_or(false)
    }
}

/// The whole answer. Where something came back, the request must have left.
async fn answer(request: reqwest::RequestBuilder) -> Reply {
    let nothing = |error, left| Reply::Nothing { error, left };
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return nothing(broken(&error), false),
    };
    let status = response.status().as_u16();
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= ANSWER_BYTES_MAX => {
                body.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => {
                let message =
                    format!("the answer {status} is longer than {ANSWER_BYTES_MAX} bytes");
                let mut error = Error::retryable(code::UNEXPECTED_ANSWER, message);
                error.status = Some(status);
                return nothing(error, true);
            }
            Ok(None) => break,
            Err(error) => return nothing(broken(&error), true),
        }
    }
    Reply::Complete(Answer {
        status,
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}

/// An attempt without a whole answer: the innermost cause, which is the one that helps ("Connection refused").
fn broken(error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let what = match error.is_connect() {
        true => "no connection",
        false => "the connection was lost before the response",
    };
    Error::retryable(code::CONNECTION, format!("{what}: {cause}"))
}

/// A body that notices when it is asked for: a connection is there, and bytes leave.
struct WatchedBody {
    bytes: Option<Bytes>,
    left: Arc<AtomicBool>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.left.store(true, Ordering::Release);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

impl Route {
    fn of(address: &str) -> Result<Self, Error> {
        if let Some(path) = address.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || !cfg!(unix) {
                return Err(Error::usage(
                    "unix: requires a path, and a system with Unix sockets",
                ));
            }
            return Ok(Self {
                base: "http://localhost".to_owned(),
                socket: Some(path.to_owned()),
                is_local: true,
            });
        }
        let url = Url::parse(address)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| {
            Error::usage("the URL must be http://host:port, https://host or unix:/path")
        })?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(Error::usage(
                "the URL must not have a user, query or fragment; pass the key separately",
            ));
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            socket: None,
            is_local: host == "localhost" || address.is_ok_and(|address| address.is_loopback()),
        })
    }

    /// One without connections.
    fn client(&self) -> Result<reqwest::Client, Error> {
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .tcp_nodelay(true);
        if self.is_local {
            builder = builder.no_proxy();
        }
        #[cfg(unix)]
        if let Some(path) = &self.socket {
            builder = builder.unix_socket(std::path::PathBuf::from(path));
        }
        builder
            .build()
            .map_err(|error| Error::usage(format!("can't set up HTTP: {error}")))
    }
}
