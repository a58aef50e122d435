//! Keys and how signatures are compared with them.
//!
//! `secret` makes [`Key`]s and [`Token`]s once; every check uses them.
//!
//! **Invariant**: secrets are compared in constant time, and nothing here can be printed.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::signature::{self, UnparsedPublicKey};

use super::preset::{Algorithm, Encoding};
use base::text::hex;

/// Signatures in DER have no one length; these are the bounds for P-256.
const DER_LEN: std::ops::RangeInclusive<usize> = 8..=72;
pub(super) const ED25519_KEY_LEN: usize = 32;

/// The key of one secret.
pub(super) enum Key {
    /// For HMAC of any hash.
    Hmac(hmac::Key),
    /// A public key of 32 bytes.
    Ed25519([u8; ED25519_KEY_LEN]),
    /// A public key as an uncompressed point.
    P256(Vec<u8>),
}

impl Key {
    /// The key for HMAC; `None` if the algorithm is none of HMAC.
    pub(super) fn hmac(algorithm: Algorithm, secret: &[u8]) -> Option<Key> {
        let hash = match algorithm {
            Algorithm::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::HmacSha256 => hmac::HMAC_SHA256,
            Algorithm::HmacSha384 => hmac::HMAC_SHA384,
            Algorithm::HmacSha512 => hmac::HMAC_SHA512,
            Algorithm::Ed25519 | Algorithm::P256 => return None,
        };
        Some(Key::Hmac(hmac::Key::new(hash, secret)))
    }

    /// Whether this can be a signature at all, by its length.
    pub(super) fn fits(&self, signature: &[u8]) -> bool {
        match self {
            Key::Hmac(key) => signature.len() == key.algorithm().digest_algorithm().output_len(),
            Key::Ed25519(_) => signature.len() == 64,
            Key::P256(_) => DER_LEN.contains(&signature.len()),
        }
    }

    /// Whether one of the signatures is that of the message, whose parts are taken one after the other.
    pub(super) fn matches(&self, message: &[Cow<'_, [u8]>], offered: &[Vec<u8>]) -> bool {
        let by_public_key = |algorithm: &'static dyn signature::VerificationAlgorithm,
                             key: &[u8]| {
            let message = message.concat();
            let key = UnparsedPublicKey::new(algorithm, key);
            offered
                .iter()
                .any(|given| key.verify(&message, given).is_ok())
        };
        match self {
            Key::Hmac(key) => {
                let tag = tag(key, message);
                offered.iter().any(|given| same(key, tag.as_ref(), given))
            }
            Key::Ed25519(key) => by_public_key(&signature::ED25519, key),
            Key::P256(key) => by_public_key(&signature::ECDSA_P256_SHA256_ASN1, key),
        }
    }

    /// The HMAC of a message, whose parts are taken one after the other; `None` for public keys.
    pub(super) fn tag(&self, message: &[Cow<'_, [u8]>]) -> Option<hmac::Tag> {
        match self {
            Key::Hmac(key) => Some(tag(key, message)),
            Key::Ed25519(_) | Key::P256(_) => None,
        }
    }
}

fn tag(key: &hmac::Key, message: &[Cow<'_, [u8]>]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    message.iter().for_each(|part| context.update(part));
    context.sign()
}

/// Compares two texts by their tags, so that the time it takes says nothing about where they differ.
fn same(key: &hmac::Key, ours: &[u8], given: &[u8]) -> bool {
    hmac::verify(key, ours, hmac::sign(key, given).as_ref()).is_ok()
}

/// A secret that is sent as it is.
pub(super) struct Token {
    /// To send it; comparisons use the tag.
    text: Box<str>,
    key: hmac::Key,
    tag: hmac::Tag,
}

impl Token {
    /// A token to compare with.
    pub(super) fn new(secret: &str) -> Token {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, secret.as_bytes());
        let text = secret.into();
        Token { text, key, tag }
    }

    /// The secret, to be sent.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the secret.
    pub(super) fn matches(&self, given: &str) -> bool {
        hmac::verify(&self.key, given.as_bytes(), self.tag.as_ref()).is_ok()
    }
}

/// The text of bytes in this encoding.
pub(super) fn encode(bytes: &[u8], encoding: Encoding) -> String {
    match encoding {
        Encoding::Hex => hex(bytes),
        Encoding::Base64 => base64(bytes),
    }
}

/// The bytes of a text in this encoding: the whole text or nothing.
pub(super) fn decode(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Hex => decode_hex(text),
        Encoding::Base64 => STANDARD.decode(text).ok(),
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if rest.is_empty() {
        pairs.iter().map(byte).collect()
    } else {
        None
    }
}

/// Base64 of the standard alphabet, padded.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
