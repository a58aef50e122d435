//! Ingest keys: who may submit to which stream, and how much.
//!
//! **Invariant**: a key that was revoked is never valid again.

mod row;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::connector::{Connector, Signs, may_delete, preset_of};
use super::last_time::LastTime;
use super::signing::Signing;
use super::{KeyHash, Quota, Rules, Stream, Volume, VolumeLimits, key};
use base::budget::Share;
use base::clock::{self, Unix};
pub(super) use row::KeyRow;
use settings::{Limits, Networks, Verify};
pub use state::KeyState;
use webhook::Preset;

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
    /// What its connector's requests show. A request that has the key need not find the connector.
    pub signs: Arc<Signs>,
    /// What decides over its items. They are joined once, so that no request joins those of its connector and its
    /// stream.
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
    /// The life of that stream ([`Stream::life`]); none: there is no such stream. A request that began before the
    /// stream was deleted is not stored in a new one of its name.
    pub stream_life: Option<u64>,
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
    /// What the bodies of its requests take that are on their way. One key cannot use all memory of bodies so.
    pub bodies: Arc<Share>,
    /// What it is found by.
    pub(super) hash: KeyHash,
    /// The part that may be shown, known from the first request on. A configuration may contain the digest alone.
    prefix: OnceLock<Arc<str>>,
    /// When somebody came with it last.
    pub(super) used: LastTime,
    /// When somebody came with it last after it had ended. It shows which program still has an old key.
    pub(super) refused: LastTime,
    /// Set in what requests under way hold when the key is gone. A body may be on its way for a long time after its key
    /// was looked up.
    gone: AtomicBool,
}

/// The rate of a key; one of the same rate goes on. Otherwise every change would give a full burst.
fn quota_of(connector: &Connector, limits: &Limits, before: Option<&Arc<Quota>>) -> Arc<Quota> {
    let requests_per_second = (connector.requests_per_second).unwrap_or(limits.requests_per_second);
    let burst = connector.burst.unwrap_or(limits.burst);
    match before {
        Some(before) if before.is_of(requests_per_second, burst) => Arc::clone(before),
        _ => Arc::new(Quota::new(requests_per_second, burst)),
    }
}

/// What a key may store; what it has stored stays counted. Otherwise a changed limit would begin the day again.
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
    /// same. A key that did not change is the object of before, so that requests in progress continue with it.
    pub(super) fn new(
        row: KeyRow,
        connector: &Connector,
        stream: Option<&Stream>,
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
            (Some(verify), Some(before))
                if before.verify() == Some(&verify) && before.has_preset_of(&verify) =>
            {
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
            rules: Rules::of(connector, stream.map(|stream| &stream.settings)),
            stream_life: stream.map(|stream| stream.life),
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
            used: before.map_or_else(LastTime::default, |one| one.used.copied()),
            refused: before.map_or_else(LastTime::default, |one| one.refused.copied()),
            gone: AtomicBool::new(false),
        };
        match before {
            Some(before) if new.is_like(before) => Arc::clone(before),
            _ => Arc::new(new),
        }
    }

    /// Whether its preset is the one that this names now: it may have been changed.
    fn has_preset_of(&self, verify: &Verify) -> bool {
        let now = webhook::preset(&verify.options.scheme);
        let made = self.signing.as_ref().map(|one| one.verifier.preset());
        made.map(std::ptr::from_ref) == now.map(std::ptr::from_ref)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.connector == other.connector
            && self.settings == other.settings
            && self.rules == other.rules
            && self.stream_life == other.stream_life
            && self.preset.map(std::ptr::from_ref) == other.preset.map(std::ptr::from_ref)
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
        self.used.note(at);
    }

    /// When somebody came with it last.
    pub fn used_at(&self) -> Option<Unix> {
        self.used.get()
    }

    /// Somebody came with it after it had ended.
    pub fn was_refused_at(&self, at: Unix) {
        self.refused.note(at);
    }

    /// When somebody came with it last after it had ended.
    pub fn refused_at(&self) -> Option<Unix> {
        self.refused.get()
    }

    /// Why it cannot be used: the beginning of a sentence. None: it can.
    pub fn ended(&self) -> Option<String> {
        match (self.state(), self.revoked_at, self.expires_at) {
            (KeyState::Revoked, Some(at), _) => Some(format!(
                "key {} was revoked on {}",
                self.name,
                clock::rfc3339(at)
            )),
            (KeyState::Expired, _, Some(at)) => Some(format!(
                "key {} expired on {}",
                self.name,
                clock::rfc3339(at)
            )),
            _ => None,
        }
    }

    /// Whether it was rotated: another has its name, and it ends. Its name says so, because the row has no column for
    /// it.
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

    /// What can be set of it, but for what it is found by.
    pub fn own_settings(&self) -> settings::Key {
        self.row().settings()
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
