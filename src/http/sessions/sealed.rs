//! What is derived of the secret of a session: the token of its forms, and the key that seals what is kept for its pages.
//!
//! The secret is in the cookie of the browser only. So the database that keeps something sealed cannot read it, and
//! neither can who reads the database.
//!
//! **Invariant**: what is derived does not reveal the secret, and is the same on every node.

use std::fmt;
use std::sync::Arc;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use base::text::hex;

const FORM: &str = "headgate form token";
const SEAL: &str = "headgate seal";

/// What a sealed text is; it cannot be taken for the other. The kind is part of what is encrypted, so that a message is
/// never shown as a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Flash,
    IssuedKey,
}

impl Content {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Flash => b"flash",
            Self::IssuedKey => b"issued key",
        }
    }
}

/// The token that every form of a session must contain.
pub(super) fn form_token(secret: &str) -> Arc<str> {
    hex(derived(secret, FORM).as_ref()).into()
}

fn derived(secret: &str, purpose: &str) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, purpose.as_bytes())
}

/// Seals and unseals what is kept for the pages of a session.
#[derive(Clone)]
pub(super) struct Seal(hmac::Tag);

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seal")
    }
}

impl Seal {
    /// Of the session with this secret.
    pub(super) fn of(secret: &str) -> Self {
        Self(derived(secret, SEAL))
    }

    /// None: the tag is as long as a key, so there is always one.
    fn key(&self) -> Option<LessSafeKey> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, self.0.as_ref()).ok()?;
        Some(LessSafeKey::new(key))
    }

    /// Encrypts a text. None: the system has no random numbers.
    pub(super) fn seal(&self, content: Content, text: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = text.to_vec();
        let (nonce, of) = (
            Nonce::assume_unique_for_key(nonce),
            Aad::from(content.name()),
        );
        let first = *nonce.as_ref();
        let tag = (self.key()?)
            .seal_in_place_separate_tag(nonce, of, &mut sealed)
            .ok()?;
        Some([&first[..], &sealed, tag.as_ref()].concat())
    }

    /// Decrypts it. None: it was sealed for another session, as something else, or was changed.
    pub(super) fn unseal(&self, content: Content, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let (nonce, of) = (
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(content.name()),
        );
        let length = self.key()?.open_in_place(nonce, of, &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_session_reads_what_was_sealed_and_nothing_of_it_shows() {
        let (one, other) = (Seal::of("one"), Seal::of("other"));
        let sealed = one.seal(Content::IssuedKey, b"ik_live_canary");
        let sealed = sealed.expect("random numbers");
        assert!(!sealed.windows(6).any(|part| part == b"canary"));
        let text = Seal::of("one").unseal(Content::IssuedKey, &sealed);
        assert_eq!(text.as_deref(), Some(&b"ik_live_canary"[..]));
        assert_eq!(other.unseal(Content::IssuedKey, &sealed), None);
        assert_eq!(one.unseal(Content::Flash, &sealed), None);
        for at in [0, NONCE_LEN, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(one.unseal(Content::IssuedKey, &changed), None, "{at}");
        }
        assert_eq!(one.unseal(Content::IssuedKey, b"short"), None);
        assert_ne!(
            one.seal(Content::IssuedKey, b"ik_live_canary"),
            Some(sealed)
        );
    }

    #[test]
    fn a_form_token_is_of_its_session_and_tells_nothing_of_it() {
        assert_eq!(form_token("a"), form_token("a"));
        assert_ne!(form_token("a"), form_token("b"));
        assert_eq!(form_token("a").len(), 64);
        assert_ne!(
            form_token("a").as_bytes(),
            hex(Seal::of("a").0.as_ref()).as_bytes()
        );
    }
}
