//! Server-Sent Events, written to the connection without the HTTP library once the head of the response is written: a
//! message costs the library and its body more than the write itself.
//!
//! **Invariant**: the bytes are those of a body in chunks, which the head announces; to HTTP/1.0, those of a body that ends
//! with the connection. A renderer that hangs up is noticed at once, and a connection that is cut ends at once.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::connections::{Shared, Taken};
use crate::stream::Stream;
use ::live::Subscription;

/// The end of a body in chunks.
const LAST_CHUNK: Bytes = Bytes::from_static(b"0\r\n\r\n");

/// Writes the messages of a subscription until it ends.
pub(super) async fn write(
    taken: Taken<Stream>,
    shared: Arc<Shared>,
    mut subscription: Subscription,
    is_chunked: bool,
) {
    let mut events = Events { taken, shared };
    loop {
        let frame = {
            let mut next = pin!(subscription.next());
            let frame = std::future::poll_fn(|context| match events.is_gone(context) {
                true => Poll::Ready(Err(io::ErrorKind::ConnectionAborted)),
                false => next.as_mut().poll(context).map(Ok),
            });
            frame.await
        };
        let Ok(frame) = frame else { return };
        let bytes = match (&frame, is_chunked) {
            (Some(frame), true) => frame.chunk(),
            (Some(frame), false) => frame.event(),
            (None, true) => LAST_CHUNK,
            (None, false) => Bytes::new(),
        };
        if events.write(bytes).await.is_err() {
            return;
        }
        if frame.is_none() {
            break;
        }
    }
    let stream = &mut events.taken.stream;
    let _ = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context)).await;
}

/// The connection of a renderer.
struct Events {
    taken: Taken<Stream>,
    shared: Arc<Shared>,
}

impl Events {
    /// Whether the renderer has hung up, or the connection is cut. What a renderer sends is not looked at.
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        if self.shared.is_cut() {
            return true;
        }
        let mut bytes = [0; 64];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.taken.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return true,
            }
        }
    }

    async fn write(&mut self, mut bytes: Bytes) -> io::Result<()> {
        std::future::poll_fn(|context| {
            while !bytes.is_empty() {
                let written = Pin::new(&mut self.taken.stream).poll_write(context, &bytes);
                match written {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(written) => bytes.advance(written?),
                    Poll::Pending if self.is_gone(context) => {
                        return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            let flushed = ready!(Pin::new(&mut self.taken.stream).poll_flush(context));
            Poll::Ready(flushed)
        })
        .await
    }
}
