//! Key pairs, to sign what a tool would sign with its private key.
//!
//! `trial` makes one for a preset that is tried; a [`Key`](super::key::Key) signs with it.
//!
//! **Invariant**: nothing that a pair signs is believed outside of a trial: its public key is in no configuration.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use serde_json::json;

use super::key::base64;
use super::preset::{Algorithm, Digest, JwtAlgorithm};

/// To make an RSA pair takes seconds, and nothing that is signed with it is believed anywhere: it is the same for all.
const RSA: &[u8] = include_bytes!("trial/rsa.pk8");

pub(super) enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Pair {
    /// A pair for this algorithm; `None` if it has none.
    pub(super) fn of(algorithm: Algorithm) -> Option<Pair> {
        let random = SystemRandom::new();
        match algorithm {
            Algorithm::Ed25519 => {
                let made = Ed25519KeyPair::generate_pkcs8(&random).ok()?;
                let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).ok()?;
                Some(Pair::Ed25519(pair))
            }
            Algorithm::P256 | Algorithm::Jwt(JwtAlgorithm::Es256) => {
                // Tokens have both numbers, other signatures are DER.
                let form = match algorithm {
                    Algorithm::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
                    _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
                };
                let made = EcdsaKeyPair::generate_pkcs8(form, &random).ok()?;
                let pair = EcdsaKeyPair::from_pkcs8(form, made.as_ref(), &random).ok()?;
                Some(Pair::P256(pair))
            }
            Algorithm::RsaPkcs1(_) | Algorithm::RsaPss | Algorithm::Jwt(JwtAlgorithm::Rs256) => {
                RsaKeyPair::from_pkcs8(RSA).ok().map(Pair::Rsa)
            }
            _ => None,
        }
    }

    /// The public one, as tools show theirs.
    pub(super) fn public(&self) -> String {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = match self {
            Pair::Ed25519(pair) => {
                let x = text(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
            Pair::P256(pair) => {
                // An uncompressed point: a mark and both numbers.
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) })
            }
            Pair::Rsa(pair) => return base64(pair.public().as_ref()),
        };
        key.to_string()
    }

    /// The 32 bytes of a public key of Ed25519.
    pub(super) fn raw(&self) -> Option<&[u8]> {
        match self {
            Pair::Ed25519(pair) => Some(pair.public_key().as_ref()),
            Pair::P256(_) | Pair::Rsa(_) => None,
        }
    }

    pub(super) fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Pair::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
            Pair::P256(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let padding: &dyn RsaEncoding = match algorithm {
                    Algorithm::RsaPss => &RSA_PSS_SHA256,
                    Algorithm::RsaPkcs1(Digest::Sha384) => &RSA_PKCS1_SHA384,
                    Algorithm::RsaPkcs1(Digest::Sha512) => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}
