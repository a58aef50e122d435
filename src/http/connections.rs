//! The connections of a listener, counted until they are closed.
//!
//! `admission` decides which connections are accepted; this module closes the connections that exceed their time.
//!
//! **Invariant**: a connection keeps its place until it is closed, even as a WebSocket. A connection is closed if the
//! head of its first request does not arrive in time, or if another connection needs its place before that. Later heads
//! have a time, too: it begins when the response before is complete.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use hyper::upgrade::{OnUpgrade, Parts};
use salvo_core::conn::ConnCtrl;
use salvo_core::rt::tokio::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::admission::{Place, Silent};
use super::stream::Stream;
use observe::metrics::{Connections, Metrics};

/// Maximum time for the head of the first request.
const FIRST_HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Maximum time for the head of a request after the first one of its connection, and for an idle connection. It is
/// longer than the pools of most clients keep connections (90 s), so that the daemon does not close a connection that a
/// client is about to use.
const HEAD_TIME_MAX: Duration = Duration::from_secs(120);
/// Lifetime of a connection with a reserved place.
const RESERVED_TIME_MAX: Duration = Duration::from_secs(3);
/// Requests that are allowed on such a connection.
const HEALTH: [&[u8]; 4] = [
    b"GET /healthz",
    b"GET /readyz",
    b"HEAD /healthz",
    b"HEAD /readyz",
];

/// Selects the metric of a listener.
pub(super) type Which = fn(&Metrics) -> &Connections;

/// The metric in which connections are counted.
#[derive(Clone)]
pub(super) struct Counted {
    metrics: Arc<Metrics>,
    which: Which,
}

impl Counted {
    /// In the metric that `which` selects.
    pub(super) fn new(metrics: &Arc<Metrics>, which: Which) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            which,
        }
    }

    pub(super) fn connections(&self) -> &Connections {
        (self.which)(&self.metrics)
    }

    /// Counts a connection that was closed because its client reached the limit.
    pub(super) fn refused(&self, address: Option<IpAddr>) {
        let connections = self.connections();
        if let (Some(client), Some(count)) = (address, connections.refused(address)) {
            let listener = connections.listener;
            tracing::warn!(listener, %client, count, "connections closed: per-client limit reached");
        }
    }
}

/// A connection, counted until it is dropped.
pub(super) struct Held {
    /// The client, once it is known.
    pub(super) address: Option<IpAddr>,
    counted: Counted,
}

impl Held {
    pub(super) fn new(address: Option<IpAddr>, counted: &Counted) -> Self {
        counted.connections().open.inc();
        Self {
            address,
            counted: counted.clone(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counted.connections().open.dec();
    }
}

/// What a connection and its requests share.
pub(super) struct Shared<S = Stream> {
    requests: AtomicU32,
    under_way: AtomicU32,
    is_cut: AtomicBool,
    /// Who drives the connection.
    pub(super) driver: AtomicWaker,
    /// The head of the last response of the connection and the beginning of its body are in the buffer of the HTTP library.
    is_due: AtomicBool,
    is_handed_over: AtomicBool,
    handover: Mutex<Handover<S>>,
}

/// How far a connection is on its way from the HTTP library to who writes its last response.
#[derive(Default)]
enum Handover<S> {
    /// The library has it.
    #[default]
    Not,
    /// The library writes the head of the response.
    To(Writer<S>),
    /// The library writes the head that changes the protocol, and then gives the connection up.
    Upgrade(OnUpgrade, Writer<S>),
    /// It is written.
    Done(Writer<S>, Taken<S>),
}

/// Who writes the rest of a response. The bytes are what the client sent after its request.
pub(super) type Writer<S> =
    Box<dyn FnOnce(Taken<S>, Bytes, Arc<Shared<S>>) -> BoxFuture<'static, ()> + Send>;

/// A connection without the HTTP library. It keeps its place.
pub(super) struct Taken<S> {
    pub(super) stream: S,
    _place: Option<Place>,
    _held: Option<Held>,
}

impl<S> Default for Shared<S> {
    fn default() -> Self {
        Self {
            requests: AtomicU32::default(),
            under_way: AtomicU32::default(),
            is_cut: AtomicBool::default(),
            driver: AtomicWaker::default(),
            is_due: AtomicBool::default(),
            is_handed_over: AtomicBool::default(),
            handover: Mutex::default(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Shared<S> {
    /// Goes on with a connection that the HTTP library has given up, if it was handed over.
    pub(super) async fn go_on(self: Arc<Self>) {
        let handover = std::mem::take(&mut *self.handover());
        match handover {
            Handover::Not | Handover::To(_) => {}
            Handover::Done(writer, taken) => writer(taken, Bytes::new(), self).await,
            Handover::Upgrade(upgrade, writer) => {
                let Ok(upgraded) = upgrade.await else { return };
                let parts = upgraded.downcast::<TokioIo<Connection<S>>>();
                let Ok(Parts { io, read_buf, .. }) = parts else {
                    return;
                };
                if let Some(taken) = io.into_inner().take() {
                    writer(taken, read_buf, self).await;
                }
            }
        }
    }
}

impl<S> Shared<S> {
    /// Lets `writer` write the rest of this response, which is the last one of the connection: what follows after its
    /// body waits for the first time.
    pub(super) fn hand_over(&self, writer: Writer<S>) {
        *self.handover() = Handover::To(writer);
    }

    /// The body of the response waits.
    pub(super) fn body_waits(&self) {
        let is_due = matches!(*self.handover(), Handover::To(_));
        self.is_due.store(is_due, Ordering::Relaxed);
    }

    /// Whether the head is written, and the HTTP library has nothing more to do.
    pub(super) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// Lets `writer` go on with the connection once the library has written the response that changes the protocol.
    pub(super) fn upgrade(&self, upgrade: OnUpgrade, writer: Writer<S>) {
        *self.handover() = Handover::Upgrade(upgrade, writer);
    }

    fn handover(&self) -> MutexGuard<'_, Handover<S>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection, whatever is under way.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Begins a request. It is under way until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay<S> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }
}

/// A request that is under way, until the body of its response is complete.
pub(super) struct UnderWay<S = Stream>(pub(super) Arc<Shared<S>>);

impl<S> Drop for UnderWay<S> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The wait for the next head, after the first one.
struct NextHead<S> {
    shared: Arc<Shared<S>>,
    /// Whether the connection is in use for long, without requests.
    control: ConnCtrl,
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    /// The number of requests at which the wait began; `None`: it has not begun.
    since: Option<u32>,
    /// Whether the timer is set for such a wait.
    is_armed: bool,
}

impl<S> NextHead<S> {
    /// Whether the time is over. The timer runs on while requests come: to move it for each would cost more than to look
    /// again when it fires.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.shared.under_way.load(Ordering::Relaxed) > 0 || self.control.is_relaxed() {
            return false;
        }
        let requests = self.shared.requests.load(Ordering::Relaxed);
        let now = Instant::now();
        if self.since.replace(requests) != Some(requests) {
            self.deadline = now + HEAD_TIME_MAX;
        } else if now >= self.deadline {
            return true;
        }
        if self.is_armed && !self.timer.is_elapsed() {
            return false;
        }
        self.is_armed = true;
        self.timer.as_mut().reset(self.deadline);
        self.timer.as_mut().poll(context).is_ready()
    }
}

/// A connection.
pub(super) struct Connection<S> {
    /// `None` once it is handed over.
    inner: Option<S>,
    /// Set until the head of the first request was read.
    first_head: Option<FirstHead>,
    next_head: NextHead<S>,
    /// Set if only a health check is allowed.
    health: Option<HealthOnly>,
    /// Its time is over, and no request has arrived.
    is_over: bool,
    /// Its place, once the head of the first request was read.
    place: Option<Place>,
    held: Option<Held>,
}

impl<S> Connection<S> {
    pub(super) fn new(
        inner: S,
        silent: Arc<Silent>,
        held: impl Into<Option<Held>>,
        (shared, control): (Arc<Shared<S>>, ConnCtrl),
    ) -> Self {
        let is_reserved = silent.is_reserved();
        let time_max = match is_reserved {
            true => RESERVED_TIME_MAX,
            false => FIRST_HEAD_TIME_MAX,
        };
        let deadline = Instant::now() + time_max;
        Self {
            inner: Some(inner),
            first_head: Some(FirstHead::of(silent)),
            next_head: NextHead {
                shared,
                control,
                timer: Box::pin(tokio::time::sleep_until(deadline)),
                deadline,
                since: None,
                is_armed: false,
            },
            health: is_reserved.then(HealthOnly::default),
            is_over: false,
            place: None,
            held: held.into(),
        }
    }

    /// The stream and the place of the connection, once.
    fn take(&mut self) -> Option<Taken<S>> {
        Some(Taken {
            stream: self.inner.take()?,
            _place: self.place.take(),
            _held: self.held.take(),
        })
    }

    /// Passes the stream on to who writes the rest of the response.
    fn hand_over(&mut self) {
        let shared = Arc::clone(&self.next_head.shared);
        let mut handover = shared.handover();
        if let Handover::To(writer) = std::mem::take(&mut *handover)
            && let Some(taken) = self.take()
        {
            *handover = Handover::Done(writer, taken);
            self.next_head
                .shared
                .is_handed_over
                .store(true, Ordering::Relaxed);
        }
    }

    /// A connection for a health check is closed after its response.
    fn answers(&mut self) {
        if let Some(health) = &mut self.health {
            health.is_answered = self.first_head.is_none();
        }
    }
}

/// A connection with a reserved place: it can make one health check, and is closed otherwise.
#[derive(Default)]
struct HealthOnly {
    asked: Vec<u8>,
    is_answered: bool,
}

impl HealthOnly {
    /// Whether the bytes so far, including these, can be a health check.
    fn may_ask(&mut self, bytes: &[u8]) -> bool {
        let longest = HEALTH.iter().map(|asked| asked.len()).max().unwrap_or(0);
        let rest = longest.saturating_sub(self.asked.len());
        self.asked.extend(bytes.iter().take(rest));
        let mut allowed = HEALTH.iter();
        allowed.any(|one| self.asked.starts_with(one) || one.starts_with(&self.asked))
    }
}

/// The head of the first request, while it arrives.
struct FirstHead {
    displaced: Pin<Box<WaitForCancellationFutureOwned>>,
    silent: Arc<Silent>,
    begun: bool,
    /// Line ends since the last other byte. Two of them end the head.
    line_ends: u8,
}

impl FirstHead {
    fn of(silent: Arc<Silent>) -> Self {
        Self {
            displaced: Box::pin(silent.displaced()),
            silent,
            begun: false,
            line_ends: 0,
        }
    }

    /// The number of these bytes that belong to the head, if the head ends in them.
    fn ends_in(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                // Empty lines before a request are no part of it (RFC 9112, 2.2).
                b'\n' if self.begun => self.line_ends += 1,
                b'\n' | b'\r' => {}
                _ => (self.begun, self.line_ends) = (true, 0),
            }
            if self.line_ends == 2 {
                return Some(at + 1);
            }
        }
        None
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.health.as_ref().is_some_and(|one| one.is_answered) {
            return Poll::Ready(Ok(()));
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Pending;
        };
        let before = buffer.filled().len();
        let read = Pin::new(inner).poll_read(context, buffer);
        if let Some(head) = &mut this.first_head {
            let bytes = buffer.filled().get(before..).unwrap_or_default();
            if let (Some(health), Some(held)) = (&mut this.health, &this.held)
                && !health.may_ask(bytes)
            {
                held.counted.refused(held.address);
                buffer.set_filled(before);
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            if let Some(own) = head.ends_in(bytes) {
                this.place = head.silent.take();
                if this.place.is_none() {
                    // Another connection has its place since.
                    this.is_over = true;
                    buffer.set_filled(before);
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                this.first_head = None;
                if this.health.is_some() {
                    // Bytes after the first request are dropped: one request is allowed.
                    buffer.set_filled(before + own);
                }
            } else if read.is_pending()
                && (this.next_head.timer.as_mut().poll(context).is_ready()
                    || head.displaced.as_mut().poll(context).is_ready())
            {
                this.is_over = true;
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        } else if read.is_pending() && this.next_head.is_over(context) {
            this.is_over = true;
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.answers();
        match &mut this.inner {
            Some(inner) => Pin::new(inner).poll_write(context, bytes),
            None => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else {
            return Poll::Pending;
        };
        let flushed = Pin::new(inner).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(())))
            && this.next_head.shared.is_due.load(Ordering::Relaxed)
        {
            this.hand_over();
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.inner {
            // A shutdown would wait for a handshake that is not complete.
            Some(inner) if !this.is_over => Pin::new(inner).poll_shutdown(context),
            _ => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests;
