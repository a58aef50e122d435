//! The parsers that strangers, operators and plugins reach, each as a function of any bytes that panics where a promise is broken.
//!
//! The programs in `targets` hand libFuzzer's inputs over; README.md says how to run them. The sources under test are
//! those of the project, compiled alone, so that a build takes seconds.
//!
//! **Invariant**: each target asserts what must hold for every input, and nothing of it is known by reading the code
//! under test alone: it is compared with another parser, another way, or a secret that no input knows.

mod batches;
mod bodies;
mod configuration;
mod cursors;
mod flatten;
mod headers;
mod items;
mod request;
mod verify;

pub use batches::batches;
pub use bodies::bodies;
pub use configuration::configuration as config;
pub use cursors::cursors;
pub use flatten::flatten;
pub use headers::headers;
pub use items::items;
pub use verify::verify;

// Inside a module, so that each source finds its own files in the folder of its name; named at the root as they are
// in the project. What is private there has a door here.
#[path = "../../../src"]
#[allow(dead_code, reason = "not all of a source is reached from here")]
pub mod project {
    pub mod backoff;
    pub mod batch;
    pub mod clock;
    pub mod config;
    pub mod error;
    pub mod item;
    pub mod sender;
    pub mod text;

    pub mod cli {
        pub mod tail {
            pub mod sse;
        }
    }

    pub mod http {
        pub mod api {
            pub mod paging {
                mod page;

                pub fn by_name<'a>(
                    all: &'a [String],
                    after: &str,
                    limit: usize,
                ) -> (&'a [String], Option<&'a str>) {
                    page::by_name(all, String::as_str, after, limit)
                }
            }
        }

        pub mod forwarded {
            mod hops;

            use std::net::IpAddr;

            use crate::config::ProxyHeader;

            pub fn client(
                header: ProxyHeader,
                lines: &[&str],
                is_trusted: impl Fn(IpAddr) -> bool,
            ) -> Option<IpAddr> {
                hops::client(header, lines, is_trusted)
            }
        }

        pub mod live {
            mod wanted;

            pub fn wanted_streams(query: &str) -> Option<Vec<String>> {
                wanted::streams(query)
            }
        }
    }

    pub mod ingest {
        pub mod flatten;
        mod header_log;
        mod headers;

        use std::borrow::Cow;

        use crate::error::AcceptError;
        use crate::sender::{Headers, body::Form};
        pub use header_log::loggable_headers;

        pub fn secret(authorization: &[u8]) -> Option<Cow<'_, str>> {
            headers::secret(Some(authorization))
        }

        pub fn form(
            content_type: Option<&[u8]>,
            of_address: Option<Headers<'_>>,
        ) -> Result<Form, AcceptError> {
            headers::form(content_type, of_address)
        }

        pub fn item_key(value: &[u8]) -> Result<Option<Box<str>>, AcceptError> {
            headers::item_key(Some(value))
        }

        pub fn idempotency_key(value: &[u8]) -> Result<Option<Box<str>>, AcceptError> {
            headers::idempotency_key(Some(value))
        }
    }

    pub mod journal {
        mod endpoint;

        pub mod log {
            pub use super::endpoint::Endpoint;
        }
    }

    pub mod live {
        mod frame;

        use crate::pool::{Position, changes::Change};
        pub use frame::Frame;
        use frame::Kind;

        /// One frame of each kind that has texts or items in it.
        pub fn frames(stream: &str, id: Position, text: &str, changes: &[Change]) -> Vec<Frame> {
            vec![
                Frame::items(Kind::Update, stream, id, changes.iter()),
                Frame::items(
                    Kind::Snapshot { complete: true },
                    stream,
                    id,
                    changes.iter(),
                ),
                Frame::reset(id, text),
                Frame::stale(stream, id, "2026-01-31T12:00:00.000Z", id.seq),
                Frame::fresh(stream, id),
                Frame::heartbeat(id, "2026-01-31T12:00:00.000Z"),
            ]
        }

        /// The frame of items that are gone.
        pub fn removal(stream: &str, id: Position, changes: &[Change]) -> Frame {
            Frame::remove(stream, id, changes.iter())
        }
    }

    pub mod plugin {
        mod redact;

        use crate::config::Sink;

        pub fn redacted(sink: &Sink, text: &str) -> String {
            redact::Redactor::of(sink).redact(text.to_owned())
        }
    }

    pub mod pool {
        pub mod changes;
        mod position;

        pub use position::Position;
    }
}

use project::*;

#[path = "../../../src/ingest/flatten/tests/reference.rs"]
mod reference;
