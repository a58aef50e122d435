//! Live: renderers follow streams.
//!
//! `http` subscribes for each connection and sends what [`Subscription::next`] brings, whatever the
//! transport; the admin API lists who is connected. The changes themselves are kept once for all
//! renderers, by the pool ([`pool::changes`]); a subscription is a position in their sequence.
//!
//! **Invariant**: a renderer that has received the message with the id `epoch:seq` has seen every change
//! of its streams up to there, and needs nothing but that id to go on. However slow it is, it holds up
//! nobody, no queue grows for it, and it is not cut off for being slow.
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

/// Flushes a second that a renderer may ask for.
pub const RATE_MAX: u32 = 1_000;

/// How a renderer is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    WebSocket,
}

impl Transport {
    /// As shown to people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::WebSocket => "websocket",
        }
    }
}

/// Closes a connection in whatever state it is: who does not read cannot be told to go.
pub struct Cut(pub Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Cut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cut")
    }
}

/// What a renderer asks for.
#[derive(Debug)]
pub struct Subscribe {
    /// The key that it came with.
    pub reader: Arc<Reader>,
    /// What it wants to follow, at least one.
    pub streams: Vec<Arc<str>>,
    /// What it wants of them.
    pub filter: ItemFilter,
    /// Where it was before: a position as text.
    pub since: Option<String>,
    /// Flushes a second.
    pub max_rate: Option<u32>,
    /// How it is connected.
    pub transport: Transport,
    /// Where it is connected from.
    pub client: String,
    /// What program it is.
    pub agent: Option<String>,
    /// What it says of itself, if it is a screen.
    pub screen: Option<Screen>,
    /// Closes the connection.
    pub cut: Cut,
    /// Its place among those that may follow at once.
    pub permit: Permit,
}

/// A renderer that is connected.
#[derive(Debug)]
pub struct Renderer {
    /// Rises with each connection.
    pub id: u64,
    /// Name of its read key.
    pub key: Box<str>,
    /// What it follows.
    pub streams: Vec<Arc<str>>,
    /// The only keys that it follows, if not all.
    pub keys: Option<Box<[String]>>,
    /// How it is connected.
    pub transport: Transport,
    /// Where from.
    pub client: String,
    /// Since when.
    pub connected_at: Unix,
    /// What it says of itself, if it is a screen.
    pub screen: Option<Screen>,
    /// It is to load its page again.
    reload: AtomicBool,
    position: AtomicU64,
    wakeup: Arc<Wakeup>,
    reader: Arc<Reader>,
    cut: Cut,
    /// It should have gone when somebody looked last.
    overdue: AtomicBool,
}

impl Renderer {
    /// Number of the last change that it was sent.
    pub fn position(&self) -> ChangeSeq {
        ChangeSeq::new(self.position.load(Ordering::Relaxed))
    }

    /// Whether its key can also override and hold what it shows.
    pub fn operates(&self) -> bool {
        self.reader.settings.operate
    }

    /// Whether it came with a read key, or a ticket of one, and not with one of an admin token.
    pub fn is_of_key(&self) -> bool {
        !self.reader.settings.name.is_empty()
    }
}

/// All renderers.
#[derive(Debug)]
pub struct Live {
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
    tracer: Tracer,
    /// Tickets that were given out.
    pub tickets: Tickets,
    connection_limit: Arc<ConnectionLimit>,
    pages: Pages,
    /// What is known of screens.
    pub screens: Screens,
    max_rate: u32,
    heartbeat: Duration,
    /// Replaced as a whole when streams change.
    stale_after_seconds: RwLock<Arc<HashMap<Arc<str>, u64>>>,
    /// The last frame of each stream: most renderers are sent the same.
    recent: Mutex<Recent>,
    views: Mutex<Views>,
    renderers: Mutex<BTreeMap<u64, Arc<Renderer>>>,
    /// Those that were told to go: what they were told last may still wait for them to read.
    leaving: Mutex<Vec<Arc<Renderer>>>,
    next_id: AtomicU64,
    stopping: AtomicBool,
    emptied: Notify,
}

impl Live {
    /// Nobody is connected yet, and no stream becomes stale.
    /// `connections`: how many the listener may have, of which renderers leave others some.
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
            emptied: Notify::new(),
        }
    }

    /// From now on these streams become stale after so long, also for those who are connected.
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

    fn stale_after(&self) -> Arc<HashMap<Arc<str>, u64>> {
        let current = self.stale_after_seconds.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// A place among those that may follow at once.
    ///
    /// # Errors
    /// Which limit is reached.
    pub fn permit(&self, reader: &Reader) -> Result<Permit, AtCapacity> {
        self.connection_limit.take(reader)
    }

    /// Room for pages of items on their way.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// A turn to read many items, of the few that there are at once.
    pub async fn turn_to_read(&self) -> Option<SemaphorePermit<'_>> {
        self.pool.turn_to_read().await
    }

    /// How many places are taken.
    pub fn occupancy(&self) -> Occupancy {
        self.connection_limit.taken()
    }

    /// Who found no place lately: the name of the read key, and why.
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

    /// Who is connected, in the order of their coming.
    pub fn renderers(&self) -> Vec<Arc<Renderer>> {
        self.registry().values().cloned().collect()
    }

    /// Has the screens of a read key load their pages again; how many there are.
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

    /// Every renderer looks whether it may stay: call it after a key was revoked.
    pub fn recheck_keys(&self) {
        for renderer in self.renderers() {
            renderer.wakeup.wake();
        }
    }

    /// Closes the connections of those that were to go when it was called last and have not: they do not
    /// read. Called once a second.
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

    /// Sends everybody away, with a hint when to come back.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.recheck_keys();
    }

    /// Ends when nobody is connected.
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
