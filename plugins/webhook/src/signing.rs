//! Symmetric signatures: HMAC-SHA256 over `id.timestamp.body`.
//!
//! **Invariant**: no error shows a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes of a key, as the specification wants them.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A key that signs.
pub(crate) struct Key(Hmac<Sha256>);

impl Key {
    /// The key of a secret: `whsec_` and base64.
    ///
    /// # Errors
    /// What is wrong with the secret.
    pub(crate) fn new(secret: &str) -> Result<Self, &'static str> {
        let encoded = secret.strip_prefix("whsec_").unwrap_or_default();
        let key = STANDARD.decode(encoded).unwrap_or_default();
        if !KEY_BYTES.contains(&key.len()) {
            return Err(
                "wants whsec_ and the base64 of 24 to 64 random bytes, as `openssl rand -base64 32` makes them",
            );
        }
        let key = Hmac::new_from_slice(&key).map_err(|_| "cannot be a key")?;
        Ok(Self(key))
    }

    /// `v1,` and the signature in base64.
    pub(crate) fn signature(&self, id: &str, timestamp: &str, body: &str) -> String {
        let mut mac = self.0.clone();
        for part in [id, ".", timestamp, ".", body] {
            mac.update(part.as_bytes());
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn the_specifications_example_is_signed_as_its_libraries_do() {
        let key = Key::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok();
        let signature = key.expect("a key").signature(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
