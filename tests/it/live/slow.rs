//! Renderers that do not read, or hardly: they cost bounded memory and hold up nobody.
//!
//! The daemon is a process of its own here, so that its memory can be measured. What is slow is a [`Strait`] between it
//! and the renderer.

mod strait;

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{Admin, Caller, Content, Renderer, TestApp, Transport};
use crate::process::Process;
use crate::setup::{ADMIN_TOKEN, Setup, key_of};
use crate::wait::{DEADLINE, eventually_async};
use strait::Strait;

const MESSAGES: &str = "headgate_live_messages_total";
const SCREEN: &str = "rk_live_for_the_slow_screens_000001";
/// Items, updated again and again.
const ITEMS: usize = 4_000;
const ITEMS_TO_A_REQUEST: usize = 2_000;
const FILL_BYTES: usize = 200;
/// More than the journal, the pool and the memory of changes take by themselves; far less than what was sent.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

struct Daemon {
    folder: Setup,
    process: Process,
    shop: Caller,
    fill: String,
    round: usize,
}

impl Daemon {
    fn start() -> Self {
        let folder = Setup::with_streams(&["orders"])
            .sink("pool", "pool", "orders", "")
            .given_read_key("screen", &["orders"], SCREEN, "");
        let process = folder.spawn();
        let url = format!("http://{}", process.service);
        Self {
            folder,
            shop: Caller::new(&url, Some(&key_of("orders"))),
            process,
            fill: "x".repeat(FILL_BYTES),
            round: 0,
        }
    }

    fn renderer(&self, transport: Transport) -> Renderer {
        let url = format!("http://{}", self.process.service);
        Renderer::new(&url, transport, SCREEN, &["orders"])
    }

    /// Updates some of the items, and then the item `round`, which says how often that was done.
    async fn update(&mut self) {
        self.round += 1;
        let round = self.round;
        let first = round * ITEMS_TO_A_REQUEST % ITEMS;
        let mut items: Vec<String> = (first..first + ITEMS_TO_A_REQUEST - 1)
            .map(|number| {
                format!(
                    r#"{{"id": {number}, "round": {round}, "fill": "{}"}}"#,
                    self.fill
                )
            })
            .collect();
        items.push(format!(r#"{{"id": "round", "round": {round}}}"#));
        let body = format!("[{}]", items.join(","));
        self.shop.ingest_by("id", body).await.receipt();
    }

    /// The same, and the renderer must hear of it in time.
    async fn update_and_see(&mut self, renderer: &mut Renderer) {
        self.update().await;
        let round = self.round;
        let heard = async {
            while renderer
                .items("orders")
                .get("round")
                .map(|item| &item["fields"]["round"])
                != Some(&round.into())
            {
                renderer.next().await.expect("it goes on");
            }
        };
        // Others need hours for what they are sent.
        let heard = tokio::time::timeout(DEADLINE, heard).await;
        heard.unwrap_or_else(|_| panic!("round {round} was not heard of in time"));
    }

    /// Waits until whoever reads has everything.
    async fn nothing_more_is_sent(&self) {
        let admin = Admin::new(&format!("http://{}", self.process.admin), Some(ADMIN_TOKEN));
        settled(async || admin.metric(MESSAGES).await).await;
    }

    fn content(&self) -> Content {
        self.process.drained();
        self.folder.content(&["orders"])
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renderers_that_read_a_byte_a_second_cost_little_hold_up_nobody_and_catch_up() {
    const UPDATES: usize = 200_000;
    let mut daemon = Daemon::start();
    let mut quick = daemon.renderer(Transport::WebSocket);
    quick.connect().await;
    // What the daemon needs by itself.
    for _ in 0..6 {
        daemon.update_and_see(&mut quick).await;
    }
    let mut slow = Vec::new();
    for transport in Transport::ALL {
        let strait = Strait::to(daemon.process.service).await;
        let mut renderer = daemon.renderer(transport).via(strait.address());
        renderer.connect().await;
        renderer.snapshots().await;
        strait.narrow();
        slow.push((strait, renderer));
    }
    let before = daemon.process.memory_bytes();
    let started = Instant::now();
    for _ in 0..UPDATES / ITEMS_TO_A_REQUEST {
        daemon.update_and_see(&mut quick).await;
    }
    let took = started.elapsed();
    let growth = daemon.process.memory_bytes().saturating_sub(before);
    eprintln!("{UPDATES} updates in {took:?}, {} KB more", growth >> 10);
    assert!(
        growth < GROWTH_BYTES_MAX,
        "{growth} bytes more than {before}"
    );
    let content = daemon.content();
    for (strait, mut renderer) in slow {
        strait.open();
        let messages = renderer.holds(&content).await;
        let told: usize = messages.iter().map(|message| message.items().len()).sum();
        eprintln!("caught up with {told} items in {} messages", messages.len());
        assert!(told < UPDATES / 4, "{told} values, most of them old");
    }
    daemon.process.stop();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_renderers_that_never_read_cost_little_and_hold_up_nobody() {
    const RENDERERS: usize = 200;
    let mut daemon = Daemon::start();
    let mut quick = daemon.renderer(Transport::Sse);
    quick.connect().await;
    for _ in 0..6 {
        daemon.update_and_see(&mut quick).await;
    }
    let before = daemon.process.memory_bytes();
    let mut silent = Vec::new();
    for number in 0..RENDERERS {
        silent.push(never_reads(&daemon, number % 2 == 0).await);
    }
    for _ in 0..10 {
        daemon.update_and_see(&mut quick).await;
        daemon.nothing_more_is_sent().await;
    }
    let growth = daemon.process.memory_bytes().saturating_sub(before);
    eprintln!("{RENDERERS} renderers: {} KB more", growth >> 10);
    assert!(
        growth < 2 * GROWTH_BYTES_MAX,
        "{growth} bytes more than {before}"
    );
    let connected = daemon.process.list("/api/admin/renderers");
    let behind = connected.iter().filter(|one| one["lag"] != 0);
    assert_eq!(
        (connected.len(), behind.count()),
        (RENDERERS + 1, RENDERERS)
    );
    // Nor do they keep the daemon from stopping.
    let started = Instant::now();
    daemon.process.terminate();
    let ended = daemon.process.ended();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    let took = started.elapsed();
    // Who waits for them ends with the time for open requests, 30 s.
    assert!(took < Duration::from_secs(25), "{took:?}");
    drop(silent);
}

/// A connection with a small buffer that follows the stream and is not read any more.
async fn never_reads(daemon: &Daemon, upgrades: bool) -> TcpStream {
    let mut stream = strait::connect_with_small_buffer(daemon.process.service).await;
    let upgrade = match upgrades {
        true => {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        }
        false => "",
    };
    let head = format!(
        "GET /api/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SCREEN}\r\n{upgrade}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it listens");
    let status = stream.read_u8().await.expect("an answer");
    assert_eq!(status, b'H');
    stream
}

/// A daemon with more in `orders` than sockets hold, and a renderer by each transport that has stopped to read
/// within its snapshot.
async fn stalled() -> (TestApp, Content, Vec<(Strait, Renderer)>) {
    let app = Setup::screen().write_stall_max(STALL_MAX).start().await;
    let shop = app.caller("shop");
    let fill = "x".repeat(500_000);
    for number in 0..30 {
        let body = format!(r#"{{"id": {number}, "fill": "{fill}"}}"#);
        shop.ingest_by("id", body).await.receipt();
    }
    let content = app.content(&["orders"]).await;
    let address = app.service.strip_prefix("http://").expect("TCP");
    let address = address.parse().expect("an address");
    let mut renderers = Vec::new();
    for transport in Transport::ALL {
        let strait = Strait::to(address).await;
        strait.narrow_after(2_000);
        let mut renderer = app.renderer(transport, &["orders"]).via(strait.address());
        renderer.connect().await;
        renderers.push((strait, renderer));
    }
    let admin = app.admin();
    settled(async || admin.metric(MESSAGES).await).await;
    let sent = admin.metric(MESSAGES).await;
    assert!(sent < 60.0, "{sent} messages: everything");
    (app, content, renderers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_renderer_that_does_not_read_is_let_go_when_its_key_ends() {
    let (app, _, renderers) = stalled().await;
    assert_eq!(app.renderers().await.len(), 2);
    app.revoke("screen");
    eventually_async("they are let go", async || {
        app.renderers().await.is_empty().then_some(())
    })
    .await;
    drop(renderers);
}

/// Other answers may stall for so long in these tests.
const STALL_MAX: Duration = Duration::from_millis(500);

/// Nothing that is slow is cut off for it, as other answers are.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_renderer_that_stalls_goes_on_when_it_reads_again() {
    let (app, mut content, renderers) = stalled().await;
    cut_off(&app).await;
    assert_eq!(app.renderers().await.len(), 2);
    // What goes meanwhile was told in part.
    app.remove("shop", "orders", "0").await;
    app.remove("shop", "orders", "29").await;
    content.extend(app.content(&["orders"]).await);
    for (strait, mut renderer) in renderers {
        strait.open();
        renderer.holds(&content).await;
    }
}

/// Asks for a page of items and does not read it until the daemon has let go of it. Renderers that have stalled before
/// have stalled for longer then.
async fn cut_off(app: &TestApp) {
    let address = app.service.strip_prefix("http://").expect("TCP");
    let address = address.parse().expect("an address");
    let open = &app.parts.metrics.listeners.service.open;
    let renderers = i64::try_from(app.renderers().await.len()).expect("it fits");
    // Callers keep their connections for a while.
    eventually_async("renderers alone are connected", async || {
        (open.get() == renderers).then_some(())
    })
    .await;
    let mut stream = strait::connect_with_small_buffer(address).await;
    let head = format!(
        "GET /api/streams/orders/items HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        app.read_secret("screen")
    );
    stream.write_all(head.as_bytes()).await.expect("it listens");
    stream.peek(&mut [0]).await.expect("it begins to answer");
    eventually_async("it is let go", async || {
        (open.get() == renderers).then_some(())
    })
    .await;
    let mut answer = Vec::new();
    // It may be a reset.
    let _ = stream.read_to_end(&mut answer).await;
    let length = answer.len();
    // A whole page of these items is more.
    assert!((1..4 << 20).contains(&length), "{length} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_renderer_that_does_not_read_does_not_keep_the_daemon_from_stopping() {
    let (app, _, renderers) = stalled().await;
    let started = Instant::now();
    drop(app.stop().await);
    let took = started.elapsed();
    // Who waits for them ends with the time for open requests, 30 s.
    assert!(took < Duration::from_secs(25), "{took:?}");
    drop(renderers);
}

/// Waits until a number has not changed for a while: nothing tells when a daemon has begun to wait.
async fn settled<T: PartialEq>(look: impl AsyncFn() -> T) {
    let (mut last, mut since) = (look().await, Instant::now());
    eventually_async("it settles", async || {
        let now = look().await;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > Duration::from_millis(300)).then_some(())
    })
    .await;
}
