//! What keys and tokens may look like, and what stands for them: digests and fingerprints.
//!
//! **Invariant**: no message holds a key or a token.

use base::key::KeyKind;

const KEY_BYTES_MIN: usize = 24;
const KEY_BYTES_MAX: usize = 512;

/// An ingest key that is given in a file.
pub(in super::super) fn ingest_key(secret: &str) -> Result<(), String> {
    key(secret, "an ingest key", "ik_")
}

/// A read key that is given in a file.
pub(in super::super) fn read_key(secret: &str) -> Result<(), String> {
    match secret.starts_with("ok_") {
        true => key(secret, "an operate key", "ok_"),
        false => key(secret, "a read key", "rk_"),
    }
}

/// Whether a text begins as the keys that Headgate makes. A shorter beginning is allowed in a file: a field can be called
/// `at_home`.
pub(super) fn is_key(text: &str) -> bool {
    use KeyKind::{Ingest, IngestTest, Operate, Read};
    let mut kinds = [Ingest, IngestTest, Read, Operate].into_iter();
    kinds.any(|kind| text.starts_with(kind.marker()))
}

/// The admin token.
pub(in super::super) fn admin_token(secret: &str) -> Result<(), String> {
    if secret.len() < KEY_BYTES_MIN {
        return Err(format!(
            "an admin token needs at least {KEY_BYTES_MIN} characters; create one with `openssl rand -hex 24`"
        ));
    }
    visible("the admin token", secret)
}

fn key(secret: &str, what: &str, prefix: &str) -> Result<(), String> {
    if !secret.starts_with(prefix) || secret.len() < KEY_BYTES_MIN {
        return Err(format!(
            "{what} must begin with \"{prefix}\" and have at least {KEY_BYTES_MIN} characters"
        ));
    }
    visible(what, secret)
}

/// A bearer secret travels in a header, which takes visible ASCII only.
fn visible(what: &str, secret: &str) -> Result<(), String> {
    if secret.len() > KEY_BYTES_MAX {
        return Err(format!(
            "{what} must have at most {KEY_BYTES_MAX} characters"
        ));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{what} must consist of visible ASCII characters, without spaces"
        ));
    }
    Ok(())
}

/// The SHA-256 of a key.
pub(in super::super) fn sha256_of_key(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "expected the SHA-256 of the key as 64 hex digits, as `headgate key new` prints it; to set the key itself, use `secret`"
                .to_owned(),
        ),
    }
}

/// The SHA-256 of an admin token.
pub(in super::super) fn sha256_of_token(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "expected the SHA-256 of the token as 64 hex digits, as `printf %s \"$TOKEN\" | sha256sum` prints it; to set the token itself, use `secret`"
                .to_owned(),
        ),
    }
}

/// The SHA-256 of a component.
pub(in super::super) fn sha256_of_file(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "expected the SHA-256 of the component as 64 hex digits, as `headgate plugin check` prints it"
                .to_owned(),
        ),
    }
}

/// 64 hex digits as bytes.
pub fn digest_of_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(digest)
}

/// The SHA-256 of a certificate.
pub(in super::super) fn fingerprint(text: &str) -> Result<(), String> {
    match digest_of_fingerprint(text) {
        Some(_) => Ok(()),
        None => Err(
            "expected the SHA-256 fingerprint of a certificate, 64 hex digits with colons or without: `openssl x509 -noout -fingerprint -sha256 -in client.pem` prints it"
                .to_owned(),
        ),
    }
}

/// A fingerprint as bytes.
pub fn digest_of_fingerprint(text: &str) -> Option<[u8; 32]> {
    digest_of_hex(&text.replace(':', ""))
}
