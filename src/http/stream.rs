//! The byte stream of a connection, with or without TLS, over TCP or a Unix socket.
//!
//! **Invariant**: one type for all, so that the HTTP library is compiled once and no call passes a table or a lock.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use salvo_core::conn::StraightStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A socket whose writes fail when they stall.
pub(super) enum Socket {
    Tcp(StraightStream<TcpStream>),
    Unix(StraightStream<UnixStream>),
}

/// A socket, or TLS on one.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// Passes everything on to the stream inside, whichever of the two it is.
macro_rules! pass_on {
    ($stream:ty, $first:path, $second:path) => {
        impl AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $first(inner) => Pin::new(inner).poll_read(context, buffer),
                    $second(inner) => Pin::new(inner).poll_read(context, buffer),
                }
            }
        }

        // Not vectored: a small response is copied into one buffer, which costs less than a list of buffers.
        impl AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $first(inner) => Pin::new(inner).poll_write(context, bytes),
                    $second(inner) => Pin::new(inner).poll_write(context, bytes),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $first(inner) => Pin::new(inner).poll_flush(context),
                    $second(inner) => Pin::new(inner).poll_flush(context),
                }
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $first(inner) => Pin::new(inner).poll_shutdown(context),
                    $second(inner) => Pin::new(inner).poll_shutdown(context),
                }
            }
        }
    };
}

pass_on!(Socket, Socket::Tcp, Socket::Unix);
pass_on!(Stream, Stream::Plain, Stream::Tls);
