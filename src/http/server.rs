//! Serves a listener: accepts its connections, answers their requests, ends them.
//!
//! **Invariant**: a connection has its place before a byte of it is read: before the header of a proxy, and before TLS. If
//! the system cannot accept connections, the listener retries automatically. When the listener stops, it accepts no more
//! connections, and open requests are answered within the grace.

use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::Service as HttpService;
use salvo_core::Service;
use salvo_core::conn::{ConnCtrl, SocketAddr, http1};
use salvo_core::http::ResBody;
use salvo_core::http::uri::Scheme;
use salvo_core::rt::tokio::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::admission::{Admission, Silent};
use super::connections::{Connection, Counted, Held, Shared};
use super::dispatch::Dispatch;
use super::ingest::Direct;
use super::listen::Listening;
use super::middleware::client_at;
use super::proxy_protocol;
use super::stream::{Socket, Stream};
use super::tls::{Encryption, digest_of_client};
use settings::Networks;

/// Maximum time for the header of a proxy. A proxy sends it at once.
const HEADER_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum time for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);
/// Pause after a failure to accept a connection. Without it, a listener without free files would compute all the time.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// What answers the requests of a listener.
pub struct Routes {
    /// All routes.
    pub service: Service,
    /// Those that are decided before `service` is asked.
    pub direct: Option<Arc<Direct>>,
}

impl From<Service> for Routes {
    fn from(service: Service) -> Self {
        Self {
            service,
            direct: None,
        }
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Routes")
    }
}

/// Whether a listener stops, and how long open requests have then.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    began: CancellationToken,
    grace: OnceLock<Duration>,
}

impl Stopping {
    pub(super) fn begin(&self, grace: Duration) {
        let _ = self.grace.set(grace);
        self.began.cancel();
    }
}

/// What the connections of a listener share.
pub(super) struct Server {
    pub(super) routes: Routes,
    pub(super) http1: http1::Builder,
    /// Maximum time of a write that does not progress.
    pub(super) write_stall_max: Duration,
    pub(super) encryption: Option<Encryption>,
    /// Proxies that begin each connection with the address of its client.
    pub(super) proxies: Networks,
    pub(super) admission: Admission,
    pub(super) counted: Counted,
    pub(super) stopping: Arc<Stopping>,
}

impl Server {
    /// Serves until it is stopped and the open requests are answered.
    pub(super) async fn run(self, listening: Listening) {
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        {
            // It goes on when a connection ends: it may hold one that waits for a place.
            let mut accepting = pin!(server.accept(&listening));
            loop {
                tokio::select! {
                    biased;
                    () = server.stopping.began.cancelled() => break,
                    Some(_) = connections.join_next() => {}
                    (accepted, address, silent) = &mut accepting => {
                        connections.spawn(Arc::clone(&server).serve(accepted, address, silent));
                        accepting.set(server.accept(&listening));
                    }
                }
            }
        }
        // Otherwise the system would queue connections that are never answered.
        drop(listening);
        let grace = server.stopping.grace.get().copied().unwrap_or_default();
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(grace, ended).await;
    }

    /// The next connection that has a place. One that waits for a place waits here; all later ones wait in the queue of the
    /// system.
    async fn accept(&self, listening: &Listening) -> (Accepted, SocketAddr, Arc<Silent>) {
        loop {
            match listening.accept(self.write_stall_max).await {
                Ok((accepted, address)) => {
                    let client = client_at(&address).address();
                    match self.admission.admit(client, Instant::now()).await {
                        Some(silent) => return (accepted, address, silent),
                        None => self.counted.refused(client),
                    }
                }
                Err(error) => {
                    let connections = self.counted.connections();
                    if let Some(count) = connections.failed(&error) {
                        let listener = connections.listener;
                        tracing::error!(listener, count, %error, "cannot accept connections, retrying");
                    }
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }

    async fn serve(
        self: Arc<Self>,
        (socket, control): Accepted,
        mut address: SocketAddr,
        silent: Arc<Silent>,
    ) {
        let mut held = Held::new(client_at(&address).address(), &self.counted);
        let stream = match self.opens(&address) {
            false => Stream::Plain(socket),
            true => {
                let opening = self.open(socket, &mut address, &silent);
                let opened = tokio::select! {
                    biased;
                    opened = opening => opened,
                    () = silent.displaced() => return,
                };
                match opened {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::debug!(%error, "a connection could not be opened");
                        return;
                    }
                }
            }
        };
        held.address = client_at(&address).address();
        let certificate = match &stream {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => digest_of_client(stream.get_ref().1),
        };
        let scheme = match self.encryption {
            None => Scheme::HTTP,
            Some(_) => Scheme::HTTPS,
        };
        let shared = Arc::new(Shared::default());
        let handler = self.routes.service.hyper_handler(
            SocketAddr::Unknown,
            address.clone(),
            scheme.clone(),
            None,
            control.clone(),
            None,
        );
        let dispatch = Dispatch {
            handler,
            server: Arc::clone(&self),
            shared: Arc::clone(&shared),
            address,
            scheme,
            certificate,
        };
        let connection = Connection::new(stream, silent, held, (Arc::clone(&shared), control));
        self.drive(connection, dispatch, &shared).await;
        shared.go_on().await;
    }

    /// Whether a connection begins with anything but its first request.
    fn opens(&self, address: &SocketAddr) -> bool {
        self.encryption.is_some() || self.proxies.contains(client_at(address).address())
    }

    /// Reads the header of a proxy, which names the client, and completes the TLS handshake.
    async fn open(
        &self,
        mut socket: Socket,
        address: &mut SocketAddr,
        silent: &Arc<Silent>,
    ) -> io::Result<Stream> {
        if self.proxies.contains(client_at(address).address()) {
            let header = timeout(HEADER_TIME_MAX, proxy_protocol::header(&mut socket)).await;
            if let Some(client) = header?? {
                *address = client.into();
                let client = client_at(address).address();
                if client.is_some_and(|client| !self.admission.name(silent, client)) {
                    self.counted.refused(client);
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
            }
        }
        let Some(encryption) = &self.encryption else {
            return Ok(Stream::Plain(socket));
        };
        let handshake = encryption.acceptor().accept(socket);
        let stream = timeout(HANDSHAKE_TIME_MAX, handshake).await??;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Reads and answers requests until the connection ends or is handed over.
    async fn drive<H>(&self, connection: Connection<Stream>, dispatch: Dispatch<H>, shared: &Shared)
    where
        H: HttpService<
                hyper::Request<Incoming>,
                Response = hyper::Response<ResBody>,
                Error = hyper::Error,
                Future: Send + 'static,
            >,
    {
        let connection = (self.http1).serve_connection(TokioIo::new(connection), dispatch);
        let mut connection = pin!(connection.with_upgrades());
        let mut stops = pin!(self.stopping.began.cancelled());
        let mut is_registered = false;
        let mut is_ending = false;
        let ended = std::future::poll_fn(|context| {
            // Once, because it is the same task each time.
            if !is_registered {
                is_registered = true;
                shared.driver.register(context.waker());
                let _ = stops.as_mut().poll(context);
            }
            if shared.is_cut() {
                return Poll::Ready(Ok(()));
            }
            if !is_ending && self.stopping.grace.get().is_some() {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            let ended = connection.as_mut().poll(context);
            match shared.is_handed_over() {
                true => Poll::Ready(Ok(())),
                false => ended,
            }
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// A socket, and the control that the framework's handlers have of it.
pub(super) type Accepted = (Socket, ConnCtrl);
