//! The renderers: connections on one thread, each noting what it is sent and when it was read.
//!
//! Called by every measurement. Raw sockets on one thread, so that the reading takes as little as possible from the
//! cores that the server is on.
//!
//! **Invariant:** the time of a delivery is taken right after the read that completed its message, and a renderer
//! counts as connected only when it was sent its snapshot (nchan: its answer), so nothing sent later can miss it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;

use super::Program;
use super::item::{Search, Versions};
use super::server::{Server, Transport};
use super::wire::{Decoder, Found, pong};
use crate::Result;

/// Longest wait for all to be connected.
const CONNECT_WAIT: Duration = Duration::from_secs(60);

/// Connections that are being made at once.
const CONNECTING_MAX: usize = 128;

/// Connections from one source address. Ports of closed ones stay taken for a minute, so each lot of this many gets
/// an address of its own, 127.0.0.2 and so on, of which there are [`SOURCES`].
const CONNECTIONS_PER_SOURCE: usize = 4_000;
const SOURCES: usize = 250;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Connections made so far in this run.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Which renderers to connect.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// How.
    pub(crate) transport: Transport,
    /// How many.
    pub(crate) count: usize,
    /// What the one of this number asks for: a stream, and a filter behind it as in a query.
    pub(crate) asks: fn(usize) -> String,
}

/// Connected renderers; they are disconnected when this is dropped.
#[derive(Debug)]
pub(crate) struct Renderers {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<Deliveries>>>,
}

/// What the reading thread tells while it reads.
#[derive(Debug, Default)]
struct Shared {
    connected: AtomicUsize,
    delivered: AtomicU64,
    lost: AtomicUsize,
    failure: Mutex<Option<String>>,
}

impl Shared {
    /// Notes the first failure; later ones are mostly its consequence.
    fn fail(&self, error: &io::Error) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| error.to_string());
    }

    fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }
}

/// What reached the renderers.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Update messages, of all renderers together.
    pub(crate) messages: u64,
    /// Values of items in them.
    pub(crate) versions: u64,
    /// From sending to reading, µs, of each value that counts.
    pub(crate) micros: Vec<f64>,
    /// The same until the last renderer had it, by version; 0 where none had.
    pub(crate) last_micros: Vec<f64>,
    /// For each renderer the newest version of each key that it was shown.
    pub(crate) newest: Vec<BTreeMap<u64, usize>>,
    /// Bytes that they were sent when they were ready, frames included.
    pub(crate) bytes: u64,
}

impl Renderers {
    /// Connects them and waits until each is ready. `versions` are the ones to look for.
    pub(crate) fn connect(
        server: &Server,
        wanted: &Wanted,
        versions: Option<Arc<Versions>>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let group = Group {
            address: server.address,
            program: server.program,
            requests: (0..wanted.count)
                .map(|number| server.subscription(wanted.transport, number, &(wanted.asks)(number)))
                .collect(),
            versions,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("renderers".to_owned())
            .spawn(move || group.run(stopped))?;
        let renderers = Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        };
        let begun = Instant::now();
        loop {
            renderers.check().map_err(|error| server.explain(error))?;
            let connected = renderers.shared.connected.load(Ordering::Relaxed);
            if connected == wanted.count {
                return Ok(renderers);
            }
            if begun.elapsed() > CONNECT_WAIT {
                let count = wanted.count;
                return Err(server.explain(format!(
                    "only {connected} of {count} renderers were connected within {CONNECT_WAIT:?}"
                )));
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Fails if any was disconnected.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(failure) = self.shared.failure() {
            let lost = self.shared.lost.load(Ordering::Relaxed);
            return Err(format!("{lost} renderers were lost, the first: {failure}").into());
        }
        match &self.thread {
            Some(thread) if thread.is_finished() => Err("the reading thread has ended".into()),
            _ => Ok(()),
        }
    }

    /// Waits until `expected` values were delivered, or none came for `quiet`.
    pub(crate) fn settle(&self, expected: u64, quiet: Duration) {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let delivered = self.shared.delivered.load(Ordering::Relaxed);
            if delivered >= expected || since.elapsed() > quiet {
                return;
            }
            if delivered != seen {
                (seen, since) = (delivered, Instant::now());
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Disconnects them; returns what reached them.
    pub(crate) fn finish(mut self) -> Result<Deliveries> {
        self.check()?;
        self.end()
    }

    fn end(&mut self) -> Result<Deliveries> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(deliveries)) => Ok(deliveries?),
            Some(Err(_)) => Err("the reading thread panicked".into()),
            None => Ok(Deliveries::default()),
        }
    }
}

impl Drop for Renderers {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What the reading thread is given.
struct Group {
    address: SocketAddr,
    program: Program,
    /// Of each renderer.
    requests: Vec<Vec<u8>>,
    versions: Option<Arc<Versions>>,
    shared: Arc<Shared>,
}

impl Group {
    fn run(self, stopped: oneshot::Receiver<()>) -> io::Result<Deliveries> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let notes = Rc::new(Notes::new(&self));
        let group = Rc::new(self);
        let local = LocalSet::new();
        let connecting = Rc::new(Semaphore::new(CONNECTING_MAX));
        for number in 0..group.requests.len() {
            let (group, notes) = (Rc::clone(&group), Rc::clone(&notes));
            let connecting = Rc::clone(&connecting);
            local.spawn_local(async move {
                if let Err(error) = group.render(number, &notes, &connecting).await {
                    group.shared.fail(&error);
                }
            });
        }
        let _ = local.block_on(&runtime, stopped);
        drop(local);
        Ok(notes.deliveries.take())
    }

    /// One renderer, until the thread ends or the connection does.
    async fn render(&self, number: usize, notes: &Notes, connecting: &Semaphore) -> io::Result<()> {
        let mut permit = Some(connecting.acquire().await.map_err(io::Error::other)?);
        let mut stream = connect(self.address).await?;
        stream.write_all(&self.requests[number]).await?;
        let mut renderer = Renderer {
            number,
            decoder: Decoder::new(),
            ready: false,
            pongs: Vec::new(),
        };
        loop {
            let was_ready = renderer.ready;
            read(&mut stream, &mut renderer, self, notes).await?;
            if renderer.ready && !was_ready {
                self.shared.connected.fetch_add(1, Ordering::Relaxed);
                permit.take();
            }
            if !renderer.pongs.is_empty() {
                stream
                    .write_all(&std::mem::take(&mut renderer.pongs))
                    .await?;
            }
        }
    }
}

/// What the renderers of a thread share.
struct Notes {
    buffer: RefCell<Vec<u8>>,
    deliveries: RefCell<Deliveries>,
    search: Search,
    update: Finder<'static>,
    snapshot: Finder<'static>,
    complete: Finder<'static>,
}

impl Notes {
    fn new(group: &Group) -> Self {
        let versions = group.versions.as_ref();
        let count = versions.map_or(0, |versions| versions.count());
        Self {
            buffer: RefCell::new(vec![0; READ_BYTES]),
            deliveries: RefCell::new(Deliveries {
                last_micros: vec![0.0; count],
                newest: vec![BTreeMap::new(); group.requests.len()],
                ..Deliveries::default()
            }),
            search: Search::new(),
            update: Finder::new(r#""type":"update""#),
            snapshot: Finder::new(r#""type":"snapshot""#),
            complete: Finder::new(r#""complete":true"#),
        }
    }
}

/// One connection.
struct Renderer {
    number: usize,
    decoder: Decoder,
    ready: bool,
    /// Answers to pings that are to be sent.
    pongs: Vec<u8>,
}

impl Renderer {
    fn take(&mut self, bytes: &[u8], at: Instant, group: &Group, notes: &Notes) -> io::Result<()> {
        let Self {
            number,
            decoder,
            ready,
            pongs,
        } = self;
        decoder.push(bytes, |found| match found {
            Found::Open => *ready = group.program == Program::Nchan,
            Found::Ping(content) => pongs.extend(pong(content)),
            Found::Message(message) => {
                if notes.update.find(message).is_some() {
                    note(*number, message, at, group, notes);
                } else if !*ready {
                    *ready = notes.snapshot.find(message).is_some()
                        && notes.complete.find(message).is_some();
                }
            }
        })
    }
}

/// Notes the versions in an update message.
fn note(number: usize, message: &[u8], at: Instant, group: &Group, notes: &Notes) {
    let mut deliveries = notes.deliveries.borrow_mut();
    deliveries.messages += 1;
    let Some(versions) = &group.versions else {
        return;
    };
    for index in notes.search.found(message, versions) {
        group.shared.delivered.fetch_add(1, Ordering::Relaxed);
        deliveries.versions += 1;
        let newest = deliveries.newest[number].entry(versions.key(index));
        let newest = newest.or_default();
        *newest = index.max(*newest);
        if let Some(micros) = versions
            .micros_until(index, at)
            .filter(|_| versions.counts(index))
        {
            deliveries.micros.push(micros);
            let last = &mut deliveries.last_micros[index];
            *last = last.max(micros);
        }
    }
}

/// One read, and what it completes.
async fn read(
    stream: &mut TcpStream,
    renderer: &mut Renderer,
    group: &Group,
    notes: &Notes,
) -> io::Result<()> {
    poll_fn(|context| {
        let mut buffer = notes.buffer.borrow_mut();
        let mut buffer = ReadBuf::new(&mut buffer);
        match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
            }
            Poll::Ready(Ok(())) => {
                let at = Instant::now();
                if renderer.ready {
                    let count = buffer.filled().len() as u64;
                    notes.deliveries.borrow_mut().bytes += count;
                }
                Poll::Ready(renderer.take(buffer.filled(), at, group, notes))
            }
        }
    })
    .await
}

/// Connects from the source address whose turn it is.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let lot = CONNECTIONS.fetch_add(1, Ordering::Relaxed) / CONNECTIONS_PER_SOURCE;
    let source = Ipv4Addr::new(127, 0, 0, 2 + (lot % SOURCES) as u8);
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(address).await
}
