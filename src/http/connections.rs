//! The connections of a listener, counted until they are closed.
//!
//! `admission` decides which connections are accepted; this module closes the connections that exceed their time.
//!
//! **Invariant**: a connection keeps its place until it is closed, even as a WebSocket. A connection is closed if the
//! head of its first request does not arrive in time, or if another connection needs its place before that. If the
//! system cannot accept connections, the listener retries automatically.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use salvo_core::conn::tcp::{DynTcpAcceptors, TcpCoupler};
use salvo_core::conn::{Accepted, Acceptor, DynStream, Holding};
use salvo_core::fuse::ArcFusePolicy;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::admission::{Admission, Place, Silent};
use super::listen::Places;
use super::middleware::client_at;
use observe::metrics::{Connections, Metrics};

/// Maximum time for the head of the first request.
const FIRST_HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Lifetime of a connection with a reserved place.
const RESERVED_TIME_MAX: Duration = Duration::from_secs(3);
/// Requests that are allowed on such a connection.
const HEALTH: [&[u8]; 4] = [
    b"GET /healthz",
    b"GET /readyz",
    b"HEAD /healthz",
    b"HEAD /readyz",
];
/// Pause after a failure to accept a connection.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// Selects the metric of a listener.
pub(super) type Which = fn(&Metrics) -> &Connections;

/// Accepts connections within the limits.
pub(super) struct Limited {
    inner: DynTcpAcceptors,
    admission: Admission,
    counted: Counted,
}

impl Limited {
    /// With the limits of `places`; the connections are counted in the metric that `which` selects.
    pub(super) fn new(
        inner: DynTcpAcceptors,
        places: Places,
        metrics: &Arc<Metrics>,
        which: Which,
    ) -> Self {
        which(metrics).set_max(places.max);
        Self {
            inner,
            admission: Admission::new(places),
            counted: Counted {
                metrics: Arc::clone(metrics),
                which,
            },
        }
    }
}

/// The metric in which connections are counted.
#[derive(Clone)]
struct Counted {
    metrics: Arc<Metrics>,
    which: Which,
}

impl Counted {
    fn connections(&self) -> &Connections {
        (self.which)(&self.metrics)
    }

    /// Counts a connection that was closed because its client reached the limit.
    fn refused(&self, address: Option<IpAddr>) {
        let connections = self.connections();
        if let (Some(client), Some(count)) = (address, connections.refused(address)) {
            let listener = connections.listener;
            tracing::warn!(listener, %client, count, "connections closed: per-client limit reached");
        }
    }
}

impl Acceptor for Limited {
    type Coupler = TcpCoupler<Connection>;
    type Stream = Connection;

    fn holdings(&self) -> &[Holding] {
        Acceptor::holdings(&self.inner)
    }

    /// A connection that waits for a place waits here; all later ones wait in the queue of the system.
    async fn accept(
        &mut self,
        policy: Option<ArcFusePolicy>,
    ) -> io::Result<Accepted<Self::Coupler, Self::Stream>> {
        loop {
            match Acceptor::accept(&mut self.inner, policy.clone()).await {
                Ok(accepted) => {
                    let address = client_at(&accepted.remote_addr).address();
                    let admitted = self.admission.admit(address, Instant::now()).await;
                    let Some(silent) = admitted else {
                        self.counted.refused(address);
                        continue;
                    };
                    let held = Held::new(address, &self.counted);
                    let connection = |stream| Connection::new(stream, silent, held);
                    return Ok(accepted.map_into(|_| TcpCoupler::new(), connection));
                }
                Err(error) => {
                    let connections = self.counted.connections();
                    if let Some(count) = connections.failed(&error) {
                        let listener = connections.listener;
                        tracing::error!(listener, count, %error, "cannot accept connections, retrying");
                    }
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }
}

/// A connection, counted until it is dropped.
struct Held {
    address: Option<IpAddr>,
    counted: Counted,
}

impl Held {
    fn new(address: Option<IpAddr>, counted: &Counted) -> Self {
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

/// A connection.
pub(super) struct Connection<S = DynStream> {
    inner: S,
    /// Set until the head of the first request was read.
    first_head: Option<FirstHead>,
    /// Set if only a health check is allowed.
    health: Option<HealthOnly>,
    /// Its time is over, and no request has arrived.
    is_over: bool,
    /// Its place, once the head of the first request was read.
    place: Option<Place>,
    held: Option<Held>,
}

impl<S> Connection<S> {
    fn new(inner: S, silent: Arc<Silent>, held: impl Into<Option<Held>>) -> Self {
        let is_reserved = silent.is_reserved();
        let time_max = match is_reserved {
            true => RESERVED_TIME_MAX,
            false => FIRST_HEAD_TIME_MAX,
        };
        Self {
            inner,
            first_head: Some(FirstHead::within(time_max, silent)),
            health: is_reserved.then(HealthOnly::default),
            is_over: false,
            place: None,
            held: held.into(),
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
    deadline: Pin<Box<Sleep>>,
    displaced: Pin<Box<WaitForCancellationFutureOwned>>,
    silent: Arc<Silent>,
    begun: bool,
    /// Line ends since the last other byte. Two of them end the head.
    line_ends: u8,
}

impl FirstHead {
    fn within(time_max: Duration, silent: Arc<Silent>) -> Self {
        Self {
            deadline: Box::pin(tokio::time::sleep(time_max)),
            displaced: Box::pin(silent.displaced()),
            silent,
            begun: false,
            line_ends: 0,
        }
    }

    /// Whether its time is over, or another connection needs the place.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().poll(context).is_ready()
            || self.displaced.as_mut().poll(context).is_ready()
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(context, buffer);
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
            } else if read.is_pending() && head.is_over(context) {
                this.is_over = true;
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
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
        Pin::new(&mut this.inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // A shutdown would wait for a handshake that is not complete.
        match this.is_over {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut this.inner).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.answers();
        Pin::new(&mut this.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
