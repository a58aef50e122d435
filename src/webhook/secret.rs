//! Secrets as tools show them, and the keys that they become.
//!
//! [`Verifier::new`](super::Verifier::new) calls [`check`], then [`key`] for what signs.
//!
//! **Invariant**: no message here shows any part of a secret.

use base::text::hex;
use hmac::KeyInit as _;

use super::key::{ED25519_KEY_LEN, Key, PublicKey, decode};
use super::md5::HmacMd5;
use super::preset::{Algorithm, Digest, Encoding, JwtAlgorithm, Preset, SecretForm, Verification};
use super::{InvalidVerifier, public_key};

/// The least bytes of a secret that people choose: shorter ones can be guessed from one delivery.
pub(super) const SECRET_LEN_MIN: usize = 16;
/// The bytes of a secret of Standard Webhooks.
const WHSEC_LEN: std::ops::RangeInclusive<usize> = 24..=64;
/// How Standard Webhooks marks secrets.
const WHSEC: &str = "whsec_";
/// The points of Ed25519 whose order is 1, 2, 4 or 8, in all encodings, without the sign. With such a point for a
/// key, anybody can sign, so none is accepted.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/// Checks that a secret is there, begins as this tool's secrets do, and cannot be guessed. A secret of one repeated
/// character is refused, because it could be found by trying.
pub(super) fn check(
    preset: &Preset,
    verify: &Verification,
    secret: &str,
) -> Result<(), InvalidVerifier> {
    if secret.is_empty() {
        return Err(invalid(
            "it is empty, so anyone could sign; set the secret that the provider shows",
        ));
    }
    if !secret.starts_with(&verify.secret_prefix) {
        return Err(invalid(format!(
            "secrets of {} begin with `{}`, but this one does not. {}",
            preset.title, verify.secret_prefix, preset.secret_hint
        )));
    }
    if is_public(verify.algorithm) {
        return Ok(());
    }
    if verify.secret_encoding == SecretForm::Text && secret.len() < SECRET_LEN_MIN {
        return Err(invalid(too_short(secret.len())));
    }
    let text = secret.trim_start_matches(verify.secret_prefix.as_str());
    let text = text.trim_start_matches(WHSEC);
    let first = text.chars().next();
    let is_one_character = text.chars().all(|other| Some(other) == first);
    if text.len() >= SECRET_LEN_MIN && is_one_character {
        return Err(invalid(
            "it repeats one character, so it can be guessed; set a random secret at the provider and here",
        ));
    }
    Ok(())
}

/// Whether what is set is public: a key, a certificate, a key set. A public one need not be hard to find, so that its
/// length is not checked.
pub(super) fn is_public(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Hmac(_) | Algorithm::HmacMd5 | Algorithm::Hash(_) => false,
        Algorithm::Token | Algorithm::Twilio | Algorithm::Jwt(JwtAlgorithm::Hs256) => false,
        Algorithm::Jwt(JwtAlgorithm::Es256 | JwtAlgorithm::Rs256)
        | Algorithm::Ed25519
        | Algorithm::P256
        | Algorithm::RsaPkcs1(_)
        | Algorithm::RsaPss
        | Algorithm::Sns
        | Algorithm::Paypal
        | Algorithm::Pubsub => true,
    }
}

pub(super) fn key(verify: &Verification, secret: &str) -> Result<Key, InvalidVerifier> {
    let algorithm = verify.algorithm;
    if is_public(algorithm) {
        let keys = public_key::of(algorithm, secret)?;
        return Ok(Key::Public(algorithm, keys, None));
    }
    let bytes = match verify.secret_encoding {
        SecretForm::Text => secret.as_bytes().to_vec(),
        SecretForm::Hex => decoded(secret, Encoding::Hex, "hexadecimal digits")?,
        SecretForm::Base64 => decoded(secret, Encoding::Base64, "padded Base64")?,
        SecretForm::Base64Url => decoded(secret, Encoding::Base64Url, "Base64 for URLs")?,
        SecretForm::Whsec => whsec(secret)?,
    };
    Ok(match algorithm {
        Algorithm::Hmac(digest) => Key::hmac(digest, &bytes),
        Algorithm::HmacMd5 => {
            let key = HmacMd5::new_from_slice(&bytes);
            Key::HmacMd5(key.map_err(|_| invalid("it has a length that HMAC does not take"))?)
        }
        Algorithm::Hash(digest) => Key::Hash(digest, bytes.into()),
        Algorithm::Twilio => Key::hmac(Digest::Sha1, &bytes),
        _ => Key::hmac(Digest::Sha256, &bytes),
    })
}

fn decoded(secret: &str, encoding: Encoding, name: &str) -> Result<Vec<u8>, InvalidVerifier> {
    let Some(bytes) = decode(secret, encoding) else {
        return Err(invalid(format!(
            "it is not {name}; copy the whole secret again, or correct secret_encoding"
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

/// A public key, unless anybody could sign for it: that is so of points of a small order, whatever the sign of theirs.
pub(super) fn ed25519(bytes: Vec<u8>) -> Option<PublicKey> {
    let key: [u8; ED25519_KEY_LEN] = bytes.try_into().ok()?;
    let mut unsigned = key;
    unsigned[ED25519_KEY_LEN - 1] &= 0x7f;
    let is_small = SMALL_ORDER.iter().any(|point| hex(&unsigned) == *point);
    (!is_small).then_some(PublicKey::Ed25519(key))
}

fn too_short(len: usize) -> String {
    format!(
        "it has {len} bytes, and at least {SECRET_LEN_MIN} are required; set a longer secret at the provider and here"
    )
}

fn invalid(message: impl Into<String>) -> InvalidVerifier {
    InvalidVerifier::new("secret", message)
}
