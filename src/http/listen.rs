//! Binds the listeners, TCP or Unix socket, and serves on them.
//!
//! **Invariant**: responses are sent immediately (`TCP_NODELAY` on the listening socket, which accepted connections
//! inherit), and a Unix socket is replaced only if no process listens on it.

use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use salvo_core::conn::Acceptor;
use salvo_core::conn::tcp::{DynTcpAcceptor, DynTcpAcceptors, TcpAcceptor, ToDynTcpAcceptor};
use salvo_core::conn::unix::UnixListener;
use salvo_core::fuse::FuseConfig;
use salvo_core::server::ServerHandle;
use salvo_core::{Listener, Server, Service};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::connections::{Limited, Which};
use super::proxy_protocol::ProxyProtocol;
use super::tls::Encryption;
use observe::metrics::Metrics;
use settings::{Listen, Networks, Tls};

const BACKLOG: i32 = 4_096;
/// Maximum time for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum time for the head of a request after the first one of its connection, and for an idle connection. It is
/// longer than the pools of most clients keep connections (90 s), so that the daemon does not close a connection that a
/// client is about to use.
const HEAD_TIME_MAX: Duration = Duration::from_secs(120);
/// Buffer of one connection for bytes that were received and not yet handled. A longer head can be rejected; a head of
/// twice this size always is.
const BUFFER_BYTES_MAX: usize = 32 << 10;

/// A bound listener.
pub struct Bound {
    acceptor: DynTcpAcceptors,
    /// Its address: `http://127.0.0.1:8080` or `unix:/run/headgate.sock`.
    pub address: String,
    /// The socket file, which is removed at the end.
    socket_file: Option<PathBuf>,
    /// A second handle of the listening TCP socket.
    socket: Option<Socket>,
    /// TLS of the connections, if it is configured.
    pub encryption: Option<Encryption>,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Bound")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Bound {
    /// Returns a future that serves on this listener, and its stopper. The connections are counted in the metric that
    /// `which` selects.
    pub fn serve(
        self,
        service: Service,
        settings: &settings::Server,
        places: Places,
        (metrics, which): (&Arc<Metrics>, Which),
    ) -> (Stopper, impl Future<Output = ()> + Send + use<>) {
        let fail_stop = FuseConfig::default()
            .with_tls_handshake_timeout(HANDSHAKE_TIME_MAX)
            .with_http1_header_timeout(HEAD_TIME_MAX)
            .with_write_stall_timeout(settings.write_stall_max);
        let acceptor = Limited::new(self.acceptor, places, metrics, which);
        let mut server = Server::new(acceptor).fuse_config(fail_stop);
        server.http1_mut().max_buf_size(BUFFER_BYTES_MAX);
        let stopping = CancellationToken::new();
        let stopper = Stopper {
            handle: server.handle(),
            stopping: stopping.clone(),
            socket_file: self.socket_file,
        };
        let socket = self.socket;
        // No connection is accepted while open requests finish. The system must not queue connections that will never
        // be answered.
        let refusing = async move {
            stopping.cancelled().await;
            if let Some(socket) = socket {
                let _ = socket.shutdown(Shutdown::Both);
            }
            std::future::pending::<()>().await;
        };
        let serving = async move {
            tokio::select! {
                biased;
                // First, so that the server notices the stop before its socket fails.
                done = server.try_serve(service) => if let Err(error) = done {
                    tracing::error!(%error, "a listener stopped");
                },
                () = refusing => {}
            }
        };
        (stopper, serving)
    }
}

/// Limits of the concurrent connections of a listener.
#[derive(Debug, Clone)]
pub struct Places {
    /// Limit of all clients.
    pub max: usize,
    /// Limit of one client.
    pub of_address_max: usize,
    /// Networks without the limit per client.
    pub exempt: Networks,
}

/// Stops a server.
#[derive(Debug)]
pub struct Stopper {
    handle: ServerHandle,
    stopping: CancellationToken,
    socket_file: Option<PathBuf>,
}

impl Stopper {
    /// Accepts no new connections; open requests can finish within `grace`.
    pub fn stop(&self, grace: Duration) {
        self.handle.stop_graceful(grace);
        self.stopping.cancel();
        if let Some(path) = &self.socket_file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why a listener could not be bound.
#[derive(Debug, Error)]
#[error("cannot listen on {listen}: {reason}")]
pub struct ListenError {
    listen: String,
    reason: String,
    is_taken: bool,
}

impl ListenError {
    /// Whether another program uses the address.
    pub fn is_taken(&self) -> bool {
        self.is_taken
    }

    fn of(listen: &Listen, error: &io::Error) -> Self {
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let reason = match is_taken {
            true => "the address is in use by another program".to_owned(),
            false => error.to_string(),
        };
        Self {
            listen: listen.to_string(),
            reason,
            is_taken,
        }
    }
}

/// Binds a listener: with TLS if `tls` is set, and with the PROXY protocol for `proxies`.
///
/// # Errors
/// The address is in use, not an address of this machine, or not permitted; or a certificate is unusable.
pub async fn bind(
    listen: &Listen,
    tls: Option<&Tls>,
    proxies: &Networks,
) -> Result<Bound, ListenError> {
    let failed = |error: io::Error| ListenError::of(listen, &error);
    let encryption = tls.map(Encryption::of).transpose();
    let encryption = encryption.map_err(|reason| failed(io::Error::other(reason)))?;
    let inside = (encryption.as_ref(), proxies);
    match listen {
        Listen::Tcp(address) => {
            let (listener, socket) = bind_tcp(address).map_err(failed)?;
            let acceptor =
                TcpAcceptor::try_from(listener).map_err(|error| failed(io::Error::other(error)))?;
            let address = acceptor.local_addr().map_err(failed)?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            Ok(Bound {
                acceptor: behind_proxies(acceptor, inside),
                address: format!("{scheme}://{address}"),
                socket_file: None,
                socket: Some(socket),
                encryption,
            })
        }
        Listen::Unix(path) => {
            remove_stale_socket(path).map_err(failed)?;
            let acceptor = UnixListener::new(path.clone())
                .permissions(std::fs::Permissions::from_mode(0o660))
                .try_bind()
                .await
                .map_err(|error| failed(io::Error::other(error)))?;
            Ok(Bound {
                acceptor: behind_proxies(acceptor, inside),
                address: format!("unix:{}", path.display()),
                socket_file: Some(path.clone()),
                socket: None,
                encryption,
            })
        }
    }
}

fn behind_proxies<A>(
    acceptor: A,
    (encryption, proxies): (Option<&Encryption>, &Networks),
) -> DynTcpAcceptors
where
    A: Acceptor + 'static,
    A::Stream: AsyncRead + AsyncWrite,
{
    match proxies.is_empty() {
        true => encrypted(acceptor, encryption),
        false => encrypted(ProxyProtocol::new(acceptor, proxies.clone()), encryption),
    }
}

fn encrypted<A>(acceptor: A, encryption: Option<&Encryption>) -> DynTcpAcceptors
where
    A: Acceptor + 'static,
    A::Stream: AsyncRead + AsyncWrite,
{
    let acceptor: Box<dyn DynTcpAcceptor> = match encryption {
        None => Box::new(ToDynTcpAcceptor(acceptor)),
        Some(encryption) => Box::new(ToDynTcpAcceptor(encryption.over(acceptor))),
    };
    DynTcpAcceptors::new(vec![acceptor])
}

fn bind_tcp(address: &str) -> io::Result<(tokio::net::TcpListener, Socket)> {
    let mut last_error = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match bind_address(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn bind_address(address: SocketAddr) -> io::Result<(tokio::net::TcpListener, Socket)> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let again = socket.try_clone()?;
    let listener = tokio::net::TcpListener::from_std(socket.into())?;
    Ok((listener, again))
}

/// Removes the socket file of a killed daemon, which would prevent binding.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::other(
            "the file exists and is not a socket; remove it or choose another path",
        ));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
