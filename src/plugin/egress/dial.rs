//! Connections of sinks: resolves names and checks the resolved addresses.
//!
//! **Invariant**: the connection uses the checked address; a name is not resolved twice.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tower_service::Service;
use wasmtime_wasi_http::Error as Code;

use super::address::Addresses;

/// Maximum addresses of one name that are tried. The time to connect is divided among them.
const ADDRESSES_MAX: usize = 4;

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("the name cannot be resolved: {0}")]
    Name(io::Error),
    #[error("{0} may not be called")]
    Prohibited(IpAddr),
    #[error("no connection in time")]
    Late,
    #[error("no connection: {0}")]
    Failed(io::Error),
}

impl DialError {
    /// The error code for the guest.
    pub(super) fn code(&self) -> Code {
        match self {
            DialError::Name(_) => Code::DnsError {
                rcode: Some("the name cannot be resolved".to_owned()),
                info_code: None,
            },
            DialError::Prohibited(_) => Code::DestinationIpProhibited,
            DialError::Late => Code::ConnectionTimeout,
            DialError::Failed(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Code::ConnectionRefused,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    Code::DestinationUnavailable
                }
                _ => Code::ConnectionTerminated,
            },
        }
    }
}

/// Opens the connections of one sink.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    addresses: Arc<Addresses>,
    time_max: Duration,
}

impl Dialer {
    pub(crate) fn new(addresses: Addresses, time_max: Duration) -> Self {
        Self {
            addresses: Arc::new(addresses),
            time_max,
        }
    }

    /// Each address has a part of the time, so that one that does not answer leaves time for the next.
    async fn dial(self, uri: Uri) -> Result<TokioIo<TcpStream>, DialError> {
        let connecting = async {
            let encrypted = uri.scheme_str() == Some("https");
            let port = uri
                .port_u16()
                .unwrap_or_else(|| settings::default_port(encrypted));
            let found = self.addresses(uri.host().unwrap_or_default(), port).await?;
            let each = self.time_max / u32::try_from(found.len()).unwrap_or(1);
            let mut last = DialError::Late;
            for address in found {
                match tokio::time::timeout(each, TcpStream::connect(address)).await {
                    Ok(Ok(stream)) => {
                        // Without it a small request may wait for an acknowledgement.
                        let _ = stream.set_nodelay(true);
                        return Ok(TokioIo::new(stream));
                    }
                    Ok(Err(error)) => last = DialError::Failed(error),
                    Err(_) => last = DialError::Late,
                }
            }
            Err(last)
        };
        let connected = tokio::time::timeout(self.time_max, connecting).await;
        connected.unwrap_or(Err(DialError::Late))
    }

    /// The allowed addresses of the host, at least one. One public address suffices, because only allowed ones are
    /// connected to.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, DialError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((host, port)).await;
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found.map_err(DialError::Name)? {
            if !self.addresses.allow(address.ip()) {
                refused = Some(address.ip());
            } else if allowed.len() < ADDRESSES_MAX {
                allowed.push(address);
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(address)) => Err(DialError::Prohibited(address)),
            (true, None) => Err(DialError::Name(io::ErrorKind::NotFound.into())),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().dial(uri))
    }
}
