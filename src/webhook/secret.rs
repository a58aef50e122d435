//! Secrets as tools show them, and the keys that they become.
//!
//! [`Verifier::new`](super::Verifier::new) calls [`check`], then [`key`] for what signs.
//!
//! **Invariant**: no message here shows any part of a secret.

use base::text::hex;

use super::InvalidVerifier;
use super::key::{ED25519_KEY_LEN, Key, decode};
use super::preset::{Algorithm, Encoding, Preset, SecretForm, Way};

/// The least bytes of a secret that people choose: shorter ones can be guessed from one delivery.
pub(super) const SECRET_LEN_MIN: usize = 16;
/// The bytes of a secret of Standard Webhooks.
const WHSEC_LEN: std::ops::RangeInclusive<usize> = 24..=64;
/// How Standard Webhooks marks secrets, public keys, and the signatures of public keys.
const WHSEC: &str = "whsec_";
const WHPK: &str = "whpk_";
const WHPK_SIGNATURE: &str = "v1a,";
/// What stands before the point of a P-256 key in its DER form (RFC 5480), and how long the point is.
const P256_SPKI_START: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_POINT_LEN: usize = 65;

/// The points of Ed25519 whose order is 1, 2, 4 or 8, in all encodings, without the sign.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/// Checks that a secret is there, begins as this tool's secrets do, and cannot be guessed.
pub(super) fn check(preset: &Preset, secret: &str) -> Result<(), InvalidVerifier> {
    if secret.is_empty() {
        return Err(invalid(
            "it is empty, and with an empty secret anybody can sign; set the secret that the tool shows",
        ));
    }
    if !secret.starts_with(preset.secret_prefix) {
        return Err(invalid(format!(
            "secrets of {} begin with `{}`, this one does not. {}",
            preset.title, preset.secret_prefix, preset.secret_hint
        )));
    }
    let as_it_is = preset.published().is_none()
        && (preset.secret == SecretForm::Text || is_token(preset, secret));
    if as_it_is && secret.len() < SECRET_LEN_MIN {
        return Err(invalid(too_short(secret.len())));
    }
    let text = secret.trim_start_matches(preset.secret_prefix);
    let text = text.trim_start_matches(WHSEC);
    let first = text.chars().next();
    let is_one_character = text.chars().all(|other| Some(other) == first);
    if preset.published().is_none() && text.len() >= SECRET_LEN_MIN && is_one_character {
        return Err(invalid(
            "it is one character over and over, so that it can be guessed; choose a random one in the tool and here",
        ));
    }
    Ok(())
}

/// Whether the secret itself is sent, not a signature.
pub(super) fn is_token(preset: &Preset, secret: &str) -> bool {
    let standard = secret.starts_with(WHSEC) || secret.starts_with(WHPK);
    preset.way == Way::Token || (preset.token_header.is_some() && !standard)
}

/// The key of a secret; and how its signatures begin, where the secret decides that.
pub(super) fn key(
    form: SecretForm,
    algorithm: Algorithm,
    secret: &str,
) -> Result<(Key, Option<&'static str>), InvalidVerifier> {
    let hmac = |bytes: &[u8]| {
        let none = || invalid("this scheme signs with a public key");
        Key::hmac(algorithm, bytes).ok_or_else(none)
    };
    let key = match form {
        SecretForm::Text => hmac(secret.as_bytes())?,
        SecretForm::Hex => hmac(&decoded(secret, Encoding::Hex, "hexadecimal digits")?)?,
        SecretForm::Base64 => hmac(&decoded(secret, Encoding::Base64, "padded Base64")?)?,
        SecretForm::Whsec if secret.starts_with(WHPK) => {
            return Ok((public_whpk(secret)?, Some(WHPK_SIGNATURE)));
        }
        SecretForm::Whsec => hmac(&whsec(secret)?)?,
        SecretForm::PublicDer => public_der(secret)?,
        SecretForm::PublicHex => public_hex(secret)?,
    };
    Ok((key, None))
}

fn decoded(secret: &str, encoding: Encoding, name: &str) -> Result<Vec<u8>, InvalidVerifier> {
    let Some(bytes) = decode(secret, encoding) else {
        return Err(invalid(format!(
            "it is not {name}; was it cut, or is secret_encoding wrong?"
        )));
    };
    if bytes.len() < SECRET_LEN_MIN {
        return Err(invalid(too_short(bytes.len())));
    }
    Ok(bytes)
}

fn whsec(secret: &str) -> Result<Vec<u8>, InvalidVerifier> {
    // Supabase shows `v1,whsec_…`.
    let text = secret.strip_prefix("v1,").unwrap_or(secret);
    let text = text.strip_prefix(WHSEC).unwrap_or(text);
    let bytes = decode(text, Encoding::Base64).filter(|bytes| WHSEC_LEN.contains(&bytes.len()));
    bytes.ok_or_else(|| {
        invalid("it is not `whsec_` and padded Base64 of 24 to 64 bytes; copy the whole signing secret again")
    })
}

fn public_whpk(secret: &str) -> Result<Key, InvalidVerifier> {
    let text = secret.strip_prefix(WHPK).unwrap_or(secret);
    let bytes = decode(text, Encoding::Base64).and_then(ed25519);
    bytes.ok_or_else(|| {
        invalid(format!(
            "it is not `whpk_` and padded Base64 of {ED25519_KEY_LEN} bytes; copy the whole public key again"
        ))
    })
}

fn public_hex(secret: &str) -> Result<Key, InvalidVerifier> {
    let bytes = decode(secret, Encoding::Hex).and_then(ed25519);
    bytes.ok_or_else(|| {
        invalid(format!(
            "it is not a public key of {} hexadecimal digits; copy the Public Key, not a token or client secret",
            2 * ED25519_KEY_LEN
        ))
    })
}

/// A public key, unless anybody could sign for it: that is so of points of a small order, whatever the sign of theirs.
fn ed25519(bytes: Vec<u8>) -> Option<Key> {
    let key: [u8; ED25519_KEY_LEN] = bytes.try_into().ok()?;
    let mut unsigned = key;
    unsigned[ED25519_KEY_LEN - 1] &= 0x7f;
    let is_small = SMALL_ORDER.iter().any(|point| hex(&unsigned) == *point);
    (!is_small).then_some(Key::Ed25519(key))
}

fn public_der(secret: &str) -> Result<Key, InvalidVerifier> {
    let bytes = decode(secret, Encoding::Base64);
    let point = bytes
        .as_deref()
        .and_then(|bytes| bytes.strip_prefix(&P256_SPKI_START));
    // 4 marks an uncompressed point.
    match point {
        Some(point) if point.len() == P256_POINT_LEN && point.first() == Some(&4) => {
            Ok(Key::P256(point.to_vec()))
        }
        _ => Err(invalid(
            "it is not a P-256 public key in padded Base64; copy the whole Verification Key, not an API key",
        )),
    }
}

fn too_short(len: usize) -> String {
    format!(
        "it has {len} bytes, at least {SECRET_LEN_MIN} are needed; choose a longer one in the tool and here"
    )
}

fn invalid(message: impl Into<String>) -> InvalidVerifier {
    InvalidVerifier::new("secret", message)
}
