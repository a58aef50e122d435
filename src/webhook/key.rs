//! Keys and how signatures are compared with them.
//!
//! `secret` makes [`Key`]s and [`Token`]s once; every check uses them.
//!
//! **Invariant**: secrets are compared in constant time, and nothing here can be printed.

use std::borrow::Cow;

use ::hmac::Mac as _;
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD,
};
use ring::signature::{self, UnparsedPublicKey};
use ring::{digest, hmac};

use super::md5::{self, HmacMd5};
use super::pair::Pair;
use super::preset::{Algorithm, Digest, Encoding, JwtAlgorithm};
use super::public_key::NamedKey;
use super::rsa::{Hash, RsaKey};
use base::text::hex;

/// Signatures in DER have no one length; these are the bounds for P-256.
const DER_LEN: std::ops::RangeInclusive<usize> = 8..=72;
/// A signature of two numbers of 32 bytes.
const FIXED_LEN: usize = 64;
/// With or without padding. Tools differ in this.
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
pub(super) const ED25519_KEY_LEN: usize = 32;

/// The key of one secret.
pub(super) enum Key {
    /// For HMAC of any hash.
    Hmac(hmac::Key),
    HmacMd5(HmacMd5),
    /// Public keys, each with its name if it has one; at least one. To try a preset, the private one of it. Several,
    /// because a tool publishes its next key before it signs with it.
    Public(Algorithm, Vec<NamedKey>, Option<Pair>),
    /// The secret of a plain hash.
    Hash(Digest, Box<[u8]>),
}

pub(super) enum PublicKey {
    /// 32 bytes.
    Ed25519([u8; ED25519_KEY_LEN]),
    /// An uncompressed point.
    P256(Vec<u8>),
    Rsa(RsaKey),
}

impl PublicKey {
    /// Whether it is one for this algorithm.
    pub(super) fn is_of(&self, algorithm: Algorithm) -> bool {
        match self {
            PublicKey::Ed25519(_) => algorithm == Algorithm::Ed25519,
            PublicKey::P256(_) => matches!(
                algorithm,
                Algorithm::P256 | Algorithm::Jwt(JwtAlgorithm::Es256)
            ),
            PublicKey::Rsa(_) => matches!(
                algorithm,
                Algorithm::RsaPkcs1(_) | Algorithm::RsaPss | Algorithm::Jwt(JwtAlgorithm::Rs256)
            ),
        }
    }

    fn fits(&self, signature: &[u8]) -> bool {
        match self {
            PublicKey::Ed25519(_) => signature.len() == FIXED_LEN,
            PublicKey::P256(_) => DER_LEN.contains(&signature.len()),
            PublicKey::Rsa(key) => signature.len() == key.signature_len(),
        }
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], given: &[u8]) -> bool {
        let by = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key)
                .verify(message, given)
                .is_ok()
        };
        match self {
            PublicKey::Ed25519(key) => by(&signature::ED25519, key),
            PublicKey::P256(key) => {
                let is_token = matches!(algorithm, Algorithm::Jwt(_));
                let fixed =
                    given.len() == FIXED_LEN && by(&signature::ECDSA_P256_SHA256_FIXED, key);
                fixed || (!is_token && by(&signature::ECDSA_P256_SHA256_ASN1, key))
            }
            PublicKey::Rsa(key) => {
                let hash = match algorithm {
                    Algorithm::RsaPss => Hash::Pss,
                    Algorithm::RsaPkcs1(Digest::Sha1) => Hash::Sha1,
                    Algorithm::RsaPkcs1(Digest::Sha384) => Hash::Sha384,
                    Algorithm::RsaPkcs1(Digest::Sha512) => Hash::Sha512,
                    _ => Hash::Sha256,
                };
                key.verifies(hash, message, given)
            }
        }
    }
}

impl Key {
    pub(super) fn hmac(digest: Digest, secret: &[u8]) -> Key {
        let hash = match digest {
            Digest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Digest::Sha256 => hmac::HMAC_SHA256,
            Digest::Sha384 => hmac::HMAC_SHA384,
            Digest::Sha512 => hmac::HMAC_SHA512,
        };
        Key::Hmac(hmac::Key::new(hash, secret))
    }

    /// The secret, for a message that it is part of.
    pub(super) fn secret(&self) -> &[u8] {
        match self {
            Key::Hash(_, secret) => secret,
            Key::Hmac(_) | Key::HmacMd5(_) | Key::Public(..) => &[],
        }
    }

    /// Whether this can be a signature at all, by its length. What cannot be one is refused before the body is
    /// received.
    pub(super) fn fits(&self, signature: &[u8]) -> bool {
        match self {
            Key::Hmac(key) => signature.len() == key.algorithm().digest_algorithm().output_len(),
            Key::HmacMd5(_) => signature.len() == md5::TAG_LEN,
            Key::Public(_, keys, _) => keys.iter().any(|(_, key)| key.fits(signature)),
            Key::Hash(digest, _) => signature.len() == hash_of(*digest).output_len(),
        }
    }

    /// Whether one of the signatures is that of the message, whose parts are taken one after the other.
    pub(super) fn matches(&self, message: &[Cow<'_, [u8]>], offered: &[Vec<u8>]) -> bool {
        match self {
            Key::Hmac(key) => {
                let tag = tag(key, message);
                offered.iter().any(|given| same(key, tag.as_ref(), given))
            }
            Key::HmacMd5(key) => {
                let mac = md5::with(key, message);
                offered
                    .iter()
                    .any(|given| mac.clone().verify_slice(given).is_ok())
            }
            Key::Public(..) => {
                let message = message.concat();
                offered
                    .iter()
                    .any(|given| self.is_signed(None, &message, given))
            }
            Key::Hash(digest, secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                let ours = hashed(*digest, message);
                offered.iter().any(|given| same(&key, ours.as_ref(), given))
            }
        }
    }

    /// Whether the public key of this name has signed, or any if none is named. A key without a name is tried for every
    /// name, because a set need not name its keys.
    pub(super) fn is_signed(&self, name: Option<&str>, message: &[u8], given: &[u8]) -> bool {
        let Key::Public(algorithm, keys, _) = self else {
            return false;
        };
        let named = |own: &Option<String>| match (name, own) {
            (Some(name), Some(own)) => name == own,
            (None, _) | (_, None) => true,
        };
        let mut candidates = keys.iter().filter(|(own, _)| named(own));
        candidates.any(|(_, key)| key.verifies(*algorithm, message, given))
    }

    /// The signature of a message, whose parts are taken one after the other; `None` for public keys alone.
    pub(super) fn sign(&self, message: &[Cow<'_, [u8]>]) -> Option<Vec<u8>> {
        match self {
            Key::Hmac(key) => Some(tag(key, message).as_ref().to_vec()),
            Key::HmacMd5(key) => Some(md5::with(key, message).finalize().into_bytes().to_vec()),
            Key::Hash(digest, _) => Some(hashed(*digest, message).as_ref().to_vec()),
            Key::Public(algorithm, _, pair) => pair.as_ref()?.sign(*algorithm, &message.concat()),
        }
    }
}

fn hash_of(digest: Digest) -> &'static digest::Algorithm {
    match digest {
        Digest::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        Digest::Sha256 => &digest::SHA256,
        Digest::Sha384 => &digest::SHA384,
        Digest::Sha512 => &digest::SHA512,
    }
}

/// The digest of a message in parts. The parts are not joined first, because a body may be large.
pub(super) fn hashed(digest: Digest, message: &[Cow<'_, [u8]>]) -> digest::Digest {
    let mut context = digest::Context::new(hash_of(digest));
    message.iter().for_each(|part| context.update(part));
    context.finish()
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
    /// To send it; comparisons use the tag. A tag of a fixed length is compared instead, so that not even the length of
    /// the secret shows.
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
        Encoding::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
    }
}

/// The bytes of a text in this encoding: the whole text or nothing. A part that was decoded would be another signature
/// than the one sent.
pub(super) fn decode(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Hex => decode_hex(text),
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Base64Url => URL_SAFE.decode(text).ok(),
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
