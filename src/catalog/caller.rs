//! Whose secret or certificate a request has.
//!
//! **Invariant**: a secret is looked up by its hash; what has ended is never a caller.

use std::sync::Arc;

use super::Catalog;
use super::ingest_key::{IngestKey, KeyState};
use super::reader::Reader;
use base::clock::Unix;
use base::key::{self, KeyHash};

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller {
    pub key: Arc<IngestKey>,
    /// Whether everything is checked and logged but nothing stored.
    pub test: bool,
}

impl Catalog {
    /// The caller with this secret, if it is known and valid now. The prefix is kept, because only the digest of a
    /// declared key may be known before.
    pub fn caller(&self, secret: &str) -> Option<Caller> {
        let key = self.key_of(KeyHash::of(secret))?;
        key.note_use(secret);
        Some(Caller {
            key,
            test: key::is_test(secret),
        })
    }

    /// The caller whose certificate has this SHA-256, if its key is known and valid now. It is never a test key,
    /// because a test key is known by its text.
    pub fn caller_with_certificate(&self, fingerprint: [u8; 32]) -> Option<Caller> {
        let key = self.key_of(KeyHash::of_certificate(fingerprint))?;
        Some(Caller { key, test: false })
    }

    /// A key that verifies signatures is not found, because its secret would otherwise admit a request without a
    /// signature.
    fn key_of(&self, hash: KeyHash) -> Option<Arc<IngestKey>> {
        let key = self.read(|entries| entries.keys.get(&hash).cloned())?;
        let now = Unix::now();
        if !key.is_valid_at(now) || key.verify().is_some() {
            return None;
        }
        key.was_used_at(now);
        Some(key)
    }

    /// The key with this secret, if it is known and has expired or was revoked. Without it the request would be one of
    /// an unknown key, and nobody would find the program with the old one.
    pub fn ended_key(&self, secret: &str) -> Option<Arc<IngestKey>> {
        let key = self.ended(KeyHash::of(secret))?;
        key.note_use(secret);
        Some(key)
    }

    /// The same of a certificate with this SHA-256.
    pub fn ended_key_with_certificate(&self, fingerprint: [u8; 32]) -> Option<Arc<IngestKey>> {
        self.ended(KeyHash::of_certificate(fingerprint))
    }

    fn ended(&self, hash: KeyHash) -> Option<Arc<IngestKey>> {
        let key = self.read(|entries| entries.keys.get(&hash).cloned())?;
        (key.verify().is_none() && key.state() != KeyState::Active).then_some(key)
    }

    /// The reader with this secret, if it is known and valid now.
    pub fn reader(&self, secret: &str) -> Option<Arc<Reader>> {
        self.reader_of(KeyHash::of(secret))
    }

    /// The reader whose certificate has this SHA-256, if it is known and valid now.
    pub fn reader_with_certificate(&self, fingerprint: [u8; 32]) -> Option<Arc<Reader>> {
        self.reader_of(KeyHash::of_certificate(fingerprint))
    }

    /// Whether there is a read key that pages of this origin may read with. The browser asks before it sends the key,
    /// so that any key counts here.
    pub fn admits_origin(&self, origin: &str) -> bool {
        let admits = |reader: &Arc<Reader>| reader.admits(origin);
        self.read(|entries| entries.readers.values().any(admits))
    }

    /// The reader whose key or certificate is found by this digest, if it is known and valid now.
    pub fn reader_of(&self, hash: KeyHash) -> Option<Arc<Reader>> {
        let reader = self.read(|entries| entries.readers.get(&hash).cloned())?;
        reader.is_valid_at(Unix::now()).then_some(reader)
    }
}
