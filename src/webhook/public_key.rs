//! Public keys as tools show them: PEM, Base64 of their DER form (SPKI), raw bytes, `whpk_…`, JSON Web Keys.
//!
//! `secret` reads them from the settings once.
//!
//! **Invariant**: nothing is fetched, a private key is refused, and no message shows any part of a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::InvalidVerifier;
use super::certificate::{BIT_STRING, Der, INTEGER, OBJECT, RSA, SEQUENCE};
use super::key::{ED25519_KEY_LEN, PublicKey, decode};
use super::preset::{Algorithm, Encoding, JwtAlgorithm};
use super::rsa::RsaKey;
use super::secret::ed25519;

const WHPK: &str = "whpk_";
/// `id-Ed25519`, 1.3.101.112.
const ED25519: [u8; 3] = [0x2b, 0x65, 0x70];
/// `id-ecPublicKey`, 1.2.840.10045.2.1, and `prime256v1`, 1.2.840.10045.3.1.7.
const EC: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P256_POINT_LEN: usize = 65;
/// Each key is tried with a delivery that names none.
const KEYS_MAX: usize = 32;

/// A key, with its name if it has one.
pub(super) type NamedKey = (Option<String>, PublicKey);

/// The keys of a text; those of other algorithms are left out. A private key is refused, because the settings are no
/// place for a key that signs.
pub(super) fn of(algorithm: Algorithm, text: &str) -> Result<Vec<NamedKey>, InvalidVerifier> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let is_private = |key: &Value| key.get("d").is_some();
    let members = json.as_ref().and_then(|set| set.get("keys")?.as_array());
    let private = text.contains("PRIVATE KEY")
        || json.as_ref().is_some_and(is_private)
        || members.is_some_and(|keys| keys.iter().any(is_private));
    if private {
        return Err(invalid(
            "it is a private key, so anyone who reads it can sign; create a new pair, and set its public key",
        ));
    }
    let found: Vec<NamedKey> = match (&json, members) {
        (_, Some(keys)) => keys.iter().take(KEYS_MAX).filter_map(jwk).collect(),
        (Some(key @ Value::Object(_)), None) => jwk(key).into_iter().collect(),
        _ => one(algorithm, text)
            .map(|key| (None, key))
            .into_iter()
            .collect(),
    };
    let fits = |(_, key): &NamedKey| key.is_of(algorithm);
    let found: Vec<NamedKey> = found.into_iter().filter(fits).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(invalid(wanted(algorithm, text))),
    }
}

fn wanted(algorithm: Algorithm, text: &str) -> String {
    match algorithm {
        Algorithm::Ed25519 if text.starts_with(WHPK) => format!(
            "it is not `whpk_` and padded Base64 of {ED25519_KEY_LEN} bytes; copy the whole public key again"
        ),
        Algorithm::Ed25519 => format!(
            "a public key of Ed25519 is expected, in PEM, in Base64, as a JSON Web Key, or of {} hexadecimal digits; copy the Public Key, not a token or client secret",
            2 * ED25519_KEY_LEN
        ),
        Algorithm::P256 | Algorithm::Jwt(JwtAlgorithm::Es256) => {
            "it is not a P-256 public key in PEM, in padded Base64, or as a JSON Web Key; copy the whole key, not an API key".to_owned()
        }
        _ => "it is not an RSA public key of 2048 to 8192 bits in PEM, in padded Base64, or as a JSON Web Key; copy the whole key".to_owned(),
    }
}

/// A key that is no JSON.
fn one(algorithm: Algorithm, text: &str) -> Option<PublicKey> {
    let text = text.trim();
    if let Some(bytes) = text.strip_prefix(WHPK) {
        return ed25519(decode(bytes, Encoding::Base64)?);
    }
    if algorithm == Algorithm::Ed25519
        && let Some(key) = decode(text, Encoding::Hex).and_then(ed25519)
    {
        return Some(key);
    }
    let is_pem = text.starts_with("-----BEGIN ");
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let body: String = match is_pem {
        // Browsers drop the line breaks of what is pasted into a line.
        true => pem_body(text).unwrap_or_else(|| lines.collect()),
        false => text.to_owned(),
    };
    let body: String = body.split_ascii_whitespace().collect();
    let bytes = decode(&body, Encoding::Base64).or_else(|| decode(&body, Encoding::Base64Url))?;
    if algorithm == Algorithm::Ed25519 && bytes.len() == ED25519_KEY_LEN {
        return ed25519(bytes);
    }
    spki(&bytes).or_else(|| pkcs1(&bytes))
}

/// What stands between the first pair of marks.
fn pem_body(text: &str) -> Option<String> {
    let (_, after) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let (body, _) = after.split_once("-----END")?;
    Some(body.to_owned())
}

fn spki(der: &[u8]) -> Option<PublicKey> {
    let mut key = Der(der).within(SEQUENCE)?;
    let mut algorithm = key.within(SEQUENCE)?;
    let (kind, curve) = (algorithm.take(OBJECT)?, algorithm.take(OBJECT));
    let bits = key.take(BIT_STRING)?.strip_prefix(&[0])?;
    if kind == ED25519 {
        return ed25519(bits.to_vec());
    }
    if kind == EC && curve == Some(&P256[..]) {
        return point(bits);
    }
    (kind == RSA).then(|| pkcs1(bits))?
}

fn pkcs1(der: &[u8]) -> Option<PublicKey> {
    let mut numbers = Der(der).within(SEQUENCE)?;
    RsaKey::of(numbers.take(INTEGER)?, numbers.take(INTEGER)?).map(PublicKey::Rsa)
}

/// An uncompressed point, which 4 marks.
fn point(bits: &[u8]) -> Option<PublicKey> {
    let fits = bits.len() == P256_POINT_LEN && bits.first() == Some(&4);
    fits.then(|| PublicKey::P256(bits.to_vec()))
}

/// A JSON Web Key (RFC 7517, RFC 8037). One for encryption is left out, because nothing may be signed with it.
fn jwk(key: &Value) -> Option<NamedKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let found = match (text("kty")?, text("crv")) {
        ("RSA", _) => RsaKey::of(&number("n")?, &number("e")?).map(PublicKey::Rsa)?,
        ("EC", Some("P-256")) => {
            point(&[&[4], number("x")?.as_slice(), number("y")?.as_slice()].concat())?
        }
        ("OKP", Some("Ed25519")) => ed25519(number("x")?)?,
        _ => return None,
    };
    Some((text("kid").map(str::to_owned), found))
}

fn invalid(message: impl Into<String>) -> InvalidVerifier {
    InvalidVerifier::new("secret", message)
}
