//! Who is compared: how each is installed, spoken to, and what it promises.
//!
//! Called by the bench's main file and by whatever starts one.
//!
//! **Invariant:** each gets the same fields in the same order, and does with them what it can: where it cannot do a
//! part, its promise says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::Result;
use crate::ingest::payload::{Body, ITEM_KEY, Shape, request_head};
use crate::options::TARGET_TMP;

/// The streams that are filled, and the order in which they are.
pub(crate) const STREAMS: [Shape; 2] = [Shape::Small, Shape::Recurring];

/// The folder of those that are not Headgate.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers");

/// How a peer's `run` ends when it cannot be installed here; its last line says why.
const LEFT_OUT: i32 = 3;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// A handler that does nothing
    Floor,
    /// The daemon
    Headgate,
    /// Node.js with fastify and better-sqlite3
    Node,
    /// Python with FastAPI, uvicorn and sqlite3
    Python,
    /// Datasette's JSON write API
    Datasette,
    /// nginx with nchan
    Nchan,
}

impl Peer {
    /// What the table calls it; of a peer the name of its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "empty handler",
            Self::Headgate => "headgate",
            Self::Node => "node",
            Self::Python => "python",
            Self::Datasette => "datasette",
            Self::Nchan => "nchan",
        }
    }

    /// What stands behind its 2xx.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Floor => "the body was read; nothing is looked at or kept",
            Self::Headgate => {
                "key, rate, every digit kept, two fields of one name refused; log entry and items flushed before \
                 the 202, those of requests that arrive together by one fsync; then the pool, screens and sinks in order, \
                 which its CPU includes; safe to repeat with an idempotency key"
            }
            Self::Node => {
                "key, two places that flatten to one field refused; log entry and items flushed before the 202, those of \
                 requests that arrive together by one fsync; numbers as doubles, the last of two fields of one name \
                 wins; no rate, idempotency, sinks or pushing"
            }
            Self::Python => "as node; the commit runs on a thread of its own",
            Self::Datasette => {
                "signed token; one fsync for each request before the 200, as SQLite does by default; the sender has to \
                 flatten and to name table and columns; no log of requests but a line on its output; no rate, idempotency \
                 or pushing"
            }
            Self::Nchan => {
                "the body is in the memory of a channel, which keeps its newest ten; no key, no parsing, no items, no log, \
                 nothing on disk; it is there for pushing, see the bench live"
            }
        }
    }

    /// Whether it promises that what it accepted is there after its process was killed.
    pub(crate) fn keeps(self) -> bool {
        !matches!(self, Self::Floor | Self::Nchan)
    }

    /// The status of an accepted request.
    pub(crate) fn accepts(self) -> u16 {
        match self {
            Self::Datasette => 200,
            _ => 202,
        }
    }

    /// Its `run`, for all that are not started otherwise.
    fn program(self) -> Option<PathBuf> {
        let own = !matches!(self, Self::Floor | Self::Headgate);
        own.then(|| Path::new(PEERS).join(self.name()).join("run"))
    }

    /// Installs it, if there is something to install; returns why it cannot be.
    pub(crate) fn install(self) -> Result<Option<String>> {
        let Some(mut command) = self.command() else {
            return Ok(None);
        };
        let output = command.output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(None),
            Some(LEFT_OUT) => Ok(Some(words.lines().last().unwrap_or("?").to_owned())),
            _ => Err(format!("failed to install {}: {words}", self.name()).into()),
        }
    }

    /// Its `run`, which installs it; with a port, a folder and keys it serves then.
    pub(crate) fn command(self) -> Option<Command> {
        let mut command = Command::new(self.program()?);
        if let Some(target) = Path::new(TARGET_TMP).parent() {
            command.env("CARGO_TARGET_DIR", target);
        }
        Some(command)
    }

    /// What it is sent for one request.
    pub(crate) fn body(self, shape: Shape) -> Body {
        match self {
            Self::Datasette => Body {
                item: shape.flat(),
                open: r#"{"rows":["#,
                close: "]}",
                items: shape.items(),
            },
            _ => Body::of(shape),
        }
    }

    /// The head of a request with a body of so many bytes.
    pub(crate) fn head(self, shape: Shape, token: &str, body_len: usize) -> String {
        let stream = shape.name();
        let to = match self {
            Self::Datasette => {
                format!("/data/{stream}/-/upsert HTTP/1.1\r\nAuthorization: Bearer {token}")
            }
            Self::Nchan => format!("/pub?id={stream} HTTP/1.1"),
            _ => return request_head(token, ITEM_KEY, body_len),
        };
        format!(
            "POST {to}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {body_len}\r\n\r\n"
        )
    }
}
