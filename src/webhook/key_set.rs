//! Sets of public keys as their owners publish them: JSON Web Key Sets (RFC 7517).
//!
//! `pubsub` reads one from the settings.
//!
//! **Invariant**: a set has at least one key, and every key of it is one for RS256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::preset::Preset;
use super::rsa::{Hash, RsaKey};
use super::{InvalidVerifier, Refused};

/// The keys of RS256 in a set, each with its name if it has one.
pub(super) struct KeySet(Vec<(Option<String>, RsaKey)>);

impl KeySet {
    /// The keys of a text. Those of other algorithms are left out. A published set may have such keys, and must be
    /// usable as it is.
    pub(super) fn of(preset: &Preset, text: &str) -> Result<KeySet, InvalidVerifier> {
        let parsed: Option<Value> = serde_json::from_str(text).ok();
        let keys = parsed.as_ref().and_then(|set| set.get("keys")?.as_array());
        let Some(keys) = keys else {
            return Err(invalid(format!(
                "it is not a JSON Web Key Set, an object with a list `keys`. {}",
                preset.secret_hint
            )));
        };
        let keys: Vec<_> = keys.iter().filter_map(key).collect();
        match keys.is_empty() {
            false => Ok(KeySet(keys)),
            true => Err(invalid(format!(
                "it has no RSA key of 2048 to 8192 bits for RS256. {}",
                preset.secret_hint
            ))),
        }
    }

    /// Whether the key of this name has signed, or any if none is named.
    pub(super) fn check(
        &self,
        name: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        let named = |(own, _): &&(Option<String>, RsaKey)| match (name, own) {
            (Some(name), Some(own)) => name == own,
            (None, _) | (_, None) => true,
        };
        let mut candidates = self.0.iter().filter(named).peekable();
        if candidates.peek().is_none() {
            return Err(Refused::signature(format!(
                "the token is signed with a key that is not among the {} of the key set; set the provider's newest key set",
                self.0.len()
            )));
        }
        match candidates.any(|(_, key)| key.verifies(Hash::Sha256, message, signature)) {
            true => Ok(()),
            false => Err(Refused::signature(
                "the signature of the token matches no key of the key set",
            )),
        }
    }
}

fn key(key: &Value) -> Option<(Option<String>, RsaKey)> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let usable = text("kty") == Some("RSA")
        && text("use").is_none_or(|purpose| purpose == "sig")
        && text("alg").is_none_or(|algorithm| algorithm == "RS256");
    if !usable {
        return None;
    }
    let rsa = RsaKey::of(&number("n")?, &number("e")?)?;
    Some((text("kid").map(str::to_owned), rsa))
}

fn invalid(message: impl Into<String>) -> InvalidVerifier {
    InvalidVerifier::new("secret", message)
}
