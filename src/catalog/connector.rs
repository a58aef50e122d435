//! Connectors: sources of data, with their ingest keys.
//!
//! **Invariant**: what is set of a connector is read, never copied.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};

use super::Quota;
use super::ingest_key::{IngestKey, KeyState};
use super::signing::Signing;
use base::budget::Share;
use base::clock::Unix;
use settings::ConnectorKind;
use webhook::Preset;

/// Requests without a valid key or signature that a connector may have at once, and a second. They are limited, because
/// anybody who knows the address can send them.
const FAILURES: (u32, u32) = (5, 20);

/// A configured source of data. What can be set of it is read as its own.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Its name, which is also its id.
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time; its keys are not here. Its keys have it, too. They are shared
    /// instead of copied, so that a new option needs no field in each key.
    pub settings: Arc<settings::Connector>,
    /// When it was made at run time: Unix time in milliseconds. None: it is declared.
    pub created_at: Option<Unix>,
    /// Its keys, by name.
    pub keys: Vec<Arc<IngestKey>>,
    /// What it may have of requests to its address that nobody vouches for. It is apart from the keys, so that such
    /// requests do not use up the rate of valid ones.
    pub failures: Arc<Quota>,
    /// What bodies take that nobody vouches for yet, apart from the keys, so that requests without a valid one cannot
    /// stop those with one.
    pub unauthenticated: Arc<Share>,
    /// What its requests show of how it is set up. It survives a change of the connector, so that the status does not
    /// lose the sign.
    pub signs: Arc<Signs>,
}

/// Signs that a connector is set up wrong, since the daemon started.
#[derive(Debug, Default)]
pub struct Signs {
    /// The newest request was one object that nothing identifies.
    pub unidentified: AtomicBool,
    /// Deliveries in a row whose time was ahead of this machine's clock (positive) or behind it.
    pub clock: AtomicI32,
}

impl Deref for Connector {
    type Target = settings::Connector;

    fn deref(&self) -> &settings::Connector {
        &self.settings
    }
}

impl Connector {
    pub(super) fn new(settings: settings::Connector, created_at: Option<Unix>) -> Self {
        Self {
            name: settings.name.as_str().into(),
            settings: Arc::new(settings::Connector {
                keys: Vec::new(),
                ..settings
            }),
            created_at,
            keys: Vec::new(),
            failures: Arc::new(Quota::new(FAILURES.0, FAILURES.1)),
            unauthenticated: Arc::default(),
            signs: Arc::default(),
        }
    }

    /// The keys that a delivery to the stream may be signed with, the newest first. Their number is limited, because
    /// each is tried with every delivery.
    pub fn signing_keys(&self, stream: &str, now: Unix) -> Vec<Arc<IngestKey>> {
        let signs = |key: &&Arc<IngestKey>| {
            key.signing.is_some() && *key.stream == *stream && key.is_valid_at(now)
        };
        let mut keys: Vec<_> = self.keys.iter().filter(signs).cloned().collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.created_at));
        keys.truncate(webhook::CANDIDATES_MAX);
        keys
    }

    /// The tool that sends, as far as it is known without a request.
    pub fn preset(&self) -> Option<&'static Preset> {
        let named = (self.settings.preset.as_deref()).and_then(webhook::preset);
        let signed = self.keys.iter().find_map(|key| key.signing.as_deref());
        preset_of(named, signed)
    }

    /// The names of presets that it uses.
    pub fn preset_names(&self) -> impl Iterator<Item = &str> {
        let of_keys = self.keys.iter().filter_map(|key| key.verify());
        let schemes = of_keys.map(|verify| verify.options.scheme.as_str());
        self.settings.preset.as_deref().into_iter().chain(schemes)
    }

    /// The streams that its keys name, by name.
    pub fn streams(&self) -> Vec<&str> {
        let mut streams: Vec<&str> = self.keys.iter().map(|key| &*key.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }

    /// Its address for a stream, whatever its keys are: a path of the service listener.
    pub fn path(&self, stream: &str) -> String {
        webhook::path(stream, Some(&self.name))
    }

    pub fn key(&self, name: &str) -> Option<&Arc<IngestKey>> {
        self.keys.iter().find(|key| *key.name == *name)
    }

    /// Keys that a rotation replaced by the one of this name, and that can still be used. They are found by their
    /// names, because the file does not say which key replaced which.
    pub fn older_keys(&self, name: &str) -> Vec<&Arc<IngestKey>> {
        let replaced_by = |key: &&Arc<IngestKey>| {
            let was = key.name.rsplit_once('.').map(|(was, _)| was);
            was == Some(name) && key.is_replaced() && key.state() == KeyState::Active
        };
        self.keys.iter().filter(replaced_by).collect()
    }

    /// Whether its keys may remove items: by default those of programs, not those that are given to tools.
    pub fn may_delete(&self) -> bool {
        may_delete(&self.settings)
    }
}

pub(super) fn may_delete(connector: &settings::Connector) -> bool {
    let is_program = connector.kind == ConnectorKind::Ingest;
    connector.may_delete.unwrap_or(is_program)
}

/// The tool: what signs as only one tool does is of that one, whatever was said. A scheme that only one tool uses is
/// certain, while the setting may be wrong.
pub(super) fn preset_of(
    named: Option<&'static Preset>,
    signing: Option<&Signing>,
) -> Option<&'static Preset> {
    let signed = signing.map(|signing| signing.verifier.preset());
    signed
        .filter(|preset| !preset.is_generic())
        .or(named)
        .or(signed)
}
