//! The two transports, byte by byte as far as a client must know them.
//!
//! **Invariant**: reading may be given up at any time and taken up again; nothing is lost.

use std::collections::VecDeque;

use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::app::{Raw, Reply};

/// The example of RFC 6455, section 1.3: the key of a handshake and what answers it.
const NONCE: (&str, &str) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

/// How a renderer is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Server-Sent Events.
    Sse,
    /// WebSocket.
    WebSocket,
}

impl Transport {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Sse, Self::WebSocket];
}

/// One message as it was transported.
#[derive(Debug)]
pub(super) struct Event {
    /// `event:`; empty over WebSocket.
    pub(super) name: String,
    /// `id:`
    pub(super) id: Option<String>,
    /// `retry:`
    pub(super) retry_ms: Option<u64>,
    /// The JSON.
    pub(super) text: String,
}

/// An open connection.
#[derive(Debug)]
pub(super) enum Socket {
    Sse(Events),
    WebSocket(Box<WebSocketStream<TcpStream>>),
}

impl Socket {
    /// Connects, or returns the refusal.
    pub(super) async fn open(
        address: &str,
        transport: Transport,
        query: &str,
        headers: &str,
    ) -> Result<(Reply, Self), Reply> {
        let mut raw = Raw::connect(&format!("http://{address}")).await;
        let (nonce, answer) = NONCE;
        let upgrade = match transport {
            Transport::Sse => String::from("Accept: text/event-stream\r\n"),
            Transport::WebSocket => format!(
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n"
            ),
        };
        let request =
            format!("GET /api/live?{query} HTTP/1.1\r\nHost: {address}\r\n{upgrade}{headers}\r\n");
        raw.send(request).await;
        let reply = raw.head().await;
        match (transport, reply.status) {
            (Transport::Sse, 200) => {
                assert_eq!(reply.header("content-type"), Some("text/event-stream"));
                assert_eq!(reply.header("cache-control"), Some("no-store"));
                assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
                let (stream, rest) = raw.into_parts();
                Ok((reply, Self::Sse(Events::new(stream, rest))))
            }
            (Transport::WebSocket, 101) => {
                assert_eq!(reply.header("sec-websocket-accept"), Some(answer));
                let (stream, rest) = raw.into_parts();
                let socket =
                    WebSocketStream::from_partially_read(stream, rest, Role::Client, None).await;
                Ok((reply, Self::WebSocket(Box::new(socket))))
            }
            _ => Err(raw.body_of(reply).await),
        }
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self {
            Self::Sse(events) => events.next().await,
            Self::WebSocket(socket) => loop {
                match socket.next().await?.ok()? {
                    Message::Text(text) => {
                        return Some(Event {
                            name: String::new(),
                            id: None,
                            retry_ms: None,
                            text: text.as_str().to_owned(),
                        });
                    }
                    Message::Close(_) => return None,
                    Message::Binary(_) => panic!("messages are text"),
                    _ => {}
                }
            },
        }
    }
}

/// A chunked body of events.
#[derive(Debug)]
pub(super) struct Events {
    stream: TcpStream,
    /// What arrived, still in chunks.
    buffer: Vec<u8>,
    /// What the chunks held, up to the last complete event.
    text: Vec<u8>,
    ready: VecDeque<Event>,
    /// A `retry:` that came without a message.
    retry_ms: Option<u64>,
    ended: bool,
}

impl Events {
    fn new(stream: TcpStream, buffer: Vec<u8>) -> Self {
        Self {
            stream,
            buffer,
            text: Vec::new(),
            ready: VecDeque::new(),
            retry_ms: None,
            ended: false,
        }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            self.unpack();
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(count) if count > 0 => {}
                _ => self.ended = true,
            }
        }
    }

    fn unpack(&mut self) {
        let mut at = 0;
        while let Some(line) = self.buffer[at..].windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&self.buffer[at..at + line]).expect("a chunk's size");
            let size = usize::from_str_radix(size, 16).expect("a chunk's size");
            let start = at + line + 2;
            let Some(chunk) = self.buffer.get(start..start + size + 2) else {
                break;
            };
            self.text.extend_from_slice(&chunk[..size]);
            at = start + size + 2;
            self.ended |= size == 0;
        }
        self.buffer.drain(..at);
        let mut start = 0;
        while let Some(end) = self.text[start..].windows(2).position(|two| two == b"\n\n") {
            let event =
                std::str::from_utf8(&self.text[start..start + end]).expect("events are UTF-8");
            let mut event = parse(event);
            event.retry_ms = event.retry_ms.or(self.retry_ms.take());
            match event.text.is_empty() {
                true => self.retry_ms = event.retry_ms,
                false => self.ready.push_back(event),
            }
            start += end + 2;
        }
        self.text.drain(..start);
    }
}

/// An event; its text is empty if it has no data.
fn parse(lines: &str) -> Event {
    let mut event = Event {
        name: String::new(),
        id: None,
        retry_ms: None,
        text: String::new(),
    };
    let mut data = 0;
    for line in lines.lines().filter(|line| !line.starts_with(':')) {
        let (field, value) = line.split_once(": ").expect("a field and its value");
        match field {
            "event" => value.clone_into(&mut event.name),
            "id" => event.id = Some(value.to_owned()),
            "retry" => event.retry_ms = Some(value.parse().expect("milliseconds")),
            "data" => {
                data += 1;
                value.clone_into(&mut event.text);
            }
            other => panic!("an unknown field {other}"),
        }
    }
    assert!(data <= 1, "one line of data: {lines}");
    event
}
