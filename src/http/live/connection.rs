//! The connection of a renderer, without the HTTP library.
//!
//! **Invariant**: a renderer that hangs up is noticed at once while nothing is written to it, and by the failed write
//! otherwise. A connection that is cut ends at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::connections::{Shared, Taken};
use crate::stream::Stream;

/// The connection of a renderer.
pub(super) struct Connection {
    taken: Taken<Stream>,
    shared: Arc<Shared>,
}

impl Connection {
    pub(super) fn new(taken: Taken<Stream>, shared: Arc<Shared>) -> Self {
        Self { taken, shared }
    }

    /// What the renderer sends.
    ///
    /// # Errors
    /// It has hung up, or the connection is cut.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.shared.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.taken.stream).poll_read(context, buffer))?;
        Poll::Ready(match buffer.filled().len() > before {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        })
    }

    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.shared.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.taken.stream).poll_write(context, bytes)
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.taken.stream).poll_flush(context)
    }

    /// Writes bytes when the renderer can take them.
    pub(super) async fn write(&mut self, mut bytes: Bytes) -> io::Result<()> {
        std::future::poll_fn(|context| {
            while !bytes.is_empty() {
                match ready!(self.poll_write(context, &bytes))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => bytes.advance(written),
                }
            }
            self.poll_flush(context)
        })
        .await
    }

    /// Ends the connection in order.
    pub(super) async fn end(mut self) {
        let stream = &mut self.taken.stream;
        let _ = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context)).await;
    }
}
