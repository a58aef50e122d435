//! Live: renderers follow streams.
//!
//! `http` subscribes for each connection and sends what [`Subscription::next`] returns, whatever the transport; the
//! admin API lists the connections. The pool keeps the changes once for all renderers ([`pool::changes`]); a
//! subscription is a position in their sequence.
//!
//! **Invariant**: a renderer that has received the message with the id `epoch:seq` has received every change of its
//! streams up to that id, and resumes from that id alone. A slow renderer delays nobody, no queue grows for it, and it
//! is not disconnected for being slow.
#![deny(unsafe_code)]

mod connection_limit;
mod frame;
mod pages;
mod screens;
mod subscription;
pub mod tickets;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, SemaphorePermit};

use base::clock::Unix;
use base::order::ChangeSeq;
use catalog::Reader;
use connection_limit::ConnectionLimit;
pub use connection_limit::{AtCapacity, Occupancy, Permit};
use frame::Recent;
pub use frame::{Frame, FrameKind};
use observe::metrics::Metrics;
use observe::telemetry::Tracer;
pub use pages::{Pages, PagesTaken, Room};
use pool::changes::Wakeup;
use pool::{Pool, Position};
pub use screens::{Asker, Screen, ScreenRecord, Screens};
pub use select::ItemFilter;
use settings::Settings;
pub use subscription::Subscription;
use tickets::Tickets;
use view::Views;

/// Maximum flushes per second that a renderer can request.
pub const RATE_MAX: u32 = 1_000;

/// Transport of a renderer's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    WebSocket,
}

impl Transport {
    /// The name in the API and on pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::WebSocket => "websocket",
        }
    }
}

/// Closes a connection in any state: a client that does not read does not receive a message either. So its connection
/// is closed from outside.
pub struct Cut(pub Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Cut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cut")
    }
}

/// Subscription request of a renderer.
#[derive(Debug)]
pub struct Subscribe {
    /// Its key.
    pub reader: Arc<Reader>,
    /// The streams to follow, at least one.
    pub streams: Vec<Arc<str>>,
    /// Filter of their items.
    pub filter: ItemFilter,
    /// The position to resume from, as text.
    pub since: Option<String>,
    /// Flushes per second.
    pub max_rate: Option<u32>,
    pub transport: Transport,
    /// Its address.
    pub client: String,
    /// Its user agent.
    pub agent: Option<String>,
    /// Its description of itself, if it is a screen.
    pub screen: Option<Screen>,
    /// Closes the connection.
    pub cut: Cut,
    /// Its place within the connection limits.
    pub permit: Permit,
}

/// A connected renderer.
#[derive(Debug)]
pub struct Renderer {
    /// Increases with each connection.
    pub id: u64,
    /// Name of its read key.
    pub key: Box<str>,
    /// The streams that it follows.
    pub streams: Vec<Arc<str>>,
    /// The only keys that it follows; `None`: all.
    pub keys: Option<Box<[String]>>,
    pub transport: Transport,
    /// Its address.
    pub client: String,
    /// Time of the connection.
    pub connected_at: Unix,
    /// Its description of itself, if it is a screen.
    pub screen: Option<Screen>,
    /// An operator has requested that it reload its page. A flag and not a message, so that a renderer that does not
    /// read gets one instruction and not many.
    reload: AtomicBool,
    position: AtomicU64,
    wakeup: Arc<Wakeup>,
    reader: Arc<Reader>,
    cut: Cut,
    /// It was due to disconnect at the last check. It gets a second to read the last message, so it is closed only at
    /// the next check.
    overdue: AtomicBool,
}

impl Renderer {
    /// Sequence number of the last change that was sent to it.
    pub fn position(&self) -> ChangeSeq {
        ChangeSeq::new(self.position.load(Ordering::Relaxed))
    }

    /// Whether its key can also override and hold items.
    pub fn operates(&self) -> bool {
        self.reader.settings.operate
    }

    /// Whether it uses a read key, or a ticket of one, and not an admin token.
    pub fn is_of_key(&self) -> bool {
        !self.reader.settings.name.is_empty()
    }
}

/// All connected renderers.
#[derive(Debug)]
pub struct Live {
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
    tracer: Tracer,
    /// Issued tickets.
    pub tickets: Tickets,
    connection_limit: Arc<ConnectionLimit>,
    pages: Pages,
    /// Records of screens.
    pub screens: Screens,
    max_rate: u32,
    heartbeat: Duration,
    /// Replaced as a whole when streams change, so that a subscription compares one pointer and not all streams.
    stale_after_seconds: RwLock<Arc<HashMap<Arc<str>, u64>>>,
    /// The last frame of each stream: most renderers receive the same frames.
    recent: Mutex<Recent>,
    views: Mutex<Views>,
    renderers: Mutex<BTreeMap<u64, Arc<Renderer>>>,
    /// Renderers that were asked to disconnect: their last message can still be unread. Such a connection is still
    /// open, so it can be closed although its subscription has ended.
    leaving: Mutex<Vec<Arc<Renderer>>>,
    next_id: AtomicU64,
    stopping: AtomicBool,
    /// This node of a cluster cannot know what other nodes write.
    cut_from_others: AtomicBool,
    emptied: Notify,
}

impl Live {
    /// Without connections, and without a limit for stale streams. `connections`: the listener's limit; renderers leave
    /// some of them to other clients.
    pub fn new(
        settings: &Settings,
        connections: usize,
        pool: &Arc<Pool>,
        metrics: &Arc<Metrics>,
        tracer: Tracer,
    ) -> Self {
        Self {
            pool: Arc::clone(pool),
            metrics: Arc::clone(metrics),
            tracer,
            tickets: Tickets::default(),
            connection_limit: Arc::new(ConnectionLimit::new(
                // Others find a connection, too.
                (settings.live.connections_max)
                    .min(connections / 4 * 3)
                    .max(1),
                settings.live.connections_per_key_max,
            )),
            pages: Pages::new(
                settings.live.max_page_bytes,
                settings.live.max_page_bytes_per_key,
            ),
            screens: Screens::default(),
            max_rate: settings.live.max_rate,
            heartbeat: Duration::from_secs(settings.live.heartbeat_seconds),
            stale_after_seconds: RwLock::default(),
            recent: Mutex::default(),
            views: Mutex::default(),
            renderers: Mutex::default(),
            leaving: Mutex::default(),
            next_id: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            cut_from_others: AtomicBool::new(false),
            emptied: Notify::new(),
        }
    }

    /// The same with other tickets.
    pub fn with_tickets(self, tickets: Tickets) -> Self {
        Self { tickets, ..self }
    }

    /// Sets after how many seconds each stream becomes stale, for connected renderers too. Renderers are woken only if
    /// something differs, because each of them would look at its streams.
    pub fn set_stale_after(&self, seconds: HashMap<Arc<str>, u64>) {
        let mut current = self
            .stale_after_seconds
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if **current != seconds {
            *current = Arc::new(seconds);
            drop(current);
            self.recheck_keys();
        }
    }

    /// Heartbeats say from now on whether this node of a cluster is cut off from what other nodes write.
    pub fn set_cut_from_others(&self, is_cut: bool) {
        self.cut_from_others.store(is_cut, Ordering::Relaxed);
    }

    fn stale_after(&self) -> Arc<HashMap<Arc<str>, u64>> {
        let current = self.stale_after_seconds.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Reserves a place within the connection limits.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn permit(&self, reader: &Reader) -> Result<Permit, AtCapacity> {
        self.connection_limit.take(reader)
    }

    /// Memory for pages of items that are being sent.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Waits for one of the few turns to read many items. Otherwise renderers that reconnect at once would all read the
    /// file together.
    pub async fn turn_to_read(&self) -> Option<SemaphorePermit<'_>> {
        self.pool.turn_to_read().await
    }

    /// The number of connections, and their limits.
    pub fn occupancy(&self) -> Occupancy {
        self.connection_limit.taken()
    }

    /// Recent rejections: the name of the read key, and the limit.
    pub fn at_capacity(&self) -> Vec<(Box<str>, AtCapacity)> {
        self.connection_limit.refused()
    }

    /// Subscribes a renderer; it is connected until the subscription is dropped.
    pub fn subscribe(self: &Arc<Self>, mut request: Subscribe) -> Subscription {
        request.filter = request.filter.within(request.reader.limits());
        let stale_after = self.stale_after();
        // Any change may end that a stream is stale.
        let has_age = request
            .streams
            .iter()
            .any(|one| stale_after.contains_key(one));
        let keys = request.filter.keys().filter(|_| !has_age);
        let listener = self.pool.changes().listen(&request.streams, keys);
        let renderer = Arc::new(Renderer {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            key: request.reader.name.clone(),
            streams: request.streams.clone(),
            keys: request.filter.keys().map(Into::into),
            transport: request.transport,
            client: request.client.clone(),
            connected_at: Unix::now(),
            screen: request.screen.take(),
            reload: AtomicBool::new(false),
            position: AtomicU64::new(0),
            wakeup: Arc::clone(&listener.wakeup),
            reader: Arc::clone(&request.reader),
            cut: std::mem::replace(&mut request.cut, Cut(Box::new(|| {}))),
            overdue: AtomicBool::new(false),
        });
        if renderer.is_of_key() {
            let asker = Asker {
                client: request.client.clone(),
                agent: request.agent.take(),
            };
            let screen = renderer.screen.as_ref();
            self.screens.connected(&renderer.key, &asker, screen);
        }
        self.registry().insert(renderer.id, Arc::clone(&renderer));
        self.metrics.renderers.inc();
        Subscription::new(Arc::clone(self), request, listener, renderer)
    }

    /// The connected renderers, in the order of their connection.
    pub fn renderers(&self) -> Vec<Arc<Renderer>> {
        self.registry().values().cloned().collect()
    }

    /// Makes the screens of a read key reload their pages; returns their number.
    pub fn reload(&self, key: &str) -> usize {
        let mut screens = self.renderers();
        screens.retain(|one| one.screen.is_some() && one.is_of_key() && *one.key == *key);
        for screen in &screens {
            screen.reload.store(true, Ordering::Release);
            screen.wakeup.wake();
        }
        screens.len()
    }

    /// The position of the last change.
    pub fn position(&self) -> Position {
        self.pool.position()
    }

    /// Makes every renderer check its key: call it after a key was revoked.
    pub fn recheck_keys(&self) {
        for renderer in self.renderers() {
            renderer.wakeup.wake();
        }
    }

    /// Closes the connections of renderers that were due to disconnect at the last call and still are connected: they
    /// do not read. Called once per second.
    pub fn cut_off(&self) {
        let overdue = |renderer: &Renderer| renderer.overdue.swap(true, Ordering::Relaxed);
        let mut leaving = self.leaving();
        leaving.extend(
            self.renderers()
                .into_iter()
                .filter(|one| self.is_to_go(one)),
        );
        leaving.retain(|renderer| {
            let cut = overdue(renderer);
            if cut {
                (renderer.cut.0)();
            }
            !cut
        });
    }

    fn is_to_go(&self, renderer: &Renderer) -> bool {
        self.is_stopping() || !renderer.reader.is_valid_at(Unix::now())
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<Arc<Renderer>>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Disconnects all renderers, with a hint when to reconnect. Each waits for another time, so that they do not all
    /// return at once.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.recheck_keys();
    }

    /// Waits until no renderer is connected. It listens before it looks, otherwise the last one could leave in between.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.registry().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn leave(&self, renderer: &Arc<Renderer>) {
        if self.is_to_go(renderer) {
            self.leaving().push(Arc::clone(renderer));
        }
        let mut registry = self.registry();
        registry.remove(&renderer.id);
        if registry.is_empty() {
            self.emptied.notify_waiters();
        }
        drop(registry);
        self.metrics.renderers.dec();
        if renderer.is_of_key() {
            self.screens.left(&renderer.key);
        }
    }

    fn registry(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Renderer>>> {
        self.renderers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn views(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
