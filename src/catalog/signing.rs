//! The secrets that tools sign with: keys of another form.
//!
//! **Invariant**: what verifies is made once for each key, not for each request. `Debug` shows no secret.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KeyHash;
use super::key::KeyText;
use base::clock::Unix;
use settings::{Verify, quoted};
use webhook::Verifier;

/// How deliveries are verified that a key has signed.
#[derive(Debug)]
pub struct Signing {
    /// As it was set.
    pub verify: Arc<Verify>,
    pub verifier: Verifier,
    /// What its tool sent as its own secret, while none is set.
    pub sent: SentSecret,
}

impl Signing {
    /// None where the settings do not fit, which they did when they were made: another version made them. The key
    /// stays, so that an operator can see it and rotate it.
    pub(super) fn new(verify: Arc<Verify>, connector: &str, key: &str) -> Option<Self> {
        match verify.verifier() {
            Ok(verifier) => Some(Self {
                verify,
                verifier,
                sent: SentSecret::default(),
            }),
            Err(error) => {
                tracing::error!(connector = %quoted(connector), key = %quoted(key), %error, "this key verifies no signatures because its settings are invalid; rotate or delete it");
                None
            }
        }
    }
}

/// What a key is found by that verifies signatures. Without a secret, which others may be without as well, it is known by
/// its place.
pub(super) fn hash_of(verify: &Verify, connector: &str, key: &str, stream: &str) -> KeyHash {
    match verify.awaits_secret() {
        true => KeyHash::of(&format!("\0awaits\0{connector}\0{key}\0{stream}")),
        false => KeyHash::from_bytes(verify.digest(stream)),
    }
}

/// The secret that a tool sent before one was set: the newest, in memory only. `Debug` shows when it came. It is not
/// written down, because nobody has yet confirmed that it came from the tool.
#[derive(Default)]
pub struct SentSecret(Mutex<Option<(Box<str>, Unix)>>);

impl SentSecret {
    /// Keeps it in place of an earlier one, with the time.
    pub fn keep(&self, secret: &str, now: Unix) {
        *self.lock() = Some((secret.into(), now));
    }

    /// When it came, if one did.
    pub fn sent_at(&self) -> Option<Unix> {
        self.lock().as_ref().map(|(_, sent_at)| *sent_at)
    }

    pub(super) fn text(&self) -> Option<KeyText> {
        (self.lock().as_ref()).map(|(secret, _)| KeyText::of_tool(secret))
    }

    /// The secret is handed out once.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Box<str>, Unix)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SentSecret({:?})", self.sent_at())
    }
}
