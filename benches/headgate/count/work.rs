//! The requests that are counted.
//!
//! **Invariant:** but for [`Work::Together`] a request is sent when a renderer was told of everything in the one before,
//! so that each is a group of the journal and a batch of the sink by itself, however busy the machine is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use memchr::memmem;

use crate::Result;
use crate::http::Client;
use crate::ingest::payload::{
    ITEM_KEY, Keys, RECURRING_KEYS, Requests, Revisions, Shape, request_head,
};
use crate::senders::tag;

const READ_KEY: &str = "rk_live_count_0123456789abcdef";
/// Stream with many renderers, its ingest key and its read key.
const FOLLOWED: &str = "followed";
const FOLLOWED_KEY: &str = "ik_followed_count_0123456789abcdef";
const FOLLOWERS_KEY: &str = "rk_followed_count_0123456789abcdef";
/// Renderers of [`Work::Pushed`] beyond that of [`Work::PushedToOne`].
pub(crate) const RENDERERS: usize = 64;
const SECRET: &str = "a-secret-of-the-count-0123456789";
/// Stream and connector of those that sign.
const SIGNED: &str = "signed";
/// Connections of [`Work::Together`].
const CONNECTIONS: usize = 32;
/// A field that each item has once.
const REVISION: &[u8] = b"order.revision";
/// What stands before its digits in what is sent, and how many there are.
const SENT_REVISION: &[u8] = b"\"revision\":";
const REVISION_DIGITS: usize = 10;
/// What the pool writes at most ten times a second, it writes for each request of those whose settling is counted: how many
/// that are is otherwise up to the machine.
const PACE: Duration = Duration::from_millis(110);
/// Longest wait for an answer or a message.
const WAIT: Duration = Duration::from_secs(120);

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// 200 B.
    Small,
    /// 200 B with an idempotency key.
    Keyed,
    /// 2 KB.
    Medium,
    /// 5,000 items in 1 MB.
    Array,
    /// 200 B, 32 at once.
    Together,
    /// 200 B with a signature over them.
    Signed,
    /// 200 B to a stream with one renderer of its own.
    PushedToOne,
    /// The same with [`RENDERERS`] more. It comes after the other, whose renderer stays.
    Pushed,
}

impl Work {
    pub(crate) const ALL: [Self; 8] = [
        Self::Small,
        Self::Keyed,
        Self::Medium,
        Self::Array,
        Self::Together,
        Self::Signed,
        Self::PushedToOne,
        Self::Pushed,
    ];

    /// Those of one title are counted together.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Small => "200 B",
            Self::Keyed => "200 B, idempotency key",
            Self::Medium => "2 KB",
            Self::Array => "1 MB array",
            Self::Together => "200 B, 32 at once",
            Self::Signed => "200 B, signed",
            Self::PushedToOne | Self::Pushed => "200 B, many renderers",
        }
    }

    /// How many are counted.
    pub(crate) fn requests(self) -> usize {
        match self {
            Self::Array => 4,
            Self::Together => CONNECTIONS,
            Self::Medium => 400,
            Self::PushedToOne | Self::Pushed => 40,
            _ => 200,
        }
    }

    /// How often they are counted. The round with the least counts: on a busy machine the requests of a round come one by
    /// one, and are stored in more and smaller groups.
    pub(crate) fn rounds(self) -> usize {
        match self {
            Self::Together => 10,
            _ => 1,
        }
    }

    /// From one request to the next, at least.
    fn pace(self) -> Duration {
        match self {
            Self::Small | Self::Medium | Self::Array | Self::PushedToOne | Self::Pushed => PACE,
            Self::Keyed | Self::Together | Self::Signed => Duration::ZERO,
        }
    }

    /// Renderers that follow nothing but what it sends.
    fn followers(self) -> usize {
        match self {
            Self::PushedToOne => 1,
            Self::Pushed => 1 + RENDERERS,
            _ => 0,
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Medium => Shape::Medium,
            Self::Array => Shape::Recurring,
            _ => Shape::Small,
        }
    }
}

/// Streams and keys of the daemon.
pub(crate) fn configuration() -> String {
    let shapes = [Shape::Small, Shape::Medium, Shape::Recurring];
    let names = shapes.map(Shape::name);
    let streams = names.iter().chain([&SIGNED, &FOLLOWED]);
    let streams: String = streams
        .map(|name| format!("[[streams]]\nname = \"{name}\"\n"))
        .collect();
    let keys = shapes.map(|shape| {
        let (name, secret) = (shape.name(), shape.ingest_key());
        format!("{{ name = \"{name}\", stream = \"{name}\", secret = \"{secret}\" }}")
    });
    format!(
        "{streams}[[connectors]]\nname = \"bench\"\nkind = \"ingest\"\nkeys = [{}]\n\
         [[connectors]]\nname = \"{SIGNED}\"\nkind = \"webhook\"\nitem_key = \"{ITEM_KEY}\"\n\
         keys = [{{ name = \"{SIGNED}\", stream = \"{SIGNED}\", verify = {{ scheme = \"hmac\", secret = \"{SECRET}\", header = \"X-Signature\" }} }}]\n\
         [[connectors]]\nname = \"{FOLLOWED}\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"{FOLLOWED}\", stream = \"{FOLLOWED}\", secret = \"{FOLLOWED_KEY}\" }}]\n\
         [[read_keys]]\nname = \"followers\"\nstreams = [\"{FOLLOWED}\"]\nsecret = \"{FOLLOWERS_KEY}\"\n\
         [[read_keys]]\nname = \"count\"\nstreams = [\"{}\", \"{SIGNED}\"]\nsecret = \"{READ_KEY}\"\n",
        keys.join(", "),
        names.join("\", \""),
    )
}

/// The sender, a renderer that follows all streams but one, and those that follow that.
pub(crate) struct Load {
    service: SocketAddr,
    /// Whether requests have their [`PACE`].
    is_paced: bool,
    clients: Vec<Client>,
    renderer: Renderer,
    followers: Vec<Renderer>,
    revisions: Revisions,
    sent: u64,
}

impl Load {
    pub(crate) fn connect(service: SocketAddr, is_paced: bool) -> Result<Self> {
        Ok(Self {
            service,
            is_paced,
            clients: Vec::new(),
            renderer: Renderer::connect(service, READ_KEY)?,
            followers: Vec::new(),
            revisions: Revisions::new(),
            sent: 0,
        })
    }

    /// Connects those that send this kind of work and those that follow it. Connections of the work before may have been
    /// silent for too long.
    pub(crate) fn connect_for(&mut self, work: Work) -> Result<()> {
        let at_once = match work {
            Work::Together => CONNECTIONS,
            _ => 1,
        };
        let clients = (0..at_once).map(|_| Client::connect(self.service));
        self.clients = clients.collect::<std::io::Result<_>>()?;
        while self.followers.len() < work.followers() {
            let follower = Renderer::connect(self.service, FOLLOWERS_KEY)?;
            self.followers.push(follower);
        }
        Ok(())
    }

    /// Sends so many, and waits until all are shown.
    pub(crate) fn send(&mut self, work: Work, count: usize) -> Result<()> {
        let mut clients = std::mem::take(&mut self.clients);
        let at_once = clients.len();
        let shape = work.shape();
        let keys = Keys::Cycle {
            next: 0,
            count: RECURRING_KEYS,
        };
        let mut requests = Requests::new(shape, keys, &self.revisions);
        for _ in 0..count.div_ceil(at_once) {
            let begun = Instant::now();
            let mut newest = Vec::new();
            for client in &mut clients {
                let request = self.vouch(work, requests.next());
                client.send(&request)?;
                newest = shown_revision(&request);
            }
            for client in &mut clients {
                let (status, body) = client.receive()?;
                if status != 202 {
                    let body = String::from_utf8_lossy(body);
                    return Err(format!("{}: answered {status}: {body}", work.title()).into());
                }
            }
            if work.followers() == 0 {
                self.renderer
                    .wait_until_shown(REVISION, at_once * shape.items())?;
            } else {
                // What it is shown when it connects has older revisions.
                for follower in &mut self.followers {
                    follower.wait_until_shown(&newest, 1)?;
                }
            }
            if self.is_paced {
                std::thread::sleep(work.pace().saturating_sub(begun.elapsed()));
            }
        }
        self.clients = clients;
        Ok(())
    }

    /// The request as this kind of sender sends it.
    fn vouch(&mut self, work: Work, plain: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let head = memmem::find(plain, b"\r\n\r\n").unwrap_or_default();
        let (head, body) = plain.split_at(head + 4);
        let head = String::from_utf8_lossy(head);
        let head = match work {
            Work::Keyed => {
                let key = format!("\r\nIdempotency-Key: count-{:016}\r\n", self.sent);
                head.replacen("\r\n", &key, 1)
            }
            Work::Signed => {
                let tag = tag(SECRET, body);
                format!(
                    "POST /api/webhook/{SIGNED}/{SIGNED} HTTP/1.1\r\nHost: count\r\nX-Signature: {tag}\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                )
            }
            Work::PushedToOne | Work::Pushed => request_head(FOLLOWED_KEY, ITEM_KEY, body.len()),
            _ => head.into_owned(),
        };
        [head.as_bytes(), body].concat()
    }
}

/// The field that shows the revision of what is sent.
fn shown_revision(request: &[u8]) -> Vec<u8> {
    let at = memmem::find(request, SENT_REVISION).unwrap_or_default() + SENT_REVISION.len();
    [REVISION, b"\":", &request[at..][..REVISION_DIGITS]].concat()
}

/// A connection that everything is sent to.
struct Renderer {
    stream: TcpStream,
    shown: Vec<u8>,
}

impl Renderer {
    fn connect(service: SocketAddr, read_key: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(service)?;
        stream.set_read_timeout(Some(WAIT))?;
        write!(
            stream,
            "GET /api/live?max_rate=1000 HTTP/1.1\r\nHost: count\r\nAuthorization: Bearer {read_key}\r\n\r\n"
        )?;
        Ok(Self {
            stream,
            shown: Vec::new(),
        })
    }

    /// Reads what it is sent, until this text was in it so many times.
    fn wait_until_shown(&mut self, text: &[u8], times: usize) -> Result<()> {
        let mut chunk = [0; 1 << 16];
        let mut found = 0;
        loop {
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err("the renderer was cut off".into());
            }
            self.shown.extend_from_slice(&chunk[..count]);
            found += memmem::find_iter(&self.shown, text).count();
            if found >= times {
                self.shown.clear();
                return Ok(());
            }
            // A text that is cut in two is found when its rest is there.
            let rest = self.shown.len().saturating_sub(text.len() - 1);
            self.shown.drain(..rest);
        }
    }
}
