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
mod tests;
