//! The connections of a listener, counted until they are closed.
//!
//! `admission` decides which connections are accepted; this module closes the connections that exceed their time.
//!
//! **Invariant**: a connection keeps its place until it is closed, even as a WebSocket. A connection is closed if the
//! head of its first request does not arrive in time, or if another connection needs its place before that. Later heads
//! have a time, too: it begins when the response before is complete.

mod heads;
mod shared;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use salvo_core::conn::ConnCtrl;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::admission::{Place, Silent};
use heads::{FirstHead, HealthOnly, NextHead};
use observe::metrics::{Connections, Metrics};
use shared::Handover;
pub(super) use shared::{Shared, Taken, UnderWay, Writer};

/// Maximum time for the head of the first request. Otherwise connections without a request would stay for ever.
const FIRST_HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// Lifetime of a connection with a reserved place. A health check needs no more, and the places are few.
const RESERVED_TIME_MAX: Duration = Duration::from_secs(3);
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
        if matches!(flushed, Poll::Ready(Ok(()))) {
            if this.next_head.shared.is_due.load(Ordering::Relaxed) {
                this.hand_over();
            }
            if this.health.as_mut().is_some_and(HealthOnly::ends) {
                // hyper looked for the next request before it wrote the response. It must look again to see the end.
                context.waker().wake_by_ref();
            }
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
