//! A running server of either program, and the requests that it understands.
//!
//! Called by the measurements, which differ only in what they count.
//!
//! **Invariant:** the same version makes a message of the same text and length on every server; only what the
//! programs themselves put around it differs.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::Program;
use super::daemon::{INGEST_KEY, READ_KEYS};
use super::item::{self, ITEM_KEY};
use crate::Result;
use crate::child::Child;
use crate::http::Client;
use crate::process::Process;

/// How a renderer is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Server-Sent Events.
    Sse,
    /// WebSocket.
    WebSocket,
}

impl Transport {
    /// What the tables call it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sse => "SSE",
            Self::WebSocket => "WebSocket",
        }
    }
}

/// A server that accepts connections; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// What the tables call it.
    pub(crate) title: &'static str,
    /// What it is.
    pub(crate) program: Program,
    /// Where requests go.
    pub(crate) address: SocketAddr,
    /// Its counters under `/proc`.
    pub(crate) process: Process,
    /// The ingest key of an item.
    pub(crate) ingest_key: fn(u64) -> String,
    child: Child,
}

impl Server {
    /// Of a child that listens on `address`, or will.
    pub(crate) fn new(
        title: &'static str,
        program: Program,
        address: SocketAddr,
        mut child: Child,
    ) -> Result<Self> {
        child.wait_for(address)?;
        Ok(Self {
            title,
            program,
            address,
            process: Process::new(child.id()),
            ingest_key: |_| INGEST_KEY.to_owned(),
            child,
        })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Adds the end of the server's log to an error.
    pub(crate) fn explain(&self, error: impl std::fmt::Display) -> crate::Error {
        self.child.explain(format!("{}: {error}", self.title))
    }

    /// The request that submits or publishes one version.
    pub(crate) fn publication(&self, key: u64, revision: u64) -> Vec<u8> {
        let (head, body) = match self.program {
            Program::Headgate => (
                format!(
                    "POST /api/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
                     X-Item-Key: {ITEM_KEY}\r\n",
                    (self.ingest_key)(key)
                ),
                item::nested(key, revision),
            ),
            Program::Nchan => (
                format!(
                    "POST /pub?id={} HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                    item::STREAM
                ),
                item::message(key, revision),
            ),
        };
        let length = body.len();
        format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }

    /// Whether an answer with this status means that the version was taken.
    pub(crate) fn accepts(&self, status: u16) -> bool {
        match self.program {
            Program::Headgate => status == 202,
            // 201 if anybody is subscribed, 202 if nobody is.
            Program::Nchan => matches!(status, 201 | 202),
        }
    }

    /// The request that connects the renderer of this number.
    pub(crate) fn subscription(&self, transport: Transport, number: usize, asks: &str) -> Vec<u8> {
        let head = match self.program {
            Program::Headgate => format!(
                "GET /api/live?streams={asks} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n",
                READ_KEYS[number % READ_KEYS.len()]
            ),
            Program::Nchan => format!("GET /sub?id={asks} HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
        };
        let rest = match transport {
            Transport::Sse => "Accept: text/event-stream\r\n\r\n",
            Transport::WebSocket => {
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            }
        };
        (head + rest).into_bytes()
    }

    /// Sends one version that no renderer waits for, so that the first measured one finds everything loaded.
    pub(crate) fn warm_up(&self) -> Result<()> {
        let versions = item::Versions::new(1, 1, 0);
        let request = self.publication(0, versions.revision(0));
        let mut attempts = 0;
        loop {
            let outcome = Client::connect(self.address).and_then(|mut client| {
                let (status, body) = client.exchange(&request)?;
                match self.accepts(status) {
                    true => Ok(()),
                    false => Err(io::Error::other(format!(
                        "the first request was answered {status}: {}",
                        String::from_utf8_lossy(body)
                    ))),
                }
            });
            match outcome {
                Ok(()) => return Ok(()),
                Err(error) if attempts == FIRST_ATTEMPTS => return Err(self.explain(error)),
                Err(_) => attempts += 1,
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Attempts at a first accepted request.
const FIRST_ATTEMPTS: usize = 100;
