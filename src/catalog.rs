//! What exists: streams, connectors, keys. The map that every request looks its key up in.
//!
//! `daemon` builds it from the configuration; `ingest` asks it who calls, `http` who reads; the admin API
//! lists it.
//!
//! **Invariant**: a secret is held only as its SHA-256. A key is found by its digest, never by
//! comparing secrets.

pub mod key;
mod quota;
mod reader;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::clock;
use crate::config::{self, ConnectorKind, Settings};
pub use key::KeyHash;
pub use quota::{Quota, QuotaState};
pub use reader::Reader;

/// A configured source of data.
#[derive(Debug)]
pub struct Connector {
    /// Its name, which is also its id.
    pub name: Arc<str>,
    /// How data comes in.
    pub kind: ConnectorKind,
    /// The field that identifies items when a request has no `X-Item-Key`.
    pub item_key: Option<Box<str>>,
    /// Its keys, in the order of the configuration.
    pub keys: Vec<Arc<IngestKey>>,
}

/// A key that may submit to one stream.
#[derive(Debug)]
pub struct IngestKey {
    /// Its name within the connector.
    pub name: Box<str>,
    /// Name of the connector that it belongs to.
    pub connector: Arc<str>,
    /// The connector's default item key.
    pub item_key: Option<Box<str>>,
    /// The one stream that it may submit to.
    pub stream: Arc<str>,
    /// When it ends: Unix time in milliseconds.
    pub expires_ms: Option<u64>,
    /// Its rate limit.
    pub quota: Quota,
    /// The part that may be shown, known from the first request on.
    prefix: OnceLock<Arc<str>>,
}

impl IngestKey {
    /// The part that may be shown; empty while only the digest is known.
    pub fn prefix(&self) -> Arc<str> {
        self.prefix.get().cloned().unwrap_or_else(|| "".into())
    }

    /// Whether its time has not run out.
    pub fn is_valid_at(&self, unix_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| unix_ms < expires)
    }
}

/// Everything that exists.
#[derive(Debug)]
pub struct Catalog {
    keys: HashMap<KeyHash, Arc<IngestKey>>,
    readers: RwLock<HashMap<KeyHash, Arc<Reader>>>,
    streams: HashSet<Arc<str>>,
    connectors: Vec<Connector>,
}

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key.
    pub key: Arc<IngestKey>,
    /// Whether everything is checked and logged but nothing stored.
    pub test: bool,
}

impl Catalog {
    /// Everything that the configuration declares.
    pub fn from_settings(settings: &Settings) -> Self {
        let streams = settings
            .streams
            .iter()
            .map(|stream| stream.name.as_str().into())
            .collect();
        let mut keys = HashMap::new();
        let mut connectors = Vec::with_capacity(settings.connectors.len());
        for declared in &settings.connectors {
            let name: Arc<str> = declared.name.as_str().into();
            let mut own = Vec::with_capacity(declared.keys.len());
            for key in &declared.keys {
                let (hash, built) = ingest_key(settings, declared, &name, key);
                keys.insert(hash, Arc::clone(&built));
                own.push(built);
            }
            connectors.push(Connector {
                name,
                kind: declared.kind,
                item_key: declared.item_key.as_deref().map(Into::into),
                keys: own,
            });
        }
        Self {
            readers: RwLock::new(readers(settings)),
            keys,
            streams,
            connectors,
        }
    }

    /// The caller with this secret, if it is known and valid now.
    pub fn caller(&self, secret: &str) -> Option<Caller> {
        let key = self.keys.get(&KeyHash::of(secret))?;
        if !key.is_valid_at(clock::unix_ms()) {
            return None;
        }
        key.prefix.get_or_init(|| key::prefix(secret).into());
        Some(Caller {
            key: Arc::clone(key),
            test: key::is_test(secret),
        })
    }

    /// The reader with this secret, if it is known and valid now.
    pub fn reader(&self, secret: &str) -> Option<Arc<Reader>> {
        let readers = self.readers.read().unwrap_or_else(PoisonError::into_inner);
        let reader = readers.get(&KeyHash::of(secret))?;
        reader
            .is_valid_at(clock::unix_ms())
            .then(|| Arc::clone(reader))
    }

    /// Takes the read keys of a changed configuration. Those that are not in it, or may do something else
    /// than before, are revoked.
    pub fn set_readers(&self, settings: &Settings) {
        let mut new = readers(settings);
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        for (hash, old) in readers.iter() {
            match new.get_mut(hash) {
                Some(reader) if reader.is_like(old) => *reader = Arc::clone(old),
                _ => old.revoke(),
            }
        }
        *readers = new;
    }

    /// The streams, in no order.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<str>> {
        self.streams.iter()
    }

    /// Whether the stream exists.
    pub fn has_stream(&self, name: &str) -> bool {
        self.streams.contains(name)
    }

    /// The connectors, in the order of the configuration.
    pub fn connectors(&self) -> &[Connector] {
        &self.connectors
    }

    /// A connector by its id.
    pub fn connector(&self, id: &str) -> Option<&Connector> {
        self.connectors
            .iter()
            .find(|connector| &*connector.name == id)
    }
}

fn readers(settings: &Settings) -> HashMap<KeyHash, Arc<Reader>> {
    let readers = settings.read_keys.iter().map(|declared| {
        // Always there once the configuration was checked.
        let hash = declared.digest().map_or(KeyHash::NONE, KeyHash::from_bytes);
        (hash, Arc::new(Reader::declared(declared)))
    });
    readers.collect()
}

fn ingest_key(
    settings: &Settings,
    connector: &config::Connector,
    connector_name: &Arc<str>,
    declared: &config::Key,
) -> (KeyHash, Arc<IngestKey>) {
    let prefix = OnceLock::new();
    if let Some(secret) = &declared.secret {
        prefix.get_or_init(|| key::prefix(secret.reveal()).into());
    }
    // Always there once the configuration was checked.
    let hash = declared.digest().map_or(KeyHash::NONE, KeyHash::from_bytes);
    let (requests_per_second, burst) = settings.rate_of(connector);
    let key = IngestKey {
        name: declared.name.as_str().into(),
        connector: Arc::clone(connector_name),
        item_key: connector.item_key.as_deref().map(Into::into),
        stream: declared.stream.as_str().into(),
        expires_ms: declared
            .expires_at
            .as_deref()
            .and_then(clock::parse_rfc3339),
        quota: Quota::new(requests_per_second, burst),
        prefix,
    };
    (hash, Arc::new(key))
}
