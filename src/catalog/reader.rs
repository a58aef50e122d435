//! Read keys: who may read which streams.
//!
//! **Invariant**: a read key can never submit: it is not among the keys that `ingest` looks up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{KeyHash, KeyState, Quota};
use crate::clock::{self, Unix};
use crate::config::Networks;

/// How many feeds a read key may ask for in a second if it says nothing else.
pub const POLLS_PER_SECOND: u32 = 50;

/// A read key as it is listed and written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadKey {
    /// Its name.
    pub name: Arc<str>,
    /// Who has it, or where it is used.
    pub description: Option<Box<str>>,
    /// The part that may be shown. None while only the digest is known.
    pub prefix: Option<Box<str>>,
    /// The streams that it names; some may be gone.
    pub streams: Vec<Arc<str>>,
    /// When it ends.
    pub expires_at: Option<Unix>,
    /// When it was revoked, likewise.
    pub revoked_at: Option<Unix>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
    /// From where it is taken.
    pub networks: Networks,
    /// How many feeds it may ask for in a second; none: [`POLLS_PER_SECOND`].
    pub requests_per_second: Option<u32>,
    /// Origins whose pages may read with it, beside those that every key has.
    pub origins: Vec<String>,
    /// When it was made at run time, likewise. None: it is declared.
    pub created_at: Option<Unix>,
    /// What it is found by.
    pub(super) hash: KeyHash,
}

impl ReadKey {
    /// Whether it can be used now.
    pub fn state(&self) -> KeyState {
        KeyState::of(self.expires_at, self.revoked_at, Unix::now())
    }

    /// For the audit trail.
    pub(super) fn shown(&self) -> Value {
        let streams: Vec<&str> = self.streams.iter().map(|stream| &**stream).collect();
        json!({
            "name": &*self.name,
            "description": self.description,
            "prefix": self.prefix,
            "streams": streams,
            "expires_at": self.expires_at.map(clock::rfc3339),
            "revoked_at": self.revoked_at.map(clock::rfc3339),
            "allow_in_url": self.allow_in_url,
            "networks": self.networks,
            "requests_per_second": self.requests_per_second,
            "origins": self.origins,
        })
    }
}

/// Who reads: a read key, or what stands for one.
#[derive(Debug)]
pub struct Reader {
    /// Its name.
    pub name: Box<str>,
    /// The streams that it may read.
    pub streams: Vec<Arc<str>>,
    /// When it ends.
    pub expires_at: Option<Unix>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
    /// From where it is taken.
    pub networks: Networks,
    /// Origins whose pages may read with it, beside those that every key has.
    origins: Vec<String>,
    /// How often it may ask for feeds.
    polls: Quota,
    revoked: AtomicBool,
}

impl Reader {
    /// A reader of these streams that does not end.
    pub fn new(name: &str, streams: Vec<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            streams,
            expires_at: None,
            allow_in_url: false,
            networks: Networks::default(),
            origins: Vec::new(),
            polls: Quota::new(POLLS_PER_SECOND, POLLS_PER_SECOND),
            revoked: AtomicBool::new(false),
        }
    }

    /// The reader that a key stands for, of those of its streams that there are.
    pub(super) fn of(key: &ReadKey, exists: impl Fn(&str) -> bool) -> Self {
        // What the configuration declares was checked as a whole; its streams may only come at the next start.
        let declared = key.created_at.is_none();
        let streams = key.streams.iter().filter(|name| declared || exists(name));
        Self {
            expires_at: key.expires_at,
            allow_in_url: key.allow_in_url,
            networks: key.networks.clone(),
            origins: key.origins.clone(),
            polls: {
                let rate = key.requests_per_second.unwrap_or(POLLS_PER_SECOND);
                Quota::new(rate, rate)
            },
            ..Self::new(&key.name, streams.cloned().collect())
        }
    }

    /// Whether its time has not run out and nobody revoked it.
    pub fn is_valid_at(&self, now: Unix) -> bool {
        self.expires_at.is_none_or(|expires| now < expires) && !self.revoked.load(Ordering::Acquire)
    }

    /// The stream of this name, if the reader may read it.
    pub fn stream(&self, name: &str) -> Option<&Arc<str>> {
        self.streams.iter().find(|stream| &***stream == name)
    }

    /// Whether pages of an origin may read with it that is not one of every key.
    pub fn admits(&self, origin: &str) -> bool {
        self.origins.iter().any(|one| one == "*" || one == origin)
    }

    /// Counts a request for a feed.
    ///
    /// # Errors
    /// In how many seconds the next may come.
    pub fn take_poll(&self) -> Result<(), u64> {
        let taken = self.polls.take();
        taken.map(drop).map_err(|state| state.reset_seconds)
    }

    /// Whether both may do the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.streams == other.streams
            && self.expires_at == other.expires_at
            && self.allow_in_url == other.allow_in_url
            && self.networks == other.networks
            && self.origins == other.origins
            && self.polls.requests_per_second() == other.polls.requests_per_second()
    }

    /// From now on it is refused, and its connections end.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }
}
