//! Messages over a WebSocket. The library reads what the renderer sends and answers pings; messages to the renderer are
//! ready as bytes, the same for all, and are written to the connection directly.
//!
//! **Invariant**: what the library wants to write is written between two messages, never within one.

use std::io::{self, Read, Write};
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use salvo_core::{Request, Response};
use tokio::io::ReadBuf;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};

use super::connection::Connection;
use crate::reader::SUBPROTOCOL;
use ::live::Subscription;

/// Maximum bytes of a message from a renderer; no message is read. So a renderer cannot make the daemon hold large
/// messages.
const INBOUND_BYTES_MAX: usize = 4 << 10;
/// Why there is no WebSocket if the HTTP library did not offer one.
pub(super) const NO_UPGRADE: &str = "this connection cannot be upgraded; use HTTP/1.1 with `Connection: Upgrade` and `Upgrade: websocket`";
/// The version of RFC 6455.
const VERSION: &str = "13";

/// Accepts the handshake of a WebSocket: writes the head of the response.
///
/// # Errors
/// What is wrong with the request.
pub(super) fn accept(req: &Request, res: &mut Response) -> Result<(), &'static str> {
    let headers = req.headers();
    if !lists(headers, CONNECTION.as_str(), "upgrade") {
        return Err("a WebSocket needs the header `Connection: Upgrade`");
    }
    if !lists(headers, UPGRADE.as_str(), "websocket") {
        return Err("the header Upgrade must be `websocket`");
    }
    if !lists(headers, SEC_WEBSOCKET_VERSION.as_str(), VERSION) {
        return Err("the header Sec-WebSocket-Version must be 13");
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        return Err("a WebSocket needs the header Sec-WebSocket-Key");
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let headers = res.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.extend(accept.ok().map(|accept| (SEC_WEBSOCKET_ACCEPT, accept)));
    if lists(req.headers(), SEC_WEBSOCKET_PROTOCOL.as_str(), SUBPROTOCOL) {
        let protocol = HeaderValue::from_static(SUBPROTOCOL);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    res.status_code(StatusCode::SWITCHING_PROTOCOLS);
    Ok(())
}

/// Whether a word is in the list of a header.
fn lists(headers: &HeaderMap, name: &str, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words =
        (values.filter_map(|value| value.to_str().ok())).flat_map(|text| text.split(','));
    words.any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Sends the messages of a subscription until it ends. `early` is what the renderer sent with its request.
pub(super) async fn send(connection: Connection, early: Bytes, mut subscription: Subscription) {
    let config = WebSocketConfig::default()
        .read_buffer_size(INBOUND_BYTES_MAX)
        .write_buffer_size(0)
        .max_message_size(Some(INBOUND_BYTES_MAX))
        .max_frame_size(Some(INBOUND_BYTES_MAX));
    let mut socket = Socket {
        connection,
        protocol: WebSocketContext::new(Role::Server, Some(config)),
        inbound: early.to_vec(),
        answers: !early.is_empty(),
    };
    loop {
        let frame = {
            let mut next = pin!(subscription.next());
            let frame = std::future::poll_fn(|context| match socket.is_gone(context) {
                true => Poll::Ready(None),
                false => next.as_mut().poll(context).map(Some),
            });
            frame.await
        };
        match frame {
            None => return,
            Some(Some(frame)) => {
                if socket.flush().await.is_err()
                    || socket.connection.write(frame.message()).await.is_err()
                {
                    return;
                }
            }
            Some(None) => break,
        }
    }
    let closing = |socket: &mut Socket, context: &mut Context<'_>| {
        let (protocol, mut stream) = socket.parts(context);
        protocol.close(&mut stream, None)
    };
    let closed = std::future::poll_fn(|context| ended(closing(&mut socket, context)));
    if closed.await.is_ok() && socket.flush().await.is_ok() {
        socket.connection.end().await;
    }
}

/// The WebSocket of a renderer.
struct Socket {
    connection: Connection,
    protocol: WebSocketContext,
    /// What was received, and the library has not read.
    inbound: Vec<u8>,
    /// The library may want to write.
    answers: bool,
}

impl Socket {
    fn parts<'a, 'b>(
        &'a mut self,
        context: &'a mut Context<'b>,
    ) -> (&'a mut WebSocketContext, Blocking<'a, 'b>) {
        let stream = Blocking {
            connection: &mut self.connection,
            inbound: &mut self.inbound,
            context,
        };
        (&mut self.protocol, stream)
    }

    /// Whether the renderer has hung up or closed the WebSocket, or the connection is cut. Its messages are dropped.
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            let mut bytes = [0; 256];
            let mut buffer = ReadBuf::new(&mut bytes);
            let is_all = match self.connection.poll_read(context, &mut buffer) {
                Poll::Ready(Err(_)) => return true,
                Poll::Ready(Ok(())) => false,
                Poll::Pending => true,
            };
            self.inbound.extend(buffer.filled());
            if is_all && self.inbound.is_empty() {
                return self.answers && matches!(self.poll_flush(context), Poll::Ready(Err(_)));
            }
            self.answers = true;
            let (protocol, mut stream) = self.parts(context);
            let read = loop {
                match protocol.read(&mut stream) {
                    Ok(message) if !message.is_close() => {}
                    read => break read,
                }
            };
            match read {
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                }
                read => {
                    if read.is_ok() {
                        // The answer to a close.
                        let _ = protocol.flush(&mut stream);
                    }
                    return true;
                }
            }
        }
    }

    /// Writes what the library wants to write.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.answers {
            return Poll::Ready(Ok(()));
        }
        let (protocol, mut stream) = self.parts(context);
        let flushed = ended(protocol.flush(&mut stream));
        self.answers = flushed.is_pending();
        flushed
    }

    async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_flush(context)).await
    }
}

/// A result of the library: it waits, or has ended.
fn ended(result: Result<(), tungstenite::Error>) -> Poll<io::Result<()>> {
    match result {
        Ok(()) | Err(tungstenite::Error::ConnectionClosed) => Poll::Ready(Ok(())),
        Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            Poll::Pending
        }
        Err(error) => Poll::Ready(Err(io::Error::other(error))),
    }
}

/// The connection as the library wants it: what waits is an error.
struct Blocking<'a, 'b> {
    connection: &'a mut Connection,
    inbound: &'a mut Vec<u8>,
    context: &'a mut Context<'b>,
}

impl Read for Blocking<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.inbound.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[..count].copy_from_slice(&self.inbound[..count]);
        self.inbound.drain(..count);
        Ok(count)
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(self.connection.poll_write(self.context, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        now(self.connection.poll_flush(self.context))
    }
}

fn now<T>(result: Poll<io::Result<T>>) -> io::Result<T> {
    match result {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
