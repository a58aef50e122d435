//! Connectors and their ingest keys.
//!
//! **Invariant**: a key that was revoked is never valid again.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{KeyHash, Quota, key};
use crate::clock;
use crate::config::{self, ConnectorKind};

/// A configured source of data. What can be set of it is read as its own.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Its name, which is also its id.
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time; its keys are not here.
    pub settings: config::Connector,
    /// When it was made at run time: Unix time in milliseconds. None: it is declared.
    pub created_ms: Option<u64>,
    /// Its keys, by name.
    pub keys: Vec<Arc<IngestKey>>,
}

impl Deref for Connector {
    type Target = config::Connector;

    fn deref(&self) -> &config::Connector {
        &self.settings
    }
}

impl Connector {
    pub(super) fn new(settings: config::Connector, created_ms: Option<u64>) -> Self {
        Self {
            name: settings.name.as_str().into(),
            settings: config::Connector {
                keys: Vec::new(),
                ..settings
            },
            created_ms,
            keys: Vec::new(),
        }
    }

    /// A key by its name.
    pub fn key(&self, name: &str) -> Option<&Arc<IngestKey>> {
        self.keys.iter().find(|key| *key.name == *name)
    }

    /// Keys that a rotation replaced by the one of this name, and that can still be used.
    pub fn older_keys(&self, name: &str) -> Vec<&Arc<IngestKey>> {
        let replaced_by = |key: &&Arc<IngestKey>| {
            let was = key.name.rsplit_once('.').map(|(was, _)| was);
            was == Some(name) && key.is_replaced() && key.state() == KeyState::Active
        };
        self.keys.iter().filter(replaced_by).collect()
    }

    /// Whether its keys may remove items: by default those of programs, not those that are given to tools.
    pub fn may_delete(&self) -> bool {
        self.settings
            .may_delete
            .unwrap_or(self.kind == ConnectorKind::Ingest)
    }
}

/// Whether a key can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It can.
    Active,
    /// Its time has run out.
    Expired,
    /// Somebody revoked it.
    Revoked,
}

impl KeyState {
    /// As shown to people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    pub(super) fn of(expires_ms: Option<u64>, revoked_ms: Option<u64>, now_ms: u64) -> Self {
        match (expires_ms, revoked_ms) {
            (_, Some(_)) => Self::Revoked,
            (Some(expires_ms), _) if expires_ms <= now_ms => Self::Expired,
            _ => Self::Active,
        }
    }
}

/// What is written down of an ingest key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyRow {
    pub(super) connector: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) description: Option<Box<str>>,
    pub(super) hash: KeyHash,
    /// None while only the digest is known.
    pub(super) prefix: Option<Arc<str>>,
    pub(super) stream: Arc<str>,
    pub(super) expires_ms: Option<u64>,
    pub(super) revoked_ms: Option<u64>,
    pub(super) created_ms: Option<u64>,
}

impl KeyRow {
    /// For the audit trail.
    pub(super) fn shown(&self) -> Value {
        json!({
            "connector": &*self.connector,
            "name": &*self.name,
            "description": self.description,
            "prefix": self.prefix.as_deref(),
            "stream": &*self.stream,
            "expires_at": self.expires_ms.map(clock::rfc3339),
            "revoked_at": self.revoked_ms.map(clock::rfc3339),
        })
    }
}

/// A key that may submit to one stream.
#[derive(Debug)]
pub struct IngestKey {
    /// Its name within the connector.
    pub name: Box<str>,
    /// Who has it, or where it is used.
    pub description: Option<Box<str>>,
    /// Name of the connector that it belongs to.
    pub connector: Arc<str>,
    /// The connector's default item key.
    pub item_key: Option<String>,
    /// Whether it may remove items.
    pub may_delete: bool,
    /// The one stream that it may submit to.
    pub stream: Arc<str>,
    /// When it ends: Unix time in milliseconds.
    pub expires_ms: Option<u64>,
    /// When it was revoked, likewise.
    pub revoked_ms: Option<u64>,
    /// When it was made at run time, likewise. None: it is declared.
    pub created_ms: Option<u64>,
    /// Its rate limit.
    pub quota: Arc<Quota>,
    /// What it is found by.
    pub(super) hash: KeyHash,
    /// The part that may be shown, known from the first request on.
    prefix: OnceLock<Arc<str>>,
    /// When somebody came with it last: Unix time in milliseconds. 0: nobody did, as far as is known.
    used_ms: AtomicU64,
    /// What of that is written down.
    written_ms: AtomicU64,
    /// Set in what requests under way hold when the key is gone.
    gone: AtomicBool,
}

impl IngestKey {
    /// The key of a connector; what it was before keeps its quota where the rate is the same.
    pub(super) fn new(
        row: KeyRow,
        connector: &Connector,
        rate: (u32, u32),
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let requests_per_second = connector.requests_per_second.unwrap_or(rate.0);
        let burst = connector.burst.unwrap_or(rate.1);
        let same_rate = |quota: &Quota| quota.is_of(requests_per_second, burst);
        let quota = match before {
            Some(before) if same_rate(&before.quota) => Arc::clone(&before.quota),
            _ => Arc::new(Quota::new(requests_per_second, burst)),
        };
        let known = row.prefix.or_else(|| before?.prefix.get().cloned());
        let prefix = OnceLock::new();
        if let Some(known) = known {
            prefix.get_or_init(|| known);
        }
        let new = Self {
            name: row.name,
            description: row.description,
            connector: row.connector,
            item_key: connector.item_key.clone(),
            may_delete: connector.may_delete(),
            stream: row.stream,
            expires_ms: row.expires_ms,
            revoked_ms: row.revoked_ms,
            created_ms: row.created_ms,
            quota,
            hash: row.hash,
            prefix,
            used_ms: AtomicU64::new(before.and_then(|one| one.used_ms()).unwrap_or(0)),
            written_ms: AtomicU64::new(
                before.map_or(0, |one| one.written_ms.load(Ordering::Relaxed)),
            ),
            gone: AtomicBool::new(false),
        };
        match before {
            Some(before) if new.is_like(before) => Arc::clone(before),
            _ => Arc::new(new),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.connector == other.connector
            && self.item_key == other.item_key
            && self.may_delete == other.may_delete
            && self.stream == other.stream
            && self.expires_ms == other.expires_ms
            && self.revoked_ms == other.revoked_ms
            && self.created_ms == other.created_ms
            && Arc::ptr_eq(&self.quota, &other.quota)
    }

    /// The part that may be shown; empty while only the digest is known.
    pub fn prefix(&self) -> Arc<str> {
        self.prefix.get().cloned().unwrap_or_else(|| "".into())
    }

    pub(super) fn note_use(&self, secret: &str, unix_ms: u64) {
        self.prefix.get_or_init(|| key::prefix(secret).into());
        self.used_ms.store(unix_ms, Ordering::Relaxed);
    }

    /// Somebody came with it at this time or later, which is written down or not.
    pub(super) fn was_used(&self, unix_ms: u64, written: bool) {
        self.used_ms.fetch_max(unix_ms, Ordering::Relaxed);
        if written {
            self.written_ms.fetch_max(unix_ms, Ordering::Relaxed);
        }
    }

    /// When somebody came with it last, if that is not written down.
    pub(super) fn unwritten_use(&self) -> Option<u64> {
        let written_ms = self.written_ms.load(Ordering::Relaxed);
        self.used_ms().filter(|used_ms| *used_ms > written_ms)
    }

    /// When somebody came with it last: Unix time in milliseconds.
    pub fn used_ms(&self) -> Option<u64> {
        Some(self.used_ms.load(Ordering::Relaxed)).filter(|used_ms| *used_ms > 0)
    }

    /// Whether it was rotated: another has its name, and it ends.
    pub fn is_replaced(&self) -> bool {
        let prefix = self.prefix();
        let id = prefix.rsplit('_').next().unwrap_or_default();
        !id.is_empty() && self.name.rsplit_once('.').is_some_and(|(_, end)| end == id)
    }

    /// Whether what it submits is checked and logged only.
    pub fn is_test(&self) -> bool {
        key::is_test(&self.prefix())
    }

    /// Whether its time has not run out and nobody revoked it.
    pub fn is_valid_at(&self, unix_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| unix_ms < expires) && !self.is_gone()
    }

    /// Whether it was revoked or removed since it was looked up.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether it can be used now.
    pub fn state(&self) -> KeyState {
        KeyState::of(self.expires_ms, self.revoked_ms, clock::unix_ms())
    }

    /// Who still holds it from an earlier lookup is refused.
    pub(super) fn go(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// As it is written down.
    pub(super) fn row(&self) -> KeyRow {
        KeyRow {
            connector: Arc::clone(&self.connector),
            name: self.name.clone(),
            description: self.description.clone(),
            hash: self.hash,
            prefix: self.prefix.get().cloned(),
            stream: Arc::clone(&self.stream),
            expires_ms: self.expires_ms,
            revoked_ms: self.revoked_ms,
            created_ms: self.created_ms,
        }
    }
}
