//! Read keys: who may read which streams.
//!
//! **Invariant**: a read key can never submit: it is not among the keys that `ingest` looks up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{clock, config};

/// Who reads: a read key, or what stands for one.
#[derive(Debug)]
pub struct Reader {
    /// Its name.
    pub name: Box<str>,
    /// The streams that it may read.
    pub streams: Vec<Arc<str>>,
    /// When it ends: Unix time in milliseconds.
    pub expires_ms: Option<u64>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
    revoked: AtomicBool,
}

impl Reader {
    /// A reader of these streams that does not end.
    pub fn new(name: &str, streams: Vec<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            streams,
            expires_ms: None,
            allow_in_url: false,
            revoked: AtomicBool::new(false),
        }
    }

    pub(super) fn declared(declared: &config::ReadKey) -> Self {
        let streams = declared.streams.iter().map(|name| name.as_str().into());
        Self {
            expires_ms: declared
                .expires_at
                .as_deref()
                .and_then(clock::parse_rfc3339),
            allow_in_url: declared.allow_in_url,
            ..Self::new(&declared.name, streams.collect())
        }
    }

    /// Whether its time has not run out and nobody revoked it.
    pub fn is_valid_at(&self, unix_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| unix_ms < expires)
            && !self.revoked.load(Ordering::Acquire)
    }

    /// The stream of this name, if the reader may read it.
    pub fn stream(&self, name: &str) -> Option<&Arc<str>> {
        self.streams.iter().find(|stream| &***stream == name)
    }

    /// Whether both may do the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.streams == other.streams
            && self.expires_ms == other.expires_ms
            && self.allow_in_url == other.allow_in_url
    }

    /// From now on it is refused, and its connections end.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }
}
