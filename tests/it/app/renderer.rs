//! Those who follow streams: a renderer over a real socket, by Server-Sent Events or WebSocket.
//!
//! It writes its requests itself and applies the messages to a map exactly as the protocol says.
//!
//! **Invariant**: it believes nothing: ids never go backwards within a connection, no change of an item comes twice,
//! an item never becomes older, nothing comes of a stream that was not asked for, and both transports carry the same.

mod content;
mod message;
mod socket;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Reply;
use crate::wait::DEADLINE;
pub(crate) use content::Content;
use content::difference;
pub(crate) use message::Message;
use message::{Place, place};
pub(crate) use socket::Transport;
use socket::{Event, Socket};

/// What is read up to something must come in this time: heartbeats alone would go on for ever.
const READ_MAX: Duration = Duration::from_secs(120);

/// How a renderer shows that it may read.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// Not at all.
    None,
    /// `Authorization: Bearer …`
    Header(String),
    /// `?token=`
    Url(String),
    /// A WebSocket subprotocol beside `headgate`.
    Subprotocol(String),
}

/// A renderer.
#[derive(Debug)]
pub(crate) struct Renderer {
    /// `host:port`
    address: String,
    transport: Transport,
    pass: Pass,
    /// The page that it is part of.
    origin: Option<String>,
    streams: Vec<String>,
    /// Whether it names them; the read key's are all followed otherwise.
    names_streams: bool,
    max_rate: Option<u32>,
    /// More of the query.
    query: String,
    /// What it holds.
    pub(crate) content: Content,
    /// The id of the last message that had one: what it resumes from.
    pub(crate) id: Option<String>,
    /// Milliseconds that the daemon last asked it to wait before it comes back, by `retry:`.
    pub(crate) retry_ms: Option<u64>,
    /// The head of the answer that opened the last connection.
    pub(crate) head: Option<Reply>,
    connection: Option<Connection>,
}

/// What is known of the connection that is open.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    last: Place,
    messages: u64,
    /// Keys of the snapshot that goes on, for each stream whose snapshot is not complete.
    snapshots: BTreeMap<String, Option<HashSet<String>>>,
    told: HashSet<(String, String, u64)>,
}

impl Renderer {
    /// One who has not connected yet. `url` is `http://host:port`.
    pub(crate) fn new(url: &str, transport: Transport, secret: &str, streams: &[&str]) -> Self {
        let address = url.strip_prefix("http://").expect("a TCP listener");
        Self {
            address: address.to_owned(),
            transport,
            pass: Pass::Header(secret.to_owned()),
            origin: None,
            streams: streams.iter().map(|name| (*name).to_owned()).collect(),
            names_streams: true,
            max_rate: None,
            query: String::new(),
            content: Content::new(),
            id: None,
            retry_ms: None,
            head: None,
            connection: None,
        }
    }

    /// Asks for so many flushes a second.
    pub(crate) fn max_rate(mut self, max_rate: u32) -> Self {
        self.max_rate = Some(max_rate);
        self
    }

    /// Leaves the names of the streams, which are all of the read key's, to the daemon.
    pub(crate) fn names_no_streams(&mut self) {
        self.names_streams = false;
    }

    /// Adds something to its query.
    pub(crate) fn asks(&mut self, query: &str) {
        query.clone_into(&mut self.query);
    }

    /// Shows something else than the read key in a header.
    pub(crate) fn with(mut self, pass: Pass) -> Self {
        self.pass = pass;
        self
    }

    /// Is part of a page of this origin.
    pub(crate) fn of_page(mut self, origin: &str) -> Self {
        self.origin = Some(origin.to_owned());
        self
    }

    /// Goes through something in between.
    pub(crate) fn via(mut self, address: &str) -> Self {
        address.clone_into(&mut self.address);
        self
    }

    /// The daemon is somewhere else after a restart.
    pub(crate) fn moved(&mut self, url: &str) {
        let address = url.strip_prefix("http://").expect("a TCP listener");
        address.clone_into(&mut self.address);
    }

    /// Whether it is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Connects, and resumes if it has been connected before.
    pub(crate) async fn connect(&mut self) {
        let id = self.id.clone();
        self.connect_from(id.as_deref()).await;
    }

    /// Connects and resumes from this id; with none, afresh.
    pub(crate) async fn connect_from(&mut self, since: Option<&str>) {
        if let Err(reply) = self.try_connect(since).await {
            panic!("refused: {} {}", reply.status, reply.text());
        }
    }

    /// The same, for one who may be refused.
    pub(crate) async fn try_connect(&mut self, since: Option<&str>) -> Result<(), Reply> {
        let mut query: Vec<String> = Vec::new();
        if self.names_streams {
            let names: Vec<String> = self.streams.iter().map(|name| encoded(name)).collect();
            query.push(format!("streams={}", names.join(",")));
        }
        if let Some(rate) = self.max_rate {
            query.push(format!("max_rate={rate}"));
        }
        let mut headers = match &self.pass {
            Pass::None => String::new(),
            Pass::Header(secret) => format!("Authorization: Bearer {secret}\r\n"),
            Pass::Url(secret) => {
                query.push(format!("token={}", encoded(secret)));
                String::new()
            }
            Pass::Subprotocol(secret) => {
                format!("Sec-WebSocket-Protocol: headgate, {secret}\r\n")
            }
        };
        if let Some(origin) = &self.origin {
            headers.push_str(&format!("Origin: {origin}\r\n"));
        }
        match (self.transport, since) {
            // As browsers do it.
            (Transport::Sse, Some(since)) => {
                headers.push_str(&format!("Last-Event-ID: {since}\r\n"));
            }
            (Transport::WebSocket, Some(since)) => query.push(format!("since={}", encoded(since))),
            (_, None) => {}
        }
        if !self.query.is_empty() {
            query.push(self.query.clone());
        }
        let query = query.join("&");
        let (head, socket) = Socket::open(&self.address, self.transport, &query, &headers).await?;
        self.head = Some(head);
        let resumed = since.filter(|since| is_resumable(since));
        let awaited = match resumed {
            Some(_) => Vec::new(),
            None => self.streams.clone(),
        };
        self.connection = Some(Connection {
            socket,
            last: resumed.map_or((0, 0), place),
            messages: 0,
            snapshots: awaited.into_iter().map(|name| (name, None)).collect(),
            told: HashSet::new(),
        });
        Ok(())
    }

    /// Goes away without a word.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Forgets everything.
    pub(crate) fn forget(&mut self) {
        self.connection = None;
        self.content.clear();
        self.id = None;
    }

    /// The next message, applied. `None` if the daemon has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(DEADLINE, self.receive()).await;
        next.unwrap_or_else(|_| panic!("{:?} hears nothing more", self.transport))
    }

    /// The messages up to the first that is wanted, applied. Fails when the connection is closed before.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&Message) -> bool,
    ) -> Vec<Message> {
        let (mut messages, started) = (Vec::new(), Instant::now());
        loop {
            let next = self.next().await;
            let message = next.unwrap_or_else(|| panic!("closed before {what}"));
            assert!(started.elapsed() < READ_MAX, "still not there: {what}");
            let found = wanted(&message);
            messages.push(message);
            if found {
                return messages;
            }
        }
    }

    /// The messages up to the end of the last first snapshot.
    pub(crate) async fn snapshots(&mut self) -> Vec<Message> {
        let (mut messages, started) = (Vec::new(), Instant::now());
        while self.awaits_snapshots() {
            let next = self.next().await;
            assert!(started.elapsed() < READ_MAX, "no complete snapshot");
            messages.push(next.expect("no end before the snapshots are complete"));
        }
        messages
    }

    /// The messages up to the first heartbeat.
    pub(crate) async fn caught_up(&mut self) -> Vec<Message> {
        self.until("a heartbeat", |message| message.kind == "heartbeat")
            .await
    }

    /// Connects if it is not, and reads until it holds exactly this.
    pub(crate) async fn holds(&mut self, content: &Content) -> Vec<Message> {
        if self.connection.is_none() {
            self.connect().await;
        }
        let (mut messages, started) = (Vec::new(), Instant::now());
        while self.awaits_snapshots() || self.content != *content {
            let next = tokio::time::timeout(DEADLINE, self.receive()).await;
            match next {
                Ok(Some(message)) if started.elapsed() < READ_MAX => messages.push(message),
                Ok(None) => panic!("closed: {}", difference(&self.content, content)),
                _ => panic!(
                    "{:?} hears nothing more at {:?}: {}",
                    self.transport,
                    self.id,
                    difference(&self.content, content)
                ),
            }
        }
        messages
    }

    /// The messages until the daemon closes the connection.
    pub(crate) async fn rest(&mut self) -> Vec<Message> {
        let (mut messages, started) = (Vec::new(), Instant::now());
        while let Some(message) = self.next().await {
            assert!(started.elapsed() < READ_MAX, "it is never closed");
            messages.push(message);
        }
        messages
    }

    /// The items of a stream that it holds.
    pub(crate) fn items(&self, stream: &str) -> &BTreeMap<String, Value> {
        const NONE: &BTreeMap<String, Value> = &BTreeMap::new();
        self.content.get(stream).unwrap_or(NONE)
    }

    fn awaits_snapshots(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| !connection.snapshots.is_empty())
    }

    async fn receive(&mut self) -> Option<Message> {
        let connection = self.connection.as_mut().expect("it is connected");
        let Some(Event {
            name,
            id,
            retry_ms,
            text,
        }) = connection.socket.next().await
        else {
            self.connection = None;
            return None;
        };
        self.retry_ms = retry_ms.or(self.retry_ms);
        let json: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let member = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let message = Message {
            kind: member("type"),
            id: member("id"),
            stream: member("stream"),
            json,
            text,
        };
        if self.transport == Transport::Sse {
            assert_eq!(name, message.kind, "{}", message.text);
            assert_eq!(id.unwrap_or_default(), message.id, "{}", message.text);
        }
        self.apply(&message);
        Some(message)
    }

    fn apply(&mut self, message: &Message) {
        let connection = self.connection.as_mut().expect("it is connected");
        connection.messages += 1;
        match message.kind.as_str() {
            "bye" => return,
            "reset" => {
                let of_limits = message.text.contains("limits of the read key have changed");
                assert!(
                    connection.messages == 1 || of_limits,
                    "a reset comes first, or when limits change: {}",
                    message.text
                );
                let awaited = self.streams.iter().map(|name| (name.clone(), None));
                connection.snapshots = awaited.collect();
                connection.last = message.place();
                assert_eq!(message.place().1, 0, "{}", message.text);
                self.content.clear();
            }
            "snapshot" | "update" | "remove" | "stale" | "fresh" => {
                let asked = self.streams.contains(&message.stream);
                assert!(asked, "nobody asked for {}", message.text);
                let items = self.content.entry(message.stream.clone()).or_default();
                connection.apply(message, items);
            }
            _ => {}
        }
        let place = message.place();
        let last = connection.last;
        assert!(
            last.0 == 0 || last.0 == place.0 && last.1 <= place.1,
            "the id went from {last:?} to {}",
            message.text
        );
        if !connection.snapshots.is_empty() {
            assert_eq!(place.1, 0, "snapshots are not complete: {}", message.text);
        }
        connection.last = place;
        self.id = Some(message.id.clone());
    }
}

impl Connection {
    fn apply(&mut self, message: &Message, items: &mut BTreeMap<String, Value>) {
        let stream = &message.stream;
        let is_snapshot = message.kind == "snapshot";
        if is_snapshot {
            let seen = self.snapshots.get_mut(stream);
            let seen = seen.unwrap_or_else(|| panic!("a second snapshot: {}", message.text));
            seen.get_or_insert_default();
        }
        for item in message.items() {
            let key = item["key"].as_str().expect("a key");
            let seq = item["seq"].as_u64().expect("a number");
            let new = self.told.insert((stream.clone(), key.to_owned(), seq));
            assert!(new, "{key} of {stream} came twice with number {seq}");
            if let Some(held) = items.get(key)
                && self.last.0 == message.place().0
            {
                let held = held["seq"].as_u64().expect("a number");
                assert!(held <= seq, "{key} of {stream} went from {held} to {seq}");
            }
            items.insert(key.to_owned(), item.clone());
            if is_snapshot && let Some(Some(seen)) = self.snapshots.get_mut(stream) {
                seen.insert(key.to_owned());
            }
        }
        if message.kind == "remove" {
            for key in message.keys() {
                items.remove(key);
                if let Some(Some(seen)) = self.snapshots.get_mut(stream) {
                    seen.remove(key);
                }
            }
        }
        if message.completes() {
            let seen = self.snapshots.remove(stream).flatten();
            let seen = seen.expect("a snapshot was going on");
            items.retain(|key, _| seen.contains(key));
        }
    }
}

/// Position 0 stands for snapshots that are not complete, and text for nothing.
fn is_resumable(id: &str) -> bool {
    id.split_once(':').is_some_and(|(epoch, seq)| {
        epoch.parse::<u64>().is_ok() && seq.parse::<u64>().is_ok_and(|seq| seq > 0)
    })
}

/// A text as one part of a path or query.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
