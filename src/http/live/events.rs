//! Server-Sent Events, written to the connection without the HTTP library once the head of the response is written: a
//! message costs the library and its body more than the write itself.
//!
//! **Invariant**: the bytes are those of a body in chunks, which the head announces; to HTTP/1.0, those of a body that ends
//! with the connection.

use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::ReadBuf;

use super::connection::Connection;
use ::live::Subscription;

/// The end of a body in chunks.
const LAST_CHUNK: Bytes = Bytes::from_static(b"0\r\n\r\n");

/// Writes the messages of a subscription until it ends.
pub(super) async fn write(
    mut connection: Connection,
    mut subscription: Subscription,
    is_chunked: bool,
) {
    loop {
        let frame = {
            let mut next = pin!(subscription.next());
            let frame = std::future::poll_fn(|context| match is_gone(&mut connection, context) {
                true => Poll::Ready(None),
                false => next.as_mut().poll(context).map(Some),
            });
            frame.await
        };
        let Some(frame) = frame else { return };
        let bytes = match (&frame, is_chunked) {
            (Some(frame), true) => frame.chunk(),
            (Some(frame), false) => frame.event(),
            (None, true) => LAST_CHUNK,
            (None, false) => Bytes::new(),
        };
        if connection.write(bytes).await.is_err() {
            return;
        }
        if frame.is_none() {
            return connection.end().await;
        }
    }
}

/// Whether the renderer has hung up, or the connection is cut. What a renderer sends is not looked at. It is dropped,
/// because a client of Server-Sent Events has nothing to say.
fn is_gone(connection: &mut Connection, context: &mut Context<'_>) -> bool {
    let mut bytes = [0; 64];
    loop {
        match connection.poll_read(context, &mut ReadBuf::new(&mut bytes)) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return true,
        }
    }
}
