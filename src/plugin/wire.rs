//! Connections of sinks other than HTTP: TCP, TLS, UDP and WebSockets.
//!
//! A plugin whose sink has a `wire` table has a [`Wire`]; `host/wires.rs` is the interface to the guest. Connections
//! stay open while the plugin is loaded: across calls, instances and pauses.
//!
//! **Invariant**: a connection is opened only to a place in the configuration, to an address that was checked when it
//! was opened, with a verified certificate. Sinks never share connections. Received data is limited.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::rt::TokioIo;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tower_service::Service as _;

use super::egress::{Addresses, Dialer};
use settings::{Endpoint, Transport};

/// Maximum time to resolve an address, to connect to it, and for the handshake.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time until the connection accepts sent data. A receiver that does not read would otherwise block the sink
/// until the time of its call is over.
const SEND_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum bytes that were received and not read. A receiver could otherwise fill the memory while the guest does not
/// read.
pub(super) const WAITING_BYTES_MAX: usize = 64 << 10;
/// Maximum number of open connections of one sink. A guest can ask for any number of paths of one place.
const CONNECTIONS_MAX: usize = 64;
/// Maximum number of rejected places of a sink that are logged, until it is loaded again. A guest could name a new
/// place each time.
const LOGGED_MAX: usize = 50;

/// A stream for reading and writing.
trait Both: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}
type Stream = Box<dyn Both>;

/// The places to which one sink can connect, and its connections.
pub(super) struct Wire {
    to: Vec<Endpoint>,
    dialer: Dialer,
    /// Verifies certificates.
    encrypted: Option<HttpsConnector<Dialer>>,
    open: Mutex<HashMap<String, Arc<Connection>>>,
    logged: Mutex<HashSet<String>>,
}

/// A connection that the host holds.
pub(super) struct Connection {
    writer: tokio::sync::Mutex<Writer>,
    inbox: Arc<Inbox>,
    /// The task would otherwise read on without an owner.
    reader: AbortHandle,
}

enum Writer {
    Stream(WriteHalf<Stream>),
    Udp(Arc<UdpSocket>),
    WebSocket(SplitSink<WebSocketStream<Stream>, Message>),
}

/// Received data.
#[derive(Default)]
struct Inbox {
    arrived: Mutex<Arrived>,
    changed: Notify,
}

#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    /// Why no more data arrives. It is kept until the guest asks, because a send would otherwise seem to succeed.
    ended: Option<String>,
}

impl Wire {
    /// Opens no connection yet.
    ///
    /// # Errors
    /// A connection is encrypted and the machine has no certificate authorities.
    pub(super) fn new(settings: &settings::Wire) -> io::Result<Self> {
        let to = settings.to();
        let dialer = Dialer::new(Addresses::new(settings.networks()), CONNECT_TIME_MAX);
        let is_encrypted = to.iter().any(|one| one.transport.is_encrypted());
        let connector = || {
            let builder = HttpsConnectorBuilder::new().with_native_roots()?;
            let builder = builder.https_only().enable_http1();
            Ok::<_, io::Error>(builder.wrap_connector(dialer.clone()))
        };
        Ok(Self {
            encrypted: is_encrypted.then(connector).transpose()?,
            to,
            dialer,
            open: Mutex::default(),
            logged: Mutex::default(),
        })
    }

    /// The connection to a place, and whether it is new. A connection that has ended is replaced here, so that the
    /// guest learns by `fresh` that it must introduce itself again.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) async fn take(
        &self,
        sink: &str,
        url: &str,
    ) -> Result<(Arc<Connection>, bool), String> {
        let endpoint = Endpoint::of_url(url);
        let Some((endpoint, path)) = endpoint else {
            return Err(format!(
                "`{url}` is not an endpoint; expected tcp://host:port"
            ));
        };
        if !self.to.contains(&endpoint) {
            self.log_refusal(sink, &endpoint);
            return Err(format!(
                "not allowed: {endpoint} is not in `wire.to` of the sink's section"
            ));
        }
        if let Some(known) = self.open().get(url)
            && known.lives()
        {
            return Ok((Arc::clone(known), false));
        }
        let opening = self.connect(&endpoint, path);
        let connection = tokio::time::timeout(2 * CONNECT_TIME_MAX, opening)
            .await
            .unwrap_or_else(|_| Err("no connection in time".to_owned()))
            .map_err(|why| format!("{endpoint}: {why}"))?;
        let connection = Arc::new(connection);
        let mut open = self.open();
        open.retain(|_, one| one.lives());
        if open.len() >= CONNECTIONS_MAX {
            return Err(format!("a sink has {CONNECTIONS_MAX} connections at most"));
        }
        open.insert(url.to_owned(), Arc::clone(&connection));
        Ok((connection, true))
    }

    /// Closes a connection.
    pub(super) fn close(&self, url: &str) {
        self.open().remove(url);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a rejected place, once for each place.
    fn log_refusal(&self, sink: &str, endpoint: &Endpoint) {
        let to = endpoint.to_string();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MAX && logged.insert(to.clone()) {
            tracing::warn!(
                sink,
                to,
                setting = "wire.to",
                "the sink may not connect to this place"
            );
        }
    }

    async fn connect(&self, endpoint: &Endpoint, path: &str) -> Result<Connection, String> {
        if endpoint.transport == Transport::Udp {
            let addresses = self.dialer.addresses(&endpoint.host, endpoint.port).await;
            let addresses = addresses.map_err(|error| error.to_string())?;
            return udp(addresses[0]).await.map_err(|error| error.to_string());
        }
        let scheme = match endpoint.transport.is_encrypted() {
            true => "https",
            false => "http",
        };
        let authority = endpoint.to_string();
        let (_, authority) = authority.split_once("://").unwrap_or_default();
        let uri = format!("{scheme}://{authority}/").parse::<Uri>();
        let uri = uri.map_err(|error| error.to_string())?;
        let stream: Stream = match self.encrypted.clone() {
            Some(mut connector) if endpoint.transport.is_encrypted() => {
                let connected = connector.call(uri).await;
                Box::new(TokioIo::new(connected.map_err(|error| chain(&*error))?))
            }
            _ => {
                let connected = self.dialer.clone().call(uri).await;
                let connected = connected.map_err(|error| error.to_string())?;
                Box::new(connected.into_inner())
            }
        };
        if !endpoint.transport.is_web_socket() {
            return Ok(of_stream(stream));
        }
        // Encrypted already, where it is: the library is told where it greets.
        let path = if path.is_empty() { "/" } else { path };
        let url = format!("ws://{authority}{path}");
        let greeted = tokio_tungstenite::client_async(url, stream).await;
        let (socket, _) = greeted.map_err(|error| error.to_string())?;
        Ok(of_web_socket(socket))
    }
}

/// An error with its causes. The client's own message does not say why the connection failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// The socket is connected, so that it receives from this address alone.
async fn udp(address: SocketAddr) -> io::Result<Connection> {
    let any = match address {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    let socket = Arc::new(socket);
    let reader = Arc::clone(&socket);
    Ok(Connection::new(
        Writer::Udp(socket),
        |inbox: Arc<Inbox>| async move {
            let mut bytes = vec![0; WAITING_BYTES_MAX];
            loop {
                match reader.recv(&mut bytes).await {
                    Ok(length) if inbox.push(&bytes[..length]) => {}
                    Ok(_) => return TOO_MUCH.to_owned(),
                    Err(error) => return error.to_string(),
                }
            }
        },
    ))
}

const TOO_MUCH: &str = "more than 64 KiB arrived that the sink did not read";

fn of_stream(stream: Stream) -> Connection {
    let (mut reader, writer): (ReadHalf<Stream>, _) = tokio::io::split(stream);
    Connection::new(Writer::Stream(writer), |inbox: Arc<Inbox>| async move {
        let mut bytes = vec![0; 4 << 10];
        loop {
            match reader.read(&mut bytes).await {
                Ok(0) => return "the other side closed the connection".to_owned(),
                Ok(length) if inbox.push(&bytes[..length]) => {}
                Ok(_) => return TOO_MUCH.to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    })
}

fn of_web_socket(socket: WebSocketStream<Stream>) -> Connection {
    let (writer, mut reader) = socket.split();
    Connection::new(Writer::WebSocket(writer), |inbox: Arc<Inbox>| async move {
        loop {
            let fits = match reader.next().await {
                Some(Ok(Message::Text(text))) => inbox.push(text.as_bytes()),
                Some(Ok(Message::Binary(bytes))) => inbox.push(&bytes),
                Some(Ok(Message::Close(_))) | None => {
                    return "the other side closed the connection".to_owned();
                }
                Some(Ok(_)) => true,
                Some(Err(error)) => return error.to_string(),
            };
            if !fits {
                return TOO_MUCH.to_owned();
            }
        }
    })
}

impl Connection {
    /// The task that reads received data until the connection ends. Data is read at once, so that an end of the
    /// connection is noticed between two calls.
    fn new<F>(writer: Writer, read: impl FnOnce(Arc<Inbox>) -> F) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        let inbox = Arc::new(Inbox::default());
        let arriving = Arc::clone(&inbox);
        let reading = read(Arc::clone(&inbox));
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the connection, which owns it"
        )]
        let reading = tokio::spawn(async move { arriving.end(reading.await) });
        Self {
            writer: tokio::sync::Mutex::new(writer),
            inbox,
            reader: reading.abort_handle(),
        }
    }

    fn lives(&self) -> bool {
        self.inbox.arrived().ended.is_none()
    }

    /// Sends; on a WebSocket one message.
    ///
    /// # Errors
    /// The data was not sent completely.
    pub(super) async fn send(&self, bytes: Vec<u8>) -> Result<(), String> {
        if let Some(why) = self.inbox.arrived().ended.clone() {
            return Err(why);
        }
        let sending = async {
            match &mut *self.writer.lock().await {
                Writer::Stream(writer) => {
                    writer.write_all(&bytes).await?;
                    writer.flush().await
                }
                Writer::Udp(socket) => socket.send(&bytes).await.map(drop),
                Writer::WebSocket(socket) => {
                    let message = match String::from_utf8(bytes) {
                        Ok(text) => Message::text(text),
                        Err(error) => Message::binary(error.into_bytes()),
                    };
                    socket.send(message).await.map_err(io::Error::other)
                }
            }
        };
        let sent = tokio::time::timeout(SEND_TIME_MAX, sending).await;
        let sent = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        sent.map_err(|error| {
            let why = error.to_string();
            self.inbox.end(why.clone());
            why
        })
    }

    /// Reads up to this number of bytes, as soon as there are any; none when the time is over.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn receive(&self, max: usize, time_max: Duration) -> Result<Vec<u8>, String> {
        let receiving = async {
            loop {
                let changed = self.inbox.changed.notified();
                {
                    let mut arrived = self.inbox.arrived();
                    if !arrived.bytes.is_empty() {
                        let length = arrived.bytes.len().min(max);
                        return Ok(arrived.bytes.drain(..length).collect());
                    }
                    if let Some(why) = &arrived.ended {
                        return Err(why.clone());
                    }
                }
                changed.await;
            }
        };
        let received = tokio::time::timeout(time_max, receiving).await;
        received.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Inbox {
    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room for it.
    fn push(&self, bytes: &[u8]) -> bool {
        let mut arrived = self.arrived();
        let fits = arrived.bytes.len() + bytes.len() <= WAITING_BYTES_MAX;
        if fits {
            arrived.bytes.extend_from_slice(bytes);
        }
        drop(arrived);
        self.changed.notify_waiters();
        fits
    }

    fn end(&self, why: String) {
        self.arrived().ended.get_or_insert(why);
        self.changed.notify_waiters();
    }
}
