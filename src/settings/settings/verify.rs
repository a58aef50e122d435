//! How the requests of a tool are verified that sends no ingest key, but signs.
//!
//! **Invariant**: `secret` is there, unless the tool sends its own, and fits the scheme; [`load`](crate::config::load) sees to it for what a file
//! declares, the catalog for what is made at run time.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::config::Secret;
use crate::sender::{self, Options, Preset, Unfit, Verifier};
use crate::text::hex;

/// Hex digits that are shown of the SHA-256 of a secret.
const SHOWN_DIGITS: usize = 8;

/// `verify` of an ingest key: the scheme that its tool signs by, and the secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verify {
    /// What the tool shows as its signing secret; for some schemes its public key, its certificate, or its key set. None
    /// while the secret of a tool that sends its own is awaited.
    pub secret: Option<Secret>,
    /// What Meta sends before its first delivery.
    pub verify_token: Option<Secret>,
    /// What is a repeat beside what has the same delivery id.
    pub replay: Replay,
    /// The scheme, and what can be set of it.
    #[serde(flatten)]
    pub options: Options,
}

/// What is taken for a repeat within 24 hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// A delivery with the id of another.
    #[default]
    Delivery,
    /// And one with the body of another, whatever its id is.
    Body,
}

impl Verify {
    /// What checks deliveries.
    ///
    /// # Errors
    /// What does not fit, by its field.
    pub fn verifier(&self) -> Result<Verifier, Unfit> {
        if self.awaits_secret() {
            return Verifier::awaiting(&self.options);
        }
        let token = self.verify_token.as_ref().map(Secret::reveal);
        Verifier::new(&self.options, self.secret(), token)
    }

    /// Whether it has no secret yet, because its tool sends one of its own.
    pub fn awaits_secret(&self) -> bool {
        let preset = sender::preset(&self.options.scheme);
        self.secret.is_none() && preset.and_then(Preset::sends_secret).is_some()
    }

    /// Whether the two differ in nothing but their secrets.
    pub fn is_like(&self, other: &Self) -> bool {
        self.options == other.options && self.replay == other.replay
    }

    /// What stands in place of a key's prefix: the scheme, and the beginning of the secret's SHA-256, or `pending`.
    pub fn shown(&self) -> String {
        let mut shown = format!("{}_", self.options.scheme);
        if self.awaits_secret() {
            shown.push_str("pending");
            return shown;
        }
        shown.push_str(&hex(&Sha256::digest(self.secret())[..SHOWN_DIGITS / 2]));
        shown
    }

    /// What a key of this stream is known by that has such a secret: no text that can be sent has it.
    pub fn digest(&self, stream: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        let parts = ["\0verify", stream, &self.options.scheme, self.secret()];
        // What a tool publishes is the same for all of its customers; these are not.
        let details = self.options.details();
        let set = details
            .iter()
            .filter_map(|(name, text)| Some([*name, (*text)?]));
        for part in parts.into_iter().chain(set.flatten()) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    /// With its secrets, as the catalog keeps it.
    pub fn revealed(&self) -> Value {
        let mut whole = serde_json::to_value(self).unwrap_or_default();
        if let Some(secret) = &self.secret {
            whole["secret"] = secret.reveal().into();
        }
        if let Some(token) = &self.verify_token {
            whole["verify_token"] = token.reveal().into();
        }
        whole
    }

    fn secret(&self) -> &str {
        self.secret.as_ref().map_or("", Secret::reveal)
    }
}
