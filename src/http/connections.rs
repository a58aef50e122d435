//! The connections of a listener: as many as it may have at once, each counted until it is closed.
//!
//! **Invariant**: a connection keeps its place until it is closed, also as a WebSocket. It is closed if the head of its
//! first request is not there in time, or, if all places are taken, when somebody else comes: whoever only connects keeps
//! no place that another could use. While the system gives no more connections, the listener tries again by itself.

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use salvo_core::conn::tcp::{DynTcpAcceptors, TcpCoupler};
use salvo_core::conn::{Accepted, Acceptor, DynStream, Holding};
use salvo_core::fuse::ArcFusePolicy;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::middleware::client_at;
use super::unauthenticated::{Addresses, OneOf};
use observe::metrics::{Connections, Metrics};

/// How long the head of the first request may take.
const FIRST_HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// How long it may take in any case, also if others need the place.
const SILENT_TIME_MIN: Duration = Duration::from_millis(200);
/// How long after a failure the system is asked again.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// Which connections a metric is about.
pub(super) type Which = fn(&Metrics) -> &Connections;

/// Accepts connections while there are places.
pub(super) struct Limited {
    inner: DynTcpAcceptors,
    places: Arc<Semaphore>,
    addresses: Arc<Addresses>,
    /// Connections without a request, the oldest first.
    silent: VecDeque<Silent>,
    metrics: Arc<Metrics>,
    which: Which,
}

/// A connection without a request.
struct Silent {
    /// Nobody has it any more once its request has begun, or it is closed.
    is_silent: Weak<()>,
    gives_way: CancellationToken,
    since: Instant,
}

impl Limited {
    /// At most so many at once, and those that each client may have.
    pub(super) fn new(
        inner: DynTcpAcceptors,
        (connections_max, addresses): (usize, Arc<Addresses>),
        metrics: &Arc<Metrics>,
        which: Which,
    ) -> Self {
        which(metrics).set_max(connections_max);
        Self {
            inner,
            places: Arc::new(Semaphore::new(connections_max)),
            addresses,
            silent: VecDeque::new(),
            metrics: Arc::clone(metrics),
            which,
        }
    }
}

impl Limited {
    /// A place for a connection that was accepted: from the oldest one without a request if there is no other.
    async fn place(&mut self) -> io::Result<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.places);
        let mut place = pin!(places.acquire_owned());
        while (self.silent.front()).is_some_and(|one| one.is_silent.strong_count() == 0) {
            self.silent.pop_front();
        }
        let due = self.silent.front().map(|one| one.since + SILENT_TIME_MIN);
        let place = tokio::select! {
            biased;
            place = &mut place => place,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                if let Some(oldest) = self.silent.pop_front() {
                    oldest.gives_way.cancel();
                }
                place.await
            }
        };
        place.map_err(io::Error::other)
    }

    /// The first head of a connection that was accepted now.
    fn first_head(&mut self) -> FirstHead {
        let head = FirstHead::within(FIRST_HEAD_TIME_MAX);
        self.silent.push_back(Silent {
            is_silent: Arc::downgrade(&head.is_silent),
            gives_way: head.gives_way.clone(),
            since: Instant::now(),
        });
        head
    }
}

impl Acceptor for Limited {
    type Coupler = TcpCoupler<Connection>;
    type Stream = Connection;

    fn holdings(&self) -> &[Holding] {
        Acceptor::holdings(&self.inner)
    }

    /// The one that finds no place waits here, others in the queue of the system.
    async fn accept(
        &mut self,
        policy: Option<ArcFusePolicy>,
    ) -> io::Result<Accepted<Self::Coupler, Self::Stream>> {
        loop {
            match Acceptor::accept(&mut self.inner, policy.clone()).await {
                Ok(accepted) => {
                    let address = client_at(&accepted.remote_addr).address();
                    let Ok(one_of) = self.addresses.open(address) else {
                        let connections = (self.which)(&self.metrics);
                        if let (Some(client), Some(count)) = (address, connections.refused(address))
                        {
                            let listener = connections.listener;
                            tracing::warn!(listener, %client, count, "connections are closed at once: their clients have as many as they may");
                        }
                        continue;
                    };
                    let place = self.place().await?;
                    let place = Place::new(place, one_of, &self.metrics, self.which);
                    let head = self.first_head();
                    let connection = |stream| Connection::new(stream, head, place);
                    return Ok(accepted.map_into(|_| TcpCoupler::new(), connection));
                }
                Err(error) => {
                    let connections = (self.which)(&self.metrics);
                    if let Some(count) = connections.failed(&error) {
                        let listener = connections.listener;
                        tracing::error!(listener, count, %error, "connections cannot be accepted; tried again and again");
                    }
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }
}

/// The place of a connection, and that it is counted.
struct Place {
    _permit: OwnedSemaphorePermit,
    _one_of: Option<OneOf>,
    metrics: Arc<Metrics>,
    which: Which,
}

impl Place {
    fn new(
        permit: OwnedSemaphorePermit,
        one_of: Option<OneOf>,
        metrics: &Arc<Metrics>,
        which: Which,
    ) -> Self {
        which(metrics).open.inc();
        Self {
            _permit: permit,
            _one_of: one_of,
            metrics: Arc::clone(metrics),
            which,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.which)(&self.metrics).open.dec();
    }
}

/// A connection.
pub(super) struct Connection<S = DynStream> {
    inner: S,
    /// Until the head of the first request was read.
    first_head: Option<FirstHead>,
    _place: Option<Place>,
}

impl<S> Connection<S> {
    fn new(inner: S, first_head: FirstHead, place: impl Into<Option<Place>>) -> Self {
        Self {
            inner,
            first_head: Some(first_head),
            _place: place.into(),
        }
    }
}

/// The head of the first request, on its way.
struct FirstHead {
    deadline: Pin<Box<Sleep>>,
    gives_way: CancellationToken,
    told: Pin<Box<WaitForCancellationFutureOwned>>,
    is_silent: Arc<()>,
    begun: bool,
    /// Ends of lines since the last byte that is none. Two end the head.
    line_ends: u8,
}

impl FirstHead {
    fn within(time_max: Duration) -> Self {
        let gives_way = CancellationToken::new();
        Self {
            deadline: Box::pin(tokio::time::sleep(time_max)),
            told: Box::pin(gives_way.clone().cancelled_owned()),
            gives_way,
            is_silent: Arc::new(()),
            begun: false,
            line_ends: 0,
        }
    }

    /// Whether its time is over, or somebody else needs the place.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().poll(context).is_ready()
            || self.told.as_mut().poll(context).is_ready()
    }

    /// Whether it ends in these bytes, which follow those before.
    fn ends_in(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match byte {
                // Empty lines before a request are no part of it (RFC 9112, 2.2).
                b'\n' if self.begun => self.line_ends += 1,
                b'\n' | b'\r' => {}
                _ => (self.begun, self.line_ends) = (true, 0),
            }
            if self.line_ends == 2 {
                return true;
            }
        }
        false
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(context, buffer);
        if let Some(head) = &mut this.first_head {
            let bytes = buffer.filled().get(before..).unwrap_or_default();
            if head.ends_in(bytes) {
                this.first_head = None;
            } else if read.is_pending() && head.is_over(context) {
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
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// What is read of a connection on which these pieces arrive, until the head is there. Otherwise nothing more comes,
    /// and the time is over.
    async fn read(pieces: &[&str]) -> Result<String, io::ErrorKind> {
        let (mut client, server) = duplex(1024);
        let mut connection = Connection::new(server, FirstHead::within(Duration::ZERO), None);
        let mut text = String::new();
        for piece in pieces {
            client
                .write_all(piece.as_bytes())
                .await
                .expect("there is room");
            let mut bytes = [0; 1024];
            let read = connection.read(&mut bytes).await;
            let count = read.map_err(|error| error.kind())?;
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        }
        if connection.first_head.is_none() {
            return Ok(text);
        }
        let read = connection.read(&mut [0; 1]).await;
        Err(read.expect_err("nothing more is there").kind())
    }

    #[tokio::test]
    async fn a_connection_whose_first_head_is_late_is_closed_and_no_other() {
        let late = Err(io::ErrorKind::TimedOut);
        let head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for (pieces, expected) in [
            (&[][..], late.clone()),
            (&["GET / HTTP/1.1\r\nHost: x\r\n"], late.clone()),
            (&["\r\n\r\n\n\n"], late.clone()),
            (&["\r\n", "\r\n", "GET / HTTP/1.1\r\n"], late.clone()),
            (&[head], Ok(head.to_owned())),
            (
                &["GET / HTTP/1.1\r\nHost: x\r\n\r", "\n"],
                Ok(head.to_owned()),
            ),
            (
                &["\r\nG", " / HTTP/1.1\n\n{"],
                Ok("\r\nG / HTTP/1.1\n\n{".to_owned()),
            ),
        ] {
            assert_eq!(read(pieces).await, expected, "{pieces:?}");
        }
    }
}
