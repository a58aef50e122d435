//! Binds the listeners, TCP or Unix socket.
//!
//! **Invariant**: responses are sent immediately (`TCP_NODELAY` on the listening socket, which accepted connections
//! inherit), and a Unix socket is replaced only if no process listens on it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use salvo_core::conn::{ConnCtrl, StraightStream, http1};
use salvo_core::fuse::FuseConfig;
use socket2::{Domain, Protocol, Type};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

use super::admission::Admission;
use super::connections::{Counted, Which};
use super::server::{Accepted, Routes, Server, Stopping};
use super::stream::Socket;
use super::tls::Encryption;
use observe::metrics::Metrics;
use settings::{Listen, Networks, Tls};

/// Connections that wait for a place wait here.
const BACKLOG: i32 = 4_096;
/// Buffer of one connection for bytes that were received and not yet handled. A longer head can be rejected; a head of
/// twice this size always is. It bounds the memory of a connection, because a client can send without end.
const BUFFER_BYTES_MAX: usize = 32 << 10;

/// A bound listener.
pub struct Bound {
    listening: Listening,
    /// Its address: `http://127.0.0.1:8080` or `unix:/run/headgate.sock`.
    pub address: String,
    /// The socket file, which is removed at the end.
    socket_file: Option<PathBuf>,
    /// TLS of the connections, if it is configured.
    pub encryption: Option<Encryption>,
    /// Proxies that begin each connection with the address of its client.
    proxies: Networks,
}

/// A socket that listens.
pub(super) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listening {
    /// The next connection and its peer. A write to it fails when it stalls for `write_stall_max`.
    pub(super) async fn accept(
        &self,
        write_stall_max: Duration,
    ) -> io::Result<(Accepted, salvo_core::conn::SocketAddr)> {
        let control = ConnCtrl::new();
        let times = Some(FuseConfig::disabled().with_write_stall_timeout(write_stall_max));
        let (socket, address) = match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let stream = StraightStream::new(stream, times, control.clone(), None);
                (Socket::Tcp(stream), address.into())
            }
            Self::Unix(listener) => {
                let (stream, address) = listener.accept().await?;
                let stream = StraightStream::new(stream, times, control.clone(), None);
                (Socket::Unix(stream), Arc::new(address).into())
            }
        };
        Ok(((socket, control), address))
    }
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
    pub fn serve<R: Into<Routes>>(
        self,
        routes: R,
        settings: &settings::Server,
        places: Places,
        (metrics, which): (&Arc<Metrics>, Which),
    ) -> (Stopper, impl Future<Output = ()> + Send + use<R>) {
        let mut http1 = http1::Builder::new();
        // The connection has its own timer for heads.
        http1.header_read_timeout(None);
        http1.max_buf_size(BUFFER_BYTES_MAX);
        let stopping = Arc::new(Stopping::default());
        let stopper = Stopper {
            stopping: Arc::clone(&stopping),
            socket_file: self.socket_file,
        };
        which(metrics).set_max(places.max);
        let server = Server {
            routes: routes.into(),
            http1,
            write_stall_max: settings.write_stall_max,
            encryption: self.encryption,
            proxies: self.proxies,
            admission: Admission::new(places),
            counted: Counted::new(metrics, which),
            stopping,
        };
        (stopper, server.run(self.listening))
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
    stopping: Arc<Stopping>,
    socket_file: Option<PathBuf>,
}

impl Stopper {
    /// Accepts no new connections; open requests can finish within `grace`.
    pub fn stop(&self, grace: Duration) {
        self.stopping.begin(grace);
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
    let (listening, address, socket_file) = match listen {
        Listen::Tcp(address) => {
            let listener = bind_tcp(address).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            let address = format!("{scheme}://{address}");
            (Listening::Tcp(listener), address, None)
        }
        Listen::Unix(path) => {
            let listener = bind_unix(path).map_err(failed)?;
            let address = format!("unix:{}", path.display());
            (Listening::Unix(listener), address, Some(path.clone()))
        }
    };
    Ok(Bound {
        listening,
        address,
        socket_file,
        encryption,
        proxies: proxies.clone(),
    })
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    remove_stale_socket(path)?;
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

fn bind_tcp(address: &str) -> io::Result<TcpListener> {
    let mut last_error = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match bind_address(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn bind_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Removes the socket file of a killed daemon, which would prevent binding. It connects first, so that the socket of a
/// running daemon stays.
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
