//! Connectors and their ingest keys.
//!
//! **Invariant**: a key that was revoked is never valid again.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::signing::Signing;
use super::{KeyHash, Quota, Rules, Volume, VolumeLimits, key};
use base::budget::Share;
use base::clock::{self, Unix};
use settings::{ConnectorKind, Limits, Networks, Verify};
use webhook::Preset;

/// Requests without a valid key or signature that a connector may have at once, and a second.
const FAILURES: (u32, u32) = (5, 20);

/// A configured source of data. What can be set of it is read as its own.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Its name, which is also its id.
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time; its keys are not here. Its keys have it, too.
    pub settings: Arc<settings::Connector>,
    /// When it was made at run time: Unix time in milliseconds. None: it is declared.
    pub created_at: Option<Unix>,
    /// Its keys, by name.
    pub keys: Vec<Arc<IngestKey>>,
    /// What it may have of requests to its address that nobody vouches for.
    pub failures: Arc<Quota>,
    /// What bodies take that nobody vouches for yet.
    pub unauthenticated: Arc<Share>,
    /// What its requests show of how it is set up.
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

    /// The keys that a delivery to the stream may be signed with, the newest first.
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
        may_delete(&self.settings)
    }
}

fn may_delete(connector: &settings::Connector) -> bool {
    let is_program = connector.kind == ConnectorKind::Ingest;
    connector.may_delete.unwrap_or(is_program)
}

/// The tool: what signs as only one tool does is of that one, whatever was said.
fn preset_of(named: Option<&'static Preset>, signing: Option<&Signing>) -> Option<&'static Preset> {
    let signed = signing.map(|signing| signing.verifier.preset());
    signed
        .filter(|preset| !preset.is_generic())
        .or(named)
        .or(signed)
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

    pub(super) fn of(expires_at: Option<Unix>, revoked_at: Option<Unix>, now: Unix) -> Self {
        match (expires_at, revoked_at) {
            (_, Some(_)) => Self::Revoked,
            (Some(expires_at), _) if expires_at <= now => Self::Expired,
            _ => Self::Active,
        }
    }
}

/// What is written down of an ingest key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyRow {
    pub(super) connector: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) description: Option<Box<str>>,
    pub(super) hash: KeyHash,
    /// None while only the digest is known.
    pub(super) prefix: Option<Arc<str>>,
    pub(super) stream: Arc<str>,
    pub(super) expires_at: Option<Unix>,
    pub(super) revoked_at: Option<Unix>,
    pub(super) created_at: Option<Unix>,
    pub(super) allow_in_url: bool,
    pub(super) networks: Networks,
    /// In place of a text of its own: how what it signs is verified.
    pub(super) verify: Option<Arc<Verify>>,
}

impl KeyRow {
    /// For the audit log.
    pub(super) fn shown(&self) -> Value {
        json!({
            "connector": &*self.connector,
            "name": &*self.name,
            "description": self.description,
            "prefix": self.prefix.as_deref(),
            "stream": &*self.stream,
            "expires_at": self.expires_at.map(clock::rfc3339),
            "revoked_at": self.revoked_at.map(clock::rfc3339),
            "allow_in_url": self.allow_in_url,
            "networks": self.networks,
            "verify": self.verify,
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
    /// What can be set of its connector.
    pub settings: Arc<settings::Connector>,
    /// What its connector's requests show.
    pub signs: Arc<Signs>,
    /// What decides over its items.
    pub rules: Rules,
    /// The tool that has it.
    pub preset: Option<&'static Preset>,
    /// If it is the secret of signatures: how they are verified, as it was set.
    verify: Option<Arc<Verify>>,
    /// What verifies them; none also where what was set does not fit any more.
    pub signing: Option<Arc<Signing>>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
    /// From where it is taken.
    pub networks: Networks,
    /// The one stream that it may submit to.
    pub stream: Arc<str>,
    /// When it ends.
    pub expires_at: Option<Unix>,
    /// When it was revoked, likewise.
    pub revoked_at: Option<Unix>,
    /// When it was made at run time, likewise. None: it is declared.
    pub created_at: Option<Unix>,
    /// Its rate limit.
    pub quota: Arc<Quota>,
    /// What it stores, and may.
    pub volume: Arc<Volume>,
    /// What the bodies of its requests take that are on their way.
    pub bodies: Arc<Share>,
    /// What it is found by.
    pub(super) hash: KeyHash,
    /// The part that may be shown, known from the first request on.
    prefix: OnceLock<Arc<str>>,
    /// When somebody came with it last. 1970: nobody did, as far as is known. It is a [`Unix`], in milliseconds.
    used_at: AtomicU64,
    /// What of that is written down.
    written_at: AtomicU64,
    /// Set in what requests under way hold when the key is gone.
    gone: AtomicBool,
}

/// The rate of a key; one of the same rate goes on.
fn quota_of(connector: &Connector, limits: &Limits, before: Option<&Arc<Quota>>) -> Arc<Quota> {
    let requests_per_second = (connector.requests_per_second).unwrap_or(limits.requests_per_second);
    let burst = connector.burst.unwrap_or(limits.burst);
    match before {
        Some(before) if before.is_of(requests_per_second, burst) => Arc::clone(before),
        _ => Arc::new(Quota::new(requests_per_second, burst)),
    }
}

/// What a key may store; what it has stored stays counted.
fn volume_of(connector: &Connector, limits: &Limits, before: Option<&Arc<Volume>>) -> Arc<Volume> {
    let may_store = VolumeLimits::new(
        connector
            .bytes_per_second
            .unwrap_or(limits.bytes_per_second),
        connector.bytes_per_day.unwrap_or(limits.bytes_per_day),
        limits.max_body_bytes as u64,
    );
    match before {
        Some(before) if before.limits() == may_store => Arc::clone(before),
        Some(before) => Arc::new(before.with(may_store)),
        None => Arc::new(Volume::new(may_store)),
    }
}

impl IngestKey {
    /// The key of a connector, which may have limits of its own; what it was before keeps its quota where the rate is the
    /// same.
    pub(super) fn new(
        row: KeyRow,
        connector: &Connector,
        rules: Rules,
        limits: &Limits,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let known = row.prefix.or_else(|| before?.prefix.get().cloned());
        let prefix = OnceLock::new();
        if let Some(known) = known {
            prefix.get_or_init(|| known);
        }
        let verify = row.verify.clone();
        let signing = match (row.verify, before) {
            (None, _) => None,
            (Some(verify), Some(before)) if before.verify() == Some(&verify) => {
                before.signing.clone()
            }
            (Some(verify), _) => Signing::new(verify, &row.connector, &row.name).map(Arc::new),
        };
        let named = (connector.settings.preset.as_deref()).and_then(webhook::preset);
        let new = Self {
            preset: preset_of(named, signing.as_deref()),
            verify,
            settings: Arc::clone(&connector.settings),
            signs: Arc::clone(&connector.signs),
            rules,
            signing,
            allow_in_url: row.allow_in_url,
            networks: row.networks,
            name: row.name,
            description: row.description,
            connector: row.connector,
            stream: row.stream,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            created_at: row.created_at,
            quota: quota_of(connector, limits, before.map(|before| &before.quota)),
            volume: volume_of(connector, limits, before.map(|before| &before.volume)),
            bodies: before.map_or_else(Arc::default, |before| Arc::clone(&before.bodies)),
            hash: row.hash,
            prefix,
            used_at: AtomicU64::new(before.map_or(0, |one| one.used_at.load(Ordering::Relaxed))),
            written_at: AtomicU64::new(
                before.map_or(0, |one| one.written_at.load(Ordering::Relaxed)),
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
            && self.settings == other.settings
            && self.rules == other.rules
            && self.preset.map(|one| one.name) == other.preset.map(|one| one.name)
            && self.verify() == other.verify()
            && self.allow_in_url == other.allow_in_url
            && self.networks == other.networks
            && self.stream == other.stream
            && self.expires_at == other.expires_at
            && self.revoked_at == other.revoked_at
            && self.created_at == other.created_at
            && Arc::ptr_eq(&self.quota, &other.quota)
            && Arc::ptr_eq(&self.volume, &other.volume)
    }

    /// Where its requests go, if it is given to a tool: to the address of its connector, where that does not carry it, or
    /// where its items are looked for.
    pub fn path(&self) -> String {
        let needs_address =
            self.signing.is_some() || self.preset.is_some() || self.settings.items.is_some();
        webhook::path(&self.stream, needs_address.then_some(&*self.connector))
    }

    /// Whether it may remove items.
    pub fn may_delete(&self) -> bool {
        may_delete(&self.settings)
    }

    /// How what it signs is verified.
    pub fn verify(&self) -> Option<&Arc<Verify>> {
        self.verify.as_ref()
    }

    /// Whether its tool has to send the secret yet, before which nothing is verified with it.
    pub fn awaits_secret(&self) -> bool {
        self.verify().is_some_and(|verify| verify.awaits_secret())
    }

    /// When its tool sent the secret that is awaited, if it did.
    pub fn sent_secret_at(&self) -> Option<Unix> {
        self.signing.as_ref()?.sent.sent_at()
    }

    /// The part that may be shown; empty while only the digest is known.
    pub fn prefix(&self) -> Arc<str> {
        self.prefix.get().cloned().unwrap_or_else(|| "".into())
    }

    pub(super) fn note_use(&self, secret: &str) {
        self.prefix.get_or_init(|| key::prefix(secret).into());
    }

    /// Somebody came with it, or with what it had signed.
    pub fn was_used_at(&self, at: Unix) {
        self.used_at.store(at.ms(), Ordering::Relaxed);
    }

    /// Somebody came with it at this time or later, which is written down or not.
    pub(super) fn was_used(&self, at: Unix, written: bool) {
        self.used_at.fetch_max(at.ms(), Ordering::Relaxed);
        if written {
            self.written_at.fetch_max(at.ms(), Ordering::Relaxed);
        }
    }

    /// When somebody came with it last, if that is not written down.
    pub(super) fn unwritten_use(&self) -> Option<Unix> {
        let written_at = Unix::from_ms(self.written_at.load(Ordering::Relaxed));
        self.used_at().filter(|used_at| *used_at > written_at)
    }

    /// When somebody came with it last.
    pub fn used_at(&self) -> Option<Unix> {
        let used_at = Unix::from_ms(self.used_at.load(Ordering::Relaxed));
        Some(used_at).filter(|used_at| *used_at > Unix::MIN)
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
    pub fn is_valid_at(&self, at: Unix) -> bool {
        let has_ended = self.expires_at.is_some_and(|expires| expires <= at);
        !has_ended && self.revoked_at.is_none() && !self.is_gone()
    }

    /// Whether it was revoked or removed since it was looked up.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether it can be used now.
    pub fn state(&self) -> KeyState {
        KeyState::of(self.expires_at, self.revoked_at, Unix::now())
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
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            created_at: self.created_at,
            allow_in_url: self.allow_in_url,
            networks: self.networks.clone(),
            verify: self.verify().cloned(),
        }
    }
}
