//! Read keys: who may read which streams.
//!
//! **Invariant**: a read key can never submit: it is not among the keys that `ingest` looks up.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{KeyHash, KeyState, Quota};
use base::clock::{self, Unix};
use base::order::Epoch;
use select::ItemFilter;

/// How many feeds a read key may ask for in a second if it says nothing else. A page that polls in a loop would
/// otherwise use up the node.
pub const POLLS_PER_SECOND: u32 = 50;

/// A read key as it is listed and written down. What can be set of it is read as its own.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadKey {
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time, but for what it is found by. Some of its streams may be gone.
    pub settings: Arc<settings::ReadKey>,
    /// The part that may be shown. None while only the digest is known.
    pub prefix: Option<Box<str>>,
    /// When it ends: Unix time in milliseconds.
    pub expires_at: Option<Unix>,
    /// When it was revoked, likewise.
    pub revoked_at: Option<Unix>,
    /// When it was made at run time, likewise. None: it is declared.
    pub created_at: Option<Unix>,
    /// What it is found by.
    pub(super) hash: KeyHash,
}

impl Deref for ReadKey {
    type Target = settings::ReadKey;

    fn deref(&self) -> &settings::ReadKey {
        &self.settings
    }
}

impl ReadKey {
    /// Secrets are left out of the settings, because lists show these.
    pub(super) fn new(
        settings: settings::ReadKey,
        hash: KeyHash,
        created_at: Option<Unix>,
    ) -> Self {
        Self {
            name: settings.name.as_str().into(),
            prefix: None,
            expires_at: settings
                .expires_at
                .as_deref()
                .and_then(clock::parse_rfc3339),
            revoked_at: None,
            created_at,
            hash,
            settings: Arc::new(settings::ReadKey {
                secret: None,
                sha256: None,
                certificate: None,
                ..settings
            }),
        }
    }

    /// Sets what can be set of it.
    pub(super) fn set(&mut self, settings: settings::ReadKey) {
        self.expires_at = settings
            .expires_at
            .as_deref()
            .and_then(clock::parse_rfc3339);
        self.settings = Arc::new(settings);
    }

    /// Whether it can be used now.
    pub fn state(&self) -> KeyState {
        KeyState::of(self.expires_at, self.revoked_at, Unix::now())
    }

    /// For the audit log.
    pub(super) fn shown(&self) -> Value {
        json!({
            "name": &*self.name,
            "description": self.description,
            "prefix": self.prefix,
            "streams": self.streams,
            "expires_at": self.expires_at.map(clock::rfc3339),
            "revoked_at": self.revoked_at.map(clock::rfc3339),
            "allow_in_url": self.allow_in_url,
            "networks": self.networks,
            "requests_per_second": self.requests_per_second,
            "origins": self.origins,
            "where": self.r#where.as_ref().map(|limit| limit.text()),
            "fields": self.fields.as_ref().map(|limit| limit.text()),
            "operate": self.operate,
            "page": self.page,
            "expect": self.expect,
            "away_after_seconds": self.away_after_seconds,
        })
    }
}

/// Who reads: a read key, or what stands for one.
#[derive(Debug)]
pub struct Reader {
    pub name: Box<str>,
    /// The streams that it may read.
    pub streams: Vec<Arc<str>>,
    /// When it ends: Unix time in milliseconds.
    pub expires_at: Option<Unix>,
    /// What can be set of its key; of what is no key, the defaults.
    pub settings: Arc<settings::ReadKey>,
    /// Digest of its key; none: it is no key.
    pub key: Option<KeyHash>,
    /// What it sees, unless it sees everything.
    limits: Option<Limits>,
    /// How often it may ask for feeds.
    polls: Quota,
    /// Connections hold the reader, and see here that they must end.
    revoked: AtomicBool,
    /// What it sees is not what its key sees now. A client then loads everything again, because what it has is what the
    /// old limits let it see.
    is_superseded: AtomicBool,
}

#[derive(Debug, Clone)]
struct Limits {
    filter: Arc<ItemFilter>,
    /// Stands for what it says. Positions carry it, because a filter is too long for them.
    digest: u64,
}

impl Limits {
    fn of(key: &settings::ReadKey) -> Option<Self> {
        let conditions = key.r#where.as_ref().map(|limit| limit.conditions().clone());
        let fields = key.fields.as_ref().map(|limit| limit.fields().clone());
        let filter = ItemFilter {
            limits: None,
            conditions: conditions.unwrap_or_default(),
            fields: fields.unwrap_or_default(),
        };
        let digest = KeyHash::of(&filter.canonical()).to_string();
        // Epochs have 53 bits.
        let digest = u64::from_str_radix(&digest[..13], 16).unwrap_or_default();
        (!filter.is_empty()).then(|| Self {
            filter: Arc::new(filter),
            digest,
        })
    }
}

impl Reader {
    /// A reader of these streams that does not end.
    pub fn new(name: &str, streams: Vec<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            streams,
            expires_at: None,
            settings: Arc::default(),
            key: None,
            limits: None,
            polls: Quota::new(POLLS_PER_SECOND, POLLS_PER_SECOND),
            revoked: AtomicBool::new(false),
            is_superseded: AtomicBool::new(false),
        }
    }

    /// The reader that a key stands for, of those of its streams that there are. A stream that was deleted is left out,
    /// so that its name alone gives nothing to read.
    pub(super) fn of(key: &ReadKey, exists: impl Fn(&str) -> bool) -> Self {
        // What the configuration declares was checked as a whole.
        let declared = key.created_at.is_none();
        let streams = key.streams.iter().filter(|name| declared || exists(name));
        let streams = streams.map(|name| name.as_str().into()).collect();
        Self {
            expires_at: key.expires_at,
            settings: Arc::clone(&key.settings),
            key: Some(key.hash),
            limits: Limits::of(&key.settings),
            polls: {
                let rate = key.requests_per_second.unwrap_or(POLLS_PER_SECOND);
                Quota::new(rate, rate)
            },
            ..Self::new(&key.name, streams)
        }
    }

    /// Whether its time has not run out and nobody revoked it.
    pub fn is_valid_at(&self, now: Unix) -> bool {
        self.expires_at.is_none_or(|expires| now < expires) && !self.revoked.load(Ordering::Acquire)
    }

    /// What it sees, unless it sees everything.
    pub fn limits(&self) -> Option<&Arc<ItemFilter>> {
        self.limits.as_ref().map(|limits| &limits.filter)
    }

    /// The epoch of positions in what it sees: from what was seen within other limits nobody goes on, because items
    /// that the old limits hid would be missing.
    pub fn epoch(&self, epoch: Epoch) -> Epoch {
        let digest = self.limits.as_ref().map_or(0, |limits| limits.digest);
        Epoch::new(epoch.get() ^ digest)
    }

    /// Whether its key goes on, and sees something else.
    pub fn is_superseded(&self) -> bool {
        self.is_superseded.load(Ordering::Acquire)
    }

    /// The stream of this name, if the reader may read it.
    pub fn stream(&self, name: &str) -> Option<&Arc<str>> {
        self.streams.iter().find(|stream| &***stream == name)
    }

    /// Whether pages of an origin may read with it that is not one of every key.
    pub fn admits(&self, origin: &str) -> bool {
        (self.settings.origins.iter()).any(|one| one == "*" || one == origin)
    }

    /// Counts a request for a feed.
    ///
    /// # Errors
    /// In how many seconds the next may come.
    pub fn take_poll(&self) -> Result<(), u64> {
        let taken = self.polls.take();
        taken.map(drop).map_err(|state| state.reset_seconds)
    }

    /// Whether both may do the same. A reader that may do the same stays, so that a change of a description ends no
    /// connection.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.streams == other.streams
            && self.expires_at == other.expires_at
            && self.settings.does_like(&other.settings)
    }

    /// From now on it is refused, and its connections end; its key may go on as another reader.
    pub(super) fn give_way_to(&self, other: Option<&Self>) {
        let limits = |reader: &Self| reader.limits().cloned();
        let changed = other.is_some_and(|other| limits(other) != limits(self));
        self.is_superseded.store(changed, Ordering::Release);
        self.revoked.store(true, Ordering::Release);
    }
}
