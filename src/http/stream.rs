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

/// Passes everything on to the stream inside, whichever of the two it is. With `vectored`, lists of buffers as well.
macro_rules! pass_on {
    (vectored, $first:path, $second:path) => {
        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            match self.get_mut() {
                $first(inner) => Pin::new(inner).poll_write_vectored(context, slices),
                $second(inner) => Pin::new(inner).poll_write_vectored(context, slices),
            }
        }

        fn is_write_vectored(&self) -> bool {
            match self {
                $first(inner) => inner.is_write_vectored(),
                $second(inner) => inner.is_write_vectored(),
            }
        }
    };
    ($stream:ty, $first:path, $second:path $(, $vectored:ident)?) => {
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

            $(pass_on!($vectored, $first, $second);)?
        }
    };
}

// TLS writes its records with one call.
pass_on!(Socket, Socket::Tcp, Socket::Unix, vectored);
// The HTTP library copies a small response into one buffer, which costs less than a list of buffers.
pass_on!(Stream, Stream::Plain, Stream::Tls);
