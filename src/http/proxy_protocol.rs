//! The PROXY protocol: a trusted proxy begins each of its connections with the address of the client.
//!
//! `listen` adds it directly above the socket, so that TLS, limits and the log use the client's address.
//!
//! **Invariant**: the daemon expects a header only from the proxies of the configuration. It reads nothing beyond the
//! header, and closes their connections without one. Connections of other clients are accepted as usual.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::FuturesUnordered;
use proxy_header::{ParseConfig, ProxyHeader};
use salvo_core::conn::{Accepted, Acceptor, Holding};
use salvo_core::fuse::ArcFusePolicy;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::middleware::client_at;
use settings::Networks;

/// Maximum time for a header.
const HEADER_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum connections that wait for a header. One more drops the oldest guard of `last`.
const AWAITED_MAX: usize = 1_024;
/// The first bytes of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of the shortest header: `PROXY UNKNOWN\r\n`.
const SHORTEST: usize = 15;
/// Length of the longest line of version 1.
const LINE_MAX: usize = 107;
/// Bytes of a header of version 2 before the variable part.
const FIXED: usize = 16;
/// Maximum bytes of the variable part.
const VARIABLE_MAX: usize = 4_096;

/// A connection whose header is expected; `None` if it sends no valid header.
type Awaited<A> =
    BoxFuture<'static, Option<Accepted<<A as Acceptor>::Coupler, <A as Acceptor>::Stream>>>;

/// Accepts connections with the client addresses that proxies name.
pub(super) struct ProxyProtocol<A: Acceptor> {
    inner: A,
    proxies: Networks,
    awaited: FuturesUnordered<Awaited<A>>,
    /// Guards of the last connections, including complete ones. Dropping a guard ends the wait.
    last: VecDeque<DropGuard>,
}

impl<A: Acceptor> ProxyProtocol<A> {
    pub(super) fn new(inner: A, proxies: Networks) -> Self {
        Self {
            inner,
            proxies,
            awaited: FuturesUnordered::new(),
            last: VecDeque::new(),
        }
    }
}

impl<A> Acceptor for ProxyProtocol<A>
where
    A: Acceptor,
    A::Stream: AsyncRead + AsyncWrite + Unpin,
{
    type Coupler = A::Coupler;
    type Stream = A::Stream;

    fn holdings(&self) -> &[Holding] {
        self.inner.holdings()
    }

    async fn accept(
        &mut self,
        policy: Option<ArcFusePolicy>,
    ) -> io::Result<Accepted<Self::Coupler, Self::Stream>> {
        loop {
            tokio::select! {
                Some(announced) = self.awaited.next() => if let Some(accepted) = announced {
                    return Ok(accepted);
                },
                accepted = self.inner.accept(policy.clone()) => {
                    let accepted = accepted?;
                    let peer = client_at(&accepted.remote_addr);
                    if !self.proxies.contains(peer.address()) {
                        return Ok(accepted);
                    }
                    if self.last.len() == AWAITED_MAX {
                        self.last.pop_front();
                    }
                    let awaited = CancellationToken::new();
                    self.last.push_back(awaited.clone().drop_guard());
                    let announced = async move {
                        (awaited.run_until_cancelled(announced(accepted)).await).flatten()
                    };
                    self.awaited.push(announced.boxed());
                }
            }
        }
    }
}

/// The connection with the address of its header; `None` without a valid header.
async fn announced<C, S>(mut accepted: Accepted<C, S>) -> Option<Accepted<C, S>>
where
    C: salvo_core::conn::Coupler<Stream = S>,
    S: AsyncRead + Unpin + Send + 'static,
{
    let header = timeout(HEADER_TIME_MAX, header(&mut accepted.stream)).await;
    match header {
        Ok(Ok(client)) => {
            if let Some(client) = client {
                accepted.remote_addr = client.into();
            }
            Some(accepted)
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "a proxy's connection without a header of the PROXY protocol");
            None
        }
        Err(_) => None,
    }
}

/// The address in the header; `None`: the connection is the proxy's own, or the proxy does not know the address.
async fn header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<std::net::SocketAddr>> {
    let mut bytes = vec![0; SHORTEST];
    stream.read_exact(&mut bytes).await?;
    if bytes.starts_with(SIGNATURE) {
        bytes.push(stream.read_u8().await?);
        let length = usize::from(u16::from_be_bytes([bytes[FIXED - 2], bytes[FIXED - 1]]));
        if length > VARIABLE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.resize(FIXED + length, 0);
        stream.read_exact(&mut bytes[FIXED..]).await?;
    } else {
        while !bytes.ends_with(b"\n") {
            if bytes.len() >= LINE_MAX || !bytes.starts_with(b"PROXY ") {
                return Err(io::ErrorKind::InvalidData.into());
            }
            bytes.push(stream.read_u8().await?);
        }
    }
    let parsed = ProxyHeader::parse(&bytes, ParseConfig::default());
    let (header, _) = parsed.map_err(io::Error::other)?;
    Ok(header.proxied_address().map(|proxied| proxied.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address or the error, and the rest of the bytes.
    async fn read(text: &[u8]) -> (Result<Option<String>, io::ErrorKind>, Vec<u8>) {
        let mut stream = text;
        let found = header(&mut stream).await;
        let found = found.map(|found| found.map(|address| address.to_string()));
        (found.map_err(|error| error.kind()), stream.to_vec())
    }

    #[tokio::test]
    async fn both_versions_are_read_and_not_a_byte_more() {
        let (found, rest) = read(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\nGET / HTTP").await;
        assert_eq!(found, Ok(Some("192.0.2.7:4711".to_owned())));
        assert_eq!(rest, b"GET / HTTP");
        let (found, _) = read(b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n").await;
        assert_eq!(found, Ok(Some("[2001:db8::7]:4711".to_owned())));
        let (found, rest) = read(b"PROXY UNKNOWN\r\nGET").await;
        assert_eq!((found, &*rest), (Ok(None), &b"GET"[..]));
        let mut second = [SIGNATURE, &[0x21, 0x11, 0, 12]].concat();
        second.extend([192, 0, 2, 9, 10, 0, 0, 1, 0x12, 0x34, 0, 80]);
        second.extend(b"GET");
        let (found, rest) = read(&second).await;
        assert_eq!(found, Ok(Some("192.0.2.9:4660".to_owned())));
        assert_eq!(rest, b"GET");
        // A health check of the proxy.
        let (found, _) = read(&[SIGNATURE, &[0x20, 0, 0, 0]].concat()).await;
        assert_eq!(found, Ok(None));
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let (found, _) = read(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(found, Err(io::ErrorKind::InvalidData));
        let (found, _) = read(&[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat()).await;
        assert_eq!(found, Err(io::ErrorKind::InvalidData));
        let (found, _) = read(&[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat()).await;
        assert_eq!(found, Err(io::ErrorKind::InvalidData));
        let (found, _) = read(b"PROXY TCP4 192.0.2.7 ").await;
        assert_eq!(found, Err(io::ErrorKind::UnexpectedEof));
    }
}
